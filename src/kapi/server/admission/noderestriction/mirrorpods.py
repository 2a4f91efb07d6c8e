"""Mirror Pods, which a kubelet creates for the static Pods of its node, refer to no other object of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.api.meta import Object

_SECRET_REFERENCES: Final = {
    "azureFile": ("secretName", ""),
    "cephfs": ("secretRef", "name"),
    "cinder": ("secretRef", "name"),
    "flexVolume": ("secretRef", "name"),
    "rbd": ("secretRef", "name"),
    "secret": ("secretName", ""),
    "scaleIO": ("secretRef", "name"),
    "iscsi": ("secretRef", "name"),
    "storageos": ("secretRef", "name"),
    "csi": ("nodePublishSecretRef", "name"),
}
"""Where each type of volume names its Secret."""
_PLAIN_VOLUMES: Final = (
    "awsElasticBlockStore", "azureDisk", "cephfs", "cinder", "downwardAPI", "emptyDir", "fc", "flexVolume", "flocker",
    "gcePersistentDisk", "gitRepo", "hostPath", "image", "iscsi", "nfs", "photonPersistentDisk", "portworxVolume",
    "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
)  # fmt: skip
_VOLUMES: Final = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTED: Final = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


class UnknownSource(ValueError):
    """A volume of a type that this server does not know."""


def referenced_resource(pod: Object) -> str:
    """Return the first resource that a Pod refers to, an empty string if it refers to none.

    Raises:
        UnknownSource: a volume is of a type that may refer to anything.
    """
    spec = pod.get("spec") or {}
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    if any(_secrets(spec)):
        return "secrets"
    if any(_config_maps(spec)):
        return "configmaps"
    if spec.get("resourceClaims"):
        return "resourceclaims"
    return next((found for volume in spec.get("volumes") or () if (found := _volume(volume))), "")


def _secrets(spec: Object) -> Iterator[str]:
    for secret in spec.get("imagePullSecrets") or ():
        yield secret.get("name", "")
    yield from _environment(spec, "secretRef", "secretKeyRef")
    for volume in spec.get("volumes") or ():
        for kind, (field, name) in _SECRET_REFERENCES.items():
            value = (volume.get(kind) or {}).get(field) or ""
            yield (value.get(name) or "") if isinstance(value, dict) else value
        yield from _projected(volume, "secret")


def _config_maps(spec: Object) -> Iterator[str]:
    yield from _environment(spec, "configMapRef", "configMapKeyRef")
    for volume in spec.get("volumes") or ():
        yield (volume.get("configMap") or {}).get("name", "")
        yield from _projected(volume, "configMap")


def _environment(spec: Object, whole: str, single: str) -> Iterator[str]:
    for sort in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(sort) or ():
            for source in container.get("envFrom") or ():
                yield (source.get(whole) or {}).get("name", "")
            for variable in container.get("env") or ():
                yield ((variable.get("valueFrom") or {}).get(single) or {}).get("name", "")


def _projected(volume: Object, kind: str) -> Iterator[str]:
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield (source.get(kind) or {}).get("name", "")


def _volume(volume: Object) -> str:
    if any(volume.get(kind) is not None for kind in _PLAIN_VOLUMES):
        return ""
    for kind, resource in _VOLUMES.items():
        if volume.get(kind) is not None:
            return resource
    if volume.get("projected") is None:
        raise UnknownSource(f'unknown volume type for volume  "{volume.get("name", "")}"')
    for source in volume["projected"].get("sources") or ():
        for kind, resource in _PROJECTED.items():
            if source.get(kind) is not None:
                return resource
        if source.get("downwardAPI") is None:
            raise UnknownSource(f'unknown source for projected volume "{volume.get("name", "")}"')
    return ""
