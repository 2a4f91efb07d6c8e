"""Addresses: `ip('10.0.0.1').family()`, and the strict reading of them that `cidr` and `url` share.

Leading zeros, zones and IPv4 inside IPv6 are refused, each in the words of the reference.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kapi.schema.cel.gotext import quoted
from kapi.schema.cel.types import BOOL, INT, STRING, Overload, Type
from kapi.schema.cel.values import EvaluationError, Opaque

if TYPE_CHECKING:
    from collections.abc import Callable

IP_TYPE: Final = Type("net.IP")
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_MAPPED: Final = 0xFFFF
_GROUPS: Final = 8


class BadAddress(ValueError):
    """A text that is no address."""


@dataclass(frozen=True, slots=True)
class Address(Opaque):
    """An address: its number and how many bits it has, 32 or 128."""

    cel_type: ClassVar[Type] = IP_TYPE

    number: int
    bits: int
    zone: str = ""

    @property
    def size(self) -> int:
        """In bytes."""
        return self.bits // 8

    def __str__(self) -> str:
        if self.bits == 32:
            return str(ipaddress.IPv4Address(self.number))
        if self.number >> 32 == _MAPPED:
            return f"::ffff:{ipaddress.IPv4Address(self.number & 0xFFFFFFFF)}"
        return str(ipaddress.IPv6Address(self.number))

    def top(self, bits: int) -> int:
        """The first bits."""
        return self.number >> (self.bits - bits)


# -- reading ----------------------------------------------------------------------------------------------------------


def parse_address(text: str) -> Address:
    """An address as Go reads one, zone and all; raises BadAddress in its words."""
    for character in text:
        if character == ".":
            return Address(_dotted(text, text), 32)
        if character == ":":
            return _colons(text)
        if character == "%":
            raise _bad(text, "missing IPv6 address")
    raise _bad(text, "unable to parse IP")


def _bad(text: str, message: str, place: str = "") -> BadAddress:
    return BadAddress(f"ParseAddr({quoted(text)}): {message}{f' (at {quoted(place)})' if place else ''}")


def _dotted(text: str, part: str) -> int:
    """The number of `1.2.3.4`, which is the whole text or the end of it."""
    fields: list[int] = []
    value, digits = 0, 0
    for place, character in enumerate(part):
        if character in "0123456789":
            if digits == 1 and value == 0:
                raise _bad(text, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(character), digits + 1
            if value > 255:
                raise _bad(text, "IPv4 field has value >255")
        elif character == ".":
            if not digits or place == len(part) - 1:
                raise _bad(text, "IPv4 field must have at least one digit", part[place:])
            if len(fields) == 3:
                raise _bad(text, "IPv4 address too long")
            fields.append(value)
            value, digits = 0, 0
        else:
            raise _bad(text, "unexpected character", part[place:])
    if len(fields) < 3:
        raise _bad(text, "IPv4 address too short")
    return int.from_bytes([*fields, value])


def _colons(text: str) -> Address:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _bad(text, "zone must be a non-empty string")
    gap = -1
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
        if not rest:
            return Address(0, 128, zone)
    groups, gap, rest = _groups(text, rest, gap)
    if rest:
        raise _bad(text, "trailing garbage after address", rest)
    if len(groups) < _GROUPS:
        if gap < 0:
            raise _bad(text, "address string too short")
        groups[gap:gap] = [0] * (_GROUPS - len(groups))
    elif gap >= 0:
        raise _bad(text, "the :: must expand to at least one field of zeros")
    number = 0
    for group in groups:
        number = number << 16 | group
    return Address(number, 128, zone)


def _groups(text: str, rest: str, gap: int) -> tuple[list[int], int, str]:
    """The groups, where the `::` stands among them, and what is left over."""
    groups: list[int] = []
    while len(groups) < _GROUPS:
        length = next((place for place, one in enumerate(rest) if one not in _HEX), len(rest))
        if length > 4:
            raise _bad(text, "each group must have 4 or less digits", rest)
        if length == 0:
            raise _bad(text, "each colon-separated field must have at least one digit", rest)
        if rest[length : length + 1] == ".":
            groups += _embedded(text, rest, len(groups), gap)
            return groups, gap, ""
        groups.append(int(rest[:length], 16))
        rest = rest[length:]
        if not rest:
            break
        if rest[0] != ":":
            raise _bad(text, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _bad(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if gap >= 0:
                raise _bad(text, "multiple :: in address", rest)
            gap, rest = len(groups), rest[1:]
            if not rest:
                break
    return groups, gap, rest


def _embedded(text: str, rest: str, before: int, gap: int) -> list[int]:
    if gap < 0 and before != 6:
        raise _bad(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if before > 6:
        raise _bad(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    number = _dotted(text, rest)
    return [number >> 16, number & 0xFFFF]


def strict_address(text: str) -> Address:
    """An address without a zone that is not IPv4 inside IPv6; raises EvaluationError."""
    try:
        address = parse_address(text)
    except BadAddress as error:
        problem = f"IP Address {quoted(text)} parse error during conversion from string: {error}"
        raise EvaluationError(problem) from None
    if address.zone:
        raise EvaluationError(f"IP address {quoted(text)} with zone value is not allowed")
    if is_mapped(address):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return address


def is_mapped(address: Address) -> bool:
    """Whether an address is an IPv4 one written as IPv6."""
    return address.bits == 128 and address.number >> 32 == _MAPPED


# -- questions --------------------------------------------------------------------------------------------------------


def _is_ip(text: str) -> bool:
    try:
        strict_address(text)
    except EvaluationError:
        return False
    return True


def _is_canonical(text: str) -> bool:
    return str(strict_address(text)) == text


def _is_unspecified(address: Address) -> bool:
    return address.number == 0


def _is_loopback(address: Address) -> bool:
    return address.number == 1 if address.bits == 128 else address.top(8) == 127


def _is_multicast(address: Address) -> bool:
    return address.top(8) == 0xFF if address.bits == 128 else address.top(4) == 0xE


def _is_local_multicast(address: Address) -> bool:
    return address.top(16) & 0xFF0F == 0xFF02 if address.bits == 128 else address.top(24) == 0xE00000


def _is_local_unicast(address: Address) -> bool:
    return address.top(10) == 0xFE80 >> 6 if address.bits == 128 else address.top(16) == 0xA9FE


def _is_global_unicast(address: Address) -> bool:
    if address.bits == 32 and address.number in {0, 0xFFFFFFFF}:
        return False
    special = (_is_unspecified, _is_loopback, _is_multicast, _is_local_unicast)
    return not any(is_special(address) for is_special in special)


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "ip": (Overload("string_to_ip", (STRING,), IP_TYPE),),
    "family": (Overload("ip_family", (IP_TYPE,), INT, member=True),),
    "ip.isCanonical": (Overload("ip_is_canonical", (STRING,), BOOL),),
    "isUnspecified": (Overload("ip_is_unspecified", (IP_TYPE,), BOOL, member=True),),
    "isLoopback": (Overload("ip_is_loopback", (IP_TYPE,), BOOL, member=True),),
    "isLinkLocalMulticast": (Overload("ip_is_link_local_multicast", (IP_TYPE,), BOOL, member=True),),
    "isLinkLocalUnicast": (Overload("ip_is_link_local_unicast", (IP_TYPE,), BOOL, member=True),),
    "isGlobalUnicast": (Overload("ip_is_global_unicast", (IP_TYPE,), BOOL, member=True),),
    "isIP": (Overload("is_ip", (STRING,), BOOL),),
    "string": (Overload("ip_to_string", (IP_TYPE,), STRING),),
}

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    "string_to_ip": strict_address,
    "ip_family": lambda address: 4 if address.bits == 32 else 6,
    "ip_is_canonical": _is_canonical,
    "ip_is_unspecified": _is_unspecified,
    "ip_is_loopback": _is_loopback,
    "ip_is_link_local_multicast": _is_local_multicast,
    "ip_is_link_local_unicast": _is_local_unicast,
    "ip_is_global_unicast": _is_global_unicast,
    "is_ip": _is_ip,
    "ip_to_string": str,
}
