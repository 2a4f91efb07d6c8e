"""The fields of Pods and Services that endpoints depend on, read without decoding the rest.

A Pod is written many times for each time its endpoints change: heartbeats, annotations, images. So the few fields that
matter are decoded once per write, and compared. Pure: from bytes to values.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from kapi.api.go.addresses import parse_ip_sloppy

if TYPE_CHECKING:
    from kapi.cache.watchcache import Item

_TERMINAL: Final = frozenset({"Failed", "Succeeded"})


class PodPort(NamedTuple):
    """A named port of a container."""

    name: str
    protocol: str
    number: int


class EndpointPod(NamedTuple):
    """Everything about a Pod that can show in endpoints.

    Two equal ones have equal endpoints, whatever `ready_since` is: see `differs`.
    """

    namespace: str
    name: str
    uid: str
    node: str
    hostname: str
    subdomain: str
    addresses: tuple[str, ...]
    """In canonical form, in the order the Pod has them."""
    ports: tuple[PodPort, ...]
    """The ports of containers, then of sidecars: the first of a name counts."""
    is_ready: bool
    is_terminating: bool
    is_terminal: bool
    """True if its phase is Succeeded or Failed."""
    ready_since: str
    """The time of its last change of readiness (RFC 3339); empty when it has none."""

    def differs(self, other: EndpointPod) -> bool:
        """Return True if the endpoints of two states can differ."""
        return self[:-1] != other[:-1]


class _Address(msgspec.Struct):
    ip: str = ""


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _Port(msgspec.Struct, rename="camel"):
    name: str = ""
    protocol: str = "TCP"
    container_port: int = 0


class _Container(msgspec.Struct, rename="camel"):
    ports: list[_Port] | None = None
    restart_policy: str = ""


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None


class _PodStatus(msgspec.Struct, rename={"pod_ips": "podIPs"}):
    phase: str = ""
    pod_ips: list[_Address] | None = None
    conditions: list[_Condition] | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _PodSpec
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _ServiceSpec(msgspec.Struct):
    type: str = ""
    selector: dict[str, str] | None = None


class _Service(msgspec.Struct):
    spec: _ServiceSpec = msgspec.field(default_factory=_ServiceSpec)


_decode_pod = msgspec.json.Decoder(_Pod).decode
_decode_service = msgspec.json.Decoder(_Service).decode


def has_address(item: Item) -> bool:
    """Return True if a Pod has an IP address; nothing is decoded. Without one it is in no endpoints."""
    return bool(item.fields and item.fields.get("status.podIP"))


def endpoint_pod(item: Item) -> EndpointPod:
    """Read a Pod in the watch cache."""
    pod = _decode_pod(b"{" + item.body)
    spec, status = pod.spec, pod.status
    ready = next((each for each in status.conditions or () if each.type == "Ready"), None)
    return EndpointPod(
        namespace=item.namespace,
        name=item.name,
        uid=pod.metadata.uid,
        node=spec.node_name,
        hostname=spec.hostname,
        subdomain=spec.subdomain,
        addresses=tuple(text for each in status.pod_ips or () if (text := canonical(each.ip))),
        ports=_named_ports(spec),
        is_ready=ready is not None and ready.status == "True",
        is_terminating=pod.metadata.deletion_timestamp is not None,
        is_terminal=status.phase in _TERMINAL,
        ready_since=(ready.last_transition_time or "") if ready is not None else "",
    )


def _named_ports(spec: _PodSpec) -> tuple[PodPort, ...]:
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    return tuple(
        PodPort(port.name, port.protocol, port.container_port)
        for container in (*(spec.containers or ()), *sidecars)
        for port in container.ports or ()
        if port.name
    )


def selector_of(item: Item) -> dict[str, str] | None:
    """The selector of a Service; None when it has none, or no endpoints of its own."""
    spec = _decode_service(b"{" + item.body).spec
    return None if spec.type == "ExternalName" else spec.selector or None


def has_selector(item: Item) -> bool:
    """Return True if a Service has a selector, an ExternalName Service included."""
    return bool(_decode_service(b"{" + item.body).spec.selector)


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """An IP address in canonical form; empty when the text is none."""
    address = parse_ip_sloppy(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return "" if address is None else str(address)
