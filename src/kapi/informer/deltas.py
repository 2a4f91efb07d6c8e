"""The delta FIFO between a reflector and its informer: per object, its changes since it was last processed.

As client-go's DeltaFIFO. Objects come out in the order in which they first went in; each comes with all its deltas, in
order, and is processed before the next one comes out. A list is put in as `REPLACED` deltas, plus `DELETED` ones for
objects that are known but not in it. No I/O.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kapi.api.keys import ObjectKey
    from kapi.informer.cached import Cached

T = TypeVar("T")


class DeltaType(Enum):
    """The type of a delta."""

    ADDED = "Added"
    UPDATED = "Updated"
    DELETED = "Deleted"
    REPLACED = "Replaced"
    """It is in a new list; it may be new, changed or as it was."""
    SYNC = "Sync"
    """Nothing; a resync shows the object to handlers again."""


class Delta(NamedTuple, Generic[T]):
    """A change, and the object after it; of a deleted one the last state.

    `stale` marks a tombstone: the deletion itself was missed, and the state is the last one we knew, not necessarily
    the last one there was.
    """

    type: DeltaType
    object: Cached[T]
    stale: bool = False


class Known(Protocol[T]):
    """The objects whose deltas have been processed: an indexer."""

    def get(self, key: ObjectKey) -> Cached[T] | None:
        """One of them."""
        ...

    def keys(self) -> Iterable[ObjectKey]:
        """All of their keys."""
        ...


class DeltaFIFO(Generic[T]):
    """Deltas by object, first in first out.

    Promises: an object is queued at most once, with at least one delta. Of two deletions in a row one is kept, the one
    that knows the final state. A deletion of an object that is neither queued nor known is dropped. A resync adds
    nothing to an object that has deltas. `has_synced` turns true once, when everything of the first list (or the first
    change, should that come before) has been popped and processed; `on_synced` is then called.
    """

    def __init__(self, known: Known[T], *, on_synced: Callable[[], None] = lambda: None) -> None:
        self._known = known
        self._on_synced = on_synced
        self._items: dict[ObjectKey, list[Delta[T]]] = {}
        # The keys of `_items` in the order of arrival. A dictionary has an order too, but taking the first of one again
        # and again costs more each time.
        self._order: deque[ObjectKey] = deque()
        self._is_populated = False
        self._initial = 0
        self._is_closed = False
        self._wake = asyncio.Event()
        self._synced = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def has_synced(self) -> bool:
        """Return True if the first list has been worked through."""
        return self._synced.is_set()

    async def wait_for_sync(self) -> None:
        """Wait until the first list has been worked through."""
        await self._synced.wait()

    def newest(self, key: ObjectKey) -> Cached[T] | None:
        """The newest state of an object, processed or not; None for one that is unknown or deleted."""
        deltas = self._items.get(key)
        if deltas is None:
            return self._known.get(key)
        return None if deltas[-1].type is DeltaType.DELETED else deltas[-1].object

    def add(self, obj: Cached[T]) -> None:
        """Add a new object."""
        self._populate()
        self._queue(Delta(DeltaType.ADDED, obj))

    def update(self, obj: Cached[T]) -> None:
        """Put a new state of an object."""
        self._populate()
        self._queue(Delta(DeltaType.UPDATED, obj))

    def delete(self, obj: Cached[T]) -> None:
        """Remove an object; `obj` is its last state."""
        self._populate()
        if obj.key in self._items or self._known.get(obj.key) is not None:
            self._queue(Delta(DeltaType.DELETED, obj))

    def replace(self, objects: Iterable[Cached[T]]) -> None:
        """Replace the collection; the deletion of other known objects was missed."""
        listed: set[ObjectKey] = set()
        for obj in objects:
            listed.add(obj.key)
            self._queue(Delta(DeltaType.REPLACED, obj))
        missing = [key for key in self._items if key not in listed]
        missing += [key for key in self._known.keys() if key not in listed and key not in self._items]  # noqa: SIM118
        for key in missing:
            self._queue_missed_deletion(key)
        if not self._is_populated:
            self._is_populated = True
            self._initial = len(self._items)
            self._check_synced()
            # `wait_for_sync` waits for the end of the first list even if it is empty.
            self._wake.set()

    def resync(self) -> None:
        """Queue everything known that has no deltas, as `SYNC`."""
        for key in list(self._known.keys()):
            obj = self._known.get(key)
            if obj is not None and key not in self._items:
                self._queue(Delta(DeltaType.SYNC, obj))

    def pop_ready(self, process: Callable[[list[Delta[T]], bool], None]) -> bool:
        """Process the first object in the queue; False when there is none.

        `process` also gets whether the object belongs to the first list. The object has left the queue before, so
        what `process` raises does not bring it back.
        """
        if not self._order:
            return False
        deltas = self._items.pop(self._order.popleft())
        is_initial = not self.has_synced
        try:
            process(deltas, is_initial)
        finally:
            if self._initial:
                self._initial -= 1
                self._check_synced()
        return True

    async def wait(self) -> bool:
        """Wait until there is something to pop or the first list is over; False when the queue is closed and empty."""
        if not self._items and not self._is_closed:
            await self._wake.wait()
        self._wake.clear()
        return bool(self._items) or not self._is_closed

    def close(self) -> None:
        """Accept no more deltas; queued ones can still be popped."""
        self._is_closed = True
        self._wake.set()

    def _queue(self, delta: Delta[T]) -> None:
        key = delta.object.key
        deltas = self._items.get(key)
        if deltas is None:
            self._items[key] = [delta]
            self._order.append(key)
            self._wake.set()
        elif delta.type is deltas[-1].type is DeltaType.DELETED:
            if deltas[-1].stale:
                deltas[-1] = delta
        else:
            deltas.append(delta)

    def _queue_missed_deletion(self, key: ObjectKey) -> None:
        """Queue a deletion whose event was missed."""
        deltas = self._items.get(key)
        last = deltas[-1].object if deltas else self._known.get(key)
        if last is not None:
            self._queue(Delta(DeltaType.DELETED, last, stale=True))

    def _populate(self) -> None:
        if not self._is_populated:
            self._is_populated = True
            self._check_synced()

    def _check_synced(self) -> None:
        if self._is_populated and self._initial == 0 and not self.has_synced:
            self._synced.set()
            self._on_synced()
