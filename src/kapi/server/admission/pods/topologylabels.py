"""PodTopologyLabels: a Pod on a node has the labels that say in which zone and region the node is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.meta import GroupResource
from kapi.registry.request import CREATE

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.registry.store import Store

PODS: Final = GroupResource("", "pods")
LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels:
    """Copies the labels of the node to a Pod that is created on it, and to the Binding that assigns a Pod to it.

    The labels of a Binding are copied to the Pod when it is bound.
    """

    def __init__(self, nodes: Store) -> None:
        self._nodes = nodes

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for new Pods and their bindings."""
        return operation == CREATE and subresource in ("", "binding") and resource.group_resource == PODS

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Set the labels, over those of the client."""
        if obj is None:
            return
        if not write.subresource:
            name = (obj.get("spec") or {}).get("nodeName")
        else:
            target = obj.get("target") or {}
            name = target.get("name") if target.get("kind") == "Node" else None
        node = self._nodes.find("", name) if name else None
        if node is None:
            return
        found = {key: node.labels[key] for key in LABELS if node.labels and key in node.labels}
        if found:
            obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), **found}
