"""How the collector writes: through the API, and only on what it has judged.

Every change says which object, by uid and revision, was judged. If that is not the one any more, nothing happens and
`Conflict` is raised: whoever asked for the change judges again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapi.controlplane.controllers.inventory import path_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.cache.watchcache import Item
    from kapi.client.client import Client
    from kapi.controlplane.controllers.garbagecollector.metadata import Metadata, Reference
    from kapi.controlplane.controllers.inventory import Inventory

MERGE_PATCH: Final = "application/merge-patch+json"


class Unreachable(Exception):
    """The kind of an object is not served, so nothing can be done to it."""


class Changes:
    """Deletes objects, and changes what they say of their owners and what holds them."""

    def __init__(self, client: Client, inventory: Inventory) -> None:
        self._client = client
        self._inventory = inventory

    async def delete(self, item: Item, metadata: Metadata, policy: str) -> None:
        """Delete an object, with what is to become of its own dependents."""
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": metadata.uid, "resourceVersion": str(item.revision)},
            "propagationPolicy": policy,
        }
        await self._client.rest.send("DELETE", self._path(item), body=options)

    async def set_references(self, item: Item, metadata: Metadata, references: Sequence[Reference]) -> None:
        """Have an object name these owners, and no others."""
        await self._patch(item, metadata, ownerReferences=msgspec.to_builtins(references) or None)

    async def drop_finalizer(self, item: Item, metadata: Metadata, finalizer: str) -> None:
        """Hold an object no longer; with its last finalizer it goes."""
        kept = [name for name in metadata.finalizers or () if name != finalizer]
        await self._patch(item, metadata, finalizers=kept or None)

    async def _patch(self, item: Item, metadata: Metadata, **fields: Any) -> None:
        guarded = {"uid": metadata.uid, "resourceVersion": str(item.revision), **fields}
        await self._client.rest.send("PATCH", self._path(item), body={"metadata": guarded}, content_type=MERGE_PATCH)

    def _path(self, item: Item) -> str:
        """Where to reach an object: in the version it is stored in, if that is served, so that nothing is converted."""
        preferred = self._inventory.resource_at(item.key)
        if preferred is None:
            raise Unreachable(item.key)
        stored = self._inventory.of_kind(item.version, preferred.kind) if item.version else None
        return path_of(stored or preferred, item.namespace, item.name)
