"""PersistentVolume: defaults, phase, sources, and what may change once it exists."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError, forbidden, invalid, not_supported, required, too_long
from kapi.api.meta import format_time
from kapi.api.names import dns_subdomain
from kapi.api.values import parse_quantity
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.pod.placement import check_node_selector
from kapi.registry.kinds.fieldrules import spec_of
from kapi.registry.kinds.sameness import difference, same, without
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
VOLUME_MODES = ("Block", "Filesystem")
_ONE_SOURCE = "may not specify more than 1 volume type"
_SOURCES: dict[str, tuple[str, ...]] = {
    "hostPath": ("path",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "glusterfs": ("endpoints", "path"),
    "flocker": (),
    "nfs": ("server", "path"),
    "rbd": ("monitors", "image"),
    "quobyte": ("registry", "volume"),
    "cephfs": ("monitors",),
    "iscsi": ("targetPortal", "iqn"),
    "cinder": ("volumeID",),
    "fc": (),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "local": ("path",),
    "storageos": (),
    "csi": (),
}
"""The sources a volume can have, in the order they are looked at, with the fields each cannot do without."""
_SECRET_REFERENCES = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)
_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")


def access_mode_errors(path: str, modes: list[str]) -> list[FieldError]:
    """Known modes, and the exclusive one alone."""
    errors = [not_supported(path, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    others = {mode for mode in modes if mode in ACCESS_MODES} - {"ReadWriteOncePod"}
    if "ReadWriteOncePod" in modes and others:
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def driver_name_errors(path: str, name: str) -> list[FieldError]:
    """The name of a CSI driver: a subdomain of at most 63 bytes, capitals allowed."""
    if not name:
        return [required(path)]
    errors = [too_long(path, 63)] if len(name.encode()) > 63 else []
    return errors + fieldrules.each(path, name, dns_subdomain(name.lower()))


def volume_spec_errors(spec: dict[str, Any], path: str = "spec") -> list[FieldError]:
    """A volume: what it is, how much it holds, and who may mount it how."""
    modes = spec.get("accessModes") or []
    errors = [] if modes else [required(f"{path}.accessModes")]
    errors += access_mode_errors(f"{path}.accessModes", modes)
    errors += _capacity_errors(f"{path}.capacity", spec.get("capacity") or {})
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy:
        errors += fieldrules.one_of(f"{path}.persistentVolumeReclaimPolicy", policy, RECLAIM_POLICIES)
    if "nodeAffinity" in spec:
        errors += _affinity_errors(f"{path}.nodeAffinity", spec["nodeAffinity"])
    errors += _source_errors(path, spec)
    if policy == "Recycle" and posixpath.normpath(spec.get("hostPath", {}).get("path", "")) == "/":
        text = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", text))
    if spec.get("storageClassName"):
        errors += fieldrules.dns_subdomain(f"{path}.storageClassName", spec["storageClassName"])
    if "volumeMode" in spec:
        errors += fieldrules.one_of(f"{path}.volumeMode", spec["volumeMode"], VOLUME_MODES)
    return errors + _attributes_class_errors(path, spec)


def _capacity_errors(path: str, capacity: dict[str, str]) -> list[FieldError]:
    errors = [] if capacity else [required(path)]
    if set(capacity) != {"storage"}:
        errors.append(not_supported(path, capacity or None, ("storage",)))
    for name, amount in capacity.items():
        if parse_quantity(amount).value() < 0:
            detail = "must be a valid resource quantity"
            errors.append(invalid(f"{path}[{name}]", parse_quantity(amount).value(), detail))
        errors += fieldrules.positive_quantity(f"{path}[{name}]", amount)
    return errors


def _affinity_errors(path: str, affinity: dict[str, Any]) -> list[FieldError]:
    if "required" not in affinity:
        return [required(f"{path}.required", "must specify required node constraints")]
    errors: list[FieldError] = []
    check_node_selector(errors, f"{path}.required", affinity["required"])
    return errors


def _source_errors(path: str, spec: dict[str, Any]) -> list[FieldError]:
    present = [source for source in _SOURCES if source in spec]
    if not present:
        return [required(path, "must specify a volume type")]
    first, *more = present
    errors = _one_source_errors(f"{path}.{first}", first, spec[first])
    if first == "local" and "nodeAffinity" not in spec:
        errors.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    errors += [forbidden(f"{path}.{'cephFS' if source == 'cephfs' else source}", _ONE_SOURCE) for source in more]
    return errors


def _one_source_errors(path: str, kind: str, source: dict[str, Any]) -> list[FieldError]:
    errors = [required(f"{path}.{field}") for field in _SOURCES[kind] if not source.get(field)]
    target = source.get("path", "")
    if kind in {"hostPath", "local"} and ".." in target.split("/"):
        errors.append(invalid(f"{path}.path", target, "must not contain '..'"))
    if kind == "hostPath" and "type" in source and target:
        errors += fieldrules.one_of(f"{path}.type", source["type"], _HOST_PATH_TYPES)
    if kind == "nfs" and not target.startswith("/"):
        errors.append(invalid(f"{path}.path", target, "must be an absolute path"))
    if kind == "csi":
        errors += _csi_errors(path, source)
    return errors


def _csi_errors(path: str, source: dict[str, Any]) -> list[FieldError]:
    errors = driver_name_errors(f"{path}.driver", source.get("driver", ""))
    if not source.get("volumeHandle"):
        errors.append(required(f"{path}.volumeHandle"))
    for field in _SECRET_REFERENCES:
        if field in source:
            reference, where = source[field], f"{path}.{field}"
            errors += fieldrules.required_string(f"{where}.name", reference.get("name"), fieldrules.dns_subdomain)
            errors += fieldrules.required_string(f"{where}.namespace", reference.get("namespace"), fieldrules.dns_label)
    return errors


def _attributes_class_errors(path: str, spec: dict[str, Any]) -> list[FieldError]:
    name = spec.get("volumeAttributesClassName")
    if name is None:
        return []
    where = f"{path}.volumeAttributesClassName"
    errors = fieldrules.dns_subdomain(where, name) if name else [required(where, "an empty string is disallowed")]
    if "csi" not in spec:
        errors.append(required(f"{path}.csi", "has to be specified when using volumeAttributesClassName"))
    return errors


class PersistentVolumeStrategy(Strategy):
    """The rules of PersistentVolume."""

    has_status = True
    returns_deleted_object = True

    def default(self, obj: Object) -> None:
        """Kept when released, mounted as a file system, pending."""
        spec = spec_of(obj)
        if not spec.get("persistentVolumeReclaimPolicy"):
            spec["persistentVolumeReclaimPolicy"] = "Retain"
        spec.setdefault("volumeMode", "Filesystem")
        if "hostPath" in spec:
            spec["hostPath"].setdefault("type", "")

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Start pending, from now."""
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": format_time(write.now)}

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """The volume makes sense."""
        return volume_spec_errors(obj["spec"])

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The source, the mode and the node affinity stay."""
        errors = self.validate_create(write, obj)
        now, was = _source_of(obj), _source_of(old)
        if "csi" in now and "csi" in was and "controllerExpandSecretRef" not in was["csi"]:
            now["csi"] = without(now["csi"], "controllerExpandSecretRef")
        if not same(now, was):
            text = f"spec.persistentvolumesource is immutable after creation\n{difference(was, now)}"
            errors.append(forbidden("spec.persistentvolumesource", text))
        errors += fieldrules.unchanged("volumeMode", obj["spec"].get("volumeMode"), old["spec"].get("volumeMode"))
        affinity, stored = obj["spec"].get("nodeAffinity"), old["spec"].get("nodeAffinity")
        if stored is not None and not same(affinity, stored):
            text = "field is immutable, except for updating from beta label to GA"
            errors.append(invalid("nodeAffinity", affinity, text))
        field = "volumeAttributesClassName"
        if field in old["spec"] and field not in obj["spec"]:
            errors.append(forbidden(f"spec.{field}", "update from non-nil value to nil is forbidden"))
        return errors

    def prepare_status(self, write: Write, obj: Object, old: Object) -> None:
        """Note when the phase changed."""
        status, before = obj.setdefault("status", {}), old.get("status", {})
        status.setdefault("phase", "Pending")
        stamp, stored = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
        if status["phase"] == before.get("phase"):
            if stamp is None and stored is not None:
                status["lastPhaseTransitionTime"] = stored
        elif stamp is None or stamp == stored:
            status["lastPhaseTransitionTime"] = format_time(write.now)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Warn about the deprecated reclaim policy."""
        if obj["spec"].get("persistentVolumeReclaimPolicy") != "Recycle":
            return []
        advice = "Instead, the recommended approach is to use dynamic provisioning."
        return [f"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. {advice}"]


def _source_of(volume: Object) -> dict[str, Any]:
    return {source: volume["spec"][source] for source in _SOURCES if source in volume["spec"]}


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("", "PersistentVolume"): PersistentVolumeStrategy(),
}
