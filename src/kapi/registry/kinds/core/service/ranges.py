"""The ranges that cluster IPs and node ports are chosen from: what they contain, and in which order values are tried.

What is taken is stored: an IPAddress object per cluster IP and a record of node ports (`records.py`). Nothing here
remembers anything, and nothing does I/O.

A value that a client names may come from the whole range. Values the server chooses come from the upper part as long
as it has any, so that clients can name low ones without colliding.
"""

from __future__ import annotations

import ipaddress
import itertools
import random
from typing import TYPE_CHECKING, Any

from kapi.api.go.addresses import parse_ip_sloppy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.api.meta import Object

DEFAULT_SERVICE_CIDR = "10.0.0.0/24"
DEFAULT_NODE_PORTS = range(30000, 32768)

SHORTEST_IPV6_PREFIX = 64
"""Kubernetes allocates from no larger range."""

_random = random.SystemRandom()


class AllocationError(Exception):
    """A value cannot be allocated; the text is for the client."""


class RangeFullError(AllocationError):
    """No value is left."""

    def __init__(self) -> None:
        super().__init__("range is full")


def offsets(size: int, reserved: int, rand: random.Random | None = None) -> Iterator[int]:
    """The numbers `0 … size-1`, each once: those from `reserved` on, then the others, each part from a random start."""
    for low, high in ((reserved, size), (0, reserved)):
        if low < high:
            start = (rand or _random).randrange(low, high)
            yield from itertools.chain(range(start, high), range(low, start))


def reserved_part(size: int, smallest: int, largest: int, share: int) -> int:
    """Return the number of values at the bottom of a range that are reserved for static assignment."""
    return 0 if size <= smallest else min(max(size // share, smallest), largest)


class AddressRange:
    """The addresses of a service range: without the network's own and, for IPv4, the broadcast address."""

    def __init__(self, cidr: str) -> None:
        self.network = ipaddress.ip_network(cidr)
        self._first = int(self.network.network_address) + 1
        self._size = max(self.network.num_addresses - (2 if self.network.version == 4 else 1), 0)
        self._reserved = reserved_part(self._size, 16, 256, 16)

    @property
    def family(self) -> str:
        """`IPv4` or `IPv6`."""
        return f"IPv{self.network.version}"

    @property
    def first(self) -> str:
        """The first usable address, which belongs to the Service `kubernetes`."""
        return self._address(0)

    def _address(self, offset: int) -> str:
        return str(type(self.network.network_address)(self._first + offset))

    def __contains__(self, address: str) -> bool:
        parsed = parse_ip_sloppy(address)
        return (
            parsed is not None
            and parsed.version == self.network.version
            and 0 <= int(parsed) - self._first < self._size
        )

    def candidates(self) -> Iterator[str]:
        """All addresses, in the order they are tried."""
        return map(self._address, offsets(self._size, self._reserved))


def port_candidates(ports: range = DEFAULT_NODE_PORTS) -> Iterator[int]:
    """All node ports, in the order they are tried."""
    return (ports[offset] for offset in offsets(len(ports), reserved_part(len(ports), 16, 128, 32)))


def check_port(port: int, ports: range = DEFAULT_NODE_PORTS) -> None:
    """Raise for a port outside of the range of node ports."""
    if port not in ports:
        valid = f"{ports.start}-{ports.stop - 1}"
        raise AllocationError(f"provided port is not in the valid range. The range of valid ports is {valid}")


def cluster_ips(service: Object) -> list[str]:
    """The addresses a Service holds: none for headless and external ones."""
    spec = service.get("spec", {})
    if spec.get("type") == "ExternalName":
        return []
    addresses = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    return [address for address in addresses if address and address != "None"]


def node_ports(service: Object) -> list[int]:
    """The node ports a Service holds, the health check's included; each once."""
    spec: dict[str, Any] = service.get("spec", {})
    ports = [port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")]
    if spec.get("healthCheckNodePort"):
        ports.append(spec["healthCheckNodePort"])
    return list(dict.fromkeys(ports))
