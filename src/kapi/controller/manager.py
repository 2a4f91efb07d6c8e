"""The manager: everything an operator program runs, started in order and stopped in reverse.

    async with Client.connect() as client:
        manager = Manager(client)
        manager.builder().for_(Network).complete(reconcile)
        await manager.run()

Order: the pages about the process, the caches, what may run anywhere, then, once this process leads, the controllers.
When it ends, controllers finish what they are at, the lease is released, and only then do caches and pages go.

A process that loses its lease must not go on: the manager stops what leads and raises `LeadershipLost`. Whoever
supervises the process starts it again, as a candidate.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog
from prometheus_client import CollectorRegistry, generate_latest

from kapi.api.meta import GroupVersionResource
from kapi.base.clock import SystemClock
from kapi.base.pages import Page, PageServer
from kapi.client.dynamic import DynamicClient
from kapi.controller.builder import builder
from kapi.controller.controller import Controller
from kapi.controller.leader import LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS, Election, LeaderElector
from kapi.controller.reader import CachedClient
from kapi.controller.recorder import EventRecorder
from kapi.informer.factory import SharedInformerFactory

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from kapi.base.clock import Clock
    from kapi.client.client import Client
    from kapi.client.mapper import RESTMapper
    from kapi.controller.builder import Builder
    from kapi.controller.host import Runnable

STOP_SECONDS: Final = 30.0
"""How long what runs may take to come to its end before it is cancelled."""

LEASES: Final = GroupVersionResource("coordination.k8s.io", "v1", "leases")
EVENTS: Final = GroupVersionResource("events.k8s.io", "v1", "events")

_log = structlog.get_logger("kapi.controller")


class LeadershipLost(Exception):
    """This process led and does not any more; what it ran for that is over."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """That only one of several processes acts, and by which Lease they know."""

    name: str
    namespace: str
    identity: str = ""
    """Who this process is; the host and the process number when not said."""
    lease_seconds: float = LEASE_SECONDS
    renew_seconds: float = RENEW_SECONDS
    retry_seconds: float = RETRY_SECONDS

    def election(self) -> Election:
        """The election this process takes part in."""
        identity = self.identity or f"{os.uname().nodename}_{os.getpid()}"
        return Election(self.name, identity, self.lease_seconds, self.renew_seconds, self.retry_seconds)


class Manager:
    """A host of controllers; see the module for what it promises.

    `client` reads from the caches of the kinds controllers watch and sees its own writes; `live` asks the server each
    time. Without `namespace`, what `WATCH_NAMESPACE` says counts, and all namespaces if it says nothing.
    """

    def __init__(
        self,
        live: Client,
        *,
        namespace: str | None = None,
        leadership: Leadership | None = None,
        pages: tuple[str, int] | None = None,
        clock: Clock | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        if namespace is None:
            namespace = os.environ.get("WATCH_NAMESPACE", "")
        if "," in namespace:
            raise ValueError(f"namespace {namespace!r}: one manager watches one namespace, or all of them")
        self.live = live
        self.client = CachedClient(live)
        self.clock = clock or SystemClock()
        self.registry = registry or CollectorRegistry()
        self.informers = SharedInformerFactory(live.rest, mapper=live.mapper, namespace=namespace, clock=clock)
        self.elector = self._elector(leadership)
        self._pages = pages
        self._runnables: list[Runnable] = []
        self._recorders: dict[str, EventRecorder] = {}
        self._checks: dict[str, Callable[[], str | None]] = {"caches": self._caches_check}
        self._stopping = asyncio.Event()
        self._is_running = False
        self.pages_port = 0

    # -- what controllers need --------------------------------------------------------------------------------------

    @property
    def mapper(self) -> RESTMapper:
        """Which kinds the server serves."""
        return self.live.mapper

    def builder(self) -> Builder:
        """Begin to say what a controller of this manager is about."""
        return builder(self)

    def add(self, runnable: Runnable, /) -> None:
        """Run something with the rest; before `run`."""
        if self._is_running:
            raise RuntimeError(f"{runnable.name} comes too late: the manager runs already")
        if self.elector is not None and runnable.needs_leader_election and isinstance(runnable, Controller):
            elector = self.elector
            runnable.may_act = lambda: elector.is_leading
        self._runnables.append(runnable)

    def recorder(self, controller: str) -> EventRecorder:
        """Who tells people what a controller does: a name with a domain, such as `example.com/networks`."""
        if controller not in self._recorders:
            events = DynamicClient(self.live.rest)
            self._recorders[controller] = EventRecorder(
                lambda namespace: events.resource(EVENTS, namespace), controller, clock=self.clock
            )
        return self._recorders[controller]

    def add_check(self, name: str, check: Callable[[], str | None]) -> None:
        """Have readiness depend on something: the text of what is wrong, or None."""
        self._checks[name] = check

    # -- running ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Come to an end; `run` returns when everything has."""
        self._stopping.set()

    async def run(self, *, signals: bool = True) -> None:
        """Run until `stop`, or SIGTERM or SIGINT with `signals`, or until something fails, which is raised."""
        if self._is_running:
            raise RuntimeError("a manager runs once")
        self._is_running = True
        async with contextlib.AsyncExitStack() as stack:
            if signals:
                stack.enter_context(_stopped_by_signals(self._stopping))
            if self._pages is not None:
                host, port = self._pages
                server = await stack.enter_async_context(PageServer(self._served_pages(), host=host, port=port))
                self.pages_port = server.port
            for recorder in self._recorders.values():
                await stack.enter_async_context(recorder)
            self._share_caches()
            await stack.enter_async_context(self.informers)
            anywhere = [one for one in self._runnables if not one.needs_leader_election]
            leading = [one for one in self._runnables if one.needs_leader_election]
            await self._run_all(anywhere, leading)

    def _share_caches(self) -> None:
        """Let the client read from every cache that holds a kind whole."""
        for collection, informer in self.informers.informers.items():
            if not (collection.labels or collection.fields or collection.is_metadata_only or collection.cls is dict):
                self.client.use(collection.gvk, informer, namespace=collection.namespace)

    async def _run_all(self, anywhere: Sequence[Runnable], leading: Sequence[Runnable]) -> None:
        async def lead() -> None:
            await _together(leading, self._stopping)

        async def when_leading() -> None:
            if self.elector is None:
                await lead()
            elif not await self._until_stopped(self.elector.run(lead)):
                raise LeadershipLost(self.elector.why_lost)

        tasks = [asyncio.ensure_future(_together(anywhere, self._stopping)), asyncio.ensure_future(when_leading())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._stopping.set()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _until_stopped(self, term: Coroutine[Any, Any, bool]) -> bool:
        """One term of leadership; waiting for it ends when the manager does."""
        task = asyncio.ensure_future(term)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and self.elector is not None and not self.elector.is_leading:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                return bool(await task)
            return True
        finally:
            stopping.cancel()
            task.cancel()
            await asyncio.gather(task, stopping, return_exceptions=True)

    # -- pages ------------------------------------------------------------------------------------------------------

    def _served_pages(self) -> dict[str, Callable[[], Page]]:
        return {
            "/healthz": lambda: Page(200, b"ok\n"),
            "/livez": lambda: Page(200, b"ok\n"),
            "/readyz": self._readiness,
            "/metrics": lambda: Page(200, generate_latest(self.registry), "text/plain; version=0.0.4; charset=utf-8"),
        }

    def _readiness(self) -> Page:
        wrong = {name: text for name, check in self._checks.items() if (text := check()) is not None}
        lines = [f"[{'-' if name in wrong else '+'}]{name} {wrong.get(name, 'ok')}" for name in self._checks]
        return Page(500 if wrong else 200, ("\n".join(lines) + "\n").encode())

    def _caches_check(self) -> str | None:
        behind = [informer.name for informer in self.informers.informers.values() if not informer.has_synced]
        return f"not synced: {'; '.join(behind)}" if behind else None

    def _elector(self, leadership: Leadership | None) -> LeaderElector | None:
        if leadership is None:
            return None
        leases = DynamicClient(self.live.rest).resource(LEASES, leadership.namespace)
        return LeaderElector(leases, leadership.election(), clock=self.clock)


async def _together(runnables: Sequence[Runnable], stopping: asyncio.Event) -> None:
    """Run some until they are to stop, or until the first fails; then let all come to their end, the last one first."""
    tasks = {asyncio.ensure_future(one.run()): one for one in runnables}
    told = asyncio.ensure_future(stopping.wait())
    try:
        # The word to stop, or one that ends by itself: either is the end for all.
        await asyncio.wait([told, *tasks], return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()
        await _wind_down(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()


async def _wind_down(tasks: dict[asyncio.Task[None], Runnable]) -> None:
    for task, runnable in reversed(tasks.items()):
        runnable.stop()
        done, _ = await asyncio.wait([task], timeout=STOP_SECONDS)
        if not done:
            _log.warning("did not come to its end in time and is cancelled", name=runnable.name)
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _stopped_by_signals(stopping: asyncio.Event) -> Iterator[None]:
    """SIGTERM and SIGINT set the event; a second one kills as ever. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def stop() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)
        stopping.set()

    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
