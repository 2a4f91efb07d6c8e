"""The address of a Service: where this server connects to what is behind it (webhooks, extension API servers).

A service is found through the objects of this control plane: an ExternalName is a host, otherwise a ready endpoint of
the service is called directly, since nothing here routes cluster IPs. While a program is developed on this machine, the
service it will be behind can be overridden with a loopback address.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kapi.api.go.addresses import parse_ip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.registry.strategy import Lookup

SLICES = "endpointslices.discovery.k8s.io"
SERVICE_LABEL = "kubernetes.io/service-name"


class ServiceReference(NamedTuple):
    """A Service, and one of its ports; port 0 for every port."""

    namespace: str
    name: str
    port: int = 0


ServiceOverrides: TypeAlias = Mapping[ServiceReference, tuple[str, int]]
"""The addresses that are called instead of the endpoints of Services."""


def overriding_address(overrides: ServiceOverrides, service: ServiceReference) -> tuple[str, int] | None:
    """Return the address that is called instead of a Service's endpoints, if there is one."""
    return overrides.get(service) or overrides.get(service._replace(port=0))


def service_address(lookup: Lookup, service: ServiceReference, overrides: ServiceOverrides) -> tuple[str, int]:
    """Return the address of one ready endpoint of a Service; LookupError says why there is none."""
    address = overriding_address(overrides, service)
    # Chosen at random to spread the load, not to keep a secret.
    return address or random.choice(service_addresses(lookup, service))  # noqa: S311


def service_addresses(lookup: Lookup, service: ServiceReference) -> list[tuple[str, int]]:
    """Return the addresses of all ready endpoints of a Service, at least one; LookupError says why there is none."""
    namespace, name, port = service
    found = lookup.get("services", namespace, name)
    if found is None:
        raise LookupError(f'service "{name}" not found')
    spec = found["spec"]
    if spec.get("type") == "ExternalName":
        if _is_link_local(spec["externalName"]):
            raise LookupError(f'no endpoints available for service "{name}"')
        return [(spec["externalName"], port)]
    wanted = next((one for one in spec.get("ports", ()) if one["port"] == port), None)
    if wanted is None:
        raise LookupError(f'no service port {port} found for service "{name}"')
    endpoints = _endpoints(lookup, namespace, name, wanted.get("name", ""))
    ready = [(address, number) for address, number in endpoints if not _is_local(address)]
    if not ready:
        raise LookupError(f'no endpoints available for service "{name}"')
    return ready


def _endpoints(lookup: Lookup, namespace: str, name: str, port: str) -> Iterator[tuple[str, int]]:
    """The ready endpoints of a service: those of its slices, or, for a service that has none, of its Endpoints."""
    sliced = False
    for found in lookup.list(SLICES, namespace):
        if found["metadata"].get("labels", {}).get(SERVICE_LABEL) != name:
            continue
        sliced = True
        number = _port(found.get("ports") or (), port)
        for endpoint in found.get("endpoints") or ():
            if number and endpoint.get("conditions", {}).get("ready", True) and endpoint.get("addresses"):
                yield endpoint["addresses"][0], number
    if sliced:
        return
    endpoints = lookup.get("endpoints", namespace, name) or {}
    for subset in endpoints.get("subsets") or ():
        number = _port(subset.get("ports") or (), port)
        for address in subset.get("addresses") or ():
            if number:
                yield address["ip"], number


def _is_local(text: str) -> bool:
    """Return True for an address that validation keeps out of endpoints: it means another server to each that calls it.

    An endpoint may have been written by other means. Calls must not lead to what listens on this machine only, nor to
    the metadata server of a cloud.
    """
    address = parse_ip(text)
    if address is None:
        return False
    mapped = address.ipv4_mapped if address.version == 6 else None
    address = mapped or address
    return address.is_loopback or address.is_unspecified or address.is_multicast or address.is_link_local


def _is_link_local(text: str) -> bool:
    address = parse_ip(text)
    return address is not None and address.is_link_local


def _port(ports: Any, name: str) -> int:
    return next((one["port"] for one in ports if one.get("name", "") == name and one.get("port")), 0)
