"""Defaults of pod specs, wherever they occur: in Pods and in the templates of every workload kind.

These are the values a client finds filled in when it reads back what it sent, so that controllers need not know
them. A Pod gets a few more than a template (requests from limits, host ports, service links). Everything here
changes its argument in place and is idempotent; it runs on every decoded request body, so it is plain code without
tables to walk.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from kapi.registry.kinds.core.pod.resources import default_pod_level_resources, round_up_to_milli

Spec = dict[str, Any]

_INIT_CONTAINER_ANNOTATIONS = (
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
)
"""Long dead ways to say `initContainers`; dropped on arrival."""

_VOLUME_META = frozenset({"name"})
_FILE_MODE = 0o644
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")

# The grammar of image references: [domain/]path[:tag][@digest].
_HOST = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_HOST}(?:\.{_HOST})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?{_PATH}(?:/{_PATH})*(?::(?P<tag>\w[\w.-]{{0,127}}))?(?:@(?P<digest>{_DIGEST}))?", re.ASCII
)
_IDENTIFIER = re.compile("[a-f0-9]{64}")


@functools.lru_cache(maxsize=4096)
def default_pull_policy(image: str) -> str:
    """`Always` for what resolves to the tag `latest`; `IfNotPresent` otherwise, and for what is no reference."""
    match = _REFERENCE.fullmatch(image)
    if match is None or _IDENTIFIER.fullmatch(image):
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


# -- whole objects ----------------------------------------------------------------------------------------------------


def default_pod(pod: Spec) -> None:
    """Defaults of a Pod: those of any pod spec, and the ones only a Pod gets."""
    spec = pod.setdefault("spec", {})
    _ensure_containers(spec)
    drop_dead_annotations(pod.setdefault("metadata", {}))
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        _default_requests(container)
    if "resources" in spec:
        default_pod_level_resources(spec)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
            for port in container.get("ports", ()):
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]
    # A template keeps a negative grace period as it was written; a Pod never shows one.
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    default_pod_spec(spec)


def _ensure_containers(spec: Spec) -> None:
    """Make missing containers an empty list: a Pod without them is refused, and all rules may take it for a list."""
    if spec.get("containers") is None:
        spec["containers"] = []


def default_template(owner: Spec, key: str = "template") -> None:
    """Defaults of the pod template in `owner[key]`, which comes to be if it was not there."""
    template = owner.setdefault(key, {})
    drop_dead_annotations(template.setdefault("metadata", {}))
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: Spec) -> None:
    """Defaults of a pod spec in any place."""
    _ensure_containers(spec)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    for container in spec.get("initContainers", ()):
        _default_container(container)
    for container in spec["containers"]:
        _default_container(container)
    for container in spec.get("ephemeralContainers", ()):
        _default_container(container)
    if "overhead" in spec:
        round_up_to_milli(spec["overhead"])
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    _mirror_service_account(spec)


def drop_dead_annotations(metadata: Spec) -> None:
    """Remove the annotations that once stood for `initContainers`."""
    annotations = metadata.get("annotations")
    if annotations:
        for key in _INIT_CONTAINER_ANNOTATIONS:
            annotations.pop(key, None)


def _mirror_service_account(spec: Spec) -> None:
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


# -- containers -------------------------------------------------------------------------------------------------------


def _default_requests(container: Spec) -> None:
    """Requests that were not made are as large as the limits."""
    resources = container.get("resources")
    limits = resources.get("limits") if resources else None
    if resources and limits:
        requests = resources.setdefault("requests", {})
        for name, quantity in limits.items():
            requests.setdefault(name, quantity)


def _default_container(container: Spec) -> None:
    resources = container.setdefault("resources", {})
    for quantities in (resources.get("limits"), resources.get("requests")):
        if quantities:
            round_up_to_milli(quantities)
    for port in container.get("ports", ()):
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env", ()):
        if "valueFrom" in variable:
            _default_env_source(variable["valueFrom"])
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    for handler in container.get("lifecycle", {}).values():
        if isinstance(handler, dict) and "httpGet" in handler:
            _default_http_get(handler["httpGet"])
    _default_runtime(container)


def _default_runtime(container: Spec) -> None:
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = default_pull_policy(container.get("image", ""))


def _default_env_source(source: Spec) -> None:
    _default_field_reference(source)
    if "fileKeyRef" in source:
        source["fileKeyRef"].setdefault("optional", False)


def _default_probe(probe: Spec) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(name):
            probe[name] = value
    if "httpGet" in probe:
        _default_http_get(probe["httpGet"])
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http_get(action: Spec) -> None:
    if not action.get("path"):
        action["path"] = "/"
    if not action.get("scheme"):
        action["scheme"] = "HTTP"


def _default_field_reference(source: Spec) -> None:
    reference = source.get("fieldRef")
    if reference is not None and not reference.get("apiVersion"):
        reference["apiVersion"] = "v1"


# -- volumes ----------------------------------------------------------------------------------------------------------


def _default_volume(volume: Spec) -> None:
    if volume.keys() <= _VOLUME_META:
        volume["emptyDir"] = {}
    for name, source in volume.items():
        fill = _VOLUME_DEFAULTS.get(name)
        if fill is not None:
            fill(source)


def _default_mode(source: Spec) -> None:
    source.setdefault("defaultMode", _FILE_MODE)


def _default_downward_api(source: Spec) -> None:
    _default_mode(source)
    for item in source.get("items", ()):
        _default_field_reference(item)


def _default_projected(source: Spec) -> None:
    _default_mode(source)
    for projection in source.get("sources") or ():
        for item in projection.get("downwardAPI", {}).get("items", ()):
            _default_field_reference(item)
        token = projection.get("serviceAccountToken")
        if token is not None:
            token.setdefault("expirationSeconds", 3600)


def _fill(**defaults: Any) -> Any:
    def fill(source: Spec) -> None:
        for name, value in defaults.items():
            if not source.get(name):
                source[name] = value

    return fill


def _default_host_path(source: Spec) -> None:
    source.setdefault("type", "")


def _default_azure_disk(source: Spec) -> None:
    for name, value in (("cachingMode", "ReadWrite"), ("fsType", "ext4"), ("readOnly", False), ("kind", "Shared")):
        source.setdefault(name, value)


def _default_image(source: Spec) -> None:
    if not source.get("pullPolicy"):
        source["pullPolicy"] = default_pull_policy(source.get("reference", ""))


def _default_ephemeral(source: Spec) -> None:
    template = source.get("volumeClaimTemplate")
    if template is not None:
        template.setdefault("metadata", {})
        default_claim_spec(template.setdefault("spec", {}))


def default_claim_spec(spec: Spec) -> None:
    """Defaults of a PersistentVolumeClaim's spec where it stands inside another object."""
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("resources", {})


