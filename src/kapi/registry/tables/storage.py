"""Tables of volumes, claims, storage classes and CSI drivers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.registry.tables import cells
from kapi.registry.tables.table import AGE, NAME, Column, Table, boolean, integer, text, wide

if TYPE_CHECKING:
    import datetime as dt

    from kapi.api.meta import Object

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
"""Short names of access modes, in the order they are printed."""

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _access_modes(modes: list[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _class_of(obj: Object) -> str:
    """The storage class; the older annotation takes precedence over the field."""
    annotated = cells.part(obj, "metadata", "annotations").get(_BETA_CLASS)
    return cells.string(obj, "spec", "storageClassName") if annotated is None else str(annotated)


def _phase(obj: Object) -> str:
    return "Terminating" if cells.is_deleting(obj) else cells.string(obj, "status", "phase")


def _or_unset(spec: Object, field: str) -> str:
    value = spec.get(field)
    return cells.UNSET if value is None else str(value)


def _claim_of(spec: Object) -> str:
    claim = spec.get("claimRef")
    return "" if claim is None else f"{cells.string(claim, 'namespace')}/{cells.string(claim, 'name')}"


def _volume(obj: Object, now: dt.datetime) -> list[Any]:
    spec = cells.part(obj, "spec")
    return [
        cells.name(obj),
        cells.quantity(cells.part(spec, "capacity").get("storage")),
        _access_modes(cells.items(spec, "accessModes")),
        cells.string(spec, "persistentVolumeReclaimPolicy"),
        _phase(obj),
        _claim_of(spec),
        _class_of(obj),
        _or_unset(spec, "volumeAttributesClassName"),
        cells.string(obj, "status", "reason"),
        cells.age(obj, now),
        _or_unset(spec, "volumeMode"),
    ]


def _claim(obj: Object, now: dt.datetime) -> list[Any]:
    spec, status = cells.part(obj, "spec"), cells.part(obj, "status")
    volume = cells.string(spec, "volumeName")
    # What was asked for is not shown: the columns speak of the volume, once there is one.
    return [
        cells.name(obj),
        _phase(obj),
        volume,
        cells.quantity(cells.part(status, "capacity").get("storage")) if volume else "",
        _access_modes(cells.items(status, "accessModes")) if volume else "",
        _class_of(obj),
        _or_unset(spec, "volumeAttributesClassName"),
        cells.age(obj, now),
        _or_unset(spec, "volumeMode"),
    ]


def _storage_class(obj: Object, now: dt.datetime) -> list[Any]:
    annotations = cells.part(obj, "metadata", "annotations")
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return [
        f"{cells.name(obj)} (default)" if is_default else cells.name(obj),
        cells.string(obj, "provisioner"),
        cells.string(obj, "reclaimPolicy") or "Delete",
        cells.string(obj, "volumeBindingMode") or "Immediate",
        cells.flag(obj, "allowVolumeExpansion"),
        cells.age(obj, now),
    ]


def _attributes_class(obj: Object, now: dt.datetime) -> list[Any]:
    return [cells.name(obj), cells.string(obj, "driverName"), cells.age(obj, now)]


def _attachment(obj: Object, now: dt.datetime) -> list[Any]:
    spec = cells.part(obj, "spec")
    return [
        cells.name(obj),
        cells.string(spec, "attacher"),
        cells.string(spec, "source", "persistentVolumeName"),
        cells.string(spec, "nodeName"),
        cells.flag(cells.part(obj, "status"), "attached"),
        cells.age(obj, now),
    ]


def _driver(obj: Object, now: dt.datetime) -> list[Any]:
    spec = cells.part(obj, "spec")
    requests = spec.get("tokenRequests")
    return [
        cells.name(obj),
        cells.flag(spec, "attachRequired", default=True),
        cells.flag(spec, "podInfoOnMount"),
        cells.flag(spec, "storageCapacity"),
        cells.UNSET if requests is None else ",".join(cells.string(each, "audience") for each in requests),
        cells.flag(spec, "requiresRepublish"),
        ",".join(cells.items(spec, "volumeLifecycleModes")) or cells.NONE,
        cells.age(obj, now),
    ]


def _node(obj: Object, now: dt.datetime) -> list[Any]:
    return [cells.name(obj), len(cells.items(obj, "spec", "drivers")), cells.age(obj, now)]


TABLES = {
    ("", "persistentvolumes"): Table(
        (
            NAME,
            text("Capacity", "How much the volume holds."),
            text("Access Modes", "The ways the volume can be mounted, in short."),
            text("Reclaim Policy", "What happens to the volume when its claim is gone."),
            text("Status", "Whether the volume is available, bound, released or failed."),
            text("Claim", "The claim the volume is bound to."),
            text("StorageClass", "The storage class of the volume."),
            text("VolumeAttributesClass", "The attributes class of the volume."),
            text("Reason", "Why the volume is in its state, in a word."),
            AGE,
            wide("VolumeMode", "Whether the volume is a file system or a block device."),
        ),
        _volume,
    ),
    ("", "persistentvolumeclaims"): Table(
        (
            NAME,
            text("Status", "Whether the claim is pending, bound or lost."),
            text("Volume", "The volume the claim is bound to."),
            text("Capacity", "How much the bound volume holds."),
            text("Access Modes", "The ways the bound volume can be mounted, in short."),
            text("StorageClass", "The storage class that is asked for."),
            text("VolumeAttributesClass", "The attributes class that is asked for."),
            AGE,
            wide("VolumeMode", "Whether a file system or a block device is asked for."),
        ),
        _claim,
    ),
    ("storage.k8s.io", "storageclasses"): Table(
        (
            NAME,
            text("Provisioner", "What makes volumes of this class."),
            text("ReclaimPolicy", "What happens to volumes of this class when their claim is gone."),
            text("VolumeBindingMode", "When volumes are made and bound."),
            text("AllowVolumeExpansion", "Whether volumes of this class can grow."),
            AGE,
        ),
        _storage_class,
    ),
    ("storage.k8s.io", "volumeattributesclasses"): Table(
        (NAME, text("DriverName", "The driver that understands the attributes."), AGE), _attributes_class
    ),
    ("storage.k8s.io", "volumeattachments"): Table(
        (
            NAME,
            Column("Attacher", "string", "name", "The driver that attaches the volume."),
            text("PV", "The volume that is attached."),
            text("Node", "The node it is attached to."),
            boolean("Attached", "Whether attaching has succeeded."),
            AGE,
        ),
        _attachment,
    ),
    ("storage.k8s.io", "csidrivers"): Table(
        (
            NAME,
            boolean("AttachRequired", "Whether volumes must be attached before they are mounted."),
            boolean("PodInfoOnMount", "Whether the driver is told about the pod on mount."),
            boolean("StorageCapacity", "Whether the driver publishes its capacity."),
            text("TokenRequests", "The audiences the driver gets service account tokens for."),
            boolean("RequiresRepublish", "Whether the driver is called again and again while mounted."),
            text("Modes", "The lifecycles of volumes the driver supports."),
            AGE,
        ),
        _driver,
    ),
    ("storage.k8s.io", "csinodes"): Table(
        (NAME, integer("Drivers", "How many drivers are installed on the node."), AGE), _node
    ),
}
