"""Storage object in use protection: new claims, volumes and volume classes get the finalizer that protects them.

Controllers remove it again, see `controlplane.controllers.volumeprotection`. Nothing is read and nothing is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.meta import GroupResource
from kapi.registry.request import CREATE

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

FINALIZERS: Final = {
    GroupResource("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    GroupResource("", "persistentvolumes"): "kubernetes.io/pv-protection",
    GroupResource("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


class InUseProtection:
    """Adds the finalizer."""

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for the creation of an object that may be in use."""
        return operation == CREATE and not subresource and resource.group_resource in FINALIZERS

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Add the finalizer if it is not there."""
        if obj is None:
            return
        finalizer = FINALIZERS[write.resource.group_resource]
        finalizers = obj["metadata"].get("finalizers") or []
        if finalizer not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, finalizer]