_VOLUME_DEFAULTS = {
    "secret": _default_mode,
    "configMap": _default_mode,
    "downwardAPI": _default_downward_api,
    "projected": _default_projected,
    "hostPath": _default_host_path,
    "iscsi": _fill(iscsiInterface="default"),
    "rbd": _fill(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "scaleIO": _fill(storageMode="ThinProvisioned", fsType="xfs"),
    "azureDisk": _default_azure_disk,
    "ephemeral": _default_ephemeral,
    "image": _default_image,
}


# -- fields behind features that are off ------------------------------------------------------------------------------


def drop_disabled_fields(spec: Spec, old: Spec | None) -> None:
    """Remove what belongs to features that v1.36 ships switched off, unless the stored object already uses it."""
    before = old or {}
    if "schedulingGroup" in spec and "schedulingGroup" not in before:
        del spec["schedulingGroup"]
    used = {
        container.get("name") for container in _all_containers(before) if "stopSignal" in container.get("lifecycle", {})
    }
    for container in _all_containers(spec):
        lifecycle = container.get("lifecycle")
        if lifecycle and "stopSignal" in lifecycle and not used:
            del lifecycle["stopSignal"]
    for kind in ("clusterTrustBundle", "podCertificate"):
        if not _projects(before, kind) and _projects(spec, kind):
            for source in _projections(spec):
                source.pop(kind, None)


def _all_containers(spec: Spec) -> list[Spec]:
    return [*spec.get("initContainers", ()), *spec.get("containers", ()), *spec.get("ephemeralContainers", ())]


def _projections(spec: Spec) -> list[Spec]:
    return [
        source
        for volume in spec.get("volumes", ())
        if "projected" in volume
        for source in volume["projected"].get("sources") or ()
    ]


def _projects(spec: Spec, kind: str) -> bool:
    return any(kind in source for source in _projections(spec))
