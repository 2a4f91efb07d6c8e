"""The shared informer: one cache of a collection, with event handlers.

A reflector fills the delta FIFO; here it is emptied: each delta first updates the indexer and is then put into the
queues of the handlers, in one step without a switch of tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from kapi.base.clock import SystemClock
from kapi.informer.cached import Cached, Intake
from kapi.informer.deltas import Delta, DeltaFIFO, DeltaType
from kapi.informer.handlers import BUFFER, Change, Handler, Notice, Registration, decoding, undecoded
from kapi.informer.indexer import Indexer, IndexFunction
from kapi.informer.lister import Lister
from kapi.informer.namespaces import reflecting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.informer.metrics import InformerMetrics
    from kapi.informer.namespaces import NamespacesReflector, Parts
    from kapi.informer.reflector import Pace, Reflector
    from kapi.informer.source import ListerWatcher

T = TypeVar("T")

DRAIN_SECONDS: Final = 10.0
"""The seconds that `stop` gives handlers to process what is in their queues."""

_SLICE: Final = 256
"""Objects processed before the event loop gets its turn."""

_log = logging.getLogger("kapi.informer")


class SharedInformer(Generic[T]):
    """A cache of a collection that follows the server and calls handlers for each change.

    Guarantees, for each object X:

    1. The states of X in the cache, and those that a handler is shown, are a subsequence, in order, of the states X had
       on the server. Some may be skipped; none is made up; none comes back.
    2. Once the server is quiet and can be reached, the cache equals the collection.
    3. When X is deleted, every handler that was called for X is called for its deletion, with the last state known;
       `stale` says that the deletion event itself was missed. An X that was deleted and created again in a gap is a
       deletion and an addition, never an update.
    4. A handler is called for one event at a time, and the cache and its indexes are then at least that new. It is not
       called for a list without changes, unless it requested a resync.
    5. Handlers do not disturb each other: not by being slow, not by failing. A handler that cannot keep up is shown
       fewer states of an object, never fewer objects, and what waits for it is bounded by the number of objects.
    """

    def __init__(
        self,
        source: ListerWatcher | Parts,
        decode: Callable[[bytes], T],
        *,
        name: str = "informer",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        transform: Callable[[Object], Object] | None = None,
        pace: Pace | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        metrics: InformerMetrics | None = None,
    ) -> None:
        self.name = name
        self.indexer: Indexer[T] = Indexer(indexes)
        self.lister: Lister[T] = Lister(self.indexer)
        self._clock = clock or SystemClock()
        self._queue: DeltaFIFO[T] = DeltaFIFO(self.indexer, on_synced=self._mark_synced)
        intake = Intake(decode, transform=transform)
        self.reflector: Reflector[T] | NamespacesReflector[T] = reflecting(
            source, intake, self._queue, name=name, pace=pace, clock=self._clock, random=random, metrics=metrics
        )
        self._metrics = metrics
        if metrics is not None:
            metrics.informer(name, self)
        self._registrations: dict[Registration[T], asyncio.Task[None] | None] = {}
        # Who is shown the resync that is in the queue; should another fall due before it is through, both are.
        self._resyncing: set[Registration[T]] = set()
        self._resync_changed = asyncio.Event()
        self._reflecting: asyncio.Task[None] | None = None
        self._processing: asyncio.Task[None] | None = None
        self._resync_task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Lock()
        self._stopped = asyncio.Event()

    # -- running ------------------------------------------------------------------------------------------------------

    @property
    def is_started(self) -> bool:
        """Return True if `start` has been called; an informer starts and stops once."""
        return self._processing is not None

    @property
    def is_stopped(self) -> bool:
        """Return True if it has been stopped and its handlers are done."""
        return self._stopped.is_set()

    @property
    def has_synced(self) -> bool:
        """Return True if the cache holds everything that was there when it began."""
        return self._queue.has_synced

    @property
    def items(self) -> int:
        """Return the number of objects in the cache."""
        return len(self.indexer)

    @property
    def queued_items(self) -> int:
        """Return the number of objects with changes that are not in the cache yet."""
        return len(self._queue)

    def start(self) -> None:
        """Begin to follow; needs a running event loop, and may be called again."""
        if self.is_started:
            return
        self._reflecting = asyncio.create_task(self.reflector.run(), name=f"{self.name} reflector")
        self._processing = asyncio.create_task(self._process_all(), name=f"{self.name} deltas")
        self._resync_task = asyncio.create_task(self._resync_all(), name=f"{self.name} resync")
        for registration in self._registrations:
            self._start_handler(registration)

    async def stop(self, *, drain: float = DRAIN_SECONDS) -> None:
        """Stop. Handlers get the events that are in the cache by now, for `drain` seconds; then they are cancelled."""
        async with self._stopping:
            if self._stopped.is_set():
                return
            await _cancel(self._reflecting, self._resync_task)
            self._queue.close()
            if self._processing is not None:
                await self._processing
            tasks = [task for task in self._registrations.values() if task is not None]
            for registration in self._registrations:
                registration.close()
            if tasks:
                await asyncio.wait(tasks, timeout=drain)
            await _cancel(*tasks)
            self._stopped.set()
            if self._metrics is not None:
                self._metrics.forget(self.name, self)

    async def run(self) -> None:
        """Start, and stay until stopped; when cancelled, stop without waiting for handlers."""
        self.start()
        try:
            await self._stopped.wait()
        except asyncio.CancelledError:
            await self.stop(drain=0)
            raise

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def wait_for_sync(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - what is raised is ours
        """Wait until the cache holds everything that was there when it began.

        Raises:
            TimeoutError: it does not after `timeout` seconds; the text says what the server answered last.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._queue.wait_for_sync()
        except TimeoutError:
            why = self.reflector.last_error or f"the reflector is {self.reflector.state.value}"
            raise TimeoutError(f"{self.name}: not synced after {timeout:g} s: {why}") from None

    # -- handlers -----------------------------------------------------------------------------------------------------

    def add_handler(
        self, handler: Handler[T], *, name: str = "", resync: float = 0.0, buffer: int = BUFFER
    ) -> Registration[T]:
        """Tell a handler of changes, with objects decoded for it alone.

        One that is added late first gets all objects, as initial additions. With `resync` it is shown
        everything again each time so many seconds have passed. `buffer` is how far it may fall behind before it is
        shown less.
        """
        deliver = decoding(handler)
        return self._register(Registration(name or _name_of(handler), deliver, resync=resync, buffer=buffer))

    def add_raw_handler(
        self, handler: Handler[Cached[T]], *, name: str = "", resync: float = 0.0, buffer: int = BUFFER
    ) -> Registration[T]:
        """The same for a handler that decodes what it needs by itself."""
        deliver = undecoded(handler)
        return self._register(Registration(name or _name_of(handler), deliver, resync=resync, buffer=buffer))

    def remove_handler(self, registration: Registration[T]) -> None:
        """Tell a handler nothing more, not even what waits for it. Not for use within its own methods."""
        self._resyncing.discard(registration)
        task = self._registrations.pop(registration, None)
        if task is not None:
            task.cancel()

    def _register(self, registration: Registration[T]) -> Registration[T]:
        if self._stopped.is_set() or self._stopping.locked():
            raise RuntimeError(f"{self.name} has been stopped; a handler would never be called")
        for obj in self.indexer.values():
            registration.put(Notice(Change.ADD, obj, flag=True))
        if self.has_synced:
            registration.put_mark()
        registration.resync_at = self._clock.monotonic() + registration.resync
        self._registrations[registration] = None
        self._resync_changed.set()
        if self.is_started:
            self._start_handler(registration)
        return registration

    def _start_handler(self, registration: Registration[T]) -> None:
        task = asyncio.create_task(registration.run(), name=f"{self.name} handler {registration.name}")
        self._registrations[registration] = task

    # -- deltas -------------------------------------------------------------------------------------------------------

    async def _process_all(self) -> None:
        while await self._queue.wait():
            for _ in range(_SLICE):
                if not self._queue.pop_ready(self._process):
                    self._resyncing.clear()
                    break
            await asyncio.sleep(0)

    def _mark_synced(self) -> None:
        for registration in self._registrations:
            registration.put_mark()

    def _process(self, deltas: list[Delta[T]], is_initial: bool) -> None:
        for delta in deltas:
            if delta.type is DeltaType.DELETED:
                self._delete(delta)
            elif delta.type is DeltaType.SYNC:
                self._show(delta.object)
            else:
                self._put(delta.object, is_initial=is_initial)

    def _put(self, obj: Cached[T], *, is_initial: bool) -> None:
        old = self.indexer.get(obj.key)
        if old is not None and obj.is_same_state(old):
            return
        self.indexer.put(obj)
        if old is None:
            self._notify(Notice(Change.ADD, obj, flag=is_initial))
        elif old.uid == obj.uid:
            self._notify(Notice(Change.UPDATE, obj, old))
        else:
            self._notify(Notice(Change.DELETE, old, flag=True))
            self._notify(Notice(Change.ADD, obj, flag=is_initial))

    def _delete(self, delta: Delta[T]) -> None:
        old = self.indexer.get(delta.object.key)
        if old is None:
            return
        self.indexer.remove(delta.object.key)
        if old.uid == delta.object.uid:
            self._notify(Notice(Change.DELETE, delta.object, flag=delta.stale))
        else:
            # The deletion is of a later object of that name, which no handler was called for.
            self._notify(Notice(Change.DELETE, old, flag=True))

    def _notify(self, notice: Notice[T]) -> None:
        for registration in self._registrations:
            registration.put(notice)

    def _show(self, obj: Cached[T]) -> None:
        for registration in self._resyncing:
            registration.put(Notice(Change.UPDATE, obj, obj))

    # -- resync -------------------------------------------------------------------------------------------------------

    async def _resync_all(self) -> None:
        while True:
            self._resync_changed.clear()
            due = min((one.resync_at for one in self._registrations if one.resync > 0), default=None)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(0.0, due - self._clock.monotonic())):
                    await self._resync_changed.wait()
            self._resync_due()

    def _resync_due(self) -> None:
        now = self._clock.monotonic()
        due = [one for one in self._registrations if one.resync > 0 and one.resync_at <= now]
        if due:
            self._resyncing.update(due)
            for registration in due:
                registration.resync_at = now + registration.resync
            self._queue.resync()


def _name_of(handler: object) -> str:
    return type(handler).__qualname__


async def _cancel(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks and wait for them to be gone."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    for result in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(result, Exception):
            _log.error("a task of an informer failed: %r", result)
