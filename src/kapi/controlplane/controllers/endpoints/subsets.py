"""The subsets of Endpoints: addresses and ports of a Service's Pods, grouped in canonical form.

Every port has a set of addresses, ready or not; ports with the same set are one subset. So equal endpoints have equal
subsets, whatever the order of Pods and ports. Beyond a thousand addresses the list is truncated, not ready ones first.

Pure: from a Service and its Pods to dictionaries as the API has them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from kapi.controlplane.controllers.serviceendpoints.portorder import in_subset_order
from kapi.controlplane.controllers.serviceendpoints.service import (
    HEADLESS,
    IPV4,
    IPV6,
    NONE,
    has_hostname,
    is_headless,
    is_ipv6,
    port_number,
    target_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kapi.api.meta import Object
    from kapi.controlplane.controllers.serviceendpoints.pods import EndpointPod

    Subset = dict[str, Any]
    PortKey = tuple[str, int, str, str | None]
    AddressKey = tuple[str, str]
    """Address and uid of the target: Pods may share an address."""

MAX_ADDRESSES: Final = 1000
MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
MANAGER: Final = "endpoint-controller"
OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
TRUNCATED: Final = "truncated"

_NO_PORT: Final[PortKey] = ("", -1, "", None)


def labels_of(service: Object) -> dict[str, str]:
    """The labels of a Service's Endpoints."""
    labels = dict(service["metadata"].get("labels") or {})
    if is_headless(service):
        labels[HEADLESS] = ""
    else:
        labels.pop(HEADLESS, None)
    return {**labels, MANAGED_BY: MANAGER}


def subsets_of(service: Object, pods: Iterable[EndpointPod]) -> list[Subset]:
    """The subsets of a Service's Endpoints, all of them."""
    spec = service["spec"]
    publishes_unready = bool(spec.get("publishNotReadyAddresses"))
    ports = spec.get("ports") or []
    unpacked: list[Subset] = []
    for pod in pods:
        if pod.is_terminal or (pod.is_terminating and not publishes_unready):
            continue
        address = _address(service, pod)
        if address is None:
            continue
        field = "addresses" if publishes_unready or pod.is_ready else "notReadyAddresses"
        if not ports and spec.get("clusterIP") == NONE:
            unpacked.append({field: [address]})
        unpacked += [{field: [address], "ports": [port]} for port in _ports(ports, pod)]
    return repacked(unpacked)


def _address(service: Object, pod: EndpointPod) -> Object | None:
    """A Pod's address in the first family of a Service; None when it has none there."""
    wanted = _family(service, pod) == IPV6
    found = next((address for address in pod.addresses if (":" in address) == wanted), None)
    if found is None:
        return None
    address: Object = {"ip": found}
    if has_hostname(service, pod):
        address["hostname"] = pod.hostname
    if pod.node:
        address["nodeName"] = pod.node
    address["targetRef"] = target_of(pod)
    return address


def _family(service: Object, pod: EndpointPod) -> str:
    spec = service["spec"]
    families = spec.get("ipFamilies") or ()
    if families:
        return str(families[0])
    cluster_ip = spec.get("clusterIP", "")
    decisive = cluster_ip if cluster_ip and cluster_ip != NONE else next(iter(pod.addresses), "")
    return IPV6 if is_ipv6(decisive) else IPV4


def _ports(ports: Iterable[dict[str, Any]], pod: EndpointPod) -> Iterator[dict[str, Any]]:
    for port in ports:
        number = port_number(port, pod)
        if number is None:
            continue
        made = {"port": number, "protocol": port.get("protocol", "TCP")}
        if port.get("name"):
            made["name"] = port["name"]
        if "appProtocol" in port:
            made["appProtocol"] = port["appProtocol"]
        yield made


# -- canonical form ----------------------------------------------------------------------------------------------------


