"""How many Pods controllers want: the denominator of budgets that are about a share.

A Pod's controller is asked: a ReplicaSet of a Deployment stands for the Deployment, any other kind is asked by its
`scale` sub-resource. Reads the watch caches for the kinds we know and asks the API for others; changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kapi.api.errors import NotFound
from kapi.api.go.text import quote
from kapi.api.meta import GroupVersion
from kapi.controlplane.controllers.inventory import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.controlplane.controllers.disruption.budget import Owner, PodFacts
    from kapi.controlplane.controllers.house import House

_APPS = frozenset({"apps", "extensions"})
"""Groups that ReplicaSets and Deployments are known by."""


class ScaleError(Exception):
    """It cannot be said how many Pods there ought to be; the text says why."""


class _Scale(NamedTuple):
    uid: str
    replicas: int


async def expected_scale(house: House, namespace: str, pods: Iterable[PodFacts]) -> tuple[int, list[str]]:
    """How many Pods the controllers of these want together, and the names of Pods that have no controller."""
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
            found = _known(house, namespace, owner) or await _by_subresource(house, namespace, owner)
        except ValueError as error:
            raise ScaleError(str(error)) from None
        if found is None:
            raise ScaleError(f"found no controllers for pod {quote(pod.name)}")
        scales[found.uid] = found.replicas
    return sum(scales.values()), unmanaged


def _known(house: House, namespace: str, owner: Owner) -> _Scale | None:
    """The scale of a built-in controller; None for others, and for one that is not there (any more)."""
    group = GroupVersion.parse(owner.api_version).group
    if (owner.kind, group) == ("ReplicationController", ""):
        return _scale(house, "replicationcontrollers", namespace, owner.name, owner.uid)
    if (owner.kind, group) == ("StatefulSet", "apps"):
        return _scale(house, "statefulsets.apps", namespace, owner.name, owner.uid)
    if owner.kind != "ReplicaSet" or group not in _APPS:
        return None
    replicas = house.inventory.get("replicasets.apps", namespace, owner.name)
    if replicas is None or replicas["metadata"]["uid"] != owner.uid:
        return None
    above = _controller_of(replicas)
    if above is None or above["kind"] != "Deployment":
        return _Scale(owner.uid, replicas["spec"].get("replicas", 1))
    if GroupVersion.parse(above["apiVersion"]).group not in _APPS:
        return None
    return _scale(house, "deployments.apps", namespace, above["name"], above["uid"])


def _scale(house: House, resource: str, namespace: str, name: str, uid: str) -> _Scale | None:
    found = house.inventory.get(resource, namespace, name)
    if found is None or found["metadata"]["uid"] != uid:
        return None
    return _Scale(uid, found["spec"].get("replicas", 1))


def _controller_of(obj: Object) -> Object | None:
    owners: list[Object] = obj["metadata"].get("ownerReferences") or []
    return next((one for one in owners if one.get("controller")), None)


async def _by_subresource(house: House, namespace: str, owner: Owner) -> _Scale | None:
    """Ask any other kind for its scale."""
    served = house.inventory.of_kind(owner.api_version, owner.kind)
    if served is None:
        raise ScaleError(f"no matches for kind {quote(owner.kind)} in version {quote(owner.api_version)}")
    if "scale" not in served.subresources:
        name = f"{served.resource}.{served.group}" if served.group else served.resource
        raise ScaleError(f"{name} does not implement the scale subresource")
    try:
        scale = await house.client.rest.request("GET", path_of(served, namespace, owner.name, "scale"))
    except NotFound:
        return None
    if scale["metadata"].get("uid") != owner.uid:
        return None
    return _Scale(owner.uid, scale.get("spec", {}).get("replicas", 0))
