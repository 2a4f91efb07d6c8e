"""TaintNodesByCondition: a new node is tainted as not ready until a controller has seen that it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.meta import GroupResource
from kapi.registry.request import CREATE

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

NODES: Final = GroupResource("", "nodes")
NOT_READY: Final = "node.kubernetes.io/not-ready"
NO_SCHEDULE: Final = "NoSchedule"


class TaintNodesByCondition:
    """Adds the taint to new nodes."""

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for new nodes."""
        return operation == CREATE and not subresource and resource.group_resource == NODES

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Add the taint if it is not there."""
        if obj is None:
            return
        spec = obj.get("spec") or {}
        taints = spec.get("taints") or []
        if not any(one.get("key") == NOT_READY and one.get("effect") == NO_SCHEDULE for one in taints):
            obj["spec"] = {**spec, "taints": [*taints, {"key": NOT_READY, "effect": NO_SCHEDULE}]}
