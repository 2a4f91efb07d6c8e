"""PodResizeValidator: a Pod is not resized to more than its node has, nor on nodes that cannot resize."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.meta import GroupResource
from kapi.registry.quota.amounts import ZERO, amounts_of
from kapi.registry.quota.podresources import pod_requests
from kapi.registry.request import UPDATE
from kapi.server.admission.refusal import refusal

if TYPE_CHECKING:
    from kapi.api.errors import Forbidden
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.registry.strategy import Lookup

PODS: Final = GroupResource("", "pods")
OS: Final = "kubernetes.io/os"


class PodResizeValidator:
    """Compares the requests of a resized Pod with what its node can allocate."""

    reads_only = True

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for resizes."""
        return operation == UPDATE and subresource == "resize" and resource.group_resource == PODS

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse a resize that the node of the Pod cannot make."""
        if obj is None or old is None or not obj["spec"].get("nodeName"):
            return
        if obj["metadata"].get("generation") == old["metadata"].get("generation"):
            return  # The generation grows with every change of the spec.
        name = obj["spec"]["nodeName"]
        node = self._lookup.get("nodes", "", name)
        if node is None:
            raise refusal(write, obj, f'node "{name}" not found')
        system = (node["metadata"].get("labels") or {}).get(OS, "linux")
        if system != "linux":
            why = f'pod resize is only supported on linux nodes, node "{name}" is "{system}"'
            raise _refusal(write, obj, why, "UnsupportedPlatform")
        missing = _missing(obj, node)
        if missing:
            why = f"node didn't have enough allocatable resources: {'; '.join(missing)}"
            raise _refusal(write, obj, why, "NodeCapacity")


def _missing(pod: Object, node: Object) -> list[str]:
    """Return the resources of which a Pod requests more than its node can allocate."""
    requests = pod_requests({"spec": pod["spec"]})
    allocatable = amounts_of((node.get("status") or {}).get("allocatable"))
    found = []
    for name in ("cpu", "memory"):
        requested, available = requests.get(name, ZERO), allocatable.get(name, ZERO)
        if requested > available:
            values = [one.milli_value() if name == "cpu" else one.value() for one in (requested, available)]
            found.append(f"{name}, requested: {values[0]}, allocatable: {values[1]}")
    return found


def _refusal(write: Write, obj: Object, why: str, cause: str) -> Forbidden:
    error = refusal(write, obj, why)
    error.details = {**(error.details or {}), "causes": [{"reason": cause}]}
    return error
