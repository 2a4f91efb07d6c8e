"""Validation of a Service: ports, selector, affinity, traffic policies, load-balancer fields.

Addresses and families have their own module (`families`). Health-check node ports are not required here: the
pool fills them in after validation. Pure functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError, duplicate, forbidden, invalid, not_supported, required
from kapi.api.go.addresses import parse_ip_sloppy
from kapi.api.selectors import validate_labels
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.service.families import cluster_ip_errors, is_headless, transition_errors
from kapi.registry.kinds.fieldrules import annotations_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from kapi.api.meta import Object

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
AFFINITIES = ("ClientIP", "None")
TRAFFIC_POLICIES = ("Cluster", "Local")
DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
TOPOLOGY_HINTS = "service.kubernetes.io/topology-aware-hints"
TOPOLOGY_MODE = "service.kubernetes.io/topology-mode"

_MAX_AFFINITY_SECONDS = 86400
_LOAD_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"
_NOT_EXTERNAL = "may not be set for ExternalName services"


def externally_accessible(service: Object) -> bool:
    """Return True if traffic from outside the cluster can arrive at all."""
    spec = service["spec"]
    if spec.get("type") == "ClusterIP":
        return bool(spec.get("externalIPs"))
    return spec.get("type") in {"LoadBalancer", "NodePort"}


def needs_health_check(service: Object) -> bool:
    """Return True if a load balancer must ask each node if it has endpoints."""
    spec = service["spec"]
    return bool(spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local")


def service_errors(service: Object, old: Object | None) -> list[FieldError]:
    """Every rule that looks at the object alone; addresses of `old` are accepted as they are."""
    spec, before = service["spec"], (old or {"spec": {}})["spec"]
    return [
        *_topology_errors(service),
        *_type_dependent_errors(service),
        *_port_errors(spec),
        *validate_labels(spec.get("selector") or {}, "spec.selector"),
        *_affinity_errors(spec),
        *cluster_ip_errors(service, old),
        *_external_ip_errors(spec, before),
        *_type_errors(spec),
        *_node_port_errors(spec),
        *_source_range_errors(service, old),
        *_load_balancer_errors(spec),
        *_traffic_errors(service),
    ]


def update_errors(service: Object, old: Object) -> list[FieldError]:
    """Validate the immutable fields."""
    errors = transition_errors(service, old)
    spec, before = service["spec"], old["spec"]
    if spec.get("type") == before.get("type") == "LoadBalancer":
        now = spec.get("loadBalancerClass")
        if now != before.get("loadBalancerClass"):
            errors.append(invalid("spec.loadBalancerClass", now, "may not change once set"))
    errors += _class_errors(spec)
    if needs_health_check(old) and needs_health_check(service):
        now = spec.get("healthCheckNodePort")
        if now != before.get("healthCheckNodePort"):
            errors.append(forbidden("spec.healthCheckNodePort", "field is immutable"))
    return errors


def status_errors(service: Object, old: Object) -> list[FieldError]:
    """The load balancer's addresses."""
    ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress") or []
    path = "status.loadBalancer.ingress"
    if service["spec"].get("type") != "LoadBalancer" and ingress:
        return [forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    stored = {
        entry["ip"] for entry in old.get("status", {}).get("loadBalancer", {}).get("ingress") or () if "ip" in entry
    }
    errors: list[FieldError] = []
    for index, entry in enumerate(ingress):
        errors += ingress_point_errors(f"{path}[{index}]", entry, stored)
        errors += _ip_mode_errors(f"{path}[{index}].ipMode", entry)
    return errors


def ingress_point_errors(path: str, entry: dict[str, Any], stored: Collection[str]) -> list[FieldError]:
    """One address or host of a load balancer, of a Service or an Ingress."""
    errors = fieldrules.ip(f"{path}.ip", entry["ip"], stored) if entry.get("ip") else []
    host = entry.get("hostname")
    if host:
        errors += fieldrules.dns_subdomain(f"{path}.hostname", host)
        if parse_ip_sloppy(host) is not None:
            errors.append(invalid(f"{path}.hostname", host, "must be a DNS name, not an IP address"))
    return errors


def _ip_mode_errors(path: str, entry: dict[str, Any]) -> list[FieldError]:
    mode = entry.get("ipMode")
    if mode is None:
        return [required(path, "must be specified when `ip` is set")] if entry.get("ip") else []
    if not entry.get("ip"):
        return [forbidden(path, "may not be specified when `ip` is not set")]
    return fieldrules.one_of(path, mode, ("Proxy", "VIP"))


def _topology_errors(service: Object) -> list[FieldError]:
    annotations = annotations_of(service)
    hints, mode = annotations.get(TOPOLOGY_HINTS), annotations.get(TOPOLOGY_MODE)
    if hints is None or mode is None or hints == mode:
        return []
    detail = f"must match annotations[{TOPOLOGY_HINTS}] when both are specified"
    return [invalid(f"metadata.annotations[{TOPOLOGY_MODE}]", mode, detail)]


def _type_dependent_errors(service: Object) -> list[FieldError]:
    spec, kind = service["spec"], service["spec"].get("type")
    errors = []
    if not spec.get("ports") and not is_headless(service) and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if kind in {"LoadBalancer", "NodePort"} and is_headless(service):
        detail = f"may not be set to 'None' for {kind} services"
        errors.append(invalid("spec.clusterIPs[0]", "None", detail))
    if kind == "ExternalName":
        fields = ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        errors += [forbidden(f"spec.{field}", _NOT_EXTERNAL) for field in fields if spec.get(field)]
        target = spec.get("externalName", "").removesuffix(".")
        errors += fieldrules.required_string("spec.externalName", target, fieldrules.dns_subdomain)
    return errors


def _port_errors(spec: dict[str, Any]) -> list[FieldError]:
    ports = spec.get("ports") or []
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name", "")
        if name:
            errors += fieldrules.dns_label(f"{path}.name", name)
            if name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
        elif len(ports) > 1:
            errors.append(required(f"{path}.name"))
        errors += fieldrules.port_number(f"{path}.port", port.get("port", 0))
        errors += fieldrules.protocol(f"{path}.protocol", port.get("protocol", ""))
        errors += fieldrules.port_number_or_name(f"{path}.targetPort", port.get("targetPort", 0))
        if "appProtocol" in port:
            errors += fieldrules.qualified_name(f"{path}.appProtocol", port["appProtocol"])
    return errors


def _affinity_errors(spec: dict[str, Any]) -> list[FieldError]:
    affinity, config = spec.get("sessionAffinity", ""), spec.get("sessionAffinityConfig")
    if not affinity:
        return [required("spec.sessionAffinity")]
    path = "spec.sessionAffinityConfig"
    if affinity == "ClientIP":
        return _client_ip_errors(path, config)
    if affinity == "None" and config is not None:
        return [forbidden(path, "must not be set when session affinity is None")]
    return fieldrules.one_of("spec.sessionAffinity", affinity, AFFINITIES)


def _client_ip_errors(path: str, config: dict[str, Any] | None) -> list[FieldError]:
    missing = "when session affinity type is ClientIP"
    if config is None:
        return [required(path, missing)]
    if config.get("clientIP") is None:
        return [required(f"{path}.clientIP", missing)]
    seconds = config["clientIP"].get("timeoutSeconds")
    if seconds is None:
        return [required(f"{path}.clientIP.timeoutSeconds", missing)]
    if not 0 < seconds <= _MAX_AFFINITY_SECONDS:
        detail = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
        return [invalid(f"{path}.clientIP.timeoutSeconds", seconds, detail)]
    return []


def _external_ip_errors(spec: dict[str, Any], before: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    stored = frozenset(before.get("externalIPs") or ())
    for index, address in enumerate(spec.get("externalIPs") or ()):
        path = f"spec.externalIPs[{index}]"
        wrong = fieldrules.ip(path, address, stored)
        errors += wrong or fieldrules.endpoint_ip(path, address)
    return errors


def _type_errors(spec: dict[str, Any]) -> list[FieldError]:
    kind = spec.get("type", "")
    if not kind:
        return [required("spec.type")]
    if kind not in TYPES:
        return [not_supported("spec.type", kind, TYPES)]
    if kind != "ClusterIP":
        return []
    return [
        forbidden(f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
        for index, port in enumerate(spec.get("ports") or ())
        if port.get("nodePort")
    ]


def _node_port_errors(spec: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    ports = spec.get("ports") or []
    taken: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        if not port.get("nodePort"):
            continue
        key = (port.get("protocol", ""), port["nodePort"])
        if key in taken:
            errors.append(duplicate(f"spec.ports[{index}].nodePort", port["nodePort"]))
        taken.add(key)
    served: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in served:
            errors.append(duplicate(f"spec.ports[{index}]", _port_as_printed(*key)))
        served.add(key)
    return errors


def _port_as_printed(protocol: str, port: int) -> dict[str, Any]:
    """kube-apiserver prints its internal port structure, of which only two fields are set."""
    return {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": port, "TargetPort": 0, "NodePort": 0}


def _source_range_errors(service: Object, old: Object | None) -> list[FieldError]:
    spec = service["spec"]
    ranges = spec.get("loadBalancerSourceRanges") or []
    balanced = spec.get("type") == "LoadBalancer"
    errors: list[FieldError] = []
    if ranges:
        path = "spec.LoadBalancerSourceRanges"
        if not balanced:
            errors.append(forbidden(path, _LOAD_BALANCER_ONLY))
        stored = {value.strip() for value in (old or {"spec": {}})["spec"].get("loadBalancerSourceRanges") or ()}
        for index, value in enumerate(ranges):
            errors += fieldrules.cidr(f"{path}[{index}]", value.strip(), stored)
        return errors
    text = annotations_of(service).get(SOURCE_RANGES)
    if text is None:
        return []
    path = f"metadata.annotations[{SOURCE_RANGES}]"
    if not balanced:
        errors.append(forbidden(path, _LOAD_BALANCER_ONLY))
    if text.strip() and (old is None or annotations_of(old).get(SOURCE_RANGES) != text):
        for value in text.split(","):
            errors += fieldrules.cidr(path, value.strip())
    return errors


def _load_balancer_errors(spec: dict[str, Any]) -> list[FieldError]:
    errors = []
    balanced = spec.get("type") == "LoadBalancer"
    allocates = spec.get("allocateLoadBalancerNodePorts")
    if allocates is not None and not balanced:
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", _LOAD_BALANCER_ONLY))
    if allocates is None and balanced:
        errors.append(required("allocateLoadBalancerNodePorts"))
    return errors + _class_errors(spec)


def _class_errors(spec: dict[str, Any]) -> list[FieldError]:
    name = spec.get("loadBalancerClass")
    if name is None:
        return []
    if spec.get("type") != "LoadBalancer":
        return [forbidden("spec.loadBalancerClass", _LOAD_BALANCER_ONLY)]
    return fieldrules.qualified_name("spec.loadBalancerClass", name)


def _traffic_errors(service: Object) -> list[FieldError]:
    spec = service["spec"]
    errors: list[FieldError] = []
    external = spec.get("externalTrafficPolicy", "")
    if externally_accessible(service):
        if not external:
            errors.append(required("spec.externalTrafficPolicy"))
        else:
            errors += fieldrules.one_of("spec.externalTrafficPolicy", external, TRAFFIC_POLICIES)
    elif external:
        detail = "may only be set for externally-accessible services"
        errors.append(invalid("spec.externalTrafficPolicy", external, detail))
    errors += _health_check_errors(service)
    internal = spec.get("internalTrafficPolicy")
    if internal is not None:
        errors += fieldrules.one_of("spec.internalTrafficPolicy", internal, TRAFFIC_POLICIES)
    elif spec.get("type") in {"ClusterIP", "LoadBalancer", "NodePort"}:
        errors.append(required("spec.internalTrafficPolicy"))
    distribution = spec.get("trafficDistribution")
    if distribution is not None:
        errors += fieldrules.one_of("spec.trafficDistribution", distribution, DISTRIBUTIONS)
    return errors


def _health_check_errors(service: Object) -> list[FieldError]:
    port = service["spec"].get("healthCheckNodePort")
    if not port:
        return []
    if needs_health_check(service):
        return fieldrules.port_number("spec.healthCheckNodePort", port)
    detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
    return [invalid("spec.healthCheckNodePort", port, detail)]


def service_warnings(service: Object) -> list[str]:
    """Advice about fields that are deprecated or have no effect."""
    spec = service["spec"]
    warnings = []
    if TOPOLOGY_HINTS in annotations_of(service):
        warnings.append(f"annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead")
    if spec.get("clusterIP") not in {None, "", "None"}:
        for index, address in enumerate(spec.get("clusterIPs") or ()):
            warnings += fieldrules.ip_warnings(f"spec.clusterIPs[{index}]", address)
    headless = spec.get("type") == "ClusterIP" and spec.get("clusterIP") == "None"
    if headless:
        warnings += _headless_warnings(spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        warnings += fieldrules.ip_warnings(f"spec.externalIPs[{index}]", address)
    if spec.get("externalIPs") and not headless and spec.get("type") != "ExternalName":
        warnings.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if spec.get("loadBalancerIP"):
        warnings += fieldrules.ip_warnings("spec.loadBalancerIP", spec["loadBalancerIP"])
    for index, value in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        warnings += fieldrules.cidr_warnings(f"spec.loadBalancerSourceRanges[{index}]", value)
    if spec.get("type") == "ExternalName" and spec.get("externalIPs"):
        warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if spec.get("type") != "ExternalName" and spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        warnings.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return warnings


def _headless_warnings(spec: dict[str, Any]) -> list[str]:
    warnings = [
        f"spec.{field} is ignored for headless services"
        for field in ("loadBalancerIP", "externalIPs")
        if spec.get(field)
    ]
    if spec.get("sessionAffinity") != "None":
        warnings.append("spec.SessionAffinity is ignored for headless services")
    return warnings
