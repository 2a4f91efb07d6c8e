"""The writes of the garbage collector: through the API, with the uid and revision of the dependent as preconditions.

If the object is not in the state that was read any more, nothing is written and `Conflict` is raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.cache.watchcache import Item
    from kapi.client.dynamic import ResourceClient
    from kapi.controlplane.controllers.garbagecollector.metadata import Metadata, Reference
    from kapi.controlplane.controllers.view import ObjectView
    from kapi.controlplane.controllers.writer import Writer


class KindNotServed(Exception):
    """The kind of an object is not served, so that it cannot be written."""


class Operations:
    """Deletes objects, and patches their owner references and finalizers."""

    def __init__(self, writer: Writer, view: ObjectView) -> None:
        self._writer = writer
        self._view = view

    async def delete(self, item: Item, metadata: Metadata, propagation: str) -> None:
        """Delete an object with a propagation policy for its own dependents."""
        await self._client(item).delete(
            item.name, propagation=propagation, uid=metadata.uid, resource_version=str(item.revision)
        )

    async def set_references(self, item: Item, metadata: Metadata, references: Sequence[Reference]) -> None:
        """Replace the owner references of an object."""
        await self._patch(item, metadata, ownerReferences=msgspec.to_builtins(references) or None)

    async def remove_finalizer(self, item: Item, metadata: Metadata, finalizer: str) -> None:
        """Remove a finalizer of an object; without its last one, an object that is being deleted is removed."""
        kept = [name for name in metadata.finalizers or () if name != finalizer]
        await self._patch(item, metadata, finalizers=kept or None)

    async def _patch(self, item: Item, metadata: Metadata, **fields: Any) -> None:
        preconditions = {"uid": metadata.uid, "resourceVersion": str(item.revision)}
        await self._client(item).patch(item.name, {"metadata": {**preconditions, **fields}})

    def _client(self, item: Item) -> ResourceClient:
        """The client of an object in its stored version, if that is served, so that nothing is converted."""
        preferred = self._view.resource_at(item.key)
        if preferred is None:
            raise KindNotServed(item.key)
        stored = self._view.of_kind(item.version, preferred.kind) if item.version else None
        return self._writer.resource(stored or preferred, item.namespace)
