"""The rules of a pod spec as a whole, in a Pod or in a template.

This module puts the parts together in the order kube-apiserver reports them and holds the rules that belong to no
part: DNS, host names, host aliases, resource claims. It knows templates, but no kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import fielderror, names
from kapi.api.selectors import validate_label_selector
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.pod.containers import (
    PodFacts,
    check_containers,
    check_ephemeral_containers,
    check_init_containers,
)
from kapi.registry.kinds.core.pod.placement import (
    check_affinity,
    check_scheduling_gates,
    check_spread_constraints,
    check_tolerations,
)
from kapi.registry.kinds.core.pod.resources import CONTAINER, check_pod_level, check_requirements
from kapi.registry.kinds.core.pod.security import (
    check_host_process,
    check_host_users,
    check_operating_system,
    check_pod_security,
    each_container,
)
from kapi.registry.kinds.core.pod.volumes import check_volumes

if TYPE_CHECKING:
    from kapi.registry.kinds.fieldrules import Errors

Spec = dict[str, Any]

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
"""Marks the shadow of a static pod; only kubelets make them."""

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_TOTAL_ANNOTATION_BYTES = 256 * 1024
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_MAX_NAMESERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_CHARACTERS = 2048
_MAX_HOSTNAME_OVERRIDE = 64


def check_pod_spec(errors: Errors, path: str, spec: Spec, *, pod: Spec | None = None) -> None:
    """Validate a defaulted pod spec; `pod` is the Pod it belongs to, None when it is part of a template."""
    metadata = pod["metadata"] if pod else {}
    containers, init = spec.get("containers", []), spec.get("initContainers", [])
    volumes = check_volumes(
        errors, f"{path}.volumes", spec.get("volumes", []), metadata.get("name", ""), is_pod=pod is not None
    )
    facts = PodFacts(
        volumes=volumes,
        claims=frozenset(claim["name"] for claim in spec.get("resourceClaims", ()) if claim.get("name")),
        restart_policy=spec.get("restartPolicy", ""),
        grace_period=spec.get("terminationGracePeriodSeconds"),
        host_users=spec.get("hostUsers", True),
    )
    if "resourceClaims" in spec:
        _check_resource_claims(errors, f"{path}.resourceClaims", spec["resourceClaims"], metadata)
    check_containers(errors, f"{path}.containers", containers, facts)
    check_init_containers(errors, f"{path}.initContainers", init, containers, facts)
    if "ephemeralContainers" in spec:
        here = f"{path}.ephemeralContainers"
        check_ephemeral_containers(errors, here, spec["ephemeralContainers"], containers + init, facts)
    if "resources" in spec:
        check_pod_level(errors, f"{path}.resources", spec, facts.claims)
    if spec.get("hostNetwork"):
        _check_host_network_ports(errors, f"{path}.containers", containers, is_pod=pod is not None)
    errors += fieldrules.required_choice(f"{path}.restartPolicy", facts.restart_policy, _RESTART_POLICIES)
    errors += fieldrules.required_choice(f"{path}.dnsPolicy", spec.get("dnsPolicy", ""), _DNS_POLICIES)
    _check_placement(errors, path, spec)
    _check_identity(errors, path, spec)
    _check_file_references(errors, path, spec)


def _check_placement(errors: Errors, path: str, spec: Spec) -> None:
    if "nodeSelector" in spec:
        errors += fieldrules.labels(f"{path}.nodeSelector", spec["nodeSelector"])
    check_pod_security(errors, f"{path}.securityContext", spec)
    if "affinity" in spec:
        check_affinity(errors, f"{path}.affinity", spec["affinity"])
    _check_dns(errors, f"{path}.dnsConfig", spec.get("dnsConfig"), spec.get("dnsPolicy", ""))
    for index, gate in enumerate(spec.get("readinessGates", ())):
        kind = gate.get("conditionType", "")
        errors += fieldrules.each(f"{path}.readinessGates[{index}].conditionType", kind, names.qualified_name(kind))
    if "schedulingGates" in spec:
        check_scheduling_gates(errors, f"{path}.schedulingGates", spec["schedulingGates"])
    if "topologySpreadConstraints" in spec:
        check_spread_constraints(errors, f"{path}.topologySpreadConstraints", spec["topologySpreadConstraints"])
    check_host_process(errors, path, spec)
    check_host_users(errors, path, spec)
    _check_hostname_override(errors, f"{path}.hostnameOverride", spec)


_NAME_RULES = (
    ("serviceAccountName", names.dns_subdomain),
    ("nodeName", names.dns_subdomain),
    ("hostname", names.dns_label),
    ("subdomain", names.dns_label),
    ("priorityClassName", names.dns_subdomain),
)


def _check_identity(errors: Errors, path: str, spec: Spec) -> None:
    for field, rule in _NAME_RULES:
        value = spec.get(field)
        if value:
            errors += fieldrules.each(f"{path}.{field}", value, rule(value))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        errors += fieldrules.each(
            f"{path}.activeDeadlineSeconds", deadline, names.in_range(deadline, 1, fieldrules.MAX_INT32)
        )
    if "tolerations" in spec:
        check_tolerations(errors, f"{path}.tolerations", spec["tolerations"])
    for index, alias in enumerate(spec.get("hostAliases", ())):
        _check_host_alias(errors, f"{path}.hostAliases[{index}]", alias)
    if "runtimeClassName" in spec:
        name = spec["runtimeClassName"]
        errors += fieldrules.each(f"{path}.runtimeClassName", name, names.dns_subdomain(name))
    if "preemptionPolicy" in spec:
        errors += fieldrules.required_choice(f"{path}.preemptionPolicy", spec["preemptionPolicy"], _PREEMPTION_POLICIES)
    if "overhead" in spec:
        check_requirements(errors, f"{path}.overhead", {"limits": spec["overhead"]}, CONTAINER, frozenset())
    if "os" in spec:
        check_operating_system(errors, path, spec)


def _check_host_alias(errors: Errors, path: str, alias: Spec) -> None:
    address = alias.get("ip", "")
    errors += fieldrules.each(f"{path}.ip", address, names.ip(address))
    for index, hostname in enumerate(alias.get("hostnames", ())):
        errors += fieldrules.each(f"{path}.hostnames[{index}]", hostname, names.dns_subdomain(hostname))


def _check_host_network_ports(errors: Errors, path: str, containers: list[Spec], *, is_pod: bool) -> None:
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports", ())):
            host_port = port.get("hostPort", 0)
            # A template may leave the host port out; the pod made from it will have it.
            if (is_pod or host_port) and host_port != port.get("containerPort", 0):
                detail = "must match `containerPort` when `hostNetwork` is true"
                errors.append(fielderror.invalid(f"{path}[{index}].ports[{position}].hostPort", host_port, detail))


def _check_dns(errors: Errors, path: str, config: Spec | None, policy: str) -> None:
    if policy == "None":
        if config is None:
            errors.append(fielderror.required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.append(fielderror.required(f"{path}.nameservers", detail))
            return
    if config is None:
        return
    servers, searches = config.get("nameservers", []), config.get("searches", [])
    if len(servers) > _MAX_NAMESERVERS:
        detail = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        errors.append(fielderror.invalid(f"{path}.nameservers", servers, detail))
    for index, server in enumerate(servers):
        errors += fieldrules.each(f"{path}.nameservers[{index}]", server, names.ip(server))
    if len(searches) > _MAX_SEARCHES:
        detail = f"must not have more than {_MAX_SEARCHES} search paths"
        errors.append(fielderror.invalid(f"{path}.searches", searches, detail))
    if len(" ".join(searches)) > _MAX_SEARCH_CHARACTERS:
        detail = f"must not have more than {_MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        errors.append(fielderror.invalid(f"{path}.searches", searches, detail))
    for index, search in enumerate(searches):
        if search != ".":
            domain = search.removesuffix(".")
            sentences = names.dns_subdomain_with_underscore(domain)
            errors += fieldrules.each(f"{path}.searches[{index}]", domain, sentences)
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            errors.append(fielderror.required(f"{path}.options[{index}]", "must not be empty"))


def _check_hostname_override(errors: Errors, path: str, spec: Spec) -> None:
    name = spec.get("hostnameOverride")
    if name is None:
        return
    if spec.get("setHostnameAsFQDN"):
        errors.append(fielderror.forbidden(path, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        errors.append(fielderror.forbidden(path, "may not be specified when hostNetwork is true"))
    if names.byte_length(name) > _MAX_HOSTNAME_OVERRIDE:
        errors.append(fielderror.too_long(path, _MAX_HOSTNAME_OVERRIDE))
    errors += fieldrules.each(path, name, names.dns_subdomain(name))


def _check_resource_claims(errors: Errors, path: str, claims: list[Spec], metadata: Spec) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        here = f"{path}[{index}]"
        if MIRROR_ANNOTATION in metadata.get("annotations", {}):
            errors.append(fielderror.forbidden("", "static pods do not support resource claims"))
            continue
        name = claim.get("name", "")
        if not name:
            errors.append(fielderror.required(f"{here}.name"))
        elif name in seen:
            errors.append(fielderror.duplicate(f"{here}.name", name))
        else:
            errors += fieldrules.each(f"{here}.name", name, names.dns_label(name))
        seen.add(name)
        sources = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if field in claim]
        if len(sources) > 1:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(fielderror.invalid(here, claim, detail))
        if not sources:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(fielderror.invalid(here, claim, detail))
        for field in sources:
            errors += fieldrules.each(f"{here}.{field}", claim[field], names.dns_subdomain(claim[field]))


def _check_file_references(errors: Errors, path: str, spec: Spec) -> None:
    """Variables read from files need an emptyDir volume to read from."""
    volumes: dict[str, Spec] | None = None
    for here, container in each_container(spec, path):
        for index, variable in enumerate(container.get("env", ())):
            reference = variable.get("valueFrom", {}).get("fileKeyRef")
            if reference is None:
                continue
            if volumes is None:
                volumes = {volume.get("name", ""): volume for volume in spec.get("volumes", ())}
            name = reference.get("volumeName", "")
            field = f"{here}.env[{index}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                errors.append(fielderror.not_found(field, name))
            elif "emptyDir" not in volumes[name]:
                errors.append(fielderror.invalid(field, name, "referenced volume must be of type emptyDir"))


# -- annotations and templates ----------------------------------------------------------------------------------------


def check_pod_annotations(errors: Errors, path: str, annotations: dict[str, str], spec: Spec) -> None:
    """The annotations that mean something to the server."""
    if MIRROR_ANNOTATION in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        value = annotations[MIRROR_ANNOTATION]
        errors.append(fielderror.invalid(f"{path}[{MIRROR_ANNOTATION}]", value, detail))
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_int32(cost):
        errors.append(fielderror.invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer"))


def _is_int32(text: str) -> bool:
    """A number as kube-apiserver takes it: no plus sign, no leading zero."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or (len(digits) > 1 and digits[0] == "0") or text == "-0":
        return False
    return len(digits) <= 10 and -fieldrules.MAX_INT32 - 1 <= int(text) <= fieldrules.MAX_INT32


