"""The in-order FIFO between a reflector and its informer: every notification of the server, one by one, as it came.

As client-go's RealFIFO, which is what its informers use from v1.36 on. A list is one delta, `REPLACED_ALL`, and so is a
resync; a bookmark is a delta without an object. The informer therefore has, at any instant, the state of the collection
at one revision, and can tell which.

The DeltaFIFO of earlier releases gathered the deltas of an object and processed them together, at the turn of the first
of them. Its order holds for each object only: after A, B, A again it brought A's second state before B's, so no
revision described what the cache held. It is not offered here. No I/O.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kapi.api.keys import ObjectKey
    from kapi.informer.cached import Cached

T = TypeVar("T")


class DeltaType(Enum):
    """The type of a delta."""

    ADDED = "Added"
    UPDATED = "Updated"
    DELETED = "Deleted"
    REPLACED_ALL = "ReplacedAll"
    """A new list: these objects, and no others."""
    SYNC_ALL = "SyncAll"
    """Nothing changed; a resync shows all objects to handlers again."""
    BOOKMARK = "Bookmark"
    """Nothing changed up to a later revision."""


class Delta(NamedTuple, Generic[T]):
    """One notification.

    `object` is the state after a change, or the last one of a deleted object; `objects` are those of a list. `versions`
    are the resourceVersions that a list or a bookmark stands for, by the part of the collection: the empty one is the
    whole, others are namespaces. `handlers` are those that a resync is for.
    """

    type: DeltaType
    object: Cached[T] | None = None
    objects: Mapping[ObjectKey, Cached[T]] | None = None
    versions: Mapping[str, str] | None = None
    handlers: tuple[Any, ...] = ()


class Known(Protocol[T]):
    """The objects whose deltas have been processed: an indexer."""

    def get(self, key: ObjectKey) -> Cached[T] | None:
        """One of them."""
        ...


class InOrderFIFO(Generic[T]):
    """Deltas in the order in which they came. One consumer calls `pop` and, when it has processed a delta, `done`.

    Promises: nothing is merged, dropped or moved, deletions of unknown objects included. `has_synced` turns true once,
    when the first list (or the first change, should that come before) has been processed; `on_synced` is then called.
    """

    def __init__(self, known: Known[T], *, on_synced: Callable[[], None] = lambda: None) -> None:
        self._known = known
        self._on_synced = on_synced
        self._deltas: deque[Delta[T]] = deque()
        # The last delta of each object that is queued or being processed, and the last list: what `newest` needs.
        self._latest: dict[ObjectKey, Delta[T]] = {}
        self._list: Delta[T] | None = None
        self._first_list: Delta[T] | None = None
        self._is_populated = False
        self._is_closed = False
        self._wake = asyncio.Event()
        self._synced = asyncio.Event()

    def __len__(self) -> int:
        return len(self._deltas)

    @property
    def has_synced(self) -> bool:
        """Return True if the first list has been processed."""
        return self._synced.is_set()

    async def wait_for_sync(self) -> None:
        """Wait until the first list has been processed."""
        await self._synced.wait()

    def newest(self, key: ObjectKey) -> Cached[T] | None:
        """The newest state of an object, processed or not; None for one that is unknown or deleted."""
        delta = self._latest.get(key)
        if delta is not None:
            return None if delta.type is DeltaType.DELETED else delta.object
        if self._list is not None and self._list.objects is not None:
            return self._list.objects.get(key)
        return self._known.get(key)

    def add(self, obj: Cached[T]) -> None:
        """Add a new object."""
        self._change(Delta(DeltaType.ADDED, obj), obj.key)

    def update(self, obj: Cached[T]) -> None:
        """Put a new state of an object."""
        self._change(Delta(DeltaType.UPDATED, obj), obj.key)

    def delete(self, obj: Cached[T]) -> None:
        """Remove an object; `obj` is its last state."""
        self._change(Delta(DeltaType.DELETED, obj), obj.key)

    def replace(self, objects: Iterable[Cached[T]], version: str) -> None:
        """Replace the collection by what it was at a revision."""
        self.replace_parts(objects, {"": version})

    def replace_parts(self, objects: Iterable[Cached[T]], versions: Mapping[str, str]) -> None:
        """The same for a collection of several parts, some of which are at the revisions named."""
        delta = Delta(DeltaType.REPLACED_ALL, objects={obj.key: obj for obj in objects}, versions=versions)
        self._latest.clear()
        self._list = delta
        if not self._is_populated:
            self._is_populated = True
            self._first_list = delta
        self._queue(delta)

    def bookmark(self, version: str) -> None:
        """Note that the collection is unchanged up to a revision."""
        self.bookmark_part("", version)

    def bookmark_part(self, part: str, version: str) -> None:
        """Note that one part of the collection is unchanged up to a revision."""
        self._queue(Delta(DeltaType.BOOKMARK, versions={part: version}))

    def resync(self, handlers: Iterable[Any]) -> None:
        """Show all objects to some handlers again."""
        self._queue(Delta(DeltaType.SYNC_ALL, handlers=tuple(handlers)))

    def pop(self) -> Delta[T] | None:
        """Take the first delta; None when there is none. The next is taken after `done` of this one."""
        return self._deltas.popleft() if self._deltas else None

    def done(self, delta: Delta[T]) -> None:
        """Note that a delta has been processed."""
        if delta.object is not None:
            if self._latest.get(delta.object.key) is delta:
                del self._latest[delta.object.key]
        elif delta is self._list:
            self._list = None
        if delta is self._first_list:
            self._first_list = None
            self._mark_synced()

    async def wait(self) -> bool:
        """Wait until there is something to pop; False when the queue is closed and empty."""
        if not self._deltas and not self._is_closed:
            await self._wake.wait()
        self._wake.clear()
        return bool(self._deltas) or not self._is_closed

    def close(self) -> None:
        """Accept no more deltas; queued ones can still be popped."""
        self._is_closed = True
        self._wake.set()

    def _change(self, delta: Delta[T], key: ObjectKey) -> None:
        if not self._is_populated:
            self._is_populated = True
            self._mark_synced()
        self._latest[key] = delta
        self._queue(delta)

    def _queue(self, delta: Delta[T]) -> None:
        self._deltas.append(delta)
        self._wake.set()

    def _mark_synced(self) -> None:
        self._synced.set()
        self._on_synced()
