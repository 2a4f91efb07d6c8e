"""LimitPodHardAntiAffinityTopology: required anti-affinity is between nodes, not between zones or regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.errors import Forbidden
from kapi.api.meta import GroupResource
from kapi.registry.request import CREATE, UPDATE

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

PODS: Final = GroupResource("", "pods")
HOST_NAME: Final = "kubernetes.io/hostname"


class LimitPodHardAntiAffinityTopology:
    """Refuses Pods whose required anti-affinity has another topology key than the name of the host."""

    reads_only = True

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for Pods that are created or updated."""
        return operation in (CREATE, UPDATE) and not subresource and resource.group_resource == PODS

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Look at the required terms."""
        affinity = ((obj or {}).get("spec") or {}).get("affinity") or {}
        anti_affinity = affinity.get("podAntiAffinity") or {}
        for term in anti_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            key = term.get("topologyKey", "")
            if key != HOST_NAME:
                why = f"has TopologyKey {key} but only key {HOST_NAME} is allowed"
                why = f"affinity.PodAntiAffinity.RequiredDuringScheduling {why}"
                raise Forbidden.of(PODS, (obj or {})["metadata"].get("name", ""), why)
