"""The store of definitions, which go in two steps: first marked, then, once their instances are gone, removed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from kapi.api.errors import Conflict
from kapi.api.meta import format_time
from kapi.registry import deletion
from kapi.registry.kinds.extension.conditions import begin_deletion
from kapi.registry.outcome import Written
from kapi.registry.store import Store
from kapi.storage.interface import RevisionMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kapi.api.meta import Object
    from kapi.registry.custom.store import Gate
    from kapi.registry.deletion import DeleteOptions
    from kapi.registry.outcome import Admit
    from kapi.registry.strategy import WriteContext
    from kapi.storage.watchcache import Item

T = TypeVar("T")


class DefinitionStore(Store):
    """Definitions. Deleting one only marks it; the keeper empties it and lets it go.

    Names are given out in the write itself, so two writes never overlap: neither would know of the other's names. While
    one is being written, its objects wait: `gate_of` has the gate of a definition by its name.
    """

    gate_of: Callable[[str], Gate]

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._lock = asyncio.Lock()

    async def create(self, context: WriteContext, obj: Object, admit: Admit) -> Written:
        """Store a new definition, one at a time."""
        async with self._lock:
            return await super().create(context, obj, admit)

    async def update(self, *args: Any, **options: Any) -> Written:
        """Change a definition, one at a time."""
        async with self._lock:
            return await super().update(*args, **options)

    async def delete(
        self, context: WriteContext, namespace: str, name: str, options: DeleteOptions, admit: Admit
    ) -> Written:
        """Mark the definition the first time; afterwards as every object."""
        while True:
            item = self.get(namespace, name)
            obj = self.decode(item)
            metadata = obj["metadata"]
            self._check(name, "UID", options.uid, metadata["uid"])
            self._check(name, "ResourceVersion", options.resource_version, metadata["resourceVersion"])
            if "deletionTimestamp" in metadata:
                return await deletion.delete(self, context, namespace, name, options, admit)
            await admit(None, obj)
            metadata["deletionTimestamp"] = format_time(context.now)
            begin_deletion(obj, context.now)
            if context.dry_run:
                return Written(self.preview(item.key, obj, item))
            try:
                return Written(await self.write(item.key, obj, item.revision))
            except RevisionMismatch:
                continue

    async def write(self, key: str, obj: Object, expected: int) -> Item:
        """Commit a definition while none of its objects is."""
        return await self._alone(obj["metadata"]["name"], super().write(key, obj, expected))

    async def remove(self, item: Item) -> int:
        """Remove a definition while none of its objects is written."""
        return await self._alone(item.name, super().remove(item))

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

    def _check(self, name: str, what: str, wanted: str | None, actual: str) -> None:
        if wanted is not None and wanted != actual:
            why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {actual}"
            raise Conflict.of(self.resource, name, why)
