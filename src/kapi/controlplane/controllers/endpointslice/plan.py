"""The plan for the EndpointSlices of a Service: as few changes as possible, at most a hundred endpoints to a slice.

Slices are written whole and watched by every node, so a change should touch few of them. Endpoints that are gone are
removed from their slice; new ones are added to slices that change anyway, then to one that has space for all the rest,
then to new ones. Slices are not rebalanced.

Pure: from a Service, its Pods, the zones of Nodes and the existing slices to what to create, update and delete.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kapi.controlplane.controllers.endpointslice import hints
from kapi.controlplane.controllers.endpointslice.endpoint import (
    address_types,
    groups,
    identity,
    port_key,
    same_endpoint,
)
from kapi.controlplane.controllers.serviceendpoints.service import HEADLESS, is_headless

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kapi.api.meta import Object
    from kapi.controlplane.controllers.endpointslice.endpoint import Endpoint, Group, Identity, Port, PortKey
    from kapi.controlplane.controllers.serviceendpoints.pods import EndpointPod

MAX_ENDPOINTS: Final = 100
SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
_RESERVED: Final = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS})


@dataclass(slots=True)
class Plan:
    """The slices to create, update and delete. Its objects are new; none is shared with the arguments."""

    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    without_node: list[EndpointPod] = field(default_factory=list)
    """Pods that are in no slice because their Node does not exist (yet)."""

    def add(self, other: Plan) -> None:
        """Add another plan to this one."""
        self.create += other.create
        self.update += other.update
        self.delete += other.delete
        self.without_node = list(dict.fromkeys([*self.without_node, *other.without_node]))

    def __bool__(self) -> bool:
        return bool(self.create or self.update or self.delete)


def plan_slices(
    service: Object, pods: Sequence[EndpointPod], zones: Mapping[str, str], slices: Sequence[Object]
) -> Plan:
    """The plan for all slices of a Service; see `endpoint.groups` for `zones`."""
    plan = Plan()
    types = address_types(service)
    for address_type in types:
        existing = [each for each in slices if each.get("addressType") == address_type]
        plan.add(_plan_type(service, pods, zones, existing, address_type))
    plan.delete += [each for each in slices if each.get("addressType") not in types]
    return plan


def _plan_type(
    service: Object, pods: Sequence[EndpointPod], zones: Mapping[str, str], slices: list[Object], address_type: str
) -> Plan:
    wanted, without_node = groups(service, pods, zones, address_type)
    plan = Plan(without_node=without_node, delete=[each for each in slices if not _is_owned(each, service)])
    by_ports: dict[PortKey, list[Object]] = {}
    for each in slices:
        if _is_owned(each, service):
            by_ports.setdefault(port_key(each.get("ports") or ()), []).append(each)
    for key, group in wanted.items():
        plan.add(_plan_group(service, group, by_ports.get(key, []), address_type))
    plan.delete += [each for key, group in by_ports.items() if key not in wanted for each in group]
    if len(plan.delete) == len(slices) and not plan.create:
        _ensure_one(plan, service, address_type)
    _set_hints(plan, slices, hints.distribution_of(service))
    _reuse(plan, service)
    return plan


def _plan_group(service: Object, group: Group, slices: list[Object], address_type: str) -> Plan:
    """The plan for the slices that have the ports of a group."""
    plan, left = Plan(), dict(group.endpoints)
    labels = labels_of(service)
    untouched: list[Object] = []
    for each in slices:
        endpoints, changed = _wanted_of(each.get("endpoints") or [], left)
        if changed and not endpoints:
            plan.delete.append(each)
        elif changed or (each["metadata"].get("labels") or {}) != labels:
            plan.update.append(_rewritten(each, endpoints, labels))
        else:
            untouched.append(each)
    queue = [left[key] for key in sorted(left)]
    for each in sorted(plan.update, key=lambda each: -len(each["endpoints"])):
        _move(queue, each["endpoints"])
    while queue:
        fitting = _closest_to_full(untouched, len(queue))
        if fitting is None:
            plan.create.append(new_slice(service, group.ports, [], address_type))
            _move(queue, plan.create[-1]["endpoints"])
        else:
            untouched.remove(fitting)
            plan.update.append(_rewritten(fitting, list(fitting.get("endpoints") or ()), labels))
            _move(queue, plan.update[-1]["endpoints"])
    return plan


def _wanted_of(endpoints: list[Endpoint], left: dict[Identity, Endpoint]) -> tuple[list[Endpoint], bool]:
    """The wanted endpoints of a slice, taken out of `left`, and True if they differ from what it has."""
    kept: list[Endpoint] = []
    changed = False
    for endpoint in endpoints:
        wanted = left.pop(identity(endpoint), None)
        if wanted is None:
            changed = True
            continue
        kept.append(wanted)
        changed = changed or not same_endpoint(wanted, endpoint)
    return kept, changed


def _move(queue: list[Endpoint], endpoints: list[Endpoint]) -> None:
    """Move endpoints from a queue into a slice until it is full."""
    space = max(MAX_ENDPOINTS - len(endpoints), 0)
    endpoints += queue[:space]
    del queue[:space]


def _closest_to_full(slices: list[Object], count: int) -> Object | None:
    """The slice that is fullest once so many endpoints are added; None when none has space for all of them."""
    if count >= MAX_ENDPOINTS:
        return None
    sizes = [(len(each.get("endpoints") or ()), each) for each in slices]
    fitting = [(size, each) for size, each in sizes if size + count <= MAX_ENDPOINTS]
    return max(fitting, key=lambda sized: sized[0])[1] if fitting else None


def _ensure_one(plan: Plan, service: Object, address_type: str) -> None:
    """Keep or create a placeholder: a Service has at least one slice, even without endpoints."""
    placeholder = new_slice(service, [], [], address_type)
    if len(plan.delete) == 1 and _is_owned(plan.delete[0], service) and _is_placeholder(plan.delete[0], placeholder):
        plan.delete.clear()
    else:
        plan.create.append(placeholder)


def _is_placeholder(one: Object, placeholder: Object) -> bool:
    labels = one["metadata"].get("labels") or {}
    return not one.get("endpoints") and not one.get("ports") and labels == placeholder["metadata"]["labels"]


def _set_hints(plan: Plan, slices: list[Object], distribution: str) -> None:
    """Set the hints of every slice in the plan, and add slices whose hints are wrong to it."""
    touched = {each["metadata"]["name"] for each in (*plan.update, *plan.delete)}
    for each in slices:
        endpoints = each.get("endpoints") or []
        if each["metadata"]["name"] not in touched and not hints.are_correct(endpoints, distribution):
            plan.update.append(_rewritten(each, endpoints, each["metadata"].get("labels") or {}))
    if distribution:
        for each in (*plan.create, *plan.update):
            each["endpoints"] = hints.with_hints(each["endpoints"], distribution)
    else:
        for each in plan.update:
            each["endpoints"] = hints.with_hints(each["endpoints"], "")


def _reuse(plan: Plan, service: Object) -> None:
    """Update a slice that would be deleted instead of creating another."""
    for each in list(plan.delete):
        if not plan.create:
            return
        if _is_owned(each, service):
            made = plan.create.pop()
            metadata = each["metadata"]
            made["metadata"].update(name=metadata["name"], resourceVersion=metadata["resourceVersion"])
            plan.update.append(made)
            plan.delete.remove(each)


# -- slices ------------------------------------------------------------------------------------------------------------


def new_slice(service: Object, ports: list[Port], endpoints: list[Endpoint], address_type: str) -> Object:
    """A new slice of a Service."""
    metadata = service["metadata"]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": labels_of(service),
            "ownerReferences": [controller_reference("Service", metadata)],
        },
        "addressType": address_type,
        "endpoints": endpoints,
        "ports": ports,
    }


def controller_reference(kind: str, metadata: Object) -> Object:
    """The owner reference to a controller in the core group."""
    return {
        "apiVersion": "v1",
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def labels_of(service: Object) -> dict[str, str]:
    """The labels of a Service's slices: those of the Service, except for reserved ones, and the reserved ones."""
    own = service["metadata"].get("labels") or {}
    labels = {key: value for key, value in own.items() if key not in _RESERVED}
    if is_headless(service):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service["metadata"]["name"], MANAGED_BY: MANAGER}


def _rewritten(each: Object, endpoints: list[Endpoint], labels: dict[str, str]) -> Object:
    """A copy of a slice with other endpoints and labels."""
    return {**each, "metadata": {**each["metadata"], "labels": dict(labels)}, "endpoints": endpoints}


def _is_owned(each: Object, service: Object) -> bool:
    """Return True if a slice belongs to this Service, not to a former one of the same name."""
    uid = service["metadata"]["uid"]
    return any(
        (owner.get("uid"), owner.get("kind"), owner.get("apiVersion")) == (uid, "Service", "v1")
        for owner in each["metadata"].get("ownerReferences") or ()
    )
