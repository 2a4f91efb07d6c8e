"""The number of Pods that controllers want: the denominator of budgets that are percentages.

The scale of each Pod's controller counts: a ReplicaSet of a Deployment stands for the Deployment, any other kind has a
`scale` sub-resource. Reads the view for built-in workloads and the API for other kinds; writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kapi.api.access import controller_of
from kapi.api.errors import NotFound
from kapi.api.go.text import quote
from kapi.api.meta import GroupVersion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.controlplane.controllers.context import ControllerContext
    from kapi.controlplane.controllers.disruption.budget import Owner, PodState

_APPS = frozenset({"apps", "extensions"})
"""The groups that have served ReplicaSets and Deployments."""


class ScaleError(Exception):
    """The number of expected Pods cannot be determined; the text says why."""


class _Scale(NamedTuple):
    uid: str
    replicas: int


async def expected_scale(context: ControllerContext, namespace: str, pods: Iterable[PodState]) -> tuple[int, list[str]]:
    """The sum of the scales of the controllers of these Pods, and the names of Pods that have no controller."""
    scales: dict[str, int] = {}
    unmanaged: list[str] = []
    for pod in pods:
        owner = pod.controller
        if owner is None:
            unmanaged.append(pod.name)
            continue
        if owner.uid in scales:
            continue
        try:
            found = _workload_scale(context, namespace, owner) or await _subresource_scale(context, namespace, owner)
        except ValueError as error:
            raise ScaleError(str(error)) from None
        if found is None:
            raise ScaleError(f"found no controllers for pod {quote(pod.name)}")
        scales[found.uid] = found.replicas
    return sum(scales.values()), unmanaged


def _workload_scale(context: ControllerContext, namespace: str, owner: Owner) -> _Scale | None:
    """The scale of a built-in workload; None for other kinds, and for one that does not exist (any more)."""
    group = GroupVersion.parse(owner.api_version).group
    if (owner.kind, group) == ("ReplicationController", ""):
        return _scale(context, "replicationcontrollers", namespace, owner.name, owner.uid)
    if (owner.kind, group) == ("StatefulSet", "apps"):
        return _scale(context, "statefulsets.apps", namespace, owner.name, owner.uid)
    if owner.kind != "ReplicaSet" or group not in _APPS:
        return None
    replicas = context.view.get("replicasets.apps", namespace, owner.name)
    if replicas is None or replicas["metadata"]["uid"] != owner.uid:
        return None
    deployment = controller_of(replicas)
    if deployment is None or deployment.kind != "Deployment":
        return _Scale(owner.uid, replicas["spec"].get("replicas", 1))
    if GroupVersion.parse(deployment.api_version).group not in _APPS:
        return None
    return _scale(context, "deployments.apps", namespace, deployment.name, deployment.uid)


def _scale(context: ControllerContext, resource: str, namespace: str, name: str, uid: str) -> _Scale | None:
    found = context.view.get(resource, namespace, name)
    if found is None or found["metadata"]["uid"] != uid:
        return None
    return _Scale(uid, found["spec"].get("replicas", 1))


async def _subresource_scale(context: ControllerContext, namespace: str, owner: Owner) -> _Scale | None:
    """The scale of any other kind, from its sub-resource."""
    served = context.view.of_kind(owner.api_version, owner.kind)
    if served is None:
        raise ScaleError(f"no matches for kind {quote(owner.kind)} in version {quote(owner.api_version)}")
    if "scale" not in served.subresources:
        name = f"{served.resource}.{served.group}" if served.group else served.resource
        raise ScaleError(f"{name} does not implement the scale subresource")
    try:
        scale = await context.writer.resource(served, namespace).get(owner.name, subresource="scale")
    except NotFound:
        return None
    if scale["metadata"].get("uid") != owner.uid:
        return None
    return _Scale(owner.uid, scale.get("spec", {}).get("replicas", 0))
