"""Rules of single fields that several kinds share: addresses, ports, labels, quantities, names inside specs.

Each takes the field's path and its value and returns the field errors, in the words clients know. Rules of a whole
name (what a DNS label is) live in `kapi.api.names`; here they are bound to a path. No I/O, no state.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.fielderror import FieldError, immutable, invalid, not_supported, required
from kapi.api.go.addresses import parse_cidr_sloppy, parse_ip_sloppy
from kapi.api.values import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

    from kapi.api.meta import Object

Errors = list[FieldError]
"""Errors found so far: a rule of one field returns its own, the check of a large struct adds to those it is given."""

NEGATIVE = "must be greater than or equal to 0"
NOT_POSITIVE = "must be greater than zero"
IMMUTABLE = "field is immutable"
MAX_INT32 = 2**31 - 1
PROTOCOLS = ("SCTP", "TCP", "UDP")
_LINK_LOCAL_MULTICAST = {4: ipaddress.ip_network("224.0.0.0/24"), 6: ipaddress.ip_network("ff02::/16")}


def each(path: str, value: Any, messages: Iterable[str]) -> list[FieldError]:
    """One `Invalid value` per sentence of a name rule."""
    return [invalid(path, value, message) for message in messages]


def dns_subdomain(path: str, value: str) -> list[FieldError]:
    """A DNS subdomain inside a spec."""
    return each(path, value, names.dns_subdomain(value))


def dns_label(path: str, value: str) -> list[FieldError]:
    """A DNS label inside a spec."""
    return each(path, value, names.dns_label(value))


def qualified_name(path: str, value: str) -> list[FieldError]:
    """A label key, an annotation key, a protocol name."""
    return each(path, value, names.qualified_name(value))


def path_segment(path: str, value: str) -> list[FieldError]:
    """A name that can stand in a URL."""
    return each(path, value, names.path_segment(value))


def required_string(path: str, value: str | None, rule: Callable[[str, str], list[FieldError]]) -> list[FieldError]:
    """A string that must be there and obey a rule."""
    return rule(path, value) if value else [required(path)]


def one_of(path: str, value: Any, choices: Sequence[str]) -> list[FieldError]:
    """A value of an enumeration; `choices` in the order the message lists them."""
    return [] if value in choices else [not_supported(path, value, choices)]


def unchanged(path: str, new: Any, old: Any) -> list[FieldError]:
    """A field that may not change."""
    return [] if new == old else [immutable(path, new)]


def not_negative(path: str, value: int | None) -> list[FieldError]:
    """A count that may be zero or missing."""
    return [invalid(path, value, NEGATIVE)] if value is not None and value < 0 else []


def positive(path: str, value: int) -> list[FieldError]:
    """A count that may not be zero."""
    return [invalid(path, value, NOT_POSITIVE)] if value <= 0 else []


def required_choice(path: str, value: str, choices: Sequence[str]) -> list[FieldError]:
    """A value of an enumeration that must be there."""
    return one_of(path, value, choices) if value else [required(path)]


def required_dns_label(path: str, value: str) -> list[FieldError]:
    """A DNS label that must be there."""
    return dns_label(path, value) if value else [required(path)]


def labels(path: str, pairs: Mapping[str, str]) -> list[FieldError]:
    """Keys and values of labels. The path has no key in it, as in kube-apiserver's messages."""
    errors: list[FieldError] = []
    for key, value in pairs.items():
        errors += qualified_name(path, key)
        errors += each(path, value, names.label_value(value))
    return errors


def repeated(values: Iterable[Hashable]) -> list[int]:
    """The positions of values that stand further up in a list already."""
    seen: set[Hashable] = set()
    positions = []
    for index, value in enumerate(values):
        if value in seen:
            positions.append(index)
        seen.add(value)
    return positions


def invalid_without_value(path: str, detail: str) -> FieldError:
    """An `Invalid value` that does not repeat the value."""
    return FieldError("FieldValueInvalid", path, f"Invalid value: {detail}")


