"""PersistentVolumeClaim: defaults, phase, and what may change once it exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError, forbidden, invalid
from kapi.api.values import parse_quantity
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.pod.claims import check_claim_spec
from kapi.registry.kinds.fieldrules import annotations_of, spec_of
from kapi.registry.kinds.sameness import difference, same, without
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"


def _normalize_data_sources(spec: dict[str, Any]) -> None:
    """`dataSource` and `dataSourceRef` mirror each other, except across namespaces."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    fields = ("apiGroup", "kind", "name")
    if source is not None and reference is None:
        spec["dataSourceRef"] = {field: source[field] for field in fields if field in source}
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {field: reference[field] for field in fields if field in reference}


def _is_known_source(source: dict[str, Any] | None) -> bool:
    if source is None:
        return True
    known = {"PersistentVolumeClaim": "", "VolumeSnapshot": "snapshot.storage.k8s.io"}
    return bool(known.get(source.get("kind", "")) == (source.get("apiGroup") or ""))


class PersistentVolumeClaimStrategy(Strategy):
    """The rules of PersistentVolumeClaim."""

    has_status = True
    returns_deleted_object = True

    def default(self, obj: Object) -> None:
        """Mounted as a file system."""
        spec_of(obj).setdefault("volumeMode", "Filesystem")

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Start pending; unknown kinds of data source need `dataSourceRef`."""
        obj["status"] = {"phase": "Pending"}
        spec = obj["spec"]
        if "dataSourceRef" not in spec and not _is_known_source(spec.get("dataSource")):
            del spec["dataSource"]
        _normalize_data_sources(spec)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """The request makes sense."""
        errors: list[FieldError] = []
        check_claim_spec(errors, "spec", obj["spec"])
        return errors

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Keep both spellings of the data source alike."""
        _normalize_data_sources(obj["spec"])

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """A bound claim may ask for more and for another attributes class; nothing else changes."""
        errors = self.validate_create(write, obj)
        now, was = self._comparable(obj, old)
        stored = dict(annotations_of(old))
        if not _moves_class_from_annotation(obj, old):
            value, before = annotations_of(obj).get(BETA_STORAGE_CLASS, ""), stored.get(BETA_STORAGE_CLASS, "")
            errors += fieldrules.unchanged(f"metadata.annotations.{BETA_STORAGE_CLASS}", value, before)
        if not same(now, was):
            text = (
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound "
                f"claims\n{difference(was, now)}"
            )
            errors.append(forbidden("spec", text))
        errors += _shrink_errors(obj, old)
        errors += fieldrules.unchanged("volumeMode", obj["spec"].get("volumeMode"), old["spec"].get("volumeMode"))
        return errors + _claim_class_errors(obj, old)

    @staticmethod
    def _comparable(obj: Object, old: Object) -> tuple[dict[str, Any], dict[str, Any]]:
        """Both specs, without what this update is allowed to change."""
        now, was = dict(obj["spec"]), dict(old["spec"])
        _normalize_data_sources(was)
        if not was.get("volumeName"):
            was = {**was, "volumeName": now.get("volumeName", "")}
        annotated = annotations_of(old).get(BETA_STORAGE_CLASS)
        name = now.get("storageClassName")
        if "storageClassName" not in was and name is not None and annotated in {None, name}:
            del now["storageClassName"]
        if obj.get("status", {}).get("phase") == "Bound":
            now, was = without(now, "volumeAttributesClassName"), without(was, "volumeAttributesClassName")
            now["resources"], was["resources"] = _without_storage(now), _without_storage(was)
        return now, was

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Amounts are amounts."""
        errors: list[FieldError] = []
        for field in ("capacity", "allocatedResources"):
            for name, amount in (obj.get("status", {}).get(field) or {}).items():
                whole = parse_quantity(amount).value()
                if whole < 0:
                    detail = "must be a valid resource quantity"
                    errors.append(invalid(f"status.{field}[{name}]", whole, detail))
        return errors

    def prepare_status(self, write: Write, obj: Object, old: Object) -> None:
        """An absent phase means pending."""
        obj.setdefault("status", {}).setdefault("phase", "Pending")


def _moves_class_from_annotation(obj: Object, old: Object) -> bool:
    """The one way the old annotation may turn into the field."""
    stored = annotations_of(old).get(BETA_STORAGE_CLASS)
    return (
        stored is not None
        and "storageClassName" not in old["spec"]
        and obj["spec"].get("storageClassName") == stored
        and annotations_of(obj).get(BETA_STORAGE_CLASS, stored) == stored
    )


def _without_storage(spec: dict[str, Any]) -> dict[str, Any]:
    resources = spec.get("resources") or {}
    return {**resources, "requests": without(resources.get("requests") or {}, "storage")}


def _storage(spec: dict[str, Any]) -> str:
    return str((spec.get("resources", {}).get("requests") or {}).get("storage", "0"))


def _shrink_errors(obj: Object, old: Object) -> list[FieldError]:
    now, was = parse_quantity(_storage(obj["spec"])), parse_quantity(_storage(old["spec"]))
    actual = parse_quantity((old.get("status", {}).get("capacity") or {}).get("storage", "0"))
    if now < was and now <= actual:
        return [forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")]
    return []


def _claim_class_errors(obj: Object, old: Object) -> list[FieldError]:
    path, field = "spec.volumeAttributesClassName", "volumeAttributesClassName"
    now = obj["spec"].get(field)
    current = "currentVolumeAttributesClassName"
    if now == old["spec"].get(field) or current not in old.get("status", {}) or now:
        return []
    what = "nil" if now is None else "empty string"
    return [forbidden(path, f"update to {what} is forbidden when status.{current} is not nil")]


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("", "PersistentVolumeClaim"): PersistentVolumeClaimStrategy(),
}
