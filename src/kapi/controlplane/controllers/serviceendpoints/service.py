"""The rules of Services for the addresses and ports of their endpoints. Pure."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from kapi.api.go.addresses import parse_ip_sloppy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.controlplane.controllers.serviceendpoints.pods import EndpointPod

IPV4: Final = "IPv4"
IPV6: Final = "IPv6"
NONE: Final = "None"
HEADLESS: Final = "service.kubernetes.io/headless"
"""The label of the endpoints of headless Services."""


def is_ipv6(address: str) -> bool:
    """Return True for an IPv6 address."""
    return isinstance(parse_ip_sloppy(address), ipaddress.IPv6Address)


def is_headless(service: Object) -> bool:
    """Return True if a Service has no cluster IP."""
    return service["spec"].get("clusterIP", "") in ("", NONE)


def target_of(pod: EndpointPod) -> Object:
    """The targetRef of an endpoint."""
    return {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def has_hostname(service: Object, pod: EndpointPod) -> bool:
    """Return True if a Pod has a DNS name below that of a Service."""
    return bool(pod.hostname) and pod.subdomain == service["metadata"]["name"]


def port_number(port: dict[str, Any], pod: EndpointPod) -> int | None:
    """The number of a Service's target port on a Pod; None when it is a name that the Pod does not have."""
    target = port.get("targetPort", port.get("port"))
    if isinstance(target, int):
        return target
    protocol = port.get("protocol", "TCP")
    return next((each.number for each in pod.ports if each.name == target and each.protocol == protocol), None)
