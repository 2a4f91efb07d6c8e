"""The audit stage of the pipeline: asks the policy, and hands the events of a request to the backends.

A server without a policy has no auditor, and its requests pay for one comparison. The events of a request that changes
something, or is refused, are handed over before its response is sent. Those of a read may be collected for a moment:
encoding and writing each on its own would cost a quarter of a GET.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from kapi.server.audit.policy import (
    LEVEL_NAMES,
    PANIC,
    READS,
    REQUEST_RECEIVED,
    RESPONSE_COMPLETE,
    RESPONSE_STARTED,
    Level,
)
from kapi.server.audit.record import Record, encoded
from kapi.server.transport.message import Response, StreamResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from prometheus_client import CollectorRegistry, Metric

    from kapi.base.clock import Clock
    from kapi.server.audit.policy import Policy
    from kapi.server.audit.record import PlainEvent
    from kapi.server.context import Context

MAX_COLLECTED: Final = 256
"""The number of events of reads that are collected before they are written."""
MAX_DELAY: Final = 0.05
"""Seconds after which events that were collected are written."""


class Backend(Protocol):
    """Where events go. `write` takes encoded events, never waits and never raises."""

    def write(self, events: Sequence[bytes]) -> None:
        """Take one or more events."""
        ...

    async def close(self) -> None:
        """Write what was taken, as far as possible, and end."""
        ...


class Auditor:
    """Records requests by a policy.

    With `defers_reads`, the events of reads that succeed are written up to `MAX_DELAY` seconds after their response.
    The order of events is kept.
    """

    def __init__(
        self,
        policy: Policy,
        backends: Sequence[Backend],
        clock: Clock,
        registry: CollectorRegistry | None = None,
        *,
        defers_reads: bool = False,
    ) -> None:
        self.tasks: dict[str, Callable[[], Coroutine[object, object, None]]] = {}
        """What must run for the backends, by the name of the task."""
        self._policy = policy
        self._backends = tuple(backends)
        self._clock = clock
        self._defers_reads = defers_reads
        self._collected: list[PlainEvent | bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self.events = 0
        self.levels = [0] * len(Level)
        """The number of requests of each level."""
        if registry is not None:
            registry.register(_Counts(self))

    def received(self, context: Context) -> None:
        """A request has arrived and its user is known: decide what to record of it."""
        config = self._policy.evaluate(context.user, context.info)
        self.levels[config.level] += 1
        if not config.level:
            return
        record = context.audit = Record(context, config)
        if not config.is_plain and REQUEST_RECEIVED not in config.omit_stages:
            record.received = self._clock.now()
            self._write(record, REQUEST_RECEIVED)

    def failed_authentication(self, context: Context) -> None:
        """The credentials of a request are not valid. Its only event is of stage ResponseStarted, and names no user."""
        config = self._policy.evaluate(context.user, context.info)
        self.levels[config.level] += 1
        if config.level:
            context.audit = Record(context, config)
            context.audit.forget_user()

    def answered(self, context: Context, response: Response | StreamResponse | None, seconds: float) -> None:
        """A request has been answered in so many seconds; None if the client did not wait.

        A stream is only begun by this.
        """
        record = context.audit
        if record is None:
            return
        # The record has the context. Without this, only the garbage collector would free the two.
        context.audit = None
        now = self._clock.now()
        if record.config.is_plain and isinstance(response, Response) and response.status < 400:
            event = record.plain_event(response, now, seconds)
            if event is not None:
                self._add(event, can_wait=record.config.is_read)
                return
        record.received = record.received or now - dt.timedelta(seconds=seconds)
        record.response(response)
        if record.is_unauthenticated:
            self._write(record, RESPONSE_STARTED)
        elif isinstance(response, StreamResponse):
            if context.info.verb == "watch":
                self._write(record, RESPONSE_STARTED)
            response.on_end(lambda: self._write(record, RESPONSE_COMPLETE))
        else:
            self._write(record, PANIC if record.has_failed else RESPONSE_COMPLETE)

    async def close(self) -> None:
        """Write what was collected, and close the backends."""
        self._flush()
        for backend in self._backends:
            await backend.close()

    def _write(self, record: Record, stage: str) -> None:
        if stage not in record.config.omit_stages:
            can_wait = record.code < 400 and record.context.info.verb in READS
            self._add(record.event(stage, self._clock.now()), can_wait=can_wait)

    def _add(self, event: PlainEvent | bytes, *, can_wait: bool) -> None:
        self.events += 1
        self._collected.append(event)
        if not (can_wait and self._defers_reads) or len(self._collected) >= MAX_COLLECTED:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MAX_DELAY, self._flush)

    def _flush(self) -> None:
        """Hand the events that were collected to the backends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._collected:
            return
        events = [event if isinstance(event, bytes) else encoded(event) for event in self._collected]
        self._collected.clear()
        for backend in self._backends:
            backend.write(events)


class _Counts(Collector):
    """The counts of an auditor, taken at each scrape so that requests do not pay for them."""

    def __init__(self, auditor: Auditor) -> None:
        self._auditor = auditor

    def collect(self) -> Iterable[Metric]:
        levels = CounterMetricFamily("apiserver_audit_level", "Levels of the policy, by request.", labels=["level"])
        for level in Level:
            levels.add_metric([LEVEL_NAMES[level]], self._auditor.levels[level])
        events = CounterMetricFamily(
            "apiserver_audit_event", "Audit events handed to backends.", value=self._auditor.events
        )
        return [levels, events]
