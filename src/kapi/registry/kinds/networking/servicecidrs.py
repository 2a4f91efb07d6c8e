"""ServiceCIDR and IPAddress: the ranges that Service addresses are allocated from, and the allocated addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api import names
from kapi.api.fielderror import FieldError, immutable, invalid, required
from kapi.api.go.addresses import parse_cidr_sloppy
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.sameness import same
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write


class IPAddressStrategy(Strategy):
    """The rules of IPAddress: the record that an address belongs to an object."""

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Validate the parent that the address belongs to."""
        parent = obj.get("spec", {}).get("parentRef")
        path = "spec.parentRef"
        if parent is None:
            return [required(path)]
        errors: list[FieldError] = []
        if parent.get("group"):
            errors += fieldrules.dns_subdomain(f"{path}.group", parent["group"])
        for field in ("resource", "name"):
            errors += fieldrules.required_string(f"{path}.{field}", parent.get(field), fieldrules.path_segment)
        if parent.get("namespace"):
            errors += fieldrules.path_segment(f"{path}.namespace", parent["namespace"])
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate that the parent does not change."""
        now, was = obj.get("spec", {}).get("parentRef"), old.get("spec", {}).get("parentRef")
        return [] if same(now, was) else [immutable("spec.parentRef", now)]

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """The name is the address in its canonical form."""
        return names.ip(name, canonical=True)


class ServiceCIDRStrategy(Strategy):
    """The rules of ServiceCIDR: a range of cluster IPs, at most one per family."""

    has_status = True
    resets_metadata_on_status = True

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Validate the ranges: one, or one of each IP family."""
        return _range_errors(obj.get("spec", {}).get("cidrs") or [])

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate that nothing changes but that a second IP family is added."""
        now, was = obj.get("spec", {}).get("cidrs") or [], old.get("spec", {}).get("cidrs") or []
        if len(now) == len(was):
            pairs = enumerate(zip(now, was, strict=True))
            return [immutable(f"spec.cidrs[{index}]", new) for index, (new, stored) in pairs if new != stored]
        if len(was) == 1 and len(now) == 2:
            errors = [] if now[0] == was[0] else [immutable("spec.cidrs[0]", now[0])]
            return errors + _range_errors(now)
        return [immutable("spec.cidrs", now or None)]


def _range_errors(networks: list[str]) -> list[FieldError]:
    path = "spec.cidrs"
    if not networks:
        return [required(path, "at least one CIDR required")]
    if len(networks) > 2:
        return [invalid(path, {"CIDRs": networks}, "may only hold up to 2 values")]
    errors: list[FieldError] = []
    for index, value in enumerate(networks):
        errors += fieldrules.each(f"{path}[{index}]", value, names.cidr(value, canonical=True))
    families = {network.version for value in networks if (network := parse_cidr_sloppy(value))}
    if len(networks) == 2 and len(families) == 1 and all(parse_cidr_sloppy(value) for value in networks):
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.append(invalid(path, networks, text))
    return errors


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("networking.k8s.io", "IPAddress"): IPAddressStrategy(),
    ("networking.k8s.io", "ServiceCIDR"): ServiceCIDRStrategy(),
}
