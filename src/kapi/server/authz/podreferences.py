"""The objects that a Pod refers to and its kubelet has to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.registry.kinds.core.pod.spec import MIRROR_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.api.meta import Object


class Reference(NamedTuple):
    """An object by the plural of its resource, its namespace and its name."""

    resource: str
    namespace: str
    name: str


_SECRET_VOLUMES: Final = {
    "azureFile": ("secretName",),
    "cephfs": ("secretRef", "name"),
    "cinder": ("secretRef", "name"),
    "flexVolume": ("secretRef", "name"),
    "rbd": ("secretRef", "name"),
    "secret": ("secretName",),
    "scaleIO": ("secretRef", "name"),
    "iscsi": ("secretRef", "name"),
    "storageos": ("secretRef", "name"),
    "csi": ("nodePublishSecretRef", "name"),
}
"""Where each kind of volume of a Pod names its Secret."""

_KUBELET_CSI_SECRETS: Final = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")


def pod_references(pod: Object) -> Iterator[Reference]:
    """Yield every Secret, ConfigMap, claim and ServiceAccount that a Pod refers to."""
    metadata = pod["metadata"]
    if MIRROR_ANNOTATION in (metadata.get("annotations") or {}):
        return  # It must not give the kubelet, which has created it, access to anything.
    for resource, name in named_objects(metadata.get("name") or "", pod.get("spec") or {}, pod.get("status") or {}):
        yield Reference(resource, metadata["namespace"], name)


def named_objects(pod: str, spec: Object, status: Object) -> Iterator[tuple[str, str]]:
    """Yield the resource and the name of every object that the spec and the status of a Pod name."""
    return (pair for pair in _named(pod, spec, status) if pair[1])


def _named(pod: str, spec: Object, status: Object) -> Iterator[tuple[str, str]]:
    yield "serviceaccounts", spec.get("serviceAccountName") or ""
    for secret in spec.get("imagePullSecrets") or ():
        yield "secrets", secret.get("name") or ""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            yield from _environment(container)
    for volume in spec.get("volumes") or ():
        yield from _volume(pod, volume)
    generated = {one.get("name"): one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or ()}
    for claim in spec.get("resourceClaims") or ():
        yield "resourceclaims", claim.get("resourceClaimName") or generated.get(claim.get("name")) or ""
    extended = status.get("extendedResourceClaimStatus") or {}
    yield "resourceclaims", extended.get("resourceClaimName") or ""


def _environment(container: Object) -> Iterator[tuple[str, str]]:
    for source in container.get("envFrom") or ():
        yield "secrets", (source.get("secretRef") or {}).get("name") or ""
        yield "configmaps", (source.get("configMapRef") or {}).get("name") or ""
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield "secrets", (source.get("secretKeyRef") or {}).get("name") or ""
        yield "configmaps", (source.get("configMapKeyRef") or {}).get("name") or ""


def _volume(pod: str, volume: Object) -> Iterator[tuple[str, str]]:
    for kind, path in _SECRET_VOLUMES.items():
        if volume.get(kind):
            yield "secrets", _at(volume[kind], path)
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield "secrets", (source.get("secret") or {}).get("name") or ""
        yield "configmaps", (source.get("configMap") or {}).get("name") or ""
    yield "configmaps", (volume.get("configMap") or {}).get("name") or ""
    yield "persistentvolumeclaims", (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
    if volume.get("ephemeral") is not None:
        yield "persistentvolumeclaims", f"{pod}-{volume['name']}"


def _at(value: Any, path: tuple[str, ...]) -> str:
    for field in path:
        value = (value or {}).get(field)
    return value or ""


def volume_secrets(volume: Object) -> Iterator[Reference]:
    """Yield the Secrets that a kubelet needs to mount a PersistentVolume which is bound to a claim."""
    spec = volume.get("spec") or {}
    namespace = (spec.get("claimRef") or {}).get("namespace") or ""
    azure = spec.get("azureFile") or {}
    if azure.get("secretName"):
        yield Reference("secrets", azure.get("secretNamespace") or namespace, azure["secretName"])
    for kind in ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"):
        reference = (spec.get(kind) or {}).get("secretRef") or {}
        if reference.get("name"):
            yield Reference("secrets", reference.get("namespace") or namespace, reference["name"])
    for field in _KUBELET_CSI_SECRETS:
        reference = (spec.get("csi") or {}).get(field) or {}
        if reference.get("name"):
            yield Reference("secrets", reference.get("namespace") or "", reference["name"])
