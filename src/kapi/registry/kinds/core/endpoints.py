"""Endpoints: the addresses behind a Service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError, required
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.sameness import same
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

MANAGED_BY = "endpoints.kubernetes.io/managed-by"


class EndpointsStrategy(Strategy):
    """The rules of Endpoints."""

    allow_create_on_update = True

    def default(self, obj: Object) -> None:
        """Ports are TCP."""
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                if not port.get("protocol"):
                    port["protocol"] = "TCP"

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Every subset has addresses that can be reached."""
        return [
            error
            for index, subset in enumerate(obj.get("subsets") or ())
            for error in _subset_errors(f"subsets[{index}]", subset)
        ]

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Subsets that were accepted before may stay."""
        return [] if same(obj.get("subsets"), old.get("subsets")) else self.validate_create(write, obj)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Odd spellings of addresses, unless a controller wrote them."""
        if (obj["metadata"].get("labels") or {}).get(MANAGED_BY) == "endpoint-controller":
            return []
        return [
            warning
            for index, subset in enumerate(obj.get("subsets") or ())
            for field in ("addresses", "notReadyAddresses")
            for position, address in enumerate(subset.get(field) or ())
            for warning in fieldrules.ip_warnings(f"subsets[{index}].{field}[{position}].ip", address.get("ip", ""))
        ]


def _subset_errors(path: str, subset: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
    for field in ("addresses", "notReadyAddresses"):
        for index, address in enumerate(subset.get(field) or ()):
            errors += _address_errors(f"{path}.{field}[{index}]", address)
    ports = subset.get("ports") or []
    for index, port in enumerate(ports):
        errors += _port_errors(f"{path}.ports[{index}]", port, named=len(ports) > 1)
    return errors


def _address_errors(path: str, address: dict[str, Any]) -> list[FieldError]:
    value = address.get("ip", "")
    errors = fieldrules.ip(f"{path}.ip", value)
    if address.get("hostname"):
        errors += fieldrules.dns_label(f"{path}.hostname", address["hostname"])
    if "nodeName" in address:
        errors += fieldrules.dns_subdomain(f"{path}.nodeName", address["nodeName"])
    return errors + fieldrules.endpoint_ip(f"{path}.ip", value)


def _port_errors(path: str, port: dict[str, Any], *, named: bool) -> list[FieldError]:
    name = port.get("name", "")
    errors = fieldrules.dns_label(f"{path}.name", name) if name else []
    if named and not name:
        errors.append(required(f"{path}.name"))
    errors += fieldrules.port_number(f"{path}.port", port.get("port", 0))
    errors += fieldrules.protocol(f"{path}.protocol", port.get("protocol", ""))
    if "appProtocol" in port:
        errors += fieldrules.qualified_name(f"{path}.appProtocol", port["appProtocol"])
    return errors


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("", "Endpoints"): EndpointsStrategy(),
}
