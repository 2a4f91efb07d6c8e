"""The objects of one resource that limit a namespace: its ResourceQuotas, or its LimitRanges.

They are found in the watch cache, which is sorted by namespace, and read once for each revision. While there are none
in the whole cluster, a plug-in need not be called at all: the chain is told to ask again whenever one is created or
deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from kapi.api.limits import OFF_LOOP_BYTES
from kapi.base.offloop import off_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kapi.cache.watchcache import Event, Item
    from kapi.registry.store import Store

T = TypeVar("T")


class NamespaceObjects(Generic[T]):
    """The objects of a resource by namespace, as `read` makes them of items."""

    def __init__(self, store: Store, read: Callable[[Item], T], forget: Callable[[], None]) -> None:
        self._cache = store.cache
        self._prefix = store.prefix
        self._read = read
        self._forget = forget
        self._known: dict[str, tuple[Item, T]] = {}
        self._cache.listen(self._take)

    def __bool__(self) -> bool:
        """Return True if there are any, in whatever namespace."""
        return len(self._cache) > 0

    def items(self, namespace: str) -> list[Item]:
        """The items of a namespace, in the order of their names."""
        return self._cache.items(f"{self._prefix}{namespace}/") if len(self._cache) else []

    def of(self, namespace: str) -> list[T]:
        """The objects of a namespace, in the order of their names."""
        return [self.read(item) for item in self.items(namespace)]

    async def ready(self, namespace: str) -> list[T]:
        """The objects of a namespace; large ones are read off the event loop."""
        for item in self.items(namespace):
            known = self._known.get(item.key)
            if len(item.body) >= OFF_LOOP_BYTES and (known is None or known[0] is not item):
                self._known[item.key] = (item, await off_loop(self._read, item))
        return self.of(namespace)

    def read(self, item: Item) -> T:
        """The object of an item."""
        known = self._known.get(item.key)
        if known is not None and known[0] is item:
            return known[1]
        value = self._read(item)
        self._known[item.key] = (item, value)
        return value

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.deleted:
                self._known.pop(event.item.key, None)
        if any(event.deleted or event.previous is None for event in events):
            self._forget()
