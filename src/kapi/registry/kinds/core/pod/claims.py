"""Rules for PersistentVolumeClaim specs that stand inside another object: ephemeral volumes and stateful sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import fielderror, names
from kapi.api.selectors import validate_label_selector
from kapi.api.values import parse_quantity
from kapi.registry.kinds import fieldrules

if TYPE_CHECKING:
    from kapi.registry.kinds.fieldrules import Errors

Spec = dict[str, Any]

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")


def check_claim_template(errors: Errors, path: str, template: Spec) -> None:
    """The template of an ephemeral volume: only labels, annotations and a spec mean anything in it."""
    metadata = template.get("metadata", {})
    errors += fieldrules.labels(f"{path}.metadata.labels", metadata.get("labels", {}))
    errors.extend(
        fielderror.forbidden(f"{path}.metadata.{field}", "cannot be set")
        for field, value in metadata.items()
        if value and field not in {"labels", "annotations"}
    )
    check_claim_spec(errors, f"{path}.spec", template.get("spec", {}))


def check_claim_spec(errors: Errors, path: str, spec: Spec) -> None:
    """Access modes, size, class and data source of a claim."""
    _check_access_modes(errors, f"{path}.accessModes", spec)
    storage = (spec.get("resources", {}).get("requests") or {}).get("storage")
    if storage is None:
        errors.append(fielderror.required(f"{path}.resources[storage]"))
    elif parse_quantity(storage).mantissa <= 0:
        errors.append(fielderror.invalid(f"{path}.resources[storage]", storage, "must be greater than zero"))
    for field in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(field):
            errors += fieldrules.each(f"{path}.{field}", spec[field], names.dns_subdomain(spec[field]))
        if field == "storageClassName":
            _check_sources(errors, path, spec)


def _check_access_modes(errors: Errors, path: str, spec: Spec) -> None:
    modes = spec.get("accessModes", ())
    if not modes:
        errors.append(fielderror.required(path, "at least 1 access mode is required"))
    if "selector" in spec:
        errors.extend(validate_label_selector(spec["selector"], path.removesuffix("accessModes") + "selector"))
    errors.extend(fielderror.not_supported(path, mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES)
    known = {mode for mode in modes if mode in _ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        errors.append(fielderror.forbidden(path, "may not use ReadWriteOncePod with other access modes"))


def _check_sources(errors: Errors, path: str, spec: Spec) -> None:
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        errors.append(fielderror.not_supported(f"{path}.volumeMode", mode, _VOLUME_MODES))
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for field, value in (("dataSource", source), ("dataSourceRef", reference)):
        if value is not None:
            _check_source(errors, f"{path}.{field}", value)
    if source is None or reference is None:
        return
    # kube-apiserver shows the path where the value would stand.
    if reference.get("namespace"):
        detail = "may not be specified when dataSourceRef.namespace is specified"
        errors.append(fielderror.invalid(path, f"{path}.dataSource", detail))
    elif any(source.get(key) != reference.get(key) for key in ("apiGroup", "kind", "name")):
        errors.append(fielderror.invalid(path, f"{path}.dataSource", "must match dataSourceRef"))


def _check_source(errors: Errors, path: str, source: Spec) -> None:
    group, kind, namespace = source.get("apiGroup") or "", source.get("kind", ""), source.get("namespace", "")
    if not source.get("name"):
        errors.append(fielderror.required(f"{path}.name"))
    if not kind:
        errors.append(fielderror.required(f"{path}.kind"))
    if not group and kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(fielderror.invalid(path, kind, detail))
    if group:
        errors += fieldrules.each(f"{path}.apiGroup", group, names.dns_subdomain(group))
    if namespace:
        errors += fieldrules.each(f"{path}.namespace", namespace, names.dns_label(namespace))
