"""IP addresses and CIDR ranges as Go reads them.

Three readings, because Kubernetes uses all three: `netip.ParseAddr` (with its messages), `net.ParseIP`, which takes the
same texts but no zones, and the sloppy one of Go 1.16 that fields of old APIs keep, in which numbers may have leading
zeros.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from typing import Final, NamedTuple

from kapi.api.go.text import parse_uint, quote

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_HEX: Final = frozenset("0123456789abcdefABCDEF")
_GROUPS: Final = 8
_LONGEST: Final = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")
_LEADING_ZEROS: Final = re.compile(r"(?<![0-9A-Fa-f])0+(?=[0-9A-Fa-f])")


class BadAddress(ValueError):
    """A text that is no address or prefix; the message is that of `netip`."""


class Addr(NamedTuple):
    """An address as a number of 32 or 128 bits, with the zone of an IPv6 address."""

    number: int
    bits: int
    zone: str = ""


# -- net --------------------------------------------------------------------------------------------------------------


def parse_ip(text: str) -> IPAddress | None:
    """Read an address as `net.ParseIP` does; None when it is none."""
    return None if "%" in text or len(text) > _LONGEST else _parse_ip(text)


@functools.lru_cache(maxsize=64)  # the rules of a field read its address several times in a row
def _parse_ip(text: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def parse_ip_sloppy(text: str) -> IPAddress | None:
    """Read an address whose numbers may have leading zeros; None when it is none."""
    return parse_ip(text) or parse_ip(_LEADING_ZEROS.sub("", text))


def parse_cidr_sloppy(text: str) -> IPNetwork | None:
    """Read a range whose numbers may have leading zeros, dropping the bits after the prefix; None when it is none."""
    address, _, bits = text.partition("/")
    parsed = parse_ip_sloppy(address)
    length = parse_uint(bits)
    if parsed is None or length is None or length > parsed.max_prefixlen:
        return None
    return ipaddress.ip_network((parsed, length), strict=False)


# -- netip ------------------------------------------------------------------------------------------------------------


def parse_prefix(text: str) -> tuple[Addr, int]:
    """Read `address/length` as `netip.ParsePrefix` does, without the function's name in its message."""
    before, slash, after = text.rpartition("/")
    if not slash:
        raise BadAddress("no '/'")
    address = parse_addr(before)
    if address.zone:
        raise BadAddress("IPv6 zones cannot be present in a prefix")
    length = parse_uint(after)
    if length is None or (len(after) > 1 and after[0] == "0"):
        raise BadAddress(f"bad bits after slash: {quote(after)}")
    if length > address.bits:
        raise BadAddress("prefix length out of range")
    return address, length


def parse_addr(text: str) -> Addr:
    """Read an address, zone included, as `netip.ParseAddr` does; raises BadAddress."""
    for character in text:
        if character == ".":
            return Addr(_dotted(text, text), 32)
        if character == ":":
            return _colons(text)
        if character == "%":
            raise _bad(text, "missing IPv6 address")
    raise _bad(text, "unable to parse IP")


def _bad(text: str, message: str, place: str = "") -> BadAddress:
    return BadAddress(f"ParseAddr({quote(text)}): {message}{f' (at {quote(place)})' if place else ''}")


def _dotted(text: str, part: str) -> int:
    """Return the number of `1.2.3.4`, which is the whole text or the end of it."""
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


def _colons(text: str) -> Addr:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _bad(text, "zone must be a non-empty string")
    gap = -1
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
        if not rest:
            return Addr(0, 128, zone)
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
    return Addr(number, 128, zone)


def _groups(text: str, rest: str, gap: int) -> tuple[list[int], int, str]:
    """Return the groups, the position of the `::` among them, and what is left over."""
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
