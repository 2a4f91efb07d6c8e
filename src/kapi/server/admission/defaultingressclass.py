"""DefaultIngressClass: an Ingress without a class gets the default one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.meta import GroupResource
from kapi.registry.request import CREATE

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.registry.strategy import Lookup

INGRESSES: Final = GroupResource("networking.k8s.io", "ingresses")
CLASSES: Final = "ingressclasses.networking.k8s.io"
CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"
DEFAULT_ANNOTATION: Final = "ingressclass.kubernetes.io/is-default-class"


class DefaultIngressClass:
    """Sets the class of new Ingresses that have none; of several default classes the newest."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for new Ingresses."""
        return operation == CREATE and not subresource and resource.group_resource == INGRESSES

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Set the class if neither the field nor the annotation that came before it is set."""
        if obj is None:
            return
        spec = obj.get("spec") or {}
        annotations = obj["metadata"].get("annotations") or {}
        if spec.get("ingressClassName") is not None or CLASS_ANNOTATION in annotations:
            return
        defaults = [
            one["metadata"]
            for one in self._lookup.list(CLASSES)
            if (one["metadata"].get("annotations") or {}).get(DEFAULT_ANNOTATION) == "true"
        ]
        if defaults:
            newest = max(metadata["creationTimestamp"] for metadata in defaults)
            name = min(metadata["name"] for metadata in defaults if metadata["creationTimestamp"] == newest)
            obj["spec"] = {**spec, "ingressClassName": name}
