"""Storage objects in use: new claims, volumes and volume classes get the finalizer that keeps them while they are used.

Controllers remove it again, see `controlplane.controllers.volumeprotection`. Nothing is read and nothing is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.errors import GroupResource

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.server.admission.chain import Operation

FINALIZERS: Final = {
    GroupResource("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    GroupResource("", "persistentvolumes"): "kubernetes.io/pv-protection",
    GroupResource("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


class InUseProtection:
    """Puts the finalizer on. Pure: it needs nothing but the object."""

    def handles(self, operation: Operation) -> bool:
        """Creations of what may be in use."""
        return (
            operation.kind == "CREATE" and not operation.subresource and operation.resource.group_resource in FINALIZERS
        )

    async def mutate(self, operation: Operation, obj: Object | None, old: Object | None) -> None:
        """Add the finalizer, unless the author has."""
        if obj is None:
            return
        finalizer = FINALIZERS[operation.resource.group_resource]
        finalizers = obj["metadata"].get("finalizers") or []
        if finalizer not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, finalizer]
