"""NodeDeclaredFeatureValidator: a Pod is not updated in a way that its node does not support.

Nodes list in their status the features that not all kubelets of the supported versions have. Of those only two matter
to updates: both are about resizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.meta import GroupResource
from kapi.registry.kinds.core.pod.containers import is_sidecar
from kapi.registry.quota.amounts import amounts_of
from kapi.registry.request import UPDATE
from kapi.server.admission.refusal import refusal

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.registry.strategy import Lookup

PODS: Final = GroupResource("", "pods")
POD_LEVEL: Final = "InPlacePodLevelResourcesVerticalScaling"
INIT_CONTAINERS: Final = "InPlacePodVerticalScalingInitContainers"


class NodeDeclaredFeatureValidator:
    """Compares what an update of a Pod requires with the features that its node declares."""

    reads_only = True

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for updates and resizes of Pods."""
        return operation == UPDATE and subresource in ("", "resize") and resource.group_resource == PODS

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse an update that requires a feature which the node of the Pod has not declared."""
        if obj is None or old is None or not obj["spec"].get("nodeName"):
            return
        if obj["metadata"].get("generation") == old["metadata"].get("generation"):
            return  # The generation grows with every change of the spec.
        required = _required(obj["spec"], old["spec"])
        if not required:
            return
        name = obj["spec"]["nodeName"]
        node = self._lookup.get("nodes", "", name)
        if node is None:
            raise refusal(write, obj, f'node "{name}" not found')
        declared = (node.get("status") or {}).get("declaredFeatures") or ()
        missing = [feature for feature in required if feature not in declared]
        if missing:
            why = f'pod update requires features {", ".join(missing)} which are not available on node "{name}"'
            raise refusal(write, obj, why)


def _required(spec: Object, old: Object) -> list[str]:
    required = []
    if _resources(spec) != _resources(old):
        required.append(POD_LEVEL)
    before, after = old.get("initContainers") or (), spec.get("initContainers") or ()
    for container, now in zip(before, after, strict=False):
        if not is_sidecar(container) and _resources(container) != _resources(now):
            required.append(INIT_CONTAINERS)
            break
    return required


def _resources(holder: Object) -> object:
    resources = holder.get("resources")
    if resources is None:
        return None
    sides = (amounts_of(resources.get(side)) for side in ("requests", "limits"))
    return *sides, resources.get("claims") or []
