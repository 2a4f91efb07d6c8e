"""The kind of the group discovery.k8s.io: EndpointSlice, a part of the addresses behind a Service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.fielderror import FieldError, duplicate, invalid, required, too_many
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.sameness import same
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MAX_ENDPOINTS = 1000
_MAX_ADDRESSES = 100
_MAX_PORTS = 20000
_MAX_HINTS = 8


class EndpointSliceStrategy(Strategy):
    """The rules of EndpointSlice."""

    tracks_generation = True

    def default(self, obj: Object) -> None:
        """Ports have a name, if only the empty one, and are TCP."""
        for port in obj.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Drop the topology map that only older versions of the API had."""
        for endpoint in obj.get("endpoints") or ():
            endpoint.pop("deprecatedTopology", None)

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """As on create, unless nothing changed."""
        if not same(obj.get("endpoints"), old.get("endpoints")):
            self.prepare_create(write, obj)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Addresses are of the slice's type."""
        return [*_slice_errors(obj), *_endpoints_errors(obj)]

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The type of addresses stays; endpoints that were accepted before may too."""
        errors = _slice_errors(obj)
        if not same(obj.get("endpoints"), old.get("endpoints")):
            errors += _endpoints_errors(obj)
        return errors + fieldrules.unchanged("addressType", obj.get("addressType"), old.get("addressType"))

    def generation_changed(self, obj: Object, old: Object) -> bool:
        """Labels count, because they say which Service it is for."""
        return (
            (obj["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {})
            or not same(obj.get("endpoints"), old.get("endpoints"))
            or not same(obj.get("ports"), old.get("ports"))
            or obj.get("addressType") != old.get("addressType")
        )

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Warn about host names as endpoints and unusual spellings of addresses."""
        warnings = []
        if old is None and obj.get("addressType") == "FQDN":
            warnings.append("spec.addressType: FQDN endpoints are deprecated")
        if obj.get("addressType") not in {"IPv4", "IPv6"}:
            return warnings
        for index, endpoint in enumerate(obj.get("endpoints") or ()):
            for position, address in enumerate(endpoint.get("addresses") or ()):
                warnings += fieldrules.ip_warnings(f"endpoints[{index}].addresses[{position}]", address)
        return warnings


def _slice_errors(obj: Object) -> list[FieldError]:
    kind = obj.get("addressType", "")
    errors = fieldrules.one_of("addressType", kind, ADDRESS_TYPES) if kind else [required("addressType")]
    ports = obj.get("ports") or []
    if len(ports) > _MAX_PORTS:
        return [*errors, too_many("ports", len(ports), _MAX_PORTS)]
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"ports[{index}]", port.get("name", "")
        if name:
            errors += fieldrules.dns_label(f"{path}.name", name)
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        errors += fieldrules.protocol(f"{path}.protocol", port.get("protocol", ""))
        if "appProtocol" in port:
            errors += fieldrules.qualified_name(f"{path}.appProtocol", port["appProtocol"])
    return errors


def _endpoints_errors(obj: Object) -> list[FieldError]:
    endpoints = obj.get("endpoints") or []
    if len(endpoints) > _MAX_ENDPOINTS:
        return [too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)]
    errors: list[FieldError] = []
    for index, endpoint in enumerate(endpoints):
        errors += _endpoint_errors(f"endpoints[{index}]", endpoint, obj.get("addressType", ""))
    return errors


def _endpoint_errors(path: str, endpoint: dict[str, Any], kind: str) -> list[FieldError]:
    addresses = endpoint.get("addresses") or []
    where = f"{path}.addresses"
    errors = [] if addresses else [required(where, "must contain at least 1 address")]
    if len(addresses) > _MAX_ADDRESSES:
        errors.append(too_many(where, len(addresses), _MAX_ADDRESSES))
    for index, address in enumerate(addresses):
        errors += _slice_address_errors(where, index, address, kind)
    if "nodeName" in endpoint:
        errors += fieldrules.dns_subdomain(f"{path}.nodeName", endpoint["nodeName"])
    if "hostname" in endpoint:
        errors += fieldrules.dns_label(f"{path}.hostname", endpoint["hostname"])
    return errors + _hint_errors(f"{path}.hints", endpoint.get("hints") or {})


def _slice_address_errors(path: str, index: int, address: str, kind: str) -> list[FieldError]:
    where = f"{path}[{index}]"
    if kind == "FQDN":
        return _domain_errors(where, address)
    if kind not in ADDRESS_TYPES:
        return []
    errors = fieldrules.each(where, address, names.ip(address, canonical=kind == "IPv6"))
    if errors:
        return errors
    if (":" in address) != (kind == "IPv6"):
        errors.append(invalid(path, address, f"must be an {kind} address"))
    return errors + fieldrules.endpoint_ip(where, address)


def _domain_errors(path: str, name: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    name = name.removesuffix(".")
    sentences = names.dns_subdomain(name)
    if sentences:
        return [invalid(path, name, ",".join(sentences))]
    labels = name.split(".")
    if len(labels) < 2:
        return [invalid(path, name, "should be a domain with at least two segments separated by dots")]
    long = next((label for label in labels if names.dns_label(label)), None)
    return [invalid(path, long, ",".join(names.dns_label(long)))] if long else []


def _hint_errors(path: str, hints: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, rule in (("forZones", names.label_value), ("forNodes", names.dns_subdomain)):
        entries = hints.get(field) or []
        if len(entries) > _MAX_HINTS:
            return [*errors, too_many(f"{path}.{field}", len(entries), _MAX_HINTS)]
        seen: set[str] = set()
        for index, entry in enumerate(entries):
            where, name = f"{path}.{field}[{index}].name", entry.get("name", "")
            if name in seen:
                errors.append(duplicate(where, name))
            seen.add(name)
            errors += fieldrules.each(where, name, rule(name))
    return errors


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("discovery.k8s.io", "EndpointSlice"): EndpointSliceStrategy(),
}
