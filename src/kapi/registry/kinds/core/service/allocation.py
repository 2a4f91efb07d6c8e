"""Allocation of cluster IPs and node ports for one write of a Service.

A `Claim` decides which values the Service gets, writes them into it, and collects the operations that are committed
together with it: an IPAddress object per address and the reservations of node ports. When the commit finds that another
server was faster, a new claim is made on what is stored then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.errors import InternalError, Invalid
from kapi.api.fielderror import FieldError, invalid
from kapi.api.meta import GroupKind
from kapi.registry.kinds.core.service.families import is_headless, needs_cluster_ip
from kapi.registry.kinds.core.service.ranges import (
    AllocationError,
    RangeFullError,
    check_port,
    cluster_ips,
    node_ports,
    port_candidates,
)
from kapi.registry.kinds.core.service.records import address_key, canonical, owner_of
from kapi.registry.kinds.core.service.validation import needs_health_check

if TYPE_CHECKING:
    import datetime as dt

    from kapi.api.meta import Object
    from kapi.registry.kinds.core.service.records import ServiceRecords
    from kapi.storage.interface import Operation

_WITH_NODE_PORTS = frozenset({"NodePort", "LoadBalancer"})
_OTHER_NETWORK = "the provided network does not match the current range"
_ALLOCATED = "provided IP is already allocated"
_PORT_ALLOCATED = "provided port is already allocated"
_NOT_READY = "allocator not ready"
_DRY_RUN_PORT = 32769


PROBES = 16
"""Node ports that are looked up one by one; where so many are taken, all that are taken are gathered first."""


def allocates_node_ports(spec: dict[str, Any]) -> bool:
    """Return True if every port of a Service gets a node port."""
    if spec.get("type") == "LoadBalancer":
        return bool(spec.get("allocateLoadBalancerNodePorts"))
    return spec.get("type") == "NodePort"


class Claim:
    """The values that one write of a Service takes and releases.

    `service` is changed, but only in fields of its spec that the caller has copied. `old` is None on create.
    """

    def __init__(self, records: ServiceRecords, service: Object, old: Object | None, now: dt.datetime) -> None:
        self._records = records
        self._service = service
        self._old = old
        self._now = now
        self._held_addresses = cluster_ips(old) if old else []
        self._held_ports = node_ports(old) if old else []
        self._addresses: list[str] = []
        self._ports: dict[int, None] = {}
        """The node ports that this write takes, in order."""
        self._taken: set[int] | None = None
        """The node ports that are taken already, once it is worth while to gather them."""

    def operations(self) -> list[Operation]:
        """Choose all values, and return what has to be committed with the Service."""
        self._take_addresses()
        self._take_ports()
        records, service = self._records, self._service
        kept_addresses, kept_ports = cluster_ips(service), node_ports(service)
        operations: list[Operation] = [records.take_address(one, service, self._now) for one in self._addresses]
        lost = [one for one in self._held_addresses if one not in kept_addresses]
        released = (records.release_address(one, service) for one in lost)
        operations += [one for one in released if one is not None]
        dropped = [port for port in self._held_ports if port not in kept_ports]
        return operations + records.change_ports(owner_of(service), self._ports, dropped)

    # -- addresses --------------------------------------------------------------------------------------------------

    def _take_addresses(self) -> None:
        """One address per family, requested or chosen."""
        spec = self._service["spec"]
        if not needs_cluster_ip(self._service) or is_headless(self._service):
            return
        addresses = list(spec.get("clusterIPs") or [])
        for index, family in enumerate(spec["ipFamilies"]):
            if index < len(addresses):
                self._take_address(addresses[index])
            else:
                addresses.append(self._choose_address(family))
        spec["clusterIPs"] = addresses
        spec["clusterIP"] = addresses[0]

    def _take_address(self, address: str) -> None:
        if address in self._held_addresses:
            return
        if not any(address in one for one in self._records.ranges()):
            raise _refused(self._service, address_error(self._service, address, _OTHER_NETWORK))
        name = canonical(address)
        if self._is_set_apart(name) or not self._records.is_free(name):
            raise _refused(self._service, address_error(self._service, address, _ALLOCATED))
        self._addresses.append(address)

    def _choose_address(self, family: str) -> str:
        pending: str | None = None
        for one in self._records.ranges(family):
            for address in one.candidates():
                if self._is_set_apart(address) or not self._records.is_free(address):
                    continue
                if address_key(address) not in self._records.pending:
                    self._addresses.append(address)
                    return address
                pending = pending or address
        if pending is None:
            name = self._service["metadata"]["name"]
            raise InternalError.of(f'failed to allocate a serviceIP for Service "{name}": {RangeFullError()}')
        self._addresses.append(pending)
        return pending

    def _is_set_apart(self, name: str) -> bool:
        """Return True for the address of the Service `kubernetes`, unless this is that Service.

        It stays free while that Service does not exist: the server creates it with this address when it starts.
        """
        metadata = self._service["metadata"]
        if metadata.get("namespace") == "default" and metadata.get("name") == "kubernetes":
            return False
        return name == self._records.configured[0].first

    # -- node ports -------------------------------------------------------------------------------------------------

    def _take_ports(self) -> None:
        """Node ports for every port, and one for the health check of a load balancer."""
        spec = self._service["spec"]
        if spec.get("type") in _WITH_NODE_PORTS:
            self._take_node_ports(spec)
        if needs_health_check(self._service):
            self._take_health_check_port(spec)

    def _take_node_ports(self, spec: dict[str, Any]) -> None:
        """Requested ports come first, so that none of them is chosen for another port.

        On create, one number in two protocols shares a node port.
        """
        ports = spec.get("ports") or []
        shared: dict[int, int] = {}
        for index, port in enumerate(ports):
            number = port.get("nodePort")
            if number:
                self._take_node_port(f"spec.ports[{index}].nodePort", number)
                shared.setdefault(port["port"], number)
        for port in ports if allocates_node_ports(spec) else ():
            if port.get("nodePort"):
                continue
            number = shared.get(port["port"]) if self._old is None else None
            port["nodePort"] = number or self._choose_port("failed to allocate a nodePort")
            shared.setdefault(port["port"], port["nodePort"])

    def _take_node_port(self, path: str, number: int) -> None:
        if number in self._held_ports or number in self._ports:
            return
        try:
            self._take_port(number)
        except AllocationError as error:
            raise _refused(self._service, invalid(path, number, str(error))) from None

    def _take_port(self, number: int) -> None:
        check_port(number, self._records.ports)
        if not self._is_port_free(number):
            raise AllocationError(_PORT_ALLOCATED)
        self._ports[number] = None

    def _choose_port(self, complaint: str) -> int:
        pending = 0
        for tries, number in enumerate(port_candidates(self._records.ports)):
            if tries == PROBES and self._taken is None:
                self._taken = self._records.taken_ports()
            if not self._is_port_free(number):
                continue
            if not self._records.is_pending(number):
                self._ports[number] = None
                return number
            pending = pending or number
        if not pending:
            raise InternalError.of(f"{complaint}: {RangeFullError()}")
        self._ports[pending] = None
        return pending

    def _is_port_free(self, number: int) -> bool:
        if number in self._ports:
            return False
        return self._records.port_owner(number) is None if self._taken is None else number not in self._taken

    def _take_health_check_port(self, spec: dict[str, Any]) -> None:
        number = spec.get("healthCheckNodePort")
        if not number:
            spec["healthCheckNodePort"] = self._choose_port("failed to allocate a HealthCheck NodePort 0")
            return
        if self._old is not None and needs_health_check(self._old):
            return
        try:
            self._take_port(number)
        except AllocationError as error:
            raise InternalError.of(f"failed to allocate requested HealthCheck NodePort {number}: {error}") from None


def release_all(records: ServiceRecords, service: Object) -> list[Operation]:
    """Return what is committed with the deletion of a Service."""
    released = (records.release_address(one, service) for one in cluster_ips(service))
    ports = records.change_ports(owner_of(service), (), node_ports(service))
    return [*(one for one in released if one is not None), *ports]


def _refused(service: Object, error: FieldError) -> Invalid:
    return Invalid.of(GroupKind("", "Service"), service["metadata"]["name"], [error])


def address_error(service: Object, address: str, why: object) -> FieldError:
    """The error of an address that cannot be allocated."""
    return invalid("spec.clusterIPs", service["spec"]["clusterIPs"], f"failed to allocate IP {address}: {why}")


# -- dry runs --------------------------------------------------------------------------------------------------------


def fill_placeholders(records: ServiceRecords, service: Object) -> None:
    """Put placeholders where a write that is not a dry run would choose values, in place."""
    spec = service["spec"]
    if needs_cluster_ip(service) and not is_headless(service):
        _fill_addresses(records, spec)
    taken = max((port for port in node_ports(service) if port >= _DRY_RUN_PORT), default=_DRY_RUN_PORT - 1)
    for port in spec.get("ports") or () if allocates_node_ports(spec) else ():
        if not port.get("nodePort"):
            taken += 1
            port["nodePort"] = taken
    if needs_health_check(service) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = taken + 1


def _fill_addresses(records: ServiceRecords, spec: dict[str, Any]) -> None:
    """The network address of each family's range stands for the address that would be chosen."""
    addresses = list(spec.get("clusterIPs") or [])
    for family in (spec.get("ipFamilies") or [])[len(addresses) :]:
        ranges = records.ranges(family)
        if not ranges:
            return
        addresses.append(str(ranges[0].network.network_address))
    if addresses:
        spec["clusterIPs"], spec["clusterIP"] = addresses, addresses[0]


