"""How endpoints are laid out in EndpointSlices: as few changes as possible, at most a hundred to a slice.

Slices are written whole and watched by every node, so a change should touch few of them. What left a slice leaves it;
what comes goes into slices that change anyway, then into one that has room for all the rest, then into new ones. Slices
are not rebalanced for tidiness.

Pure: a Service, facts of its Pods, zones of Nodes and the slices there are in; what to create, update and delete out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kapi.controlplane.controllers.endpoints import hints
from kapi.controlplane.controllers.endpoints.desired import (
    address_types,
    groups,
    identity,
    is_headless,
    port_key,
    same_endpoint,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kapi.api.meta import Object
    from kapi.controlplane.controllers.endpoints.desired import Endpoint, Group, Identity, Port, PortKey
    from kapi.controlplane.controllers.endpoints.facts import PodFacts

MAX_ENDPOINTS: Final = 100
SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
HEADLESS: Final = "service.kubernetes.io/headless"
_RESERVED: Final = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS})


@dataclass(slots=True)
class Plan:
    """What has to be done for slices to be right. Objects in it are new; none is shared with what was given."""

    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    stranded: list[PodFacts] = field(default_factory=list)
    """Pods that are in no slice because their Node is not there (yet)."""

    def add(self, other: Plan) -> None:
        """Do this too."""
        self.create += other.create
        self.update += other.update
        self.delete += other.delete
        self.stranded = list(dict.fromkeys([*self.stranded, *other.stranded]))

    def __bool__(self) -> bool:
        return bool(self.create or self.update or self.delete)


def plan_slices(service: Object, pods: Sequence[PodFacts], zones: Mapping[str, str], slices: Sequence[Object]) -> Plan:
    """What to do with the slices of a Service; see `desired.groups` for `zones`."""
    plan = Plan()
    types = address_types(service)
    for address_type in types:
        existing = [each for each in slices if each.get("addressType") == address_type]
        plan.add(_plan_type(service, pods, zones, existing, address_type))
    plan.delete += [each for each in slices if each.get("addressType") not in types]
    return plan


def _plan_type(
    service: Object, pods: Sequence[PodFacts], zones: Mapping[str, str], slices: list[Object], address_type: str
) -> Plan:
    wanted, stranded = groups(service, pods, zones, address_type)
    plan = Plan(stranded=stranded, delete=[each for each in slices if not _is_owned(each, service)])
    by_ports: dict[PortKey, list[Object]] = {}
    for each in slices:
        if _is_owned(each, service):
            by_ports.setdefault(port_key(each.get("ports") or ()), []).append(each)
    for key, group in wanted.items():
        plan.add(_plan_group(service, group, by_ports.get(key, []), address_type))
    plan.delete += [each for key, group in by_ports.items() if key not in wanted for each in group]
    if len(plan.delete) == len(slices) and not plan.create:
        _keep_one(plan, service, address_type)
    _hint(plan, slices, hints.distribution_of(service))
    _recycle(plan, service)
    return plan


def _plan_group(service: Object, group: Group, slices: list[Object], address_type: str) -> Plan:
    """What to do with the slices that have the ports of a group."""
    plan, left = Plan(), dict(group.endpoints)
    labels = labels_of(service)
    untouched: list[Object] = []
    for each in slices:
        endpoints, changed = _keep_wanted(each.get("endpoints") or [], left)
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


def _keep_wanted(endpoints: list[Endpoint], left: dict[Identity, Endpoint]) -> tuple[list[Endpoint], bool]:
    """What stays of a slice's endpoints, as it should be, and whether that is a change; taken from what is `left`."""
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
    """Put endpoints into a slice until it is full."""
    room = max(MAX_ENDPOINTS - len(endpoints), 0)
    endpoints += queue[:room]
    del queue[:room]


def _closest_to_full(slices: list[Object], count: int) -> Object | None:
    """The slice that is fullest once so many endpoints are added; None when none has room for all of them."""
    if count >= MAX_ENDPOINTS:
        return None
    sizes = [(len(each.get("endpoints") or ()), each) for each in slices]
    fitting = [(size, each) for size, each in sizes if size + count <= MAX_ENDPOINTS]
    return max(fitting, key=lambda sized: sized[0])[1] if fitting else None


def _keep_one(plan: Plan, service: Object, address_type: str) -> None:
    """A Service has at least one slice, if only to say that it has no endpoints."""
    placeholder = new_slice(service, [], [], address_type)
    if len(plan.delete) == 1 and _is_owned(plan.delete[0], service) and _says_the_same(plan.delete[0], placeholder):
        plan.delete.clear()
    else:
        plan.create.append(placeholder)


def _says_the_same(one: Object, placeholder: Object) -> bool:
    labels = one["metadata"].get("labels") or {}
    return not one.get("endpoints") and not one.get("ports") and labels == placeholder["metadata"]["labels"]


def _hint(plan: Plan, slices: list[Object], distribution: str) -> None:
    """Give every slice the hints it should have; of the others, those that have them wrong change too."""
    touched = {each["metadata"]["name"] for each in (*plan.update, *plan.delete)}
    for each in slices:
        endpoints = each.get("endpoints") or []
        if each["metadata"]["name"] not in touched and not hints.are_right(endpoints, distribution):
            plan.update.append(_rewritten(each, endpoints, each["metadata"].get("labels") or {}))
    if distribution:
        for each in (*plan.create, *plan.update):
            each["endpoints"] = hints.give(each["endpoints"], distribution)
    else:
        for each in plan.update:
            each["endpoints"] = hints.give(each["endpoints"], "")


def _recycle(plan: Plan, service: Object) -> None:
    """Rewrite a slice that would go instead of making one that would come."""
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
    """A slice of a Service that is not stored yet."""
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
    """The reference to an object of the core group that controls another."""
    return {
        "apiVersion": "v1",
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def labels_of(service: Object) -> dict[str, str]:
    """The labels of a Service's slices: its own, but those that say whose slices they are."""
    own = service["metadata"].get("labels") or {}
    labels = {key: value for key, value in own.items() if key not in _RESERVED}
    if is_headless(service):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service["metadata"]["name"], MANAGED_BY: MANAGER}


def _rewritten(each: Object, endpoints: list[Endpoint], labels: dict[str, str]) -> Object:
    """A slice with other endpoints; the stored one is not changed."""
    return {**each, "metadata": {**each["metadata"], "labels": dict(labels)}, "endpoints": endpoints}


def _is_owned(each: Object, service: Object) -> bool:
    """Whether a slice is of this Service, and not of one of the same name before it."""
    uid = service["metadata"]["uid"]
    return any(
        (owner.get("uid"), owner.get("kind"), owner.get("apiVersion")) == (uid, "Service", "v1")
        for owner in each["metadata"].get("ownerReferences") or ()
    )