def repacked(subsets: Iterable[Subset]) -> list[Subset]:
    """Subsets in canonical form: no port and no set of addresses twice, everything sorted."""
    addresses: dict[AddressKey, Object] = {}
    states: dict[PortKey, dict[AddressKey, bool]] = {}
    ports: dict[PortKey, dict[str, Any]] = {}
    for subset in subsets:
        for port in subset.get("ports") or (None,):
            key = _NO_PORT if port is None else _port_key(port)
            if port is not None:
                ports[key] = port
            state = states.setdefault(key, {})
            for address, is_ready in _members(subset):
                target = address.get("targetRef") or {}
                member = (address["ip"], target.get("uid", ""))
                addresses.setdefault(member, address)
                # An address that is both ready and not ready is not ready.
                state[member] = is_ready and state.get(member, True)
    shared: dict[frozenset[tuple[AddressKey, bool]], list[PortKey]] = {}
    for key, state in states.items():
        if state:
            shared.setdefault(frozenset(state.items()), []).append(key)
    made = [_subset(sorted(members), keys, addresses, ports) for members, keys in shared.items()]
    return sorted(made, key=_sort_key)


def _members(subset: Subset) -> Iterator[tuple[Object, bool]]:
    for address in subset.get("addresses") or ():
        yield address, True
    for address in subset.get("notReadyAddresses") or ():
        yield address, False


def _port_key(port: dict[str, Any]) -> PortKey:
    return port.get("name", ""), port.get("port", 0), port.get("protocol", ""), port.get("appProtocol")


def _subset(
    members: list[tuple[AddressKey, bool]],
    keys: list[PortKey],
    addresses: dict[AddressKey, Object],
    ports: dict[PortKey, dict[str, Any]],
) -> Subset:
    made = {
        "addresses": [addresses[key] for key, is_ready in members if is_ready],
        "notReadyAddresses": [addresses[key] for key, is_ready in members if not is_ready],
        "ports": in_subset_order(ports[key] for key in keys if key is not _NO_PORT),
    }
    return {field: values for field, values in made.items() if values}


def _sort_key(subset: Subset) -> tuple[Any, ...]:
    """The key that subsets are sorted by."""
    first = (subset.get("addresses") or subset["notReadyAddresses"])[0]
    ports = [tuple(part or "" for part in _port_key(port)) for port in subset.get("ports") or ()]
    return ports, first["ip"], (first.get("targetRef") or {}).get("uid", "")


def same_subsets(one: Iterable[Subset], other: Iterable[Subset]) -> bool:
    """Return True if subsets are equal; resourceVersions of targets are not compared."""
    return [_comparable(each) for each in repacked(one)] == [_comparable(each) for each in repacked(other)]


def _comparable(subset: Subset) -> Subset:
    return {
        field: [_without_version(each) for each in values] if field != "ports" else values
        for field, values in subset.items()
    }


def _without_version(address: Object) -> Object:
    target = address.get("targetRef")
    if not target:
        return {key: value for key, value in address.items() if key != "targetRef"}
    return {**address, "targetRef": {key: value for key, value in target.items() if key != "resourceVersion"}}


# -- capacity ----------------------------------------------------------------------------------------------------------


def truncated(subsets: list[Subset]) -> tuple[list[Subset], bool]:
    """Subsets with at most a thousand addresses, ready ones first, in proportion; and True if any were left out."""
    ready = sum(len(subset.get("addresses") or ()) for subset in subsets)
    unready = sum(len(subset.get("notReadyAddresses") or ()) for subset in subsets)
    if ready + unready <= MAX_ADDRESSES:
        return subsets, False
    cuts_ready = ready > MAX_ADDRESSES
    field = "addresses" if cuts_ready else "notReadyAddresses"
    space = MAX_ADDRESSES if cuts_ready else MAX_ADDRESSES - ready
    total, left = (ready if cuts_ready else unready), space
    made = []
    for subset in subsets:
        share = min(math.ceil(len(subset.get(field) or ()) / total * space), left)
        kept = (subset.get(field) or [])[:share]
        left -= len(kept)
        cut = {**subset, field: kept, **({"notReadyAddresses": []} if cuts_ready else {})}
        made.append({key: values for key, values in cut.items() if values})
    return [subset for subset in made if "addresses" in subset or "notReadyAddresses" in subset], True
