"""The store of definitions, which go in two steps: first marked, then, once their instances are gone, removed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from kapi.registry.kinds.apiextensions.conditions import begin_deletion
from kapi.registry.markeddeletion import MarkedDeletionStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item
    from kapi.registry.custom.store import Gate
    from kapi.registry.deletion import DeleteOptions
    from kapi.registry.encoding import HubObject
    from kapi.registry.request import Write
    from kapi.registry.store import ReadyItem
    from kapi.storage.interface import Operation

T = TypeVar("T")


class DefinitionStore(MarkedDeletionStore):
    """Definitions. Deleting one only marks it; the keeper empties it and lets it go.

    Names are given out in the write itself, so two writes never overlap: neither would know of the other's names. While
    one is being written, its objects wait: `gate_of` has the gate of a definition by its name.
    """

    gate_of: Callable[[str], Gate]

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.lock = asyncio.Lock()

    def mark(self, write: Write, obj: Object, options: DeleteOptions) -> None:
        """The finalizer that keeps it until its instances are gone, and a word about what comes."""
        begin_deletion(obj, write.now)

    async def put(self, key: str, obj: HubObject, expected: int, companions: Sequence[Operation] = ()) -> ReadyItem:
        """Commit a definition while none of its objects is."""
        return await self._alone(obj["metadata"]["name"], super().put(key, obj, expected, companions))

    async def remove(self, item: Item, companions: Sequence[Operation] = ()) -> int:
        """Remove a definition while none of its objects is written."""
        return await self._alone(item.name, super().remove(item, companions))

    async def _alone(self, name: str, work: Coroutine[Any, Any, T]) -> T:
        gate = self.gate_of(name)
        gate.shut()

        def done(task: asyncio.Task[T]) -> None:
            gate.open()
            if not task.cancelled():
                task.exception()  # whoever waited for it has been told

        # A request may be cancelled while its write is on the way to disk; the gate follows the write.
        task = asyncio.ensure_future(work)
        task.add_done_callback(done)
        return await asyncio.shield(task)
