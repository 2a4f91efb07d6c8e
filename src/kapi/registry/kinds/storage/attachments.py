"""VolumeAttachment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError, forbidden, invalid, required, too_long
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.persistentvolumes import driver_name_errors, volume_spec_errors
from kapi.registry.kinds.fieldrules import spec_of
from kapi.registry.kinds.sameness import same, without
from kapi.registry.kinds.storage.classes import MAX_PARAMETER_BYTES, map_bytes
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

_MAX_MESSAGE_BYTES = 1024


class VolumeAttachmentStrategy(Strategy):
    """The rules of VolumeAttachment: one volume, one node, one driver, for good."""

    has_status = True
    allow_unconditional_update = False
    returns_deleted_object = True
    resets_metadata_on_status = True

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Nothing is attached yet."""
        spec_of(obj)
        obj["status"] = {"attached": False}

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """A missing spec is an empty one, which is a change."""
        spec_of(obj)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """A driver, a node, and exactly one source."""
        spec = obj["spec"]
        errors = driver_name_errors("spec.attacher", spec.get("attacher", ""))
        errors += _attachment_source_errors(spec.get("source") or {})
        errors += fieldrules.dns_subdomain("spec.nodeName", spec.get("nodeName", ""))
        errors += _attachment_status_errors(obj.get("status") or {})
        name = (spec.get("source") or {}).get("persistentVolumeName")
        if name is not None:
            errors += fieldrules.dns_subdomain("spec.source.persistentVolumeName", name)
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The spec stays."""
        errors = self.validate_create(write, obj)
        if not same(obj["spec"], old["spec"]):
            errors += fieldrules.unchanged("spec", obj["spec"], old["spec"])
        return errors

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate the sizes of what a driver reports."""
        return self.validate_create(write, obj)


def _attachment_source_errors(source: dict[str, Any]) -> list[FieldError]:
    path = "spec.source"
    exactly_one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and name is None:
        return [required(path, exactly_one)]
    if inline is not None and name is not None:
        return [forbidden(path, exactly_one)]
    if name is not None:
        where = f"{path}.persistentVolumeName"
        return [] if name else [required(where, "must specify non empty persistentVolumeName")]
    return _inline_volume_errors(f"{path}.inlineVolumeSpec", inline or {})


def _inline_volume_errors(path: str, spec: dict[str, Any]) -> list[FieldError]:
    """A volume without an object of its own: CSI only, and nothing that is about claims."""
    inline = "in the context of inline volumes"
    errors = [
        forbidden(f"{path}.{field}", f"may not be specified {inline}")
        for field in ("claimRef", "capacity", "nodeAffinity", "storageClassName")
        if spec.get(field)
    ]
    if "csi" not in spec:
        errors.append(required(f"{path}.csi", f"has to be specified {inline}"))
    stand_in = {**without(spec, "nodeAffinity", "storageClassName"), "capacity": {"storage": "1"}}
    return errors + volume_spec_errors(stand_in, path)


def _attachment_status_errors(status: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    if map_bytes(status.get("attachmentMetadata") or {}) > MAX_PARAMETER_BYTES:
        errors.append(too_long("status.attachmentMetadata", MAX_PARAMETER_BYTES))
    for field in ("attachError", "detachError"):
        report = status.get(field) or {}
        if len(report.get("message", "").encode()) > _MAX_MESSAGE_BYTES:
            errors.append(too_long(f"status.{field}.message", MAX_PARAMETER_BYTES))
        code = report.get("errorCode", 0)
        if code < 0:
            errors.append(invalid(f"status.{field}.errorCode", code, "must be between 0 and 2147483647, inclusive"))
    return errors


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("storage.k8s.io", "VolumeAttachment"): VolumeAttachmentStrategy(),
}
