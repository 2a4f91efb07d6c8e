"""Which endpoints a Service has: its Pods as entries of EndpointSlices, and the ports by which each can be reached.

Pure: a Service (decoded), facts of its Pods and the zones of Nodes in, dictionaries as the API has them out.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.api.go.addresses import parse_ip_sloppy
from kapi.controlplane.controllers.endpoints.portorder import in_slice_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kapi.api.meta import Object
    from kapi.controlplane.controllers.endpoints.facts import PodFacts, PodPort

Endpoint = dict[str, Any]
Port = dict[str, Any]
Identity = tuple[tuple[str, ...], str, str, str]
PortKey = tuple[tuple[Any, ...], ...]

IPV4: Final = "IPv4"
IPV6: Final = "IPv6"
NONE: Final = "None"


class Group(NamedTuple):
    """Endpoints that are reached by the same ports, by what makes each the same one after it changed."""

    ports: list[Port]
    endpoints: dict[Identity, Endpoint]


def address_types(service: Object) -> list[str]:
    """The types of addresses a Service has endpoints of: its families."""
    spec = service["spec"]
    families = [family for family in spec.get("ipFamilies") or () if family in (IPV4, IPV6)]
    if families:
        return families
    cluster_ip = spec.get("clusterIP", "")
    if cluster_ip and cluster_ip != NONE:
        return [IPV6 if is_ipv6(cluster_ip) else IPV4]
    return [IPV4, IPV6]


def is_ipv6(address: str) -> bool:
    """Of which family an address is."""
    return isinstance(parse_ip_sloppy(address), ipaddress.IPv6Address)


def is_headless(service: Object) -> bool:
    """Whether a Service has no address of its own."""
    return service["spec"].get("clusterIP", "") in ("", NONE)


def groups(
    service: Object, pods: Iterable[PodFacts], zones: Mapping[str, str], address_type: str
) -> tuple[dict[PortKey, Group], list[PodFacts]]:
    """The endpoints of one address type by their ports, and the Pods left out because their Node is not there.

    `zones` has every Node that exists, with its zone or the empty string.
    """
    found: dict[PortKey, Group] = {}
    by_ports: dict[tuple[PodPort, ...], Group] = {}
    stranded: list[PodFacts] = []
    publishes_unready = bool(service["spec"].get("publishNotReadyAddresses"))
    for pod in pods:
        if pod.is_terminal or not pod.addresses:
            continue
        group = by_ports.get(pod.ports)
        if group is None:
            ports = endpoint_ports(service, pod)
            group = by_ports[pod.ports] = found.setdefault(port_key(ports), Group(ports, {}))
        if pod.node not in zones and not publishes_unready:
            stranded.append(pod)
            continue
        endpoint = endpoint_of(service, pod, zones.get(pod.node, ""), address_type)
        if endpoint["addresses"]:
            group.endpoints[identity(endpoint)] = endpoint
    return found, stranded


def endpoint_of(service: Object, pod: PodFacts, zone: str, address_type: str) -> Endpoint:
    """A Pod as an endpoint of a Service."""
    ready = bool(service["spec"].get("publishNotReadyAddresses")) or (pod.is_ready and not pod.is_terminating)
    wanted = address_type == IPV6
    endpoint: Endpoint = {
        "addresses": sorted(address for address in pod.addresses if (":" in address) == wanted),
        "conditions": {"ready": ready, "serving": pod.is_ready, "terminating": pod.is_terminating},
    }
    if has_hostname(service, pod):
        endpoint["hostname"] = pod.hostname
    endpoint["targetRef"] = target_of(pod)
    if pod.node:
        endpoint["nodeName"] = pod.node
    if zone:
        endpoint["zone"] = zone
    return endpoint


def target_of(pod: PodFacts) -> Object:
    """The reference from an endpoint to its Pod."""
    return {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def has_hostname(service: Object, pod: PodFacts) -> bool:
    """Whether a Pod can be found by name below the name of a Service."""
    return bool(pod.hostname) and pod.subdomain == service["metadata"]["name"]


def endpoint_ports(service: Object, pod: PodFacts) -> list[Port]:
    """The ports of a Service as they are on a Pod; those that it does not have are left out."""
    ports: list[Port] = []
    for port in service["spec"].get("ports") or ():
        number = port_number(port, pod)
        if number is None:
            continue
        made: Port = {"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")}
        if "appProtocol" in port:
            made["appProtocol"] = port["appProtocol"]
        ports.append(made)
    return in_slice_order(ports) if len(ports) > 1 else ports


def port_number(port: Port, pod: PodFacts) -> int | None:
    """The number of a Service's port on a Pod, which may know it by name; None when it does not."""
    target = port.get("targetPort", port.get("port"))
    if isinstance(target, int):
        return target
    protocol = port.get("protocol", "TCP")
    return next((each.number for each in pod.ports if each.name == target and each.protocol == protocol), None)


def port_key(ports: Iterable[Port]) -> PortKey:
    """What is equal for ports that are equal, in whatever order."""
    return tuple(
        sorted(
            (
                (port.get("name", ""), port.get("protocol", ""), port.get("port", -1), port.get("appProtocol", "\0"))
                for port in ports
            ),
        )
    )


def identity(endpoint: Endpoint) -> Identity:
    """What stays the same when an endpoint changes in its place: addresses, host name, and what it leads to."""
    target = endpoint.get("targetRef") or {}
    addresses = endpoint.get("addresses") or ()
    if len(addresses) > 1:
        addresses = sorted(addresses)
    return tuple(addresses), endpoint.get("hostname", ""), target.get("namespace", ""), target.get("name", "")


def same_endpoint(one: Endpoint, other: Endpoint) -> bool:
    """Whether two endpoints of one identity are equal in everything else; hints are not looked at."""
    return (
        one.get("nodeName") == other.get("nodeName")
        and one.get("zone") == other.get("zone")
        and (one.get("conditions") or {}) == (other.get("conditions") or {})
        and same_target(one.get("targetRef") or {}, other.get("targetRef") or {})
    )


def same_target(one: Object, other: Object) -> bool:
    """Whether two references lead to the same; in which version it was is not looked at."""
    return one == other or (
        {key: value for key, value in one.items() if key != "resourceVersion"}
        == {key: value for key, value in other.items() if key != "resourceVersion"}
    )
