"""A controller: sources fill its queue with keys, and workers reconcile them.

Promises: workers start when every source has been worked through once, so a reconciler sees a full cache. A key is with
one worker at a time. What a reconciler raises stays with its key: it is logged and counted, and the key comes back,
later each time, while other keys go on. A traceback is logged whole once, and then by how often it came again. `stop`
lets running reconciles finish; cancelling `run` does not.
"""

from __future__ import annotations

import asyncio
import contextvars
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

import structlog
from prometheus_client import CollectorRegistry

from kapi.api.keys import ObjectKey
from kapi.base.clock import SystemClock
from kapi.base.log import ensure_configured
from kapi.controller.fence import Fenced
from kapi.controller.metrics.controller import ControllerMeter
from kapi.controller.queue import QueueShutDown, RateLimitingQueue
from kapi.controller.reconcile import R, Result, as_function, is_terminal
from kapi.controller.tracebacks import Tracebacks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping

    from structlog.typing import FilteringBoundLogger

    from kapi.base.clock import Clock
    from kapi.controller.queue.ratelimit import RateLimiter
    from kapi.controller.reconcile import ReconcileFunction, Reconciler
    from kapi.controller.source import Source
    from kapi.controller.tracing import ReconcileTracer

SYNC_SECONDS = 120.0

# A bug in the program rather than a failure of a request: what is a panic in Go.
_MISTAKES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    TypeError,
)

# Reconciles of a worker that never has to wait, before the event loop gets its turn.
_SLICE = 32

_NOTHING = Result()
_log: FilteringBoundLogger = structlog.get_logger("kapi.controller")
_current: contextvars.ContextVar[_Running | None] = contextvars.ContextVar("kapi_reconcile", default=None)


class SyncTimeout(Exception):
    """A source of a controller did not become ready in time: its kind may not be served, or may not be read by us."""


class _StrayCancellation(Exception):
    """A reconciler raised CancelledError although it was not cancelled; what it waited for was."""


class _Running:
    """The reconcile that is going on in this context. Its id and logger are made when asked for: most never are."""

    __slots__ = ("_bound", "_id", "_log", "_request", "may_act")

    def __init__(self, request: Hashable, log: FilteringBoundLogger, may_act: Callable[[], bool] | None) -> None:
        self._request = request
        self._log = log
        self._bound: FilteringBoundLogger | None = None
        self._id = ""
        self.may_act = may_act

    @property
    def id(self) -> str:
        """The same at each asking, and no other reconcile's."""
        if not self._id:
            self._id = str(uuid.uuid4())
        return self._id

    @property
    def log(self) -> FilteringBoundLogger:
        """The controller's logger, with what this reconcile is of."""
        if self._bound is None:
            self._bound = self._log.bind(**_log_fields(self._request), reconcileID=self.id)
        return self._bound


def _log_fields(request: Hashable) -> dict[str, str]:
    if isinstance(request, ObjectKey):
        return {"namespace": request.namespace, "name": request.name}
    return {"request": str(request)}


def reconcile_id() -> str:
    """The id of the reconcile this code runs in, as in its logs; empty outside of one."""
    running = _current.get()
    return "" if running is None else running.id


def reconcile_may_act() -> bool:
    """Return True if the reconcile this code runs in may still change anything: its process has not lost its lease."""
    running = _current.get()
    return running is None or running.may_act is None or running.may_act()


def reconcile_log() -> FilteringBoundLogger:
    """A structlog logger that names controller, namespace, name and reconcileID of the reconcile this code runs in.

    Of a request of another type than `Request`, it has the text as `request` in the place of namespace and name.
    """
    running = _current.get()
    return _log if running is None else running.log


@dataclass(frozen=True, slots=True)
class ControllerOptions(Generic[R]):
    """The options of a controller.

    `timeout` is for one reconcile, in seconds; None waits for ever. `rate_limiter` belongs to one controller; unless
    given, failed keys come back after 5 ms, then twice that, up to 1000 s, and not more than 10 per second in all.
    `sync_timeout` is how long the sources may take to become ready. With `warm_up` the sources of a process that does
    not lead are started all the same, so that it only needs to begin when it does; None leaves that to the manager. It
    has a price: the keys of all objects that are created and deleted meanwhile stay in the queue, however many they
    are. A `quiet` one logs its start and end at level debug.
    """

    workers: int = 1
    rate_limiter: RateLimiter[R] | None = None
    timeout: float | None = None
    sync_timeout: float = SYNC_SECONDS
    needs_leader_election: bool = True
    warm_up: bool | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.workers < 1:
            raise ValueError(f"workers={self.workers}: expected at least 1")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout={self.timeout}: expected more than 0 seconds, or None")


