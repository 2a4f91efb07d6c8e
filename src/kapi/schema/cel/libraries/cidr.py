"""Networks: `cidr('10.0.0.0/8').containsIP('10.1.2.3')`. The address of a network keeps its bits past the mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kapi.api.go.addresses import BadAddress, parse_prefix
from kapi.api.go.text import quote
from kapi.schema.cel.cost.calls import READ_FACTOR, CallCost, CallEstimator, CallSite, one, read_argument
from kapi.schema.cel.cost.estimates import ONE, Estimate
from kapi.schema.cel.cost.prices import Price, library_size, reads, text_price
from kapi.schema.cel.libraries.ip import IP_TYPE, Address, is_mapped, strict_address
from kapi.schema.cel.library import Library
from kapi.schema.cel.types import BOOL, INT, STRING, Overload, Type
from kapi.schema.cel.values import EvaluationError, Opaque, no_such_overload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CIDR_TYPE: Final = Type("net.CIDR")
_WRONG: Final = "network address parse error during conversion from string: "


@dataclass(frozen=True, slots=True)
class Network(Opaque):
    """An address and how many of its first bits are the network."""

    cel_type: ClassVar[Type] = CIDR_TYPE

    address: Address
    length: int

    @property
    def size(self) -> int:
        """The bytes that the network takes."""
        return -(-self.length // 8)

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"

    def masked(self) -> Network:
        """The same network with nothing after the mask."""
        bits = self.address.bits
        number = self.address.top(self.length) << (bits - self.length)
        return Network(Address(number, bits), self.length)

    def shares(self, address: Address, bits: int) -> bool:
        """Return True if an address starts with the same bits."""
        return address.bits == self.address.bits and address.top(bits) == self.address.top(bits)


def parse_network(text: str) -> Network:
    """A network; raises EvaluationError."""
    try:
        address, length = parse_prefix(text)
    except BadAddress as error:
        # cel-go says it once while reading and once while converting.
        problem = f"{_WRONG}netip.ParsePrefix({quote(text)}): {error}"
        raise EvaluationError(f"{_WRONG}{problem}") from None
    network = Network(Address(*address), length)
    if is_mapped(network.address):
        raise EvaluationError(f"{_WRONG}IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return network


def _is_cidr(text: str) -> bool:
    try:
        parse_network(text)
    except EvaluationError:
        return False
    return True


def _contains_address(network: Network, address: Address) -> bool:
    return network.shares(address, network.length)


def _contains_text(network: Network, text: str) -> bool:
    try:
        return _contains_address(network, strict_address(text))
    except EvaluationError:
        # What is wrong with the address is lost here in cel-go, though not for networks.
        return no_such_overload()


def _contains_network(network: Network, other: Network) -> bool:
    return network.length <= other.length and network.shares(other.address, network.length)


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "cidr": (Overload("string_to_cidr", (STRING,), CIDR_TYPE),),
    "containsIP": (
        Overload("cidr_contains_ip_string", (CIDR_TYPE, STRING), BOOL, member=True),
        Overload("cidr_contains_ip_ip", (CIDR_TYPE, IP_TYPE), BOOL, member=True),
    ),
    "containsCIDR": (
        Overload("cidr_contains_cidr_string", (CIDR_TYPE, STRING), BOOL, member=True),
        Overload("cidr_contains_cidr", (CIDR_TYPE, CIDR_TYPE), BOOL, member=True),
    ),
    "ip": (Overload("cidr_ip", (CIDR_TYPE,), IP_TYPE, member=True),),
    "prefixLength": (Overload("cidr_prefix_length", (CIDR_TYPE,), INT, member=True),),
    "masked": (Overload("cidr_masked", (CIDR_TYPE,), CIDR_TYPE, member=True),),
    "isCIDR": (Overload("is_cidr", (STRING,), BOOL),),
    "string": (Overload("cidr_to_string", (CIDR_TYPE,), STRING),),
}

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    "string_to_cidr": parse_network,
    "cidr_contains_ip_string": _contains_text,
    "cidr_contains_ip_ip": _contains_address,
    "cidr_contains_cidr_string": lambda network, text: _contains_network(network, parse_network(text)),
    "cidr_contains_cidr": _contains_network,
    "cidr_ip": lambda network: network.address,
    "cidr_prefix_length": lambda network: network.length,
    "cidr_masked": Network.masked,
    "is_cidr": _is_cidr,
    "cidr_to_string": str,
}


_ADDRESS_SIZE: Final = Estimate(4, 16)


def _price_containment(*, parses: bool, masks: bool) -> Price:
    def price(args: Sequence[Any], result: Any) -> int:
        size = library_size(args[0])
        cost = text_price(size + size)
        if masks:
            cost += text_price(size) + 1
        return cost + text_price(library_size(args[1])) if parses else cost

    return price


def _estimate_containment(*, parses: bool, masks: bool) -> CallEstimator:
    def estimate(site: CallSite) -> CallCost | None:
        if not site.args:
            return None
        cost = _ADDRESS_SIZE.plus(_ADDRESS_SIZE).scaled(READ_FACTOR)
        if masks:
            cost = cost.plus(_ADDRESS_SIZE.scaled(READ_FACTOR)).plus(ONE)
        return CallCost(cost.plus(site.size(site.args[0]).scaled(READ_FACTOR)) if parses else cost)

    return estimate


LIBRARY: Final = Library(
    name="kubernetes.net.cidr",
    functions=FUNCTIONS,
    implementations=IMPLEMENTATIONS,
    prices={
        "cidr": reads(),
        "isCIDR": reads(),
        "cidr_ip": 1,
        "containsIP": _price_containment(parses=False, masks=False),
        "cidr_contains_ip_string": _price_containment(parses=True, masks=False),
        "containsCIDR": _price_containment(parses=False, masks=True),
        "cidr_contains_cidr_string": _price_containment(parses=True, masks=True),
    },
    estimates={
        "cidr": read_argument,
        "isCIDR": read_argument,
        "cidr_ip": one,
        "containsIP": _estimate_containment(parses=False, masks=False),
        "cidr_contains_ip_string": _estimate_containment(parses=True, masks=False),
        "containsCIDR": _estimate_containment(parses=False, masks=True),
        "cidr_contains_cidr_string": _estimate_containment(parses=True, masks=True),
    },
    equality={CIDR_TYPE: one},
    types={"net.CIDR": CIDR_TYPE},
    since=(1, 30),
)
