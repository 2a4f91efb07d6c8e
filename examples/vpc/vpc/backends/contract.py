"""The contract between the controller and what makes networks."""

import ipaddress
import math
from collections.abc import Sequence
from itertools import islice
from typing import Protocol, TypeAlias

Subnet: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class BackendError(Exception):
    """A network could not be made or deleted."""


class Backend(Protocol):
    """Makes networks. Both methods may be called again at any time, also after they failed half-way."""

    @property
    def name(self) -> str:
        """The name shown in the status."""
        ...

    async def ensure(self, uid: str, subnets: Sequence[Subnet]) -> list[str]:
        """Make the network of an object have exactly these subnets; returns what was done."""
        ...

    async def delete(self, uid: str) -> bool:
        """Delete the network of an object; returns True if there was one."""
        ...


def divide(cidr: str, number: int) -> list[Subnet]:
    """Divide addresses into a number of subnets, all of one size.

    Raises:
        ValueError: the addresses are not valid, or too few.

    """
    network = ipaddress.ip_network(cidr)
    bits = math.ceil(math.log2(number))
    if network.prefixlen + bits > network.max_prefixlen - 2:
        raise ValueError(f"{cidr} has too few addresses for {number} subnets")
    return list(islice(network.subnets(prefixlen_diff=bits), number))
