"""Service: defaults, the dance of its types, and the addresses and ports it takes from the pools.

Addresses and node ports are taken in `reserve`, last before the commit, and given back when the commit fails. What
an update stops using is given back after it went through. A dry run takes nothing and shows placeholders instead.
What a deleted Service held is given back in `removed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.errors import GroupKind, InternalError, Invalid
from kapi.api.fielderror import FieldError, invalid
from kapi.registry.kinds.core.service.allocators import (
    AllocationError,
    PoolFullError,
    ServicePools,
    cluster_ips,
    node_ports,
)
from kapi.registry.kinds.core.service.families import (
    fill_families,
    is_headless,
    keep_cluster_ips,
    needs_cluster_ip,
    normalize_cluster_ips,
)
from kapi.registry.kinds.core.service.validation import (
    externally_accessible,
    needs_health_check,
    service_errors,
    service_warnings,
    status_errors,
    update_errors,
)
from kapi.registry.kinds.fieldrules import spec_of
from kapi.registry.strategy import Companions, Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

_DEFAULT_AFFINITY_SECONDS = 10800
_DRY_RUN_PORT = 32769
_WITH_NODE_PORTS = frozenset({"NodePort", "LoadBalancer"})
_WITH_INTERNAL_POLICY = frozenset({"ClusterIP", "NodePort", "LoadBalancer"})


class ServiceStrategy(Strategy):
    """The rules of Service. One instance per server, because it owns the pools."""

    has_status = True
    allow_create_on_update = True
    returns_deleted_object = True
    selectable_fields = ("spec.clusterIP", "spec.type")

    def __init__(self, pools: ServicePools | None = None) -> None:
        self.pools = pools or ServicePools()

    @property
    def _families(self) -> tuple[str, ...]:
        return (self.pools.ips.family,)

    def default(self, obj: Object) -> None:
        """Fill in what a Service is when nothing else is said."""
        spec = spec_of(obj)
        if not spec.get("sessionAffinity"):
            spec["sessionAffinity"] = "None"
        _default_affinity(spec)
        if not spec.get("type"):
            spec["type"] = "ClusterIP"
        for port in spec.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"
            if not port.get("targetPort") and "port" in port:
                port["targetPort"] = port["port"]
        if externally_accessible(obj) and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if spec["type"] in _WITH_INTERNAL_POLICY:
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for entry in obj.get("status", {}).get("loadBalancer", {}).get("ingress") or ():
                if entry.get("ip"):
                    entry.setdefault("ipMode", "VIP")

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Settle addresses and families."""
        obj["status"] = {"loadBalancer": {}}
        normalize_cluster_ips(obj, None)
        fill_families(obj, None, self._families)
        if write.dry_run:
            self._fill_placeholders(obj)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Families first: nothing else makes sense when they do not."""
        return fill_families(obj, None, self._families) or [
            *service_errors(obj, None),
            *self._dry_run_errors(write, obj, None),
        ]

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Keep what was allocated, settle families, and drop what the new type has no use for."""
        keep_cluster_ips(obj, old)
        _keep_node_ports(obj, old)
        normalize_cluster_ips(obj, old)
        fill_families(obj, old, self._families)
        _drop_type_dependent(obj, old)
        if write.dry_run:
            self._fill_placeholders(obj)

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Addresses stay once set; the rest as on create."""
        return fill_families(obj, old, self._families) or [
            *update_errors(obj, old),
            *service_errors(obj, old),
            *self._dry_run_errors(write, obj, old),
        ]

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The load balancer's addresses."""
        return status_errors(obj, old)

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """A DNS label, as RFC 1123 has it: a digit may come first."""
        return names.dns_label(name, prefix=prefix)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Advice about deprecated and ineffective fields."""
        return service_warnings(obj)

    def selectable(self, obj: Object) -> dict[str, str]:
        """By address and type."""
        spec = obj.get("spec", {})
        return {"spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}

    # -- pools ------------------------------------------------------------------------------------------------------

    def commit_with(self, write: Write, obj: Object | None, old: Object | None) -> Companions | None:
        """Take addresses and node ports, writing them into `obj`; what is no longer held is given back afterwards."""
        if obj is None:
            return Companions(done=lambda committed: self._deleted(old) if committed else None)
        if write.subresource:
            return None
        self.pools.ensure_loaded(write.lookup)
        # What is chosen must not leak into the request's own spec: with another generated name it is chosen anew.
        obj["spec"] = dict(obj["spec"])
        if obj["spec"].get("ports"):
            obj["spec"]["ports"] = [dict(port) for port in obj["spec"]["ports"]]
        claim = _Claim(self.pools, obj, old)
        try:
            claim.take_addresses()
            claim.take_ports()
        except BaseException:
            claim.settle(committed=False)
            raise
        return Companions(done=lambda committed: claim.settle(committed=committed))

    def _deleted(self, service: Object | None) -> None:
        if service is not None:
            self.pools.forget(service["metadata"]["namespace"], service["metadata"]["name"])

    def _fill_placeholders(self, obj: Object) -> None:
        """What a dry run shows where the pools would have chosen."""
        spec = obj["spec"]
        if needs_cluster_ip(obj) and not is_headless(obj) and not spec.get("clusterIPs"):
            spec["clusterIP"] = str(self.pools.ips.network.network_address)
            spec["clusterIPs"] = [spec["clusterIP"]]
        taken = max((port for port in node_ports(obj) if port >= _DRY_RUN_PORT), default=_DRY_RUN_PORT - 1)
        for port in spec.get("ports") or () if _allocates_node_ports(spec) else ():
            if not port.get("nodePort"):
                taken += 1
                port["nodePort"] = taken
        if needs_health_check(obj) and not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = taken + 1

    def _dry_run_errors(self, write: Write, obj: Object, old: Object | None) -> list[FieldError]:
        """What `commit_with` would have refused, as far as it can be told without taking anything."""
        if not write.dry_run:
            return []
        self.pools.ensure_loaded(write.lookup)
        errors = []
        held_ips, held_ports = (cluster_ips(old), node_ports(old)) if old else ([], [])
        for address in cluster_ips(obj):
            try:
                if address not in held_ips and address != str(self.pools.ips.network.network_address):
                    self.pools.ips.check(address)
            except AllocationError as error:
                errors.append(_address_error(obj, address, error))
        for index, port in enumerate(obj["spec"].get("ports") or ()):
            number = port.get("nodePort")
            if number and number not in held_ports and number in self.pools.ports:
                path = f"spec.ports[{index}].nodePort"
                errors.append(invalid(path, number, "provided port is already allocated"))
        return errors


class _Claim:
    """What one write takes from the pools, and what it will give back once it went through."""

    def __init__(self, pools: ServicePools, service: Object, old: Object | None) -> None:
        self._pools = pools
        self._service = service
        self._old = old
        self._held_ips = cluster_ips(old) if old else []
        self._held_ports = node_ports(old) if old else []
        self._taken_ips: list[str] = []
        self._taken_ports: list[int] = []

    @property
    def _is_api_server(self) -> bool:
        metadata = self._service["metadata"]
        return bool(metadata.get("namespace") == "default" and metadata.get("name") == "kubernetes")

    def settle(self, *, committed: bool) -> None:
        """Give back what was taken, or, after the commit, what is no longer held."""
        ips, ports = self._taken_ips, self._taken_ports
        if committed:
            kept_ips, kept_ports = cluster_ips(self._service), node_ports(self._service)
            ips = [address for address in self._held_ips if address not in kept_ips]
            ports = [port for port in self._held_ports if port not in kept_ports]
            self._pools.hold(self._service)
        for address in ips:
            self._pools.ips.give_back(address)
        for port in ports:
            self._pools.ports.give_back(port)

    def take_addresses(self) -> None:
        """One address per family, asked for or chosen."""
        spec = self._service["spec"]
        if not needs_cluster_ip(self._service) or is_headless(self._service):
            return
        addresses = list(spec.get("clusterIPs") or [])
        for index, _family in enumerate(spec["ipFamilies"]):
            if index < len(addresses):
                self._take_address(addresses[index])
            else:
                addresses.append(self._take_any_address())
        spec["clusterIPs"] = addresses
        spec["clusterIP"] = addresses[0]

    def _take_address(self, address: str) -> None:
        if address in self._held_ips or (self._is_api_server and address == self._pools.ips.first):
            return
        try:
            self._pools.ips.take(address)
        except AllocationError as error:
            raise _refused(self._service, _address_error(self._service, address, error)) from None
        self._taken_ips.append(address)

    def _take_any_address(self) -> str:
        try:
            address = self._pools.ips.take_any()
        except PoolFullError as error:
            name = self._service["metadata"]["name"]
            raise InternalError.of(f'failed to allocate a serviceIP for Service "{name}": {error}') from None
        self._taken_ips.append(address)
        return address

    def take_ports(self) -> None:
        """Node ports for every port, and one for the health check of a load balancer."""
        spec = self._service["spec"]
        if spec.get("type") in _WITH_NODE_PORTS:
            self._take_node_ports(spec)
        if needs_health_check(self._service):
            self._take_health_check_port(spec)

    def _take_node_ports(self, spec: dict[str, Any]) -> None:
        """Ports asked for come first, so that none of them is handed to another port by chance.

        On create, one number in two protocols shares a node port.
        """
        ports = spec.get("ports") or []
        shared: dict[int, int] = {}
        for index, port in enumerate(ports):
            number = port.get("nodePort")
            if number:
                self._take_port(f"spec.ports[{index}].nodePort", number)
                shared.setdefault(port["port"], number)
        for port in ports if _allocates_node_ports(spec) else ():
            if port.get("nodePort"):
                continue
            number = shared.get(port["port"]) if self._old is None else None
            port["nodePort"] = number or self._take_any_port("failed to allocate a nodePort")
            shared.setdefault(port["port"], port["nodePort"])

    def _take_port(self, path: str, number: int) -> None:
        if number in self._held_ports or number in self._taken_ports:
            return
        try:
            self._pools.ports.take(number)
        except AllocationError as error:
            raise _refused(self._service, invalid(path, number, str(error))) from None
        self._taken_ports.append(number)

    def _take_any_port(self, complaint: str) -> int:
        try:
            number = self._pools.ports.take_any()
        except PoolFullError as error:
            raise InternalError.of(f"{complaint}: {error}") from None
        self._taken_ports.append(number)
        return number

    def _take_health_check_port(self, spec: dict[str, Any]) -> None:
        number = spec.get("healthCheckNodePort")
        if not number:
            spec["healthCheckNodePort"] = self._take_any_port("failed to allocate a HealthCheck NodePort 0")
            return
        if self._old is not None and needs_health_check(self._old):
            return
        try:
            self._pools.ports.take(number)
        except AllocationError as error:
            raise InternalError.of(f"failed to allocate requested HealthCheck NodePort {number}: {error}") from None
        self._taken_ports.append(number)


def _refused(service: Object, error: FieldError) -> Invalid:
    return Invalid.of(GroupKind("", "Service"), service["metadata"]["name"], [error])


def _address_error(service: Object, address: str, why: AllocationError) -> FieldError:
    return invalid("spec.clusterIPs", service["spec"]["clusterIPs"], f"failed to allocate IP {address}: {why}")


def _allocates_node_ports(spec: dict[str, Any]) -> bool:
    if spec.get("type") == "LoadBalancer":
        return bool(spec.get("allocateLoadBalancerNodePorts"))
    return spec.get("type") == "NodePort"


def _default_affinity(spec: dict[str, Any]) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = spec.get("sessionAffinityConfig") or {}
        if (config.get("clientIP") or {}).get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _DEFAULT_AFFINITY_SECONDS}}


def _keep_node_ports(service: Object, old: Object) -> None:
    """An update that leaves node ports out keeps them, matched by port name."""
    spec, before = service["spec"], old["spec"]
    if spec.get("type") in _WITH_NODE_PORTS and before.get("type") in _WITH_NODE_PORTS:
        ports, stored = spec.get("ports") or [], before.get("ports") or []
        used = {port.get("nodePort") for port in ports} & {port.get("nodePort") for port in stored}
        by_name = {port.get("name", ""): port.get("nodePort") for port in stored}
        for port in ports:
            number = by_name.get(port.get("name", ""))
            if not port.get("nodePort") and number and number not in used:
                port["nodePort"] = number
    if needs_health_check(old) and needs_health_check(service) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before["healthCheckNodePort"]


def _drop_type_dependent(service: Object, old: Object) -> None:
    """Fields the new type has no use for go away, unless the request set them to something else on purpose."""
    spec, before = service["spec"], old["spec"]
    if needs_cluster_ip(old) and not needs_cluster_ip(service):
        if all(spec.get(field) == before.get(field) for field in ("clusterIP", "clusterIPs")):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        _drop_unchanged(spec, before, "ipFamilies", "ipFamilyPolicy")
    if before.get("type") in _WITH_NODE_PORTS and spec.get("type") not in _WITH_NODE_PORTS:
        _drop_node_ports(spec, before)
    if needs_health_check(old) and not needs_health_check(service):
        _drop_unchanged(spec, before, "healthCheckNodePort")
    if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        _drop_unchanged(spec, before, "allocateLoadBalancerNodePorts", "loadBalancerClass")
    if externally_accessible(old) and not externally_accessible(service):
        _drop_unchanged(spec, before, "externalTrafficPolicy")
    if spec.get("type") != "LoadBalancer" and "status" in service:
        service["status"] = {**service["status"], "loadBalancer": {}}


def _drop_unchanged(spec: dict[str, Any], before: dict[str, Any], *fields: str) -> None:
    for field in fields:
        if spec.get(field) == before.get(field):
            spec.pop(field, None)


def _drop_node_ports(spec: dict[str, Any], before: dict[str, Any]) -> None:
    stored = {port.get("nodePort") for port in before.get("ports") or ()}
    ports = spec.get("ports") or []
    if {port["nodePort"] for port in ports if port.get("nodePort")} <= stored:
        for port in ports:
            port.pop("nodePort", None)


STRATEGIES: dict[tuple[str, str], Strategy] = {("", "Service"): ServiceStrategy()}
