"""Pools of cluster IPs and node ports.

A pool knows what is taken; it never hands the same value out twice before it was given back. It is not stored: it is
built from the stored Services on first use and kept in step by the Service strategy, which takes values in `reserve`
and gives them back when a write fails or a Service is gone. Everything happens on the event loop, so there is no
locking. A pool belongs to one server.

Values asked for by name may come from the whole range; values the pool chooses come first from the upper part,
so that people can pick low ones without colliding.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.registry.strategy import Lookup

DEFAULT_SERVICE_CIDR = "10.0.0.0/24"
DEFAULT_NODE_PORTS = range(30000, 32768)

FULL = "range is full"


class AllocationError(Exception):
    """The pool said no; the text is for the client."""


class PoolFullError(AllocationError):
    """Nothing is left."""

    def __init__(self) -> None:
        super().__init__(FULL)


class NumberPool:
    """Numbers `0 … size-1`, the lowest `reserved` of which are chosen only when all others are taken.

    Invariant: `take_any` returns a number that is not in `taken` and puts it there.
    """

    def __init__(self, size: int, reserved: int, *, rand: random.Random | None = None) -> None:
        self.size = size
        self.taken: set[int] = set()
        self._reserved = reserved
        self._random = rand or random.SystemRandom()

    def take(self, number: int) -> bool:
        """Take this number; False when it is taken already."""
        if number in self.taken:
            return False
        self.taken.add(number)
        return True

    def take_any(self) -> int:
        """Take a random free number, from the upper part if it has one; raises `PoolFullError`."""
        for low, high in ((self._reserved, self.size), (0, self._reserved)):
            number = self._free_between(low, high)
            if number is not None:
                self.taken.add(number)
                return number
        raise PoolFullError

    def give_back(self, number: int) -> None:
        """Free a number; freeing a free one changes nothing."""
        self.taken.discard(number)

    def _free_between(self, low: int, high: int) -> int | None:
        """A free number in the band: walk from a random start, once around."""
        if low >= high:
            return None
        start = self._random.randrange(low, high)
        for number in itertools.chain(range(start, high), range(low, start)):
            if number not in self.taken:
                return number
        return None


def _band(size: int, smallest: int, largest: int, share: int) -> int:
    """How much of a range's bottom is left for values asked for by name."""
    return 0 if size <= smallest else min(max(size // share, smallest), largest)


class IPPool:
    """The addresses of a service range, without the network's own and (IPv4) the broadcast address."""

    def __init__(self, cidr: str = DEFAULT_SERVICE_CIDR, *, rand: random.Random | None = None) -> None:
        self.network = ipaddress.ip_network(cidr)
        self._first = int(self.network.network_address) + 1
        size = self.network.num_addresses - (2 if self.network.version == 4 else 1)
        self._pool = NumberPool(size, _band(size, 16, 256, 16), rand=rand)

    @property
    def family(self) -> str:
        """`IPv4` or `IPv6`."""
        return f"IPv{self.network.version}"

    @property
    def first(self) -> str:
        """The first usable address, which belongs to the service `kubernetes`."""
        return self._text(0)

    def _text(self, number: int) -> str:
        kind = type(self.network.network_address)
        return str(kind(self._first + number))

    def _number(self, address: str) -> int:
        """The number of an address in the pool; raises `AllocationError` when it has none."""
        parsed = ipaddress.ip_address(address)
        if parsed not in self.network:
            raise AllocationError("the provided network does not match the current range")
        number = int(parsed) - self._first
        if not 0 <= number < self._pool.size:
            raise AllocationError(
                f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {self.network}",
            )
        return number

    def take(self, address: str) -> None:
        """Take this address; raises `AllocationError` with the reason when it cannot be had."""
        if not self._pool.take(self._number(address)):
            raise AllocationError("provided IP is already allocated")

    def check(self, address: str) -> None:
        """Raise as `take` would for an address outside the range, and take nothing."""
        self._number(address)

    def take_any(self) -> str:
        """Take a random free address; raises `PoolFullError`."""
        return self._text(self._pool.take_any())

    def give_back(self, address: str) -> None:
        """Free an address; one outside the range is none of ours."""
        try:
            self._pool.give_back(self._number(address))
        except (AllocationError, ValueError):
            return

    def __contains__(self, address: str) -> bool:
        try:
            return self._number(address) in self._pool.taken
        except (AllocationError, ValueError):
            return False


class PortPool:
    """The node ports."""

    def __init__(self, ports: range = DEFAULT_NODE_PORTS, *, rand: random.Random | None = None) -> None:
        self.ports = ports
        self._pool = NumberPool(len(ports), _band(len(ports), 16, 128, 32), rand=rand)

    def take(self, port: int) -> None:
        """Take this port; raises `AllocationError` with the reason when it cannot be had."""
        if port not in self.ports:
            valid = f"{self.ports.start}-{self.ports.stop - 1}"
            raise AllocationError(
                f"provided port is not in the valid range. The range of valid ports is {valid}",
            )
        if not self._pool.take(port - self.ports.start):
            raise AllocationError("provided port is already allocated")

    def take_any(self) -> int:
        """Take a random free port; raises `PoolFullError`."""
        return self.ports.start + self._pool.take_any()

    def give_back(self, port: int) -> None:
        """Free a port; one outside the range is none of ours."""
        if port in self.ports:
            self._pool.give_back(port - self.ports.start)

    def __contains__(self, port: int) -> bool:
        return port in self.ports and port - self.ports.start in self._pool.taken


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


class ServicePools:
    """Both pools and who holds what, in step with the stored Services once loaded."""

    def __init__(self, cidr: str = DEFAULT_SERVICE_CIDR, ports: range = DEFAULT_NODE_PORTS) -> None:
        self.ips = IPPool(cidr)
        self.ports = PortPool(ports)
        self._held: dict[tuple[str, str], tuple[list[str], list[int]]] = {}
        """Of each Service, what `forget` gives back."""
        self._loaded = False

    def ensure_loaded(self, lookup: Lookup) -> None:
        """Take what the stored Services hold. The first address is the API server's, with or without its Service."""
        if self._loaded:
            return
        self._loaded = True
        self._take_all([self.ips.first], ())
        for service in lookup.list("services"):
            self._take_all(cluster_ips(service), node_ports(service))
            self.hold(service)

    def _take_all(self, addresses: Iterable[str], ports: Iterable[int]) -> None:
        """Take values that are in use whatever the pool thinks: duplicates and strays are left as they are."""
        for address in addresses:
            with contextlib.suppress(AllocationError, ValueError):
                self.ips.take(address)
        for port in ports:
            with contextlib.suppress(AllocationError):
                self.ports.take(port)

    def hold(self, service: Object) -> None:
        """Write down what a stored Service holds."""
        metadata = service["metadata"]
        self._held[metadata.get("namespace", ""), metadata["name"]] = (cluster_ips(service), node_ports(service))

    def forget(self, namespace: str, name: str) -> None:
        """Give back what a Service held, after its deletion was committed. The first address is kept."""
        addresses, ports = self._held.pop((namespace, name), ((), ()))
        for address in addresses:
            if address != self.ips.first:
                self.ips.give_back(address)
        for port in ports:
            self.ports.give_back(port)
