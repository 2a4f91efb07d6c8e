"""A snapshot: the items of one moment, while they are written to a client that may be slow.

A snapshot refers to items and copies nothing, so it costs next to nothing while the cache has the same items. An item
that is replaced or deleted meanwhile stays in memory for the snapshot. Such bytes are counted, so that the client can
be charged for them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from kapi.cache.item import Item
    from kapi.cache.watchcache import WatchCache

I = TypeVar("I", bound="Item")  # noqa: E741


class Snapshot(Generic[I]):
    """The items of the cache at a revision, in the order of their keys.

    It follows the cache between `__enter__` and `__exit__`. Items that are of no cache cost nothing.
    """

    __slots__ = ("_cache", "_revision", "grown", "held", "items")

    def __init__(self, cache: WatchCache | None, items: Sequence[I], revision: int) -> None:
        self.items = items
        self._revision = revision
        self.held = 0
        """Bytes of items that the cache no longer has."""
        self.grown: Callable[[], None] | None = None
        """Called when `held` has grown because the cache changed."""
        self._cache = cache

    def __enter__(self) -> Self:
        if self._cache is None:
            return self
        if self._cache.last_change > self._revision:
            get = self._cache.get
            self.held = sum([len(item.body) for item in self.items if get(item.key) is not item])
        self._cache.snapshots[self] = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.grown = None  # a reference cycle, which would keep the buffers of a closed connection
        if self._cache is not None:
            self._cache.snapshots.pop(self, None)

    def replaced(self, item: Item) -> None:
        """The cache has another state of an item, or none."""
        index = bisect_left(self.items, item.key, key=_key)
        if index < len(self.items) and self.items[index] is item:
            self.held += len(item.body)
            if self.grown is not None:
                self.grown()


def _key(item: Item) -> str:
    return item.key
