"""The endpoints of a Service: its Pods as entries of EndpointSlices, and the ports of each.

Pure: from a decoded Service, the state of its Pods and the zones of Nodes to dictionaries as the API has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kapi.controlplane.controllers.serviceendpoints.portorder import in_slice_order
from kapi.controlplane.controllers.serviceendpoints.service import (
    IPV4,
    IPV6,
    NONE,
    has_hostname,
    is_ipv6,
    port_number,
    target_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kapi.api.meta import Object
    from kapi.controlplane.controllers.serviceendpoints.pods import EndpointPod, PodPort

Endpoint = dict[str, Any]
Port = dict[str, Any]
Identity = tuple[tuple[str, ...], str, str, str]
PortKey = tuple[tuple[Any, ...], ...]


class Group(NamedTuple):
    """Endpoints with the same ports, by identity."""

    ports: list[Port]
    endpoints: dict[Identity, Endpoint]


def address_types(service: Object) -> list[str]:
    """The address types of a Service's endpoints: its IP families."""
    spec = service["spec"]
    families = [family for family in spec.get("ipFamilies") or () if family in (IPV4, IPV6)]
    if families:
        return families
    cluster_ip = spec.get("clusterIP", "")
    if cluster_ip and cluster_ip != NONE:
        return [IPV6 if is_ipv6(cluster_ip) else IPV4]
    return [IPV4, IPV6]


def groups(
    service: Object, pods: Iterable[EndpointPod], zones: Mapping[str, str], address_type: str
) -> tuple[dict[PortKey, Group], list[EndpointPod]]:
    """The endpoints of one address type by their ports, and the Pods left out because their Node does not exist.

    `zones` has every Node that exists, with its zone or the empty string.
    """
    found: dict[PortKey, Group] = {}
    by_ports: dict[tuple[PodPort, ...], Group] = {}
    without_node: list[EndpointPod] = []
    publishes_unready = bool(service["spec"].get("publishNotReadyAddresses"))
    for pod in pods:
        if pod.is_terminal or not pod.addresses:
            continue
        group = by_ports.get(pod.ports)
        if group is None:
            ports = endpoint_ports(service, pod)
            group = by_ports[pod.ports] = found.setdefault(port_key(ports), Group(ports, {}))
        if pod.node not in zones and not publishes_unready:
            without_node.append(pod)
            continue
        endpoint = endpoint_of(service, pod, zones.get(pod.node, ""), address_type)
        if endpoint["addresses"]:
            group.endpoints[identity(endpoint)] = endpoint
    return found, without_node


def endpoint_of(service: Object, pod: EndpointPod, zone: str, address_type: str) -> Endpoint:
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


def endpoint_ports(service: Object, pod: EndpointPod) -> list[Port]:
    """The ports of a Service on a Pod; target ports that the Pod does not have are left out."""
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


def port_key(ports: Iterable[Port]) -> PortKey:
    """A key that is equal for equal ports in any order."""
    return tuple(
        sorted(
            (
                (port.get("name", ""), port.get("protocol", ""), port.get("port", -1), port.get("appProtocol", "\0"))
                for port in ports
            ),
        )
    )


def identity(endpoint: Endpoint) -> Identity:
    """The identity of an endpoint, which stays when it is updated: addresses, host name and target."""
    target = endpoint.get("targetRef") or {}
    addresses = endpoint.get("addresses") or ()
    if len(addresses) > 1:
        addresses = sorted(addresses)
    return tuple(addresses), endpoint.get("hostname", ""), target.get("namespace", ""), target.get("name", "")


def same_endpoint(one: Endpoint, other: Endpoint) -> bool:
    """Return True if two endpoints of one identity are equal in everything else; hints are not compared."""
    return (
        one.get("nodeName") == other.get("nodeName")
        and one.get("zone") == other.get("zone")
        and (one.get("conditions") or {}) == (other.get("conditions") or {})
        and same_target(one.get("targetRef") or {}, other.get("targetRef") or {})
    )


def same_target(one: Object, other: Object) -> bool:
    """Return True if two references name the same object; resourceVersion is not compared."""
    return one == other or (
        {key: value for key, value in one.items() if key != "resourceVersion"}
        == {key: value for key, value in other.items() if key != "resourceVersion"}
    )