class Controller(Generic[R]):
    """One reconciler with its queue and workers. `run` it once. `R` is the type of its keys."""

    def __init__(
        self,
        name: str,
        reconciler: Reconciler[R] | ReconcileFunction[R],
        *,
        sources: Iterable[Source[R]] = (),
        options: ControllerOptions[R] | None = None,
        clock: Clock | None = None,
        registry: CollectorRegistry | None = None,
        log_fields: Mapping[str, Any] | None = None,
    ) -> None:
        """`name` is in logs and metrics, so it should be the only one; `log_fields` are in each line logged."""
        if not name:
            raise ValueError("a controller needs a name")
        self.name = name
        self._options = options or ControllerOptions()
        self._reconcile = as_function(reconciler)
        self._sources = list(sources)
        self._clock = clock or SystemClock()
        registry = registry or CollectorRegistry()
        self.queue: RateLimitingQueue[R] = RateLimitingQueue(
            name, limiter=self._options.rate_limiter, clock=self._clock, registry=registry
        )
        self._meter = ControllerMeter(name, registry)
        # Bound when it is used, not now: logging may be set up after the controller.
        self._log: FilteringBoundLogger = structlog.get_logger("kapi.controller", controller=name, **(log_fields or {}))
        self.may_act: Callable[[], bool] | None = None
        """Called before each reconcile, if given: a process that was paused must not act after its lease expired."""
        self.tracing: ReconcileTracer | None = None
        """Makes a span of each reconcile, if given."""
        self._tracebacks = Tracebacks()
        self._stopping = asyncio.Event()
        self._has_run = False
        self._is_warm = False
        self._is_started = False

    def __repr__(self) -> str:
        return f"<Controller {self.name!r}>"

    @property
    def needs_leader_election(self) -> bool:
        """Return True if only the leader may run it."""
        return self._options.needs_leader_election

    @property
    def wants_warm_up(self) -> bool | None:
        """Return True if `warm_up` is to be called before this process leads; None leaves that to the manager."""
        return self._options.warm_up

    @property
    def is_started(self) -> bool:
        """Return True if the sources were ready and the workers are at work, or have been."""
        return self._is_started

    async def watch(self, source: Source[R]) -> None:
        """One more source. Of a controller that runs already, wait until the source is ready."""
        if self._stopping.is_set():
            raise RuntimeError(f"controller {self.name!r} has been stopped")
        self._sources.append(source)
        if self._has_run or self._is_warm:
            await self._ready(source)

    def stop(self) -> None:
        """Take no more keys; `run` returns when the reconciles that are going on have ended."""
        self._stopping.set()
        self.queue.shut_down()
        if self._is_warm and not self._has_run:
            self._stop_sources()

    async def warm_up(self) -> None:
        """Start the sources and wait for them, ahead of `run`, which then starts workers at once.

        Nothing is reconciled before `run`. A controller that is warmed up must be run or stopped.

        Raises:
            SyncTimeout: a source did not become ready in time.
            RuntimeError: it was run or warmed up before.
        """
        if self._has_run or self._is_warm:
            raise RuntimeError(f"controller {self.name!r} was warmed up or run before")
        self._is_warm = True
        await self._sources_are_ready()

    async def run(self) -> None:
        """Start the sources, wait for them, and work until `stop`. Cancelling it cancels the reconciles too.

        Raises:
            SyncTimeout: a source did not become ready in time.
            RuntimeError: it was run before.
        """
        if self._has_run:
            raise RuntimeError(f"controller {self.name!r} was run before: a controller runs once")
        self._has_run = True
        ensure_configured()
        self._meter.max_workers.set(self._options.workers)
        try:
            if self._is_warm or await self._sources_are_ready():
                say = self._log.debug if self._options.quiet else self._log.info
                say("starting workers", workers=self._options.workers)
                self._is_started = True
                async with asyncio.TaskGroup() as group:
                    for number in range(self._options.workers):
                        group.create_task(self._work(), name=f"{self.name} worker {number}")
                say("all workers finished")
        finally:
            self.stop()
            self._stop_sources()

    def _stop_sources(self) -> None:
        for source in self._sources:
            source.stop()

    async def _sources_are_ready(self) -> bool:
        """Start the sources together; False when the controller was stopped meanwhile."""
        ready = asyncio.create_task(self._all_ready())
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((ready, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
            stopped.cancel()
            await asyncio.wait((ready, stopped))
        if not ready.cancelled():
            ready.result()
        return not self._stopping.is_set()

    async def _all_ready(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for source in self._sources:
                    group.create_task(self._ready(source))
        except BaseExceptionGroup as errors:
            # One reason not to start is enough, and easier to read and to catch than a group of them.
            raise errors.exceptions[0] from None

    async def _ready(self, source: Source[R]) -> None:
        seconds = self._options.sync_timeout
        try:
            async with asyncio.timeout(seconds) as scope:
                await source.start(self.queue)
                await source.wait_for_sync()
        except TimeoutError:
            if not scope.expired():
                raise
            raise SyncTimeout(f"controller {self.name!r}: {source} did not sync within {seconds:g} s") from None

    async def _work(self) -> None:
        reconciled = 0
        # Keys that are left at a stop are dropped: the next process lists everything anyway.
        while not self.queue.is_shutting_down:
            try:
                request, priority = await self.queue.get_with_priority()
            except QueueShutDown:
                return
            if self.may_act is not None and not self.may_act():
                self.queue.done(request)
                self._log.warning("not reconciling: this process is not the leader any more")
                return
            self._meter.active_workers.inc()
            try:
                await self._handle(request, priority)
            finally:
                self._meter.active_workers.dec()
                self.queue.done(request)
            reconciled += 1
            if not reconciled % _SLICE:
                await asyncio.sleep(0)

    async def _handle(self, request: R, priority: int) -> None:
        """One reconcile, and what follows from how it ended."""
        running = _Running(request, self._log, self.may_act)
        # The context of the worker's task: the next reconcile overwrites it, and nothing reads it in between.
        _current.set(running)
        span = None if self.tracing is None else self.tracing.reconcile(self.name, request, running.id)
        started = self._clock.monotonic()
        try:
            result = await self._call(request) or _NOTHING
        except Exception as error:
            self._failed(request, priority, error, running.log)
            if span is not None:
                span.failed(error)
        else:
            self._succeeded(request, priority, result)
            if span is not None:
                span.succeeded(result)
        finally:
            self._meter.seconds.observe(self._clock.monotonic() - started)
            if span is not None:
                span.end()

    async def _call(self, request: R) -> Result | None:
        """Reconcile, and keep cancellations that are not ours from ending the worker."""
        try:
            if self._options.timeout is None:
                result = await self._started(request)
            else:
                result = await self._within(self._options.timeout, request)
        except asyncio.CancelledError as error:
            worker = asyncio.current_task()
            if worker is None or worker.cancelling():
                raise
            if self.may_act is not None and not self.may_act():
                self._log.warning("reconcile cancelled: this process is not the leader any more")
                return None
            raise _StrayCancellation("the reconciler raised CancelledError and was not cancelled") from error
        if result is None or isinstance(result, Result):
            return result
        raise TypeError(f"the reconciler returned {result!r}: expected a Result or None")

    def _started(self, request: R) -> Awaitable[Result | None]:
        reconcile = self._reconcile(request)
        return reconcile if self.may_act is None else Fenced(reconcile, self.may_act)

    async def _within(self, seconds: float, request: R) -> Result | None:
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                return await self._started(request)
        except TimeoutError as error:
            if scope.expired():
                raise TimeoutError(f"the reconcile took longer than {seconds:g} s") from error
            raise
        finally:
            if scope.expired():
                self._meter.timeouts.inc()

    def _failed(self, request: R, priority: int, error: Exception, log: FilteringBoundLogger) -> None:
        terminal = is_terminal(error)
        if _is_mistake(error):
            self._meter.panics.inc()
        self._meter.errors.inc()
        self._meter.results["error"].inc()
        if terminal:
            self._meter.terminal.inc()
            self.queue.forget(request)
        else:
            self.queue.add_rate_limited(request, priority=priority)
        # A TerminalError is raised on purpose and explains itself; other errors are logged with their traceback.
        trace = None if terminal and not _is_mistake(error) else error
        repeated = self._tracebacks.count(error) if trace is not None else 0
        if repeated:
            log.error("reconcile failed", error=str(error), terminal=terminal, same_traceback=repeated)
        else:
            log.error("reconcile failed", error=str(error), terminal=terminal, exc_info=trace)

    def _succeeded(self, request: R, priority: int, result: Result) -> None:
        priority = priority if result.priority is None else result.priority
        if result.requeue_after > 0:
            self.queue.forget(request)
            self.queue.add_after(request, result.requeue_after, priority=priority)
            self._meter.results["requeue_after"].inc()
        elif result.requeue:
            self.queue.add_rate_limited(request, priority=priority)
            self._meter.results["requeue"].inc()
        else:
            self.queue.forget(request)
            self._meter.results["success"].inc()


def _is_mistake(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_is_mistake(part) for part in error.exceptions)
    return isinstance(error, (*_MISTAKES, _StrayCancellation))
