"""The shared informer: one cache of a collection, with event handlers.

A reflector fills the in-order FIFO; here it is emptied, one delta after the other: each first updates the indexer and
is then put into the queues of the handlers. A change is one step without a switch of tasks. A list is prepared in
slices and takes the place of the indexer's contents in one step: a reader sees the collection before it or after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from kapi.base.clock import SystemClock
from kapi.informer.cached import Cached, Intake, revision_number
from kapi.informer.fifo import Delta, DeltaType, InOrderFIFO
from kapi.informer.handlers import BUFFER, Change, Deliver, Handler, Notice, Registration, decoding, undecoded
from kapi.informer.indexer import Indexer, IndexFunction
from kapi.informer.lister import Lister
from kapi.informer.namespaces import reflecting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
    from random import Random

    from kapi.api.keys import ObjectKey
    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.informer.metrics import InformerMetrics
    from kapi.informer.namespaces import NamespacesReflector, Parts
    from kapi.informer.reflector import Pace, Reflector
    from kapi.informer.source import ListerWatcher

T = TypeVar("T")
S = TypeVar("S")

DRAIN_SECONDS: Final = 10.0
"""The seconds that `stop` gives handlers to process what is in their queues."""

_SLICE: Final = 256
"""Notifications or objects processed before the event loop gets its turn."""

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
       called for a list without changes, unless it requested a resync. Changes of different objects are shown in the
       order in which the server made them; a list shows its deletions first.
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
        resync: float = 0.0,
        pace: Pace | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        metrics: InformerMetrics | None = None,
    ) -> None:
        self.name = name
        self._resync = resync
        self.indexer: Indexer[T] = Indexer(indexes)
        self.lister: Lister[T] = Lister(self.indexer)
        self._clock = clock or SystemClock()
        self._queue: InOrderFIFO[T] = InOrderFIFO(self.indexer, on_synced=self._mark_synced)
        self.intake: Intake[T] = Intake(decode, transform=transform)
        """Makes objects of this cache from bytes."""
        # The revision of what the cache holds, by part of the collection: the empty one is the whole.
        self._revisions: dict[str, int] = {}
        self.reflector: Reflector[T] | NamespacesReflector[T] = reflecting(
            source, self.intake, self._queue, name=name, pace=pace, clock=self._clock, random=random, metrics=metrics
        )
        self._metrics = metrics
        if metrics is not None:
            metrics.informer(name, self)
        self._registrations: dict[Registration[T], asyncio.Task[None] | None] = {}
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
    def has_failed(self) -> bool:
        """Return True if it has ended without being stopped, which only a fault in it can cause."""
        tasks = (self._reflecting, self._processing)
        return not self._stopping.locked() and not self.is_stopped and any(task and task.done() for task in tasks)

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
        """Return the number of notifications that are not in the cache yet."""
        return len(self._queue)

    @property
    def resource_version(self) -> str:
        """Return the resourceVersion that the cache is at; empty before the first list, or if it is no number.

        Of several parts that are at different ones, the lowest: nothing after it is known to be missing.
        """
        return str(min(self._revisions.values())) if self._revisions else ""

    def has_seen(self, namespace: str, revision: int) -> bool:
        """Return True if the cache holds what objects of a namespace were at a revision, or later."""
        return self._revisions.get(self._part_of(namespace), -1) >= revision

    def start(self) -> None:
        """Begin to follow; needs a running event loop, and may be called again."""
        if self.is_started:
            return
        self._reflecting = asyncio.create_task(self.reflector.run(), name=f"{self.name} reflector")
        self._processing = asyncio.create_task(self._process_all(), name=f"{self.name} FIFO")
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
        self, handler: Handler[T], *, name: str = "", resync: float | None = None, buffer: int = BUFFER
    ) -> Registration[T]:
        """Tell a handler of changes, with objects decoded for it alone.

        One that is added late first gets all objects, as initial additions. With `resync`, or that of the informer, it
        is shown everything again each time so many seconds have passed. `buffer` is how far it may fall behind before
        it is shown less.
        """
        return self._add(name or _name_of(handler), decoding(handler), resync, buffer)

    def add_raw_handler(
        self, handler: Handler[Cached[T]], *, name: str = "", resync: float | None = None, buffer: int = BUFFER
    ) -> Registration[T]:
        """The same for a handler that decodes what it needs by itself."""
        return self._add(name or _name_of(handler), undecoded(handler), resync, buffer)

    def _add(self, name: str, deliver: Deliver[T], resync: float | None, buffer: int) -> Registration[T]:
        seconds = self._resync if resync is None else resync
        return self._register(Registration(name, deliver, resync=seconds, buffer=buffer))

    def remove_handler(self, registration: Registration[T]) -> None:
        """Tell a handler nothing more, not even what waits for it. Not for use within its own methods."""
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

    # -- the FIFO ----------------------------------------------------------------------------------------------------

    async def _process_all(self) -> None:
        processed = 0
        while await self._queue.wait():
            while (delta := self._queue.pop()) is not None:
                if delta.object is not None:
                    self._process(delta.type, delta.object)
                else:
                    await self._process_all_objects(delta)
                self._queue.done(delta)
                processed += 1
                if not processed % _SLICE:
                    await asyncio.sleep(0)

    def _mark_synced(self) -> None:
        for registration in self._registrations:
            registration.put_mark()

    def _process(self, kind: DeltaType, obj: Cached[T]) -> None:
        if kind is DeltaType.DELETED:
            self._delete(obj)
        else:
            self._put(obj)
        part, revision = self._part_of(obj.key.namespace), obj.revision
        if revision is not None and revision > self._revisions.get(part, -1):
            self._revisions[part] = revision

    def _put(self, obj: Cached[T]) -> None:
        old = self.indexer.get(obj.key)
        if old is None:
            self.indexer.put(obj)
            self._notify(Notice(Change.ADD, obj, None, not self.has_synced))
        elif not obj.is_same_state(old):
            self.indexer.put(obj)
            for notice in _notices(old, obj, is_initial=False):
                self._notify(notice)

    def _delete(self, obj: Cached[T]) -> None:
        old = self.indexer.get(obj.key)
        if old is None:
            return
        self.indexer.remove(obj.key)
        if old.uid == obj.uid:
            self._notify(Notice(Change.DELETE, obj))
        else:
            # The deletion is of a later object of that name, which no handler was called for.
            self._notify(Notice(Change.DELETE, old, flag=True))

    async def _process_all_objects(self, delta: Delta[T]) -> None:
        """Process a list, a resync or a bookmark."""
        if delta.objects is not None:
            await self._replace(delta.objects)
        elif delta.handlers:
            await self._show_all(delta.handlers)
        for part, version in (delta.versions or {}).items():
            revision = revision_number(version)
            # A list may be of an older revision: of a server that was restored from a copy.
            if revision is not None and (delta.objects is not None or revision > self._revisions.get(part, -1)):
                self._revisions[part] = revision

    async def _replace(self, objects: Mapping[ObjectKey, Cached[T]]) -> None:
        """Put a list in the place of what is cached, and show handlers how the two differ."""
        indexer, is_initial = self.indexer, not self.has_synced
        contents = indexer.empty_contents()
        async for listed in _slices(objects.values()):
            for obj in listed:
                contents.put(obj)
        before = indexer.replace(contents)
        # A handler that is added from now on is shown what is in the cache, which has the list already.
        registrations = tuple(self._registrations)
        async for notices in _slices(_differences(before, objects, is_initial=is_initial)):
            for notice in notices:
                for registration in registrations:
                    registration.put(notice)

    def _notify(self, notice: Notice[T]) -> None:
        for registration in self._registrations:
            registration.put(notice)

    async def _show_all(self, handlers: tuple[Registration[T], ...]) -> None:
        async for shown in _slices(self.indexer.values()):
            for obj in shown:
                for registration in handlers:
                    registration.put(Notice(Change.UPDATE, obj, obj))

    def _part_of(self, namespace: str) -> str:
        return namespace if namespace in self._revisions else ""

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
            for registration in due:
                registration.resync_at = now + registration.resync
            self._queue.resync(due)


def _notices(old: Cached[T] | None, obj: Cached[T], *, is_initial: bool) -> tuple[Notice[T], ...]:
    """The notifications of a state that another one takes the place of; None is no object."""
    if old is None:
        return (Notice(Change.ADD, obj, flag=is_initial),)
    if old.uid == obj.uid:
        return (Notice(Change.UPDATE, obj, old),)
    return Notice(Change.DELETE, old, flag=True), Notice(Change.ADD, obj, flag=is_initial)


def _differences(
    before: Mapping[ObjectKey, Cached[T]], after: Mapping[ObjectKey, Cached[T]], *, is_initial: bool
) -> Iterator[Notice[T]]:
    """The notifications of a list that takes the place of another; deletions, which were missed, come first."""
    for key, old in before.items():
        if key not in after:
            yield Notice(Change.DELETE, old, flag=True)
    for key, obj in after.items():
        known = before.get(key)
        if known is None or not obj.is_same_state(known):
            yield from _notices(known, obj, is_initial=is_initial)


async def _slices(items: Iterable[S]) -> AsyncIterator[list[S]]:
    """Items, some at a time; the event loop gets its turn in between."""
    rest = iter(items)
    while some := list(islice(rest, _SLICE)):
        yield some
        await asyncio.sleep(0)


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