def dry_run_errors(records: ServiceRecords, service: Object, old: Object | None) -> list[FieldError]:
    """Return what allocation would refuse, as far as Kubernetes says so without allocating."""
    errors = _dry_run_address_errors(records, service, cluster_ips(old) if old else [])
    held = node_ports(old) if old else []
    for index, port in enumerate(service["spec"].get("ports") or ()):
        number = port.get("nodePort")
        if number and number not in held and records.port_owner(number) is not None:
            errors.append(invalid(f"spec.ports[{index}].nodePort", number, _PORT_ALLOCATED))
    return errors


def _dry_run_address_errors(records: ServiceRecords, service: Object, held: list[str]) -> list[FieldError]:
    if not needs_cluster_ip(service) or is_headless(service):
        return []
    spec = service["spec"]
    addresses = spec.get("clusterIPs") or []
    errors = []
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        ranges = records.ranges(family)
        address = addresses[index] if index < len(addresses) else ""
        if address and (address in held or (ranges and address == str(ranges[0].network.network_address))):
            continue
        if not ranges:
            shown, what = (addresses, f" {address}") if address else ([*addresses, ""], "")
            errors.append(invalid("spec.clusterIPs", shown, f"failed to allocate IP{what}: {_NOT_READY}"))
        elif address not in ranges[0]:
            valid = (
                f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {ranges[0].network}"
            )
            errors.append(address_error(service, address, valid))
    return errors
