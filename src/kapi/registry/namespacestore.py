"""The store of namespaces, which go in two steps: first marked Terminating, then, once emptied and let go, removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.registry import deletion
from kapi.registry.markeddeletion import TwoStepStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item
    from kapi.registry.deletion import DeleteOptions
    from kapi.registry.strategy import WriteContext


class NamespaceStore(TwoStepStore):
    """Namespaces. One is removed only when spec.finalizers, metadata.finalizers and grace are all spent.

    `populate`, if it is set, is called with the name of a new namespace before its creation is answered. It must not
    raise: the namespace exists.
    """

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.populate: Callable[[str], Awaitable[None]] | None = None
        self.populating: set[str] = set()
        """The names of namespaces that are being created, or exist, and are not populated yet."""

    async def write(self, key: str, obj: Object, expected: int) -> Item:
        """Commit a namespace; a new one has what every namespace has when this returns."""
        if expected or self.populate is None:
            return await super().write(key, obj, expected)
        name = obj["metadata"]["name"]
        self.populating.add(name)
        try:
            item = await super().write(key, obj, expected)
            await self.populate(name)
        finally:
            self.populating.discard(name)
        return item

    def should_delete(self, obj: Object, old: Object) -> bool:
        """As for every object, and the namespace must have been let go of."""
        return not self.is_held(obj) and super().should_delete(obj, old)

    def is_held(self, obj: Object) -> bool:
        """Whether somebody still empties it."""
        return bool(obj.get("spec", {}).get("finalizers"))

    def mark(self, context: WriteContext, obj: Object, options: DeleteOptions) -> None:
        """Terminating; what the propagation policy asks for is written down as a finalizer."""
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
        metadata = obj["metadata"]
        finalizers = deletion.wanted_finalizers(self, metadata.get("finalizers", []), options)
        if finalizers:
            metadata["finalizers"] = finalizers
