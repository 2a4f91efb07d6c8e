"""Service: defaults, what a change of its type does, and the addresses and ports that are allocated for it.

Addresses and node ports are allocated last before the commit (`commit_with`), and what says so is committed together
with the Service: an IPAddress object per address and the reservations of node ports (`records.py`). A Service that is
changed or deleted releases what it no longer holds in the same commit. A dry run allocates nothing and shows
placeholders instead.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.registry.kinds.core.service.allocation import Claim, dry_run_errors, fill_placeholders, release_all
from kapi.registry.kinds.core.service.families import (
    fill_families,
    keep_cluster_ips,
    needs_cluster_ip,
    normalize_cluster_ips,
)
from kapi.registry.kinds.core.service.validation import (
    TRAFFIC_POLICIES,
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
    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.kinds.core.service.records import ServiceRecords
    from kapi.registry.request import Write
    from kapi.storage.interface import Operation

_DEFAULT_AFFINITY_SECONDS = 10800
_WITH_NODE_PORTS = frozenset({"NodePort", "LoadBalancer"})
_WITH_INTERNAL_POLICY = frozenset({"ClusterIP", "NodePort", "LoadBalancer"})


class ServiceStrategy(Strategy):
    """The rules of Service. One instance per server: it reads what is allocated from that server's watch cache."""

    validates_off_loop_from = sys.maxsize
    """Never: a dry run reads the addresses and ports that are taken."""
    has_status = True
    allow_create_on_update = True
    returns_deleted_object = True
    selectable_fields = ("spec.clusterIP", "spec.type")

    def __init__(self, records: ServiceRecords) -> None:
        self.records = records

    def default(self, obj: Object) -> None:
        """Fill in the defaults of type, policies and ports."""
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
        """Fill in addresses and IP families."""
        obj["status"] = {"loadBalancer": {}}
        _drop_internal_policy(obj["spec"])
        normalize_cluster_ips(obj, None)
        fill_families(obj, None, self.records.families)
        if write.dry_run:
            fill_placeholders(self.records, obj)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Validate the IP families, and the rest if they are valid."""
        return fill_families(obj, None, self.records.families) or [
            *service_errors(obj, None),
            *self._dry_run_errors(write, obj, None),
        ]

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Keep what was allocated, fill in IP families, and drop fields that the new type does not use."""
        keep_cluster_ips(obj, old)
        _keep_node_ports(obj, old)
        normalize_cluster_ips(obj, old)
        fill_families(obj, old, self.records.families)
        _drop_type_dependent(obj, old)
        _drop_internal_policy(obj["spec"])
        if write.dry_run:
            fill_placeholders(self.records, obj)

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate as on create, and that addresses do not change."""
        return fill_families(obj, old, self.records.families) or [
            *update_errors(obj, old),
            *service_errors(obj, old),
            *self._dry_run_errors(write, obj, old),
        ]

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate the addresses of the load balancer."""
        return status_errors(obj, old)

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """A DNS label, as RFC 1123 has it: a digit may come first."""
        return names.dns_label(name, prefix=prefix)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Warn of deprecated fields and of those without effect."""
        return service_warnings(obj)

    def selectable(self, obj: Object) -> dict[str, str]:
        """The cluster IP and the type."""
        spec = obj.get("spec", {})
        return {"spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}

    # -- allocation -------------------------------------------------------------------------------------------------

    def commit_with(self, write: Write, obj: Object | None, old: Object | None) -> Companions | None:
        """Allocate addresses and node ports, and release those that are no longer held."""
        if write.subresource:
            return None
        if obj is None:
            assert old is not None
            return self._companions(release_all(self.records, old), None)
        spec = dict(obj["spec"])
        if spec.get("ports"):
            spec["ports"] = [dict(port) for port in spec["ports"]]
        service = {**obj, "spec": spec}
        return self._companions(Claim(self.records, service, old, write.now).operations(), service)

    def _companions(self, operations: list[Operation], service: Object | None) -> Companions:
        pending = self.records.pending
        keys = {one.key for one in operations}
        pending |= keys
        return Companions(operations, service, lambda committed: pending.difference_update(keys))

    def _dry_run_errors(self, write: Write, obj: Object, old: Object | None) -> list[FieldError]:
        return dry_run_errors(self.records, obj, old) if write.dry_run else []


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
    """Remove fields that the new type does not use, unless the request sets them to another value."""
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


def _drop_internal_policy(spec: dict[str, Any]) -> None:
    """Remove the internal traffic policy of an external name; kube-apiserver stores it and never shows it."""
    if spec.get("type") == "ExternalName" and spec.get("internalTrafficPolicy") in TRAFFIC_POLICIES:
        del spec["internalTrafficPolicy"]


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
