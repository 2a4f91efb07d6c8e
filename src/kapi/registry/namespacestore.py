"""The store of namespaces: the first deletion sets the phase Terminating, a later one deletes the emptied namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.registry import deletion
from kapi.registry.markeddeletion import MarkedDeletionStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kapi.api.meta import Object
    from kapi.registry.deletion import DeleteOptions
    from kapi.registry.encoding import HubObject
    from kapi.registry.request import Write
    from kapi.registry.store import ReadyItem
    from kapi.storage.interface import Operation


class NamespaceStore(MarkedDeletionStore):
    """The namespaces. One is deleted only when both spec.finalizers and metadata.finalizers are empty.

    `populate`, if it is set, is called with the name of a new namespace before its creation is answered. It must not
    raise: the namespace exists.
    """

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.populate: Callable[[str], Awaitable[None]] | None = None
        self.populating: set[str] = set()
        """The names of namespaces that are being created, or exist, and are not populated yet."""

    async def put(self, key: str, obj: HubObject, expected: int, companions: Sequence[Operation] = ()) -> ReadyItem:
        """Commit a namespace; a new one has what every namespace has when this returns."""
        if expected or self.populate is None:
            return await super().put(key, obj, expected, companions)
        name = obj["metadata"]["name"]
        self.populating.add(name)
        try:
            item = await super().put(key, obj, expected, companions)
            await self.populate(name)
        finally:
            self.populating.discard(name)
        return item

    def should_delete(self, obj: Object, old: Object) -> bool:
        """Return True if this update ends the deletion: spec.finalizers must be empty too."""
        return not self.is_held(obj) and super().should_delete(obj, old)

    def is_held(self, obj: Object) -> bool:
        """Return True while spec.finalizers say that the namespace's content is being deleted."""
        return bool(obj.get("spec", {}).get("finalizers"))

    def mark(self, write: Write, obj: Object, options: DeleteOptions) -> None:
        """Set the phase to Terminating, and record the propagation policy as a finalizer."""
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
        metadata = obj["metadata"]
        finalizers = deletion.wanted_finalizers(self.strategy, metadata.get("finalizers", []), options)
        if finalizers:
            metadata["finalizers"] = finalizers
