"""Advice about pods that are valid and probably not what their author meant.

The texts go out as `Warning` headers; nothing depends on them. `path` is empty for a Pod and the path of the
template otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.go.text import quote
from kapi.api.values import parse_quantity
from kapi.registry.kinds.core.pod.profiles import container_profile_warnings, pod_profile_warnings
from kapi.registry.kinds.core.pod.security import each_container
from kapi.registry.kinds.fieldrules import ip_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

Spec = dict[str, Any]

_DEPRECATED_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_DEPRECATED_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_DEPRECATED_VOLUMES = {
    "photonPersistentDisk": ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    "gitRepo": ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "flocker": ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "quobyte": ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NULL_SELECTOR = "a null labelSelector results in matching no pod"


def name_warnings(name: str, used_in: str) -> list[str]:
    """Names that are legal and longer or more dotted than a hostname can be."""
    sentences = names.dns_label(name)
    if not sentences:
        return []
    advice = "which can result in surprising behavior; a DNS label is recommended"
    return [f"metadata.name: this is used in {used_in}, {advice}: [{' '.join(sentences)}]"]


def pod_warnings(path: str, metadata: Spec, spec: Spec) -> list[str]:
    """All advice about a pod or template; `path` ends with a dot when it is not empty."""
    root = f"{path}spec"
    annotations = metadata.get("annotations") or {}
    found = [
        f"{path}metadata.annotations[{key}]: {advice}"
        for key, advice in _DEPRECATED_ANNOTATIONS.items()
        if key in annotations
    ]
    found[:0] = _scheduling_warnings(root, spec)
    found += _volume_warnings(f"{root}.volumes", spec.get("volumes", []))
    found += _duplicates(f"{root}.hostAliases", spec.get("hostAliases", []), "ip")
    found += _duplicates(f"{root}.imagePullSecrets", spec.get("imagePullSecrets", []), "name")
    found += [
        f'{root}.imagePullSecrets[{index}].name: invalid empty name ""'
        for index, secret in enumerate(spec.get("imagePullSecrets", ()))
        if not secret.get("name")
    ]
    found += _fraction_warnings(f"{root}.overhead", spec.get("overhead", {}))
    found += pod_profile_warnings(path, annotations, spec)
    for here, container in each_container(spec, root):
        if annotations:
            found += container_profile_warnings(path, annotations, spec, container)
        found += _container_warnings(here, container)
    found += _port_warnings(root, spec)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        advice = "must be >= 0; negative values are invalid and will be treated as 1"
        found.append(f"{root}.terminationGracePeriodSeconds: {advice}")
    found += _affinity_warnings(f"{root}.affinity", spec.get("affinity", {}))
    for index, server in enumerate(spec.get("dnsConfig", {}).get("nameservers", ())):
        found += ip_warnings(f"{root}.dnsConfig.nameservers[{index}]", server)
    for index, alias in enumerate(spec.get("hostAliases", ())):
        found += ip_warnings(f"{root}.hostAliases[{index}].ip", alias.get("ip", ""))
    return found


def template_warnings(path: str, template: Spec) -> list[str]:
    """All advice about a pod template."""
    return pod_warnings(f"{path}.", template.get("metadata", {}), template.get("spec", {}))


def _scheduling_warnings(root: str, spec: Spec) -> Iterator[str]:
    for key in spec.get("nodeSelector", ()):
        if key in _DEPRECATED_NODE_LABELS:
            yield f"{root}.nodeSelector[{key}]: {_DEPRECATED_NODE_LABELS[key]}"
    node = spec.get("affinity", {}).get("nodeAffinity", {})
    base = f"{root}.affinity.nodeAffinity"
    terms = [
        (f"{base}.{_REQUIRED}.nodeSelectorTerms[{index}]", term)
        for index, term in enumerate(node.get(_REQUIRED, {}).get("nodeSelectorTerms") or ())
    ]
    terms += [
        (f"{base}.{_PREFERRED}[{index}].preference", term.get("preference", {}))
        for index, term in enumerate(node.get(_PREFERRED, ()))
    ]
    for here, term in terms:
        for index, expression in enumerate(term.get("matchExpressions", ())):
            key = expression.get("key", "")
            if key in _DEPRECATED_NODE_LABELS:
                yield f"{here}.matchExpressions[{index}].key: {key} is {_DEPRECATED_NODE_LABELS[key]}"
    for index, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
        here, key = f"{root}.topologySpreadConstraints[{index}]", constraint.get("topologyKey", "")
        if key in _DEPRECATED_NODE_LABELS:
            yield f"{here}.topologyKey: {key} is {_DEPRECATED_NODE_LABELS[key]}"
        if "labelSelector" not in constraint:
            yield f"{here}.labelSelector: {_NULL_SELECTOR}"


def _affinity_warnings(path: str, affinity: Spec) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        side = affinity.get(kind, {})
        for index, term in enumerate(side.get(_REQUIRED, ())):
            if "labelSelector" not in term:
                yield f"{path}.{kind}.{_REQUIRED}[{index}].labelSelector: {_NULL_SELECTOR}"
        for index, weighted in enumerate(side.get(_PREFERRED, ())):
            if "labelSelector" not in weighted.get("podAffinityTerm", {}):
                yield f"{path}.{kind}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector: {_NULL_SELECTOR}"


def _volume_warnings(path: str, volumes: list[Spec]) -> Iterator[str]:
    for index, volume in enumerate(volumes):
        for kind in volume.keys() & _DEPRECATED_VOLUMES.keys():
            shown, advice = _DEPRECATED_VOLUMES[kind]
            yield f"{path}[{index}].{shown}: {advice}"


def _duplicates(path: str, items: list[Spec], field: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        value = item.get(field, "")
        if value in seen:
            yield f"{path}[{index}].{field}: duplicate {field} {quote(value)}"
        seen.add(value)


def _fraction_warnings(path: str, quantities: dict[str, str]) -> Iterator[str]:
    for name in ("memory", "ephemeral-storage"):
        quantity = quantities.get(name)
        if quantity is not None and parse_quantity(quantity).milli_value() % 1000:
            yield f"{path}[{name}]: fractional byte value {quote(quantity)} is invalid, must be an integer"


def _container_warnings(path: str, container: Spec) -> Iterator[str]:
    resources = container.get("resources") or {}
    for side in ("limits", "requests"):
        yield from _fraction_warnings(f"{path}.resources.{side}", resources.get(side) or {})
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env", ())):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        # A second definition is fine when it builds on the first, as in PATH=$(PATH):/more.
        hides = "valueFrom" in variable or value == reference or reference not in value
        if name in seen and hides:
            advice = f"hides previous definition of {quote(name)}, which may be dropped when using apply"
            yield f"{path}.env[{index}]: {advice}"
        seen.add(name)


_COMPARED_PORTS = 100
"""Definitions of one container port that later ones are compared with: each pair may have a warning of its own."""


def _port_warnings(root: str, spec: Spec) -> Iterator[str]:
    ports: dict[tuple[int, str], list[tuple[str, Spec]]] = {}
    by_name: dict[str, str] = {}
    duplicate_names = []
    for path, container in each_container(spec, root):
        for index, port in enumerate(container.get("ports", ())):
            here = f"{path}.ports[{index}]"
            others = ports.setdefault((port.get("containerPort", 0), port.get("protocol", "")), [])
            for other_path, other in others:
                overlap = _overlap(port, other)
                if overlap:
                    yield f"{here}: {overlap} port definition with {other_path}"
            if len(others) < _COMPARED_PORTS:
                others.append((here, port))
            name = port.get("name", "")
            if name and name in by_name:
                first = by_name[name]
                advice = f"services and probes that select ports by name will use {first}"
                duplicate_names.append(f"{here}: duplicate port name {quote(name)} with {first}, {advice}")
            elif name:
                by_name[name] = here
    yield from duplicate_names


def _overlap(port: Spec, other: Spec) -> str:
    """Warn about two definitions of one container port."""
    host, other_host = port.get("hostPort", 0), other.get("hostPort", 0)
    address, other_address = port.get("hostIP", ""), other.get("hostIP", "")
    if (host, address) == (other_host, other_address):
        return "duplicate"
    if not host or not other_host:
        return "overlapping"
    return "dangerously ambiguous" if host == other_host and bool(address) != bool(other_address) else ""
