"""The manager: runs everything of an operator, started in order and stopped together.

    async with Client.connect() as client:
        manager = Manager(client)
        manager.builder().for_(Network).complete(reconcile)
        await manager.run()

Order: metrics and probes, the caches, runnables without leader election, then, once this process is the leader, the
controllers. At shutdown all runnables are told to stop together: no reconcile begins any more, and those in progress
have `shutdown_timeout` seconds, one deadline for all. Then the lease is released, and caches, metrics and probes end.

Caches are filled whether this process leads or not, so one that takes over reads them from memory. With `warm_up` its
controllers' queues are filled, too, before it even stands for election; still nothing is reconciled without the lease.

A process that loses its lease must not continue: everything is cancelled at once, reconciles in progress included, and
the manager raises `LeadershipLost`. The supervisor of the process restarts it, as a candidate.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, overload

import structlog
from prometheus_client import CollectorRegistry

from kapi.api.meta import GroupVersionResource
from kapi.base.clock import SystemClock
from kapi.base.log import ensure_configured
from kapi.client.dynamic import DynamicClient
from kapi.controller.builder import builder
from kapi.controller.controller import Controller
from kapi.controller.manager.cluster import Cluster
from kapi.controller.manager.leaderelection import LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS, Election, LeaderElector
from kapi.controller.manager.pages import Pages
from kapi.controller.manager.profilepages import LIMITS as PROFILE_LIMITS
from kapi.controller.manager.profilepages import ProfilePages, checked_address
from kapi.controller.manager.shutdown import Shutdown, run_together
from kapi.controller.reconcile import R, Request
from kapi.controller.recorder import EventRecorder
from kapi.controller.tracing import Tracing
from kapi.informer.factory import namespaces_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence

    import msgspec
    from opentelemetry.trace import Tracer

    from kapi.api.meta import GroupVersionKind, Object
    from kapi.base.clock import Clock
    from kapi.client.client import Client
    from kapi.client.mapper import RESTMapper
    from kapi.controller.builder import Builder
    from kapi.controller.host import Measured, Runnable
    from kapi.informer.factory import CacheOptions
    from kapi.informer.informer import SharedInformer

T = TypeVar("T", bound="msgspec.Struct")

SHUTDOWN_SECONDS: Final = 30.0
"""The graceful shutdown period, in seconds: runnables that have not ended by then are cancelled."""

LEASES: Final = GroupVersionResource("coordination.k8s.io", "v1", "leases")
EVENTS: Final = GroupVersionResource("events.k8s.io", "v1", "events")

_log = structlog.get_logger("kapi.controller")


class LeadershipLost(Exception):
    """This process lost its lease; its controllers have been stopped."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """The options of leader election."""

    name: str
    namespace: str
    identity: str = ""
    """The identity of this process; by default host name and process id."""
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
    time. `namespace` is one, or several as in `a,b`; `namespaces` names them one by one; `namespaces_of` says what is
    refused. Without either, what `WATCH_NAMESPACE` says counts, and all namespaces if it says nothing.

    `caches` has options of the caches of single kinds; the client then reads what they hold, and no more. `pages` is
    the host and port of all pages; `metrics` and `probes` are for those that are to have one of their own. `profile` is
    a loopback address for profiles of this process, see `profilepages`.

    `registry` holds the metrics of everything that runs here, and of the requests of `live` meanwhile. `tracer` makes
    spans of reconciles and of what they ask, see `tracing`; without it nothing is traced. `warm_up` is for controllers
    whose options do not say. `shutdown_timeout` is the time for everything to end after `stop`, in seconds.
    """

    def __init__(
        self,
        live: Client,
        *,
        namespace: str | None = None,
        namespaces: Iterable[str] | None = None,
        leadership: Leadership | None = None,
        caches: Mapping[type[Any] | GroupVersionKind, CacheOptions] | None = None,
        pages: tuple[str, int] | None = None,
        metrics: tuple[str, int] | None = None,
        probes: tuple[str, int] | None = None,
        profile: tuple[str, int] | None = None,
        clock: Clock | None = None,
        registry: CollectorRegistry | None = None,
        tracer: Tracer | None = None,
        warm_up: bool = False,
        shutdown_timeout: float = SHUTDOWN_SECONDS,
    ) -> None:
        self.clock = clock or SystemClock()
        self.registry = registry or CollectorRegistry()
        self._tracing = Tracing(tracer) if tracer is not None else None
        self._clock = clock
        self.clusters: dict[str, Cluster] = {}
        """The clusters by name; the manager's own has the empty one."""
        self.cluster = self._add_cluster("", live, _watched(namespace, namespaces), caches)
        """The manager's own cluster: the one of its leader election and its Events."""
        self.live, self.client, self.informers = live, self.cluster.client, self.cluster.informers
        self.namespaces = self.cluster.namespaces
        """The namespaces that are watched; none stands for all of them."""
        self.elector = self._elector(leadership)
        self._warm_up = warm_up
        self._pages = Pages(self.registry)
        self._pages.ready["caches"] = self._caches_check
        self._pages.live["caches"] = self._followed_check
        if self.elector is not None:
            self._pages.live["leader-election"] = self.elector.overdue
        addresses = {"pages": pages, "metrics": metrics, "probes": probes, "profile": checked_address(profile)}
        self._addresses = addresses
        self._runnables: list[Runnable] = []
        self._recorders: dict[str, EventRecorder] = {}
        self._shutdown = Shutdown(shutdown_timeout)
        self._is_running = False
        self.ports: dict[str, int] = {}
        """The ports of `pages`, `metrics`, `probes` and `profile` while the manager runs."""

    # -- what controllers need --------------------------------------------------------------------------------------

    @property
    def mapper(self) -> RESTMapper:
        """The REST mapper of the client."""
        return self.live.mapper

    @property
    def controllers(self) -> tuple[Controller[Any], ...]:
        """The controllers that have been added."""
        return tuple(one for one in self._runnables if isinstance(one, Controller))

    @property
    def pages_port(self) -> int:
        """The port of `pages`; 0 before it is served."""
        return self.ports.get("pages", 0)

    @overload
    def builder(self) -> Builder[Request, Request]: ...
    @overload
    def builder(self, request_type: type[R]) -> Builder[R, R]: ...
    def builder(self, request_type: type[Any] = Request) -> Builder[Any, Any]:
        """Return a builder of a controller of this manager, keyed by objects or by a type of the user's."""
        return builder(self, request_type)

    def add(self, runnable: Runnable, /) -> None:
        """Add a runnable; before `run`."""
        if self._is_running:
            raise RuntimeError(f"{runnable.name} was added too late: the manager is running already")
        if hasattr(runnable, "measure"):
            cast("Measured", runnable).measure(self.registry)
        if isinstance(runnable, Controller):
            runnable.tracing = self._tracing
            if self.elector is not None and runnable.needs_leader_election:
                elector = self.elector
                runnable.may_act = lambda: elector.is_leading
        self._runnables.append(runnable)

    def recorder(self, controller: str) -> EventRecorder:
        """Return the event recorder of a controller: a name with a domain, such as `example.com/networks`.

        It may be asked for at any time, in a reconcile too. What it has recorded is sent before `run` returns.
        """
        if controller not in self._recorders:
            events = DynamicClient(self.live.rest)
            self._recorders[controller] = EventRecorder(
                lambda namespace: events.resource(EVENTS, namespace), controller, clock=self.clock
            )
        return self._recorders[controller]

    def add_cluster(
        self,
        name: str,
        live: Client,
        *,
        namespace: str | Iterable[str] = "",
        caches: Mapping[type[Any] | GroupVersionKind, CacheOptions] | None = None,
    ) -> Cluster:
        """Add another cluster, whose objects controllers may watch; before `run`. `namespace` and `caches` as above.

        The client is used, and not closed.
        """
        if self._is_running:
            raise RuntimeError(f"cluster {name} was added too late: the manager is running already")
        if not name or name in self.clusters:
            raise ValueError(f"a cluster needs a name of its own, not {name!r}")
        return self._add_cluster(name, live, namespaces_of(namespace), caches)

    def _add_cluster(
        self,
        name: str,
        live: Client,
        namespaces: tuple[str, ...],
        caches: Mapping[type[Any] | GroupVersionKind, CacheOptions] | None,
    ) -> Cluster:
        self.clusters[name] = Cluster(
            name,
            live,
            namespaces=namespaces,
            caches=caches,
            clock=self._clock,
            registry=self.registry,
            tracing=self._tracing,
        )
        return self.clusters[name]

    @overload
    def index(self, kind: type[T], name: str, values: Callable[[T], Iterable[str]] | None = None) -> None: ...
    @overload
    def index(
        self, kind: GroupVersionKind, name: str, values: Callable[[Object], Iterable[str]] | None = None
    ) -> None: ...
    def index(self, kind: Any, name: str, values: Callable[[Any], Iterable[str]] | None = None) -> None:
        """Index the cache of a kind, see `Cluster.index`."""
        self.cluster.index(kind, name, values)

    def add_check(self, name: str, check: Callable[[], str | None]) -> None:
        """Add a readiness check: a function that returns what is wrong, or None."""
        self._pages.ready[name] = check

    def add_live_check(self, name: str, check: Callable[[], str | None]) -> None:
        """Add a liveness check: a function that returns what only a restart can cure, or None."""
        self._pages.live[name] = check

    # -- running ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop gracefully; `run` returns when everything has stopped."""
        self._shutdown.request()

    async def run(self, *, signals: bool = True) -> None:
        """Run until `stop`, or SIGTERM or SIGINT with `signals`, or until something fails, which is raised."""
        if self._is_running:
            raise RuntimeError("a manager runs once")
        self._is_running = True
        ensure_configured()
        async with contextlib.AsyncExitStack() as stack:
            if signals:
                stack.enter_context(_stopped_by_signals(self.stop))
            await self._serve_pages(stack)
            stack.push_async_callback(self._close_recorders)
            for cluster in self.clusters.values():
                await stack.enter_async_context(cluster)
            anywhere = [one for one in self._runnables if not one.needs_leader_election]
            leading = [one for one in self._runnables if one.needs_leader_election]
            await self._run_all(anywhere, leading)

    async def _close_recorders(self) -> None:
        await asyncio.gather(*(recorder.close() for recorder in self._recorders.values()))

    async def _run_all(self, anywhere: Sequence[Runnable], leading: Sequence[Runnable]) -> None:
        async def lead() -> None:
            await run_together(leading, self._shutdown)

        async def when_leading() -> None:
            if self.elector is None:
                await lead()
            elif await self._warmed_up(warm) and not await self._until_stopped(self.elector.run(lead)):
                # Another process leads, or will in a moment: nothing here has any time left.
                self._shutdown.request_now()
                raise LeadershipLost(self.elector.why_lost)

        warm = [one for one in leading if isinstance(one, Controller) and self._is_to_warm_up(one)]
        tasks = [asyncio.ensure_future(run_together(anywhere, self._shutdown)), asyncio.ensure_future(when_leading())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._shutdown.request()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            for controller in warm:  # those that never led have been running in part
                controller.stop()
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _warmed_up(self, controllers: Sequence[Controller[Any]]) -> bool:
        """Fill the queues of some controllers; False when the manager was stopped before they were full."""
        task = asyncio.ensure_future(_warm_up(controllers))
        stopping = asyncio.ensure_future(self._shutdown.requested.wait())
        try:
            await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                return False
            task.result()
            return True
        finally:
            task.cancel()
            stopping.cancel()
            await asyncio.gather(task, stopping, return_exceptions=True)

    def _is_to_warm_up(self, controller: Controller[Any]) -> bool:
        return self._warm_up if controller.wants_warm_up is None else controller.wants_warm_up

    async def _until_stopped(self, term: Coroutine[Any, Any, bool]) -> bool:
        """One term of leadership; waiting for it ends when the manager does."""
        task = asyncio.ensure_future(term)
        stopping = asyncio.ensure_future(self._shutdown.requested.wait())
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

    async def _serve_pages(self, stack: contextlib.AsyncExitStack) -> None:
        handlers = {
            "pages": self._pages.all,
            "metrics": self._pages.metrics,
            "probes": self._pages.probes,
            "profile": ProfilePages().all,
        }
        for name, address in self._addresses.items():
            if address is not None:
                from kapi.base.webserver import WebServer

                limits = PROFILE_LIMITS if name == "profile" else None
                server = WebServer(handlers[name], host=address[0], port=address[1], limits=limits)
                await stack.enter_async_context(server)
                self.ports[name] = server.port

    def _all_informers(self) -> list[SharedInformer[Any]]:
        return [informer for cluster in self.clusters.values() for informer in cluster.informers.informers.values()]

    def _caches_check(self) -> str | None:
        behind = [informer.name for informer in self._all_informers() if not informer.has_synced]
        return f"not synced: {'; '.join(behind)}" if behind else None

    def _followed_check(self) -> str | None:
        ended = [informer.name for informer in self._all_informers() if informer.has_failed]
        return f"not followed any more: {'; '.join(ended)}" if ended else None

    def _elector(self, leadership: Leadership | None) -> LeaderElector | None:
        if leadership is None:
            return None
        leases = DynamicClient(self.live.rest).resource(LEASES, leadership.namespace)
        elector = LeaderElector(leases, leadership.election(), clock=self.clock)
        elector.measure(self.registry)
        return elector


def _watched(namespace: str | None, namespaces: Iterable[str] | None) -> tuple[str, ...]:
    if namespaces is not None:
        if namespace is not None:
            raise ValueError("say namespace or namespaces, not both")
        if isinstance(namespaces, str):
            raise TypeError(f"namespaces={namespaces!r}: a text with several names is called namespace")
        return namespaces_of(namespaces)
    if namespace is not None:
        return namespaces_of(namespace)
    try:
        return namespaces_of(os.environ.get("WATCH_NAMESPACE", ""))
    except ValueError as error:
        raise ValueError(f"WATCH_NAMESPACE: {error}") from None


async def _warm_up(controllers: Sequence[Controller[Any]]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for controller in controllers:
                group.create_task(controller.warm_up())
    except BaseExceptionGroup as errors:
        # One reason not to go on is enough, and easier to read and to catch than a group of them.
        raise errors.exceptions[0] from None


@contextlib.contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT call `stop`; a second one kills as ever. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def stop_once() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)
        stop()

    for number in numbers:
        loop.add_signal_handler(number, stop_once)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
