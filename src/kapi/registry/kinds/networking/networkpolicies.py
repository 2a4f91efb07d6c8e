"""NetworkPolicy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.fielderror import FieldError, forbidden, invalid, required
from kapi.api.go.addresses import parse_cidr_sloppy
from kapi.api.selectors import validate_label_selector
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.fieldrules import spec_of
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.api.meta import Object
    from kapi.registry.request import Write


class NetworkPolicyStrategy(Strategy):
    """The rules of NetworkPolicy."""

    tracks_generation = True

    def default(self, obj: Object) -> None:
        """A policy is about incoming traffic, and about outgoing when it has rules for it; ports are TCP."""
        spec = spec_of(obj)
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        for direction in ("ingress", "egress"):
            for rule in spec.get(direction) or ():
                for port in rule.get("ports") or ():
                    port.setdefault("protocol", "TCP")

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Selectors, peers and ports."""
        return _policy_errors(obj["spec"], frozenset())

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Networks that were accepted before may stay."""
        stored = frozenset(
            value
            for _, block in _ip_blocks(old.get("spec", {}))
            for value in (block.get("cidr", ""), *(block.get("except") or ()))
        )
        return _policy_errors(obj["spec"], stored)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Odd spellings of networks."""
        warnings: list[str] = []
        for path, block in _ip_blocks(obj["spec"]):
            warnings += fieldrules.cidr_warnings(f"{path}.cidr", block.get("cidr", ""))
            for index, value in enumerate(block.get("except") or ()):
                warnings += fieldrules.cidr_warnings(f"{path}.except[{index}]", value)
        return warnings


def _peers(spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every rule of both directions with its path, and then its peers."""
    for direction, side in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            for position, peer in enumerate(rule.get(side) or ()):
                yield f"spec.{direction}[{index}].{side}[{position}]", peer


def _ip_blocks(spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, peer in _peers(spec):
        if "ipBlock" in peer:
            yield f"{path}.ipBlock", peer["ipBlock"]


def _policy_errors(spec: dict[str, Any], stored: frozenset[str]) -> list[FieldError]:
    errors = validate_label_selector(spec.get("podSelector"), "spec.podSelector")
    for direction, side in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{index}]"
            for position, port in enumerate(rule.get("ports") or ()):
                errors += _policy_port_errors(f"{path}.ports[{position}]", port)
            for position, peer in enumerate(rule.get(side) or ()):
                errors += _peer_errors(f"{path}.{side}[{position}]", peer, stored)
    kinds = spec.get("policyTypes") or []
    if len(kinds) > 2:
        return [*errors, invalid("spec.policyTypes", kinds, "may not specify more than two policyTypes")]
    for index, kind in enumerate(kinds):
        errors += fieldrules.one_of(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))
    return errors


def _policy_port_errors(path: str, entry: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    if "protocol" in entry:
        errors += fieldrules.one_of(f"{path}.protocol", entry["protocol"], ("TCP", "UDP", "SCTP"))
    port, end, where = entry.get("port"), entry.get("endPort"), f"{path}.endPort"
    if port is None:
        if end is not None:
            errors.append(invalid(where, end, "may not be specified when `port` is not specified"))
    elif isinstance(port, int):
        errors += fieldrules.port_number(f"{path}.port", port)
        if end is not None:
            if end < port:
                errors.append(invalid(where, port, "must be greater than or equal to `port`"))
            errors += fieldrules.port_number(where, end)
    else:
        if end is not None:
            errors.append(invalid(where, end, "may not be specified when `port` is non-numeric"))
        errors += fieldrules.each(f"{path}.port", port, names.port_name(port))
    return errors


def _peer_errors(path: str, peer: dict[str, Any], stored: frozenset[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    present = [field for field in ("podSelector", "namespaceSelector", "ipBlock") if field in peer]
    for field in present:
        if field == "ipBlock":
            errors += _ip_block_errors(f"{path}.ipBlock", peer["ipBlock"], stored)
        else:
            errors += validate_label_selector(peer[field], f"{path}.{field}")
    if not present:
        errors.append(required(path, "must specify a peer"))
    elif len(present) > 1 and "ipBlock" in peer:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return errors


def _ip_block_errors(path: str, block: dict[str, Any], stored: frozenset[str]) -> list[FieldError]:
    text = block.get("cidr", "")
    if not text:
        return [required(f"{path}.cidr")]
    errors = fieldrules.cidr(f"{path}.cidr", text, stored)
    outer = parse_cidr_sloppy(text)
    if outer is None:
        return errors
    for index, value in enumerate(block.get("except") or ()):
        where = f"{path}.except[{index}]"
        errors += fieldrules.cidr(where, value, stored)
        inner = parse_cidr_sloppy(value)
        if inner is None:
            continue
        if inner.network_address not in outer or inner.prefixlen <= outer.prefixlen:
            errors.append(invalid(where, value, "must be a strict subset of `cidr`"))
    return errors


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("networking.k8s.io", "NetworkPolicy"): NetworkPolicyStrategy(),
}
