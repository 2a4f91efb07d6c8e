"""The audiences of tokens that a kubelet may request: those that volumes of the Pod, or their CSI drivers, ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.strategy import Lookup

_MIGRATED: Final = {
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "vsphereVolume": "csi.vsphere.vmware.com",
    "portworxVolume": "pxd.portworx.com",
}
"""The CSI drivers that have replaced types of volumes."""


class MissingObject(LookupError):
    """An object on the way from a volume to its CSI driver does not exist."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f'{kind} "{name}" not found')


def references_audience(lookup: Lookup, pod: Object, audience: str) -> tuple[bool, str]:
    """Return True if a volume of a Pod asks for tokens of an audience; and why that may not be known for sure."""
    problems: list[str] = []
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            token = source.get("serviceAccountToken")
            if token is not None and (token.get("audience") or "") == audience:
                return True, ""
        try:
            driver = _driver(lookup, pod["metadata"], volume)
            if driver and _asks_for(lookup, driver, audience):
                return True, ""
        except MissingObject as error:
            problems.append(str(error))
    texts = list(dict.fromkeys(problems))
    return False, texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""


def _driver(lookup: Lookup, pod: Object, volume: Object) -> str:
    """Return the CSI driver of a volume of a Pod, an empty string if it has none."""
    if (volume.get("ephemeral") or {}).get("volumeClaimTemplate") is not None:
        return _claim_driver(lookup, pod["namespace"], f"{pod['name']}-{volume['name']}")
    if volume.get("persistentVolumeClaim") is not None:
        return _claim_driver(lookup, pod["namespace"], volume["persistentVolumeClaim"].get("claimName", ""))
    if volume.get("csi") is not None:
        return str(volume["csi"].get("driver", ""))
    return _migrated(volume)


def _claim_driver(lookup: Lookup, namespace: str, name: str) -> str:
    claim = lookup.get("persistentvolumeclaims", namespace, name)
    if claim is None:
        raise MissingObject("persistentvolumeclaim", name)
    volume_name = (claim.get("spec") or {}).get("volumeName", "")
    volume = lookup.get("persistentvolumes", "", volume_name) if volume_name else None
    if volume is None:
        raise MissingObject("persistentvolume", volume_name)
    spec = volume.get("spec") or {}
    return str((spec.get("csi") or {}).get("driver", "")) or _migrated(spec)


def _migrated(source: Object) -> str:
    return next((driver for kind, driver in _MIGRATED.items() if source.get(kind) is not None), "")


def _asks_for(lookup: Lookup, name: str, audience: str) -> bool:
    driver = lookup.get("csidrivers.storage.k8s.io", "", name)
    if driver is None:
        raise MissingObject("csidriver.storage.k8s.io", name)
    requests = (driver.get("spec") or {}).get("tokenRequests") or ()
    return any((request.get("audience") or "") == audience for request in requests)
