"""The records of cluster IPs and node ports: ServiceCIDRs, IPAddresses and the reservations of node ports.

Everything is read from the watch cache and may therefore be a moment old when another server writes. That is why every
operation made here names the revision it was decided on: the commit compares them.

There is one IPAddress object per cluster IP, as kube-apiserver has it. Node ports are reserved in blocks of 32, each
with a record: with a record per port, a Service with many ports would not fit into one commit (`MAX_OPERATIONS`), and
with one record for all ports, as the RangeAllocation of kube-apiserver, every two writers would collide.
"""

from __future__ import annotations

import contextlib
import ipaddress
from typing import TYPE_CHECKING, Any, Final

from kapi.api.go.addresses import parse_ip_sloppy
from kapi.api.meta import format_time, is_deleting
from kapi.cache.watchcache import Selection
from kapi.registry import reservations
from kapi.registry.encoding import StoredObject, decode, draft, head_of
from kapi.registry.kinds.core.service.ranges import (
    DEFAULT_NODE_PORTS,
    DEFAULT_SERVICE_CIDR,
    SHORTEST_IPV6_PREFIX,
    AddressRange,
)
from kapi.registry.uid import new_uid
from kapi.storage.interface import Check, Delete, Put
from kapi.storage.keys import object_key, reservation_key, reservation_prefix, resource_prefix

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Mapping, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import CacheHub
    from kapi.storage.interface import Operation

NODE_PORTS: Final = "nodeports"
BLOCK: Final = 32
"""Node ports per record. Those of the default range are in 87 records, which one commit can hold."""

FAMILY_LABEL: Final = "ipaddress.kubernetes.io/ip-family"
MANAGED_BY_LABEL: Final = "ipaddress.kubernetes.io/managed-by"
ALLOCATOR: Final = "ipallocator.k8s.io"
DEFAULT_NAME: Final = "kubernetes"
"""The name of the ServiceCIDR that the server makes of its own range."""