def port_number(path: str, value: int) -> list[FieldError]:
    """A port."""
    return each(path, value, names.port_number(value))


def port_number_or_name(path: str, value: int | str) -> list[FieldError]:
    """A port by number or by its IANA-style name."""
    return port_number(path, value) if isinstance(value, int) else each(path, value, names.port_name(value))


def protocol(path: str, value: str) -> list[FieldError]:
    """A transport protocol; empty means it is missing."""
    return one_of(path, value, PROTOCOLS) if value else [required(path)]


# -- addresses -------------------------------------------------------------------------------------------------------


def ip(path: str, value: str, stored: Collection[str] = ()) -> list[FieldError]:
    """An IP address; what is stored already is left alone."""
    return [] if value in stored else each(path, value, names.ip(value))


def cidr(path: str, value: str, stored: Collection[str] = ()) -> list[FieldError]:
    """A network in CIDR notation; what is stored already is left alone."""
    return [] if value in stored else each(path, value, names.cidr(value))


def endpoint_ip(path: str, value: str) -> list[FieldError]:
    """An address traffic can be sent to: none of the ranges that mean something else."""
    parsed = parse_ip_sloppy(value)
    if parsed is None:
        return [invalid(path, value, "must be a valid IP address")]
    complaints = (
        (parsed.is_unspecified, f"may not be unspecified ({value})"),
        (parsed.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (parsed.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (
            parsed in _LINK_LOCAL_MULTICAST[parsed.version],
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    )
    return [invalid(path, value, complaint) for applies, complaint in complaints if applies]


def ip_warnings(path: str, value: str) -> list[str]:
    """Advice about an accepted address in an odd spelling."""
    parsed = parse_ip_sloppy(value)
    if parsed is None or (parsed.version == 4 and str(parsed) == value):
        return []
    if names.ip(value):
        return [f'{path}: non-standard IP address "{value}" is invalid: use "{parsed}"']
    if parsed.version == 6 and str(parsed) != value:
        return [f'{path}: IPv6 address "{value}" should be in RFC 5952 canonical format ("{parsed}")']
    return []


def cidr_warnings(path: str, value: str) -> list[str]:
    """Advice about an accepted network in an odd spelling."""
    network, address = parse_cidr_sloppy(value), parse_ip_sloppy(value.partition("/")[0])
    if network is None or address is None:
        return []
    if network.version == 4 and str(network) == value:
        return []
    if address != network.network_address:
        single = f"{address}/{address.max_prefixlen}"
        return [f'{path}: CIDR value "{value}" is ambiguous in this context (should be "{network}" or "{single}"?)']
    if names.cidr(value):
        return [f'{path}: non-standard CIDR value "{value}" is invalid: use "{network}"']
    if network.version == 6 and str(network) != value:
        return [f'{path}: IPv6 CIDR value "{value}" should be in RFC 5952 canonical format ("{network}")']
    return []


# -- quantities ------------------------------------------------------------------------------------------------------


def positive_quantity(path: str, value: str) -> list[FieldError]:
    """An amount larger than nothing."""
    return [] if parse_quantity(value).mantissa > 0 else [invalid(path, value, NOT_POSITIVE)]


def non_negative_quantity(path: str, value: str) -> list[FieldError]:
    """An amount that is not below nothing."""
    return [invalid(path, value, NEGATIVE)] if parse_quantity(value).mantissa < 0 else []


# -- parts of objects ------------------------------------------------------------------------------------------------


def spec_of(obj: Object) -> dict[str, Any]:
    """The `spec`, created empty when it is missing."""
    spec: dict[str, Any] = obj.setdefault("spec", {})
    return spec


def annotations_of(obj: Object) -> dict[str, str]:
    """The annotations, or an empty map that is not part of the object."""
    return obj["metadata"].get("annotations") or {}
