"""IP addresses: `ip('10.0.0.1').family()`, and the strict parser that `cidr` uses too.

Leading zeros, zones and IPv4 inside IPv6 are refused, each in the words of cel-go.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kapi.api.go.addresses import BadAddress, parse_addr
from kapi.api.go.text import quote
from kapi.schema.cel.cost.calls import READ_FACTOR, CallCost, CallSite, one, read_argument
from kapi.schema.cel.cost.prices import reads
from kapi.schema.cel.library import Library
from kapi.schema.cel.types import BOOL, INT, STRING, Overload, Type
from kapi.schema.cel.values import EvaluationError, Opaque

if TYPE_CHECKING:
    from collections.abc import Callable

IP_TYPE: Final = Type("net.IP")
_MAPPED: Final = 0xFFFF


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


def strict_address(text: str) -> Address:
    """An address without a zone that is not IPv4 inside IPv6; raises EvaluationError."""
    try:
        address = Address(*parse_addr(text))
    except BadAddress as error:
        problem = f"IP Address {quote(text)} parse error during conversion from string: {error}"
        raise EvaluationError(problem) from None
    if address.zone:
        raise EvaluationError(f"IP address {quote(text)} with zone value is not allowed")
    if is_mapped(address):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return address


def is_mapped(address: Address) -> bool:
    """Return True if an address is an IPv4 one written as IPv6."""
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


def _estimate_canonical(site: CallSite) -> CallCost | None:
    return CallCost(site.size(site.args[0]).scaled(2 * READ_FACTOR)) if site.args else None


LIBRARY: Final = Library(
    name="kubernetes.net.ip",
    functions=FUNCTIONS,
    implementations=IMPLEMENTATIONS,
    prices={"ip": reads(), "isIP": reads(), "ip.isCanonical": reads(2)},
    estimates={"ip": read_argument, "isIP": read_argument, "ip.isCanonical": _estimate_canonical},
    equality={IP_TYPE: one},
    types={"net.IP": IP_TYPE},
    since=(1, 30),
)
