"""Leader election on a Lease: of several candidates, one is the leader.

The leader renews the Lease every few seconds. A candidate that sees the Lease unchanged for longer than its duration,
by its own clock, acquires it. Clocks of different machines are never compared, so wrong ones do no harm.

Promise: `run` cancels its work, and waits for it to end, before another candidate can acquire the Lease, as long as
cancelling takes less than `lease_seconds - renew_seconds`. A process that was paused notices when it resumes:
`is_leading` compares the time of the last renewal with the clock, so that a caller that checks it before each write
does not write after the lease expired. The moment between the check and the write remains.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

import structlog
from prometheus_client import CollectorRegistry, Gauge

from kapi.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from kapi.base.clock import SystemClock
from kapi.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kapi.api.meta import Object
    from kapi.base.clock import Clock

LEASE_SECONDS = 15.0
RENEW_SECONDS = 10.0
RETRY_SECONDS = 2.0
JITTER = 1.2
"""Attempts are spread over up to this times the retry period, so that candidates do not come in step."""

_MICROS = "%Y-%m-%dT%H:%M:%S.%fZ"
_log = structlog.get_logger("kapi.controller")


class Leases(Protocol):
    """The Leases of one namespace; `kapi.client.ResourceClient` is one."""

    async def get(self, name: str) -> Object:
        """The Lease; NotFound when there is none."""
        ...

    async def create(self, obj: Object) -> Object:
        """Create it; AlreadyExists when another candidate was quicker."""
        ...

    async def replace(self, obj: Object) -> Object:
        """Update it; Conflict when another candidate was quicker."""
        ...


@dataclass(frozen=True, slots=True)
class Election:
    """The Lease, the identity of the candidate, and the durations. Several attempts must fit between renewals."""

    name: str
    identity: str
    lease_seconds: float = LEASE_SECONDS
    renew_seconds: float = RENEW_SECONDS
    retry_seconds: float = RETRY_SECONDS
    release_on_exit: bool = True

    def __post_init__(self) -> None:
        """Refuse times that cannot work."""
        if not self.name or not self.identity:
            raise ValueError("an election needs the name of its Lease and the identity of the candidate")
        if not 0 < self.retry_seconds * JITTER < self.renew_seconds < self.lease_seconds:
            raise ValueError("retry_seconds * 1.2 < renew_seconds < lease_seconds does not hold")


class LeaderElector:
    """One candidate. `leader` is the last identity seen to hold the Lease, empty before any was."""

    def __init__(self, leases: Leases, election: Election, *, clock: Clock | None = None) -> None:
        self._leases = leases
        self._election = election
        self._clock = clock or SystemClock()
        self._seen: Object | None = None
        self._seen_at = 0.0
        self._renewed_at: float | None = None
        self.leader = ""
        self.transitions = 0

    def measure(self, registry: CollectorRegistry, /) -> None:
        """Show in a registry whether this candidate leads, under the name that dashboards of Kubernetes look for."""
        gauge = _gauges.get(registry)
        if gauge is None:
            text = "1 if this process is the leader, by the name of the Lease, else 0."
            gauge = _gauges[registry] = Gauge("leader_election_master_status", text, ("name",), registry=registry)
        gauge.labels(self._election.name).set_function(lambda: float(self.is_leading))

    @property
    def is_leading(self) -> bool:
        """Return True if this candidate may act now: it holds the Lease, and its last renewal is not too long ago."""
        renewed = self._renewed_at
        return renewed is not None and self._clock.monotonic() - renewed < self._election.renew_seconds

    def overdue(self) -> str | None:
        """Return what is wrong with a leader that neither renews its Lease nor stops; None when nothing is."""
        renewed = self._renewed_at
        seconds = 0.0 if renewed is None else self._clock.monotonic() - renewed
        if seconds <= self._election.lease_seconds:
            return None
        return f"the lease was not renewed for {seconds:.0f} s"

    @property
    def why_lost(self) -> str:
        """Return why leadership was lost."""
        if self.leader and self.leader != self._election.identity:
            return f"{self.leader} leads now"
        return "the lease was not renewed in time"

    async def run(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Wait to be leader, do the work, and keep renewing meanwhile.

        True when the work ended by itself; False when leadership was lost, with the work cancelled and over, unless it
        does not end within `lease_seconds - renew_seconds` of being cancelled. What the work raises is raised.
        """
        await self._acquire()
        task = asyncio.ensure_future(work())
        try:
            lost = await self._hold(task)
        finally:
            await self._end(task)
            renewed, self._renewed_at = self._renewed_at, None
            if renewed is not None and self._election.release_on_exit:
                await self._release()
        if task.done() and not task.cancelled() and not lost:
            task.result()
        return not lost

    # -- acquiring and holding --------------------------------------------------------------------------------------

    async def _acquire(self) -> None:
        while not await self._try():  # noqa: ASYNC110 - the one we wait for is in another process
            await asyncio.sleep(self._pause())
        _log.info("became leader", lease=self._election.name, identity=self._election.identity)

    async def _hold(self, task: asyncio.Future[None]) -> bool:
        """Renew until the work is done; True when the Lease could not be kept."""
        election = self._election
        while True:
            await asyncio.wait([task], timeout=election.retry_seconds)
            if task.done():
                return False
            if not await self._renew(task):
                if task.done():
                    return False
                self._renewed_at = None
                _log.warning("lost leadership", lease=election.name, identity=election.identity, leader=self.leader)
                return True

    async def _renew(self, task: asyncio.Future[None]) -> bool:
        """Try until it works, until another has the Lease, or until the time to do so is over."""
        election = self._election
        while self.is_leading:
            left = election.renew_seconds - (self._clock.monotonic() - (self._renewed_at or 0))
            try:
                async with asyncio.timeout(max(left, 0)):
                    if await self._try():
                        return True
            except TimeoutError:
                return False
            if self.leader != election.identity:
                return False
            left = election.renew_seconds - (self._clock.monotonic() - (self._renewed_at or 0))
            await asyncio.wait([task], timeout=max(min(election.retry_seconds, left), 0))
            if task.done():
                return False
        return False

    async def _end(self, task: asyncio.Future[None]) -> None:
        """Cancel the work and wait until it is over, but not for ever: code can ignore that it is cancelled."""
        if not task.done():
            task.cancel()
            seconds = self._election.lease_seconds - self._election.renew_seconds
            _, unfinished = await asyncio.wait([task], timeout=seconds)
            if unfinished:
                _log.error(f"work of the leader did not end within {seconds:g} s of being cancelled")
                return
        await asyncio.gather(task, return_exceptions=True)

    def _pause(self) -> float:
        return self._election.retry_seconds * (1 + random.random() * (JITTER - 1))  # noqa: S311

    # -- the Lease --------------------------------------------------------------------------------------------------

    async def _try(self) -> bool:
        """One attempt to get or keep the Lease. Errors of the server and the network count as "not now"."""
        began = self._clock.monotonic()
        try:
            held = await self._attempt()
        except (ApiError, ClientError) as error:
            if not isinstance(error, AlreadyExists | Conflict):
                _log.warning("acquiring or renewing the lease failed", lease=self._election.name, error=str(error))
            return False
        if held:
            # The time before the request: the Lease lasts from its write, not from the response.
            self._renewed_at = began
        return held

    async def _attempt(self) -> bool:
        election = self._election
        try:
            lease = await self._leases.get(election.name)
        except NotFound:
            self._observe(
                await self._leases.create({**_HEAD, "metadata": {"name": election.name}, "spec": self._spec(None)})
            )
            return True
        self._observe(lease)
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder and holder != election.identity and not self._is_over(spec):
            return False
        self._observe(await self._leases.replace({**lease, "spec": {**spec, **self._spec(spec)}}))
        return True

    def _observe(self, lease: Object) -> None:
        """Note when a Lease was first seen as it is; its holder proves life by changing it."""
        spec = lease.get("spec") or {}
        if self._seen != spec:
            self._seen, self._seen_at = spec, self._clock.monotonic()
        holder = spec.get("holderIdentity") or ""
        if holder != self.leader:
            self.leader = holder
            self.transitions += 1

    def _is_over(self, spec: Object) -> bool:
        lasts = spec.get("leaseDurationSeconds") or self._election.lease_seconds
        return bool(self._clock.monotonic() - self._seen_at >= lasts)

    def _spec(self, old: Object | None) -> Object:
        """Return the spec that the holder writes; acquireTime stays while the holder does."""
        now = self._clock.now().astimezone(dt.UTC).strftime(_MICROS)
        mine = old is not None and old.get("holderIdentity") == self._election.identity
        spec: Object = {
            "holderIdentity": self._election.identity,
            # Whole seconds, rounded up: others must not think it over before we do.
            "leaseDurationSeconds": max(1, -int(-self._election.lease_seconds // 1)),
            "renewTime": now,
            "acquireTime": old["acquireTime"] if mine and old and old.get("acquireTime") else now,
        }
        if old is not None:
            spec["leaseTransitions"] = (old.get("leaseTransitions") or 0) + (0 if mine else 1)
        return spec

    async def _release(self) -> None:
        """Release the Lease, so that the next candidate need not wait for it to expire."""
        try:
            async with asyncio.timeout(self._election.retry_seconds):
                lease = await self._leases.get(self._election.name)
                spec = lease.get("spec") or {}
                if spec.get("holderIdentity") != self._election.identity:
                    return
                now = self._clock.now().astimezone(dt.UTC).strftime(_MICROS)
                free = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
                await self._leases.replace({**lease, "spec": {**spec, **free}})
        except (ApiError, ClientError, TimeoutError) as error:
            _log.warning("releasing the lease failed; it will expire", lease=self._election.name, error=str(error))


_gauges: WeakKeyDictionary[CollectorRegistry, Gauge] = WeakKeyDictionary()
_HEAD = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
