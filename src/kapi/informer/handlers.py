"""Event handlers of an informer, and the queue of each.

Every handler has a queue and a task of its own: a slow one delays only itself, and one that raises does not affect the
others. The queue is bounded without dropping objects: past its size, the notifications of one object are merged into
one, from the state the handler saw last to the current one.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.keys import ObjectKey
    from kapi.informer.cached import Cached

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

BUFFER: Final = 1024
"""The number of queued notifications of a handler above which they are merged."""

_SLICE: Final = 64
"""Notifications for a handler that never waits, before the event loop gets its turn."""

_log = logging.getLogger("kapi.informer")

Result = Awaitable[Any] | None
"""A handler's methods may be `async` or not."""


class Handler(Protocol[T_contra]):
    """Hears of changes, one at a time.

    For each object the states it is shown are in the order in which the object had them; some may be skipped. When it
    is called, the cache is at least as new as what it is shown.
    """

    def on_add(self, obj: T_contra, *, initial: bool) -> Result:
        """An object is there; `initial` when it was there before the informer, or before the handler."""
        ...

    def on_update(self, old: T_contra, new: T_contra) -> Result:
        """An object has changed, or is shown again by a resync: then both states have one resourceVersion."""
        ...

    def on_delete(self, obj: T_contra, *, stale: bool) -> Result:
        """An object is gone; `obj` is its last state, or when `stale` the last one that we happened to see."""
        ...


class Handlers(Generic[T]):
    """A handler made of functions; those that are not given are not missed."""

    def __init__(
        self,
        *,
        on_add: Callable[[T], Result] | None = None,
        on_update: Callable[[T, T], Result] | None = None,
        on_delete: Callable[[T], Result] | None = None,
    ) -> None:
        self._on_add = on_add
        self._on_update = on_update
        self._on_delete = on_delete

    def on_add(self, obj: T, *, initial: bool) -> Result:
        """See `Handler`."""
        return self._on_add(obj) if self._on_add else None

    def on_update(self, old: T, new: T) -> Result:
        """See `Handler`."""
        return self._on_update(old, new) if self._on_update else None

    def on_delete(self, obj: T, *, stale: bool) -> Result:
        """See `Handler`."""
        return self._on_delete(obj) if self._on_delete else None


class Change(Enum):
    """The type of a notification."""

    ADD = "add"
    UPDATE = "update"
    DELETE = "delete"


class Notice(NamedTuple, Generic[T]):
    """One notification. `old` is set for an update; `flag` is `initial` of an add and `stale` of a delete."""

    change: Change
    obj: Cached[T]
    old: Cached[T] | None = None
    flag: bool = False


Deliver = Callable[[Notice[T]], Result]


def decoding(handler: Handler[T]) -> Deliver[T]:
    """Shows a handler objects."""

    def deliver(notice: Notice[T]) -> Result:
        if notice.change is Change.ADD:
            return handler.on_add(notice.obj.object(), initial=notice.flag)
        if notice.change is Change.DELETE:
            return handler.on_delete(notice.obj.object(), stale=notice.flag)
        assert notice.old is not None
        return handler.on_update(notice.old.object(), notice.obj.object())

    return deliver


def undecoded(handler: Handler[Cached[T]]) -> Deliver[T]:
    """Shows a handler what is cached, and leaves decoding to it."""

    def deliver(notice: Notice[T]) -> Result:
        if notice.change is Change.ADD:
            return handler.on_add(notice.obj, initial=notice.flag)
        if notice.change is Change.DELETE:
            return handler.on_delete(notice.obj, stale=notice.flag)
        assert notice.old is not None
        return handler.on_update(notice.old, notice.obj)

    return deliver


def fold(notices: Iterable[Notice[T] | None]) -> list[Notice[T] | None]:
    """Merge notifications: at most a deletion and an addition for each object remain.

    What is left of an object stands where its first notification stood, so that nothing comes later than it would have.
    An object that came and went is not mentioned. None is the mark of the first list's end, and keeps its place.
    """
    kept: list[Notice[T] | None] = []
    # Where in `kept` the notices of an object are: of its deletion, and of what came after that.
    places: dict[ObjectKey, list[int]] = {}
    removed: set[int] = set()
    for notice in notices:
        if notice is None:
            kept.append(None)
            continue
        mine = places.setdefault(notice.obj.key, [])
        last = kept[mine[-1]] if mine else None
        if last is None or last.change is Change.DELETE:
            mine.append(len(kept))
            kept.append(notice)
        elif notice.change is not Change.DELETE:
            kept[mine[-1]] = last._replace(obj=notice.obj)
        elif last.change is Change.UPDATE:
            kept[mine[-1]] = notice
        else:
            removed.add(mine.pop())
    return [notice for place, notice in enumerate(kept) if place not in removed]


class Registration(Generic[T]):
    """A handler's place in an informer.

    Promises: notifications are delivered one after the other, each to its end, in the order of their making. What waits
    is at most `buffer` notifications or four for each object, whichever is more. What the handler raises is logged, and
    the next notification is delivered.
    """

    def __init__(self, name: str, deliver: Deliver[T], *, resync: float = 0.0, buffer: int = BUFFER) -> None:
        self.name = name
        self.resync = resync
        """Seconds between two showings of everything; 0 for never."""
        self.resync_at = 0.0
        self._deliver = deliver
        self._buffer = buffer
        self._fold_at = buffer
        self._queue: deque[Notice[T] | None] = deque()
        self._wake = asyncio.Event()
        self._synced = asyncio.Event()
        self._is_closed = False

    @property
    def pending(self) -> int:
        """Return the number of queued notifications."""
        return len(self._queue)

    @property
    def has_synced(self) -> bool:
        """Return True if the handler was called for all objects that existed when it, or the informer, started."""
        return self._synced.is_set()

    async def wait_for_sync(self) -> None:
        """Wait until the handler was called for all objects that existed when it started."""
        await self._synced.wait()

    def put(self, notice: Notice[T]) -> None:
        """Queue a notification."""
        self._queue.append(notice)
        if len(self._queue) > self._fold_at:
            self._queue = deque(fold(self._queue))
            # Folding is worth its cost again when as much has come on top of what is left.
            self._fold_at = max(self._buffer, 2 * len(self._queue))
        self._wake.set()

    def put_mark(self) -> None:
        """Queue the mark after which the handler counts as synced."""
        self._queue.append(None)
        self._wake.set()

    def close(self) -> None:
        """Let `run` end once everything that waits has been delivered."""
        self._is_closed = True
        self._wake.set()

    async def run(self) -> None:
        """Deliver until closed."""
        delivered = 0
        while True:
            while not self._queue:
                self._fold_at = self._buffer
                if self._is_closed:
                    return
                self._wake.clear()
                await self._wake.wait()
            notice = self._queue.popleft()
            if notice is None:
                self._synced.set()
                continue
            try:
                result = self._deliver(notice)
                if result is not None and inspect.isawaitable(result):
                    await result
            except Exception:
                _log.exception("handler %s failed on the %s of %s", self.name, notice.change.value, notice.obj.key)
            delivered += 1
            if delivered % _SLICE == 0:
                await asyncio.sleep(0)
