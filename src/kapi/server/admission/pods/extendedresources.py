"""ExtendedResourceToleration: a Pod that asks for a device tolerates the taint of nodes that are kept for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.meta import GroupResource
from kapi.registry.kinds.core.pod.resources import is_extended
from kapi.registry.request import CREATE, UPDATE
from kapi.server.admission.pods.tolerations import EXISTS, NO_SCHEDULE, add_or_replace

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

PODS: Final = GroupResource("", "pods")


class ExtendedResourceToleration:
    """Adds a toleration for each extended resource that containers request."""

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for Pods that are created or updated."""
        return operation in (CREATE, UPDATE) and not subresource and resource.group_resource == PODS

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Add the tolerations, in the order of the resources."""
        spec: Object = (obj or {}).get("spec") or {}
        requested = {
            name
            for sort in ("containers", "initContainers")
            for container in spec.get(sort) or ()
            for name in (container.get("resources") or {}).get("requests") or ()
            if is_extended(name)
        }
        if requested:
            added = [{"key": name, "operator": EXISTS, "effect": NO_SCHEDULE} for name in sorted(requested)]
            spec["tolerations"] = add_or_replace(spec.get("tolerations") or (), added)
