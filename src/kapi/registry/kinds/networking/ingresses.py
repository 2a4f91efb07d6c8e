"""Ingress and IngressClass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.fielderror import FieldError, forbidden, invalid, not_supported, required, too_long
from kapi.api.go.addresses import parse_ip_sloppy
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.service.validation import ingress_point_errors
from kapi.registry.kinds.fieldrules import annotations_of, spec_of
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
SCOPES = ("Cluster", "Namespace")
_MAX_CONTROLLER_BYTES = 250
_FORBIDDEN_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_FORBIDDEN_ENDINGS = ("/..", "/.")


class IngressStrategy(Strategy):
    """The rules of Ingress."""

    has_status = True
    tracks_generation = True

    def prepare_create(self, write: Write, obj: Object) -> None:
        """No load balancer serves it yet."""
        spec_of(obj)
        obj["status"] = {"loadBalancer": {}}

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Rules that lead somewhere; the old annotation may not contradict the class."""
        errors = _ingress_errors(obj["spec"])
        annotated, name = annotations_of(obj).get(CLASS_ANNOTATION), obj["spec"].get("ingressClassName")
        if annotated is not None and name is not None and annotated != name:
            text = "must match `ingressClassName` when both are specified"
            errors.append(invalid(f"annotations.{CLASS_ANNOTATION}", annotated, text))
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Annotation and class may disagree by now; the rest as on create."""
        return _ingress_errors(obj.get("spec") or {})

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The load balancer's addresses."""
        now, was = ((side.get("status", {}).get("loadBalancer", {}).get("ingress") or []) for side in (obj, old))
        stored = {point["ip"] for point in was if "ip" in point}
        return [
            error
            for index, point in enumerate(now)
            for error in ingress_point_errors(f"status.loadBalancer.ingress[{index}]", point, stored)
        ]

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """The annotation that became a field."""
        if old is not None or CLASS_ANNOTATION not in annotations_of(obj) or "ingressClassName" in obj["spec"]:
            return []
        return [f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]


def _ingress_errors(spec: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    rules = spec.get("rules") or []
    if not rules and "defaultBackend" not in spec:
        errors.append(invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
    if "defaultBackend" in spec:
        errors += _backend_errors("spec.defaultBackend", spec["defaultBackend"])
    for index, rule in enumerate(rules):
        errors += _rule_errors(f"spec.rules[{index}]", rule)
    for index, entry in enumerate(spec.get("tls") or ()):
        errors += _tls_errors(f"spec.tls[{index}]", entry)
    if "ingressClassName" in spec:
        errors += fieldrules.dns_subdomain("spec.ingressClassName", spec["ingressClassName"])
    return errors


def _host_errors(path: str, host: str) -> list[FieldError]:
    if "*" in host:
        return fieldrules.each(path, host, names.wildcard_dns(host))
    return fieldrules.dns_subdomain(path, host)


def _rule_errors(path: str, rule: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    host = rule.get("host", "")
    if host:
        if parse_ip_sloppy(host) is not None:
            errors.append(invalid(f"{path}.host", host, "must be a DNS name, not an IP address"))
        errors += _host_errors(f"{path}.host", host)
    if "http" in rule:
        paths = rule["http"].get("paths") or []
        if not paths:
            errors.append(required(f"{path}.http.paths"))
        for index, entry in enumerate(paths):
            errors += _path_errors(f"{path}.http.paths[{index}]", entry)
    return errors


def _path_errors(path: str, entry: dict[str, Any]) -> list[FieldError]:
    kind, target, where = entry.get("pathType"), entry.get("path", ""), f"{path}.path"
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    errors: list[FieldError] = []
    if kind not in PATH_TYPES:
        errors.append(not_supported(f"{path}.pathType", kind, PATH_TYPES))
    elif not target.startswith("/") and (target or kind != "ImplementationSpecific"):
        errors.append(invalid(where, target, "must be an absolute path"))
    if kind in {"Exact", "Prefix"} and target:
        errors += [
            invalid(where, target, f"must not contain '{text}'") for text in _FORBIDDEN_IN_PATHS if text in target
        ]
        errors += [
            invalid(where, target, f"cannot end with '{end}'") for end in _FORBIDDEN_ENDINGS if target.endswith(end)
        ]
    return errors + _backend_errors(f"{path}.backend", entry.get("backend") or {})


def _backend_errors(path: str, backend: dict[str, Any]) -> list[FieldError]:
    if "resource" in backend and "service" in backend:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if "resource" in backend:
        return _reference_errors(f"{path}.resource", backend["resource"])
    if "service" not in backend:
        return [invalid(path, "", "resource or service backend is required")]
    service = backend["service"]
    errors = fieldrules.required_string(f"{path}.service.name", service.get("name"), fieldrules.dns_label)
    port = service.get("port") or {}
    name, number = port.get("name", ""), port.get("number", 0)
    if name and number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif name:
        errors += fieldrules.each(f"{path}.service.port.name", name, names.port_name(name))
    elif number:
        errors += fieldrules.port_number(f"{path}.service.port.number", number)
    else:
        errors.append(required(path, "port name or number is required"))
    return errors


def _reference_errors(path: str, reference: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    if reference.get("apiGroup") is not None:
        errors += fieldrules.dns_subdomain(f"{path}.apiGroup", reference["apiGroup"])
    for field in ("kind", "name"):
        errors += fieldrules.required_string(f"{path}.{field}", reference.get(field), fieldrules.path_segment)
    return errors


def _tls_errors(path: str, entry: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, host in enumerate(entry.get("hosts") or ()):
        errors += _host_errors(f"{path}.hosts[{index}]", host)
    if entry.get("secretName"):
        errors += fieldrules.dns_subdomain(f"{path}.secretName", entry["secretName"])
    return errors


class IngressClassStrategy(Strategy):
    """The rules of IngressClass."""

    tracks_generation = True

    def default(self, obj: Object) -> None:
        """Parameters are cluster-wide."""
        parameters = obj.get("spec", {}).get("parameters")
        if parameters is not None and parameters.get("scope") is None:
            parameters["scope"] = "Cluster"

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """A controller, and parameters where it can find them."""
        spec = obj.get("spec", {})
        controller = spec.get("controller", "")
        errors: list[FieldError] = []
        if len(controller.encode()) > _MAX_CONTROLLER_BYTES:
            errors.append(too_long("spec.controller", _MAX_CONTROLLER_BYTES))
        errors += names.domain_prefixed_path("spec.controller", controller)
        if "parameters" in spec:
            errors += _parameter_errors("spec.parameters", spec["parameters"])
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The controller stays."""
        now, was = obj.get("spec", {}).get("controller", ""), old.get("spec", {}).get("controller", "")
        return fieldrules.unchanged("spec.controller", now, was) + self.validate_create(write, obj)


def _parameter_errors(path: str, parameters: dict[str, Any]) -> list[FieldError]:
    errors = _reference_errors(path, parameters)
    scope, namespace = parameters.get("scope", ""), parameters.get("namespace")
    if scope not in SCOPES:
        errors.append(not_supported(f"{path}.scope", scope, SCOPES))
    elif scope == "Cluster" and namespace is not None:
        errors.append(forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    elif scope == "Namespace" and namespace is None:
        errors.append(required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
    elif namespace is not None:
        errors += fieldrules.dns_label(f"{path}.namespace", namespace)
    return errors


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("networking.k8s.io", "Ingress"): IngressStrategy(),
    ("networking.k8s.io", "IngressClass"): IngressClassStrategy(),
}