def check_template(errors: Errors, path: str, template: Spec) -> None:
    """A pod template: its labels, annotations and spec. The paths of labels lack `metadata`, as in kube-apiserver."""
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    errors += fieldrules.labels(f"{path}.labels", metadata.get("labels", {}))
    annotations = metadata.get("annotations", {})
    check_annotations(errors, f"{path}.annotations", annotations)
    check_pod_annotations(errors, f"{path}.annotations", annotations, spec)
    check_pod_spec(errors, f"{path}.spec", spec)
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(fielderror.forbidden(f"{path}.spec.ephemeralContainers", detail))


def check_annotations(errors: Errors, path: str, annotations: dict[str, str]) -> None:
    """Keys and total size of annotations."""
    for key in annotations:
        errors += fieldrules.each(path, key, names.qualified_name(key.lower()))
    if (
        sum(names.byte_length(key) + names.byte_length(value) for key, value in annotations.items())
        > _TOTAL_ANNOTATION_BYTES
    ):
        errors.append(fielderror.too_long(path, _TOTAL_ANNOTATION_BYTES))


def check_always_restarts(errors: Errors, path: str, template: Spec, kind: str) -> None:
    """Long-running workloads restart always and have no deadline."""
    spec = template.get("spec", {})
    if spec.get("restartPolicy") != "Always":
        errors.append(
            fielderror.not_supported(f"{path}.spec.restartPolicy", spec.get("restartPolicy", ""), ("Always",))
        )
    if "activeDeadlineSeconds" in spec:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(fielderror.forbidden(f"{path}.spec.activeDeadlineSeconds", detail))


def check_selector(errors: Errors, path: str, selector: Spec | None, empty_detail: str) -> None:
    """A workload's label selector: there, well-formed and not empty."""
    if selector is None:
        errors.append(fielderror.required(path))
        return
    errors.extend(validate_label_selector(selector, path))
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(fielderror.invalid(path, selector, empty_detail))


def mismatched_labels(path: str, labels: dict[str, str] | None) -> fielderror.FieldError:
    """The error of a template whose labels the selector does not select."""
    return fielderror.invalid(f"{path}.metadata.labels", labels, "`selector` does not match template `labels`")
