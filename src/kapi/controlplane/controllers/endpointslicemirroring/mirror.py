"""The EndpointSlices that mirror Endpoints.

A subset becomes a slice for each IP family in it, with at most a thousand addresses in all. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kapi.controlplane.controllers.endpoints.subsets import repacked
from kapi.controlplane.controllers.endpointslice.endpoint import (
    identity,
    port_key,
    same_endpoint,
)
from kapi.controlplane.controllers.endpointslice.plan import (
    MANAGED_BY,
    SERVICE_NAME,
    Plan,
    controller_reference,
)
from kapi.controlplane.controllers.serviceendpoints.pods import canonical
from kapi.controlplane.controllers.serviceendpoints.portorder import in_slice_order
from kapi.controlplane.controllers.serviceendpoints.service import IPV4, IPV6
from kapi.controlplane.controllers.serviceendpoints.triggertime import TRIGGER_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kapi.api.meta import Object
    from kapi.controlplane.controllers.endpointslice.endpoint import Endpoint, Identity, Port, PortKey

MAX_MIRRORED: Final = 1000
MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
SKIP_MIRROR: Final = "endpointslice.kubernetes.io/skip-mirror"
_NOT_COPIED: Final = frozenset({TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration"})


@dataclass(slots=True)
class Mirror:
    """Endpoints as slices: the endpoints and ports of each, and the number of addresses that are left out."""

    groups: dict[tuple[str, PortKey], dict[Identity, Endpoint]] = field(default_factory=dict)
    ports: dict[tuple[str, PortKey], list[Port]] = field(default_factory=dict)
    invalid: int = 0
    """The number of invalid addresses."""
    skipped: int = 0
    """The number of addresses that are in no slice: invalid ones, and those beyond the limit."""


def mirror_of(endpoints: Object) -> Mirror:
    """The endpoints that the slices should have."""
    mirror = Mirror()
    for subset in repacked(endpoints.get("subsets") or ()):
        ports = in_slice_order({"name": "", **port} for port in subset.get("ports") or ())
        keys = {kind: (kind, port_key(ports)) for kind in (IPV4, IPV6)}
        for key in keys.values():
            mirror.groups.setdefault(key, {})
            mirror.ports[key] = ports
        mirrored = total = 0
        for address, is_ready in _addresses(subset):
            total += 1
            if mirrored == MAX_MIRRORED:
                continue
            found = canonical(address["ip"])
            if not found:
                mirror.invalid += 1
                continue
            mirrored += 1
            endpoint = _endpoint(address, found, is_ready=is_ready)
            mirror.groups[keys[IPV6 if ":" in found else IPV4]][identity(endpoint)] = endpoint
        mirror.skipped += total - mirrored
    return mirror


def _addresses(subset: dict[str, Any]) -> Iterator[tuple[Object, bool]]:
    for address in subset.get("addresses") or ():
        yield address, True
    for address in subset.get("notReadyAddresses") or ():
        yield address, False


def _endpoint(address: Object, text: str, *, is_ready: bool) -> Endpoint:
    endpoint: Endpoint = {"addresses": [text], "conditions": {"ready": is_ready}}
    if address.get("hostname"):
        endpoint["hostname"] = address["hostname"]
    endpoint |= {key: address[key] for key in ("targetRef", "nodeName") if key in address}
    return endpoint


def plan_mirror(endpoints: Object, mirror: Mirror, slices: Sequence[Object]) -> Plan:
    """The plan for the existing slices."""
    plan = Plan()
    current: dict[tuple[str, PortKey], list[Object]] = {}
    for each in slices:
        current.setdefault((each.get("addressType", ""), port_key(each.get("ports") or ())), []).append(each)
    for key, wanted in mirror.groups.items():
        existing = current.pop(key, [])
        if not wanted:
            plan.delete += existing
            continue
        plan.delete += existing[1:]
        made = _slice(endpoints, wanted, mirror.ports[key], key[0])
        if not existing:
            plan.create.append(made)
        elif not _is_correct(existing[0], made, wanted, endpoints["metadata"]):
            del made["metadata"]["generateName"]
            plan.update.append(_in_place_of(existing[0], made))
    plan.delete += [each for group in current.values() for each in group]
    _reuse(plan)
    return plan


def _is_correct(current: Object, made: Object, wanted: dict[Identity, Endpoint], owner: Object) -> bool:
    endpoints = current.get("endpoints") or []
    metadata = current["metadata"]
    return (
        len(endpoints) == len(wanted)
        and all(
            (match := wanted.get(identity(endpoint))) is not None and same_endpoint(match, endpoint)
            for endpoint in endpoints
        )
        and (metadata.get("labels") or {}) == made["metadata"]["labels"]
        and (metadata.get("annotations") or {}) == made["metadata"]["annotations"]
        and any(reference.get("uid") == owner["uid"] for reference in metadata.get("ownerReferences") or ())
    )


def _reuse(plan: Plan) -> None:
    """Update a slice that would be deleted instead of creating another."""
    for made in list(plan.create):
        spare = next((each for each in plan.delete if each.get("addressType") == made["addressType"]), None)
        if spare is not None:
            plan.create.remove(made)
            plan.delete.remove(spare)
            plan.update.append(_in_place_of(spare, made))


def _in_place_of(current: Object, made: Object) -> Object:
    metadata = {key: current["metadata"][key] for key in ("name", "resourceVersion")}
    return {**made, "metadata": {**made["metadata"], **metadata}}


def _slice(endpoints: Object, wanted: dict[Identity, Endpoint], ports: list[Port], address_type: str) -> Object:
    metadata = endpoints["metadata"]
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": {**labels, SERVICE_NAME: metadata["name"], MANAGED_BY: MANAGER},
            "annotations": {key: value for key, value in annotations.items() if key not in _NOT_COPIED},
            "ownerReferences": [controller_reference("Endpoints", metadata)],
        },
        "addressType": address_type,
        "endpoints": [wanted[key] for key in sorted(wanted)],
        "ports": ports,
    }