_GROUP: Final = "networking.k8s.io"
_API_VERSION: Final = f"{_GROUP}/v1"
_ADDRESSES: Final = resource_prefix(_GROUP, "ipaddresses")
_ADDRESS_HEAD: Final = head_of(_API_VERSION, "IPAddress")
_RANGE_HEAD: Final = head_of(_API_VERSION, "ServiceCIDR")
_FIELDS: Final[Object] = {
    "f:metadata": {"f:labels": {".": {}, f"f:{FAMILY_LABEL}": {}, f"f:{MANAGED_BY_LABEL}": {}}},
    "f:spec": {"f:parentRef": {".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {}}},
}


def canonical(address: str) -> str:
    """An address as the name of its IPAddress object. One that is stored may be written with leading zeros."""
    return str(parse_ip_sloppy(address) or address)


def address_key(address: str) -> str:
    """The key of the IPAddress object of an address."""
    return object_key(_GROUP, "ipaddresses", "", canonical(address))


def owner_of(service: Object) -> str:
    """Return how a Service is named in reservations."""
    metadata = service["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def is_ready(service_cidr: Object) -> bool:
    """Return True if addresses may be allocated from a ServiceCIDR.

    One without a Ready condition counts as ready, as in Kubernetes: the controller that sets it may not be running.
    """
    conditions = (service_cidr.get("status") or {}).get("conditions") or ()
    ready = next((one.get("status") for one in conditions if one.get("type") == "Ready"), "True")
    return ready == "True" and not is_deleting(service_cidr)


def networks_of(service_cidr: Object) -> list[AddressRange]:
    """The ranges that a ServiceCIDR names. One that older rules let through and that cannot be read is left out."""
    found: list[AddressRange] = []
    for cidr in (service_cidr.get("spec") or {}).get("cidrs") or ():
        with contextlib.suppress(ValueError):
            found.append(AddressRange(cidr))
    return found


def ranges_of(service_cidr: Object) -> list[AddressRange]:
    """The ranges of a ServiceCIDR that addresses can be allocated from."""
    ranges = networks_of(service_cidr)
    return [one for one in ranges if one.family == "IPv4" or one.network.prefixlen >= SHORTEST_IPV6_PREFIX]


def ip_address(address: str, service: Object, now: dt.datetime) -> Object:
    """The IPAddress object of a cluster IP, as kube-apiserver makes it."""
    metadata = service["metadata"]
    moment = format_time(now)
    managed = {
        "manager": "kube-apiserver",
        "operation": "Update",
        "apiVersion": _API_VERSION,
        "time": moment,
        "fieldsType": "FieldsV1",
        "fieldsV1": _FIELDS,
    }
    parsed = ipaddress.ip_address(canonical(address))
    return {
        "kind": "IPAddress",
        "apiVersion": _API_VERSION,
        "metadata": {
            "name": str(parsed),
            "uid": new_uid(),
            "creationTimestamp": moment,
            "labels": {FAMILY_LABEL: f"IPv{parsed.version}", MANAGED_BY_LABEL: ALLOCATOR},
            "managedFields": [managed],
        },
        "spec": {
            "parentRef": {
                "resource": "services",
                "namespace": metadata.get("namespace", ""),
                "name": metadata["name"],
            }
        },
    }


def refers_to(address: Object, service: Object) -> bool:
    """Return True if an IPAddress object names a Service as its parent."""
    parent, metadata = (address.get("spec") or {}).get("parentRef") or {}, service["metadata"]
    return (
        not parent.get("group")
        and parent.get("resource") == "services"
        and parent.get("namespace", "") == metadata.get("namespace", "")
        and parent.get("name") == metadata["name"]
    )


class ServiceRecords:
    """Reads what is taken, and makes the operations that take and release.

    `pending` has the keys of commits of this server that are under way. It only keeps this server from choosing values
    that it is about to lose; nothing depends on it.
    """

    def __init__(
        self, hub: CacheHub, cidrs: Sequence[str] = (DEFAULT_SERVICE_CIDR,), ports: range = DEFAULT_NODE_PORTS
    ) -> None:
        self._hub = hub
        self.configured = [AddressRange(cidr) for cidr in cidrs]
        """The ranges the server was started with: they say which IP families there are, the primary one first."""
        self.ports = ports
        self.pending: set[str] = set()
        self._blocks: dict[int, tuple[dict[str, str], int]] = {}
        self._ranges: list[AddressRange] = []
        self._ranges_at: tuple[tuple[str, int], ...] = ()

    @property
    def families(self) -> tuple[str, ...]:
        """The configured IP families, the primary one first."""
        return tuple(one.family for one in self.configured)

    # -- addresses --------------------------------------------------------------------------------------------------

    def ranges(self, family: str = "") -> list[AddressRange]:
        """The ranges of every ServiceCIDR that is ready, that of the server first."""
        items = self._hub.cache(resource_prefix(_GROUP, "servicecidrs")).items()
        at = tuple((item.name, item.revision) for item in items)
        if at != self._ranges_at:
            found = sorted(items, key=lambda item: item.name != DEFAULT_NAME)
            ready = (obj for item in found if is_ready(obj := decode(_RANGE_HEAD, item.body)))
            self._ranges, self._ranges_at = [one for obj in ready for one in ranges_of(obj)], at
        return [one for one in self._ranges if not family or one.family == family]

    def find_address(self, address: str) -> tuple[Object | None, int]:
        """The IPAddress object of an address and its revision; None and 0 when there is none."""
        item = self._hub.find(address_key(address))
        return (None, 0) if item is None else (decode(_ADDRESS_HEAD, item.body), item.revision)

    def is_free(self, name: str) -> bool:
        """Return True if there is no IPAddress object of this name, which is an address in canonical form."""
        # Called for every address of a range that is almost full, hence without parsing it again.
        return self._hub.cache(_ADDRESSES).get(_ADDRESSES + name) is None

    def take_address(self, address: str, service: Object, now: dt.datetime) -> Put:
        """The operation that gives a free address to a Service."""
        obj = ip_address(address, service, now)
        return Put(address_key(address), draft(StoredObject(obj)), 0, Selection(obj["metadata"]["labels"], None))

    def release_address(self, address: str, service: Object) -> Operation | None:
        """The operation that takes an address back from a Service; None when it is not the Service's."""
        found, revision = self.find_address(address)
        if found is None:
            # The object was deleted by a client. A repair that restores it at this moment must not win.
            return Check(address_key(address), 0)
        return Delete(address_key(address), revision) if refers_to(found, service) else None

    # -- node ports -------------------------------------------------------------------------------------------------

    def port_owner(self, port: int) -> str | None:
        """The Service that holds a node port, as `owner_of` names it; None when it is free."""
        return self._block(port // BLOCK)[0].get(str(port))

    def taken_ports(self) -> set[int]:
        """All node ports that are held."""
        blocks = {port // BLOCK for port in self.ports}
        return {int(port) for block in blocks for port in self._block(block)[0]}

    def _block(self, block: int) -> tuple[dict[str, str], int]:
        """The ports of a block that are held, with their Services, and the revision; decoded once per revision."""
        item = self._hub.find(reservation_key(NODE_PORTS, str(block)))
        if item is None:
            return {}, 0
        known = self._blocks.get(block)
        if known is None or known[1] != item.revision:
            known = self._blocks[block] = reservations.find(self._hub, NODE_PORTS, str(block))
        return known

    def is_pending(self, port: int) -> bool:
        """Return True if this server is writing the block of a port at this moment."""
        return bool(self.pending) and reservation_key(NODE_PORTS, str(port // BLOCK)) in self.pending

    def change_ports(self, owner: str, taken: Iterable[int], released: Iterable[int]) -> list[Operation]:
        """The operations that give free ports to a Service and take others back from it."""
        taken, released = set(taken), set(released)
        operations: list[Operation] = []
        for block in sorted({port // BLOCK for port in taken | released}):
            held, revision = self._block(block)
            wanted = {port: holder for port, holder in held.items() if int(port) not in released or holder != owner}
            wanted |= {str(port): owner for port in taken if port // BLOCK == block}
            operations.append(_change(block, held, wanted, revision))
        return operations

    def replace_ports(self, holders: Mapping[int, str]) -> list[Operation]:
        """The operations that make the reservations what they are to be, and none where they are so."""
        stored = self._hub.cache(reservation_prefix(NODE_PORTS)).items()
        operations: list[Operation] = []
        for block in sorted({int(item.name) for item in stored} | {port // BLOCK for port in holders}):
            held, revision = self._block(block)
            wanted = {str(port): holders[port] for port in range(block * BLOCK, (block + 1) * BLOCK) if port in holders}
            if wanted != held:
                operations.append(_change(block, held, wanted, revision))
        return operations


def _change(block: int, held: dict[str, Any], wanted: dict[str, Any], revision: int) -> Operation:
    """The operation that changes a reservation, or compares it where it is as wanted."""
    key = reservation_key(NODE_PORTS, str(block))
    if wanted == held:
        return Check(key, revision)
    return reservations.put(NODE_PORTS, str(block), wanted, revision) if wanted else Delete(key, revision)
