"""Validation of a CustomResourceDefinition: names, versions, schemas, and what may change.

Fields are named in messages as kube-apiserver names them, which is as they stand when what all versions agree on is
taken out of them (`toplevel`). The rules of single schemas are in `schemafields`, those of conversion in
`conversion`, and how strictly all of it applies in `options`. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api import names as rules
from kapi.api.fielderror import FieldError, immutable, invalid, not_supported, required
from kapi.registry.kinds.apiextensions import approval, gostructs, schemafields, versionfields
from kapi.registry.kinds.apiextensions.conversion import NONE, conversion_errors
from kapi.registry.kinds.apiextensions.options import ValidationOptions, schema_of
from kapi.registry.kinds.apiextensions.schemavalidation import schema_errors
from kapi.registry.kinds.apiextensions.toplevel import TopLevel, top_level
from kapi.schema.structural.report import Report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kapi.api.meta import Object

    Props = Mapping[str, Any]

SCOPES: Final = ("Cluster", "Namespaced")
_NAME_AND_GROUP: Final = 'must be spec.names.plural+"."+spec.group'
_EXTENSIONS: Final = (
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
)


def create_errors(obj: Object, *, legacy: bool) -> list[FieldError]:
    """Validate a new definition, but for the metadata that all kinds share. `legacy`: it came in as v1beta1."""
    options = ValidationOptions(None, legacy=legacy)
    return _bounded([*name_errors(obj), *_spec_errors(spec_of(obj), options), *_rest(obj, None, options)])


def update_errors(obj: Object, old: Object, *, legacy: bool) -> list[FieldError]:
    """Validate the new state of a definition."""
    options = ValidationOptions(old, legacy=legacy)
    errors = _spec_errors(spec_of(obj), options)
    errors += _immutable_errors(spec_of(obj), spec_of(old), options)
    return _bounded(errors + _rest(obj, old, options))


def status_errors(obj: Object) -> list[FieldError]:
    """Validate a status: the names it says were accepted."""
    accepted = (obj.get("status") or {}).get("acceptedNames") or {}
    return _name_form_errors(accepted, "status.acceptedNames")


def _bounded(errors: list[FieldError]) -> list[FieldError]:
    """The errors, limited to a readable number: thousands of versions may be wrong in thousands of ways."""
    report = Report()
    for error in errors:
        report.add(error)
    return report.errors


def spec_of(obj: Object) -> dict[str, Any]:
    """The spec; empty when there is none."""
    return obj.get("spec") or {}


def name_errors(obj: Object) -> list[FieldError]:
    """The name of a definition is made of its plural and its group, so that no two define the same resource."""
    spec, metadata = spec_of(obj), obj["metadata"]
    wanted = f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}"
    return [
        invalid(f"metadata.{field}", metadata[field], _NAME_AND_GROUP)
        for field in ("generateName", "name")
        if metadata.get(field) and metadata[field] != wanted
    ]


def _rest(obj: Object, old: Object | None, options: ValidationOptions) -> list[FieldError]:
    stored = (obj.get("status") or {}).get("storedVersions") or []
    errors = stored_version_errors(stored, spec_of(obj).get("versions") or [])
    if options.needs_approval:
        errors += _approval_errors(obj, old)
    if spec_of(obj).get("preserveUnknownFields") and not options.may_preserve:
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        errors.append(invalid("spec.preserveUnknownFields", True, detail))
    return errors


def _immutable_errors(spec: Props, old: Props, options: ValidationOptions) -> list[FieldError]:
    names, before = spec.get("names") or {}, old.get("names") or {}
    fields = [("spec.group", spec, old, "group"), ("spec.names.plural", names, before, "plural")]
    if options.has_fixed_names:
        fields = [("spec.scope", spec, old, "scope"), ("spec.names.kind", names, before, "kind"), *fields]
    return [
        immutable(path, new.get(field, ""))
        for path, new, stored, field in fields
        if new.get(field, "") != stored.get(field, "")
    ]


def stored_version_errors(stored: Sequence[str], versions: Sequence[Props]) -> list[FieldError]:
    """Every version that objects may be stored in must be among the versions, the storage version among the stored."""
    path = "status.storedVersions"
    if not stored:
        return [invalid(path, None, "must have at least one stored version")]
    names = [one.get("name", "") for one in versions]
    errors = [
        invalid(path, list(stored), f"must have the storage version {one.get('name', '')}")
        for one in versions
        if one.get("storage") and one.get("name", "") not in stored
    ]
    gone = {name: index for index, name in enumerate(stored) if name not in set(names)}
    for name, index in gone.items():
        detail = (
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
            f"until a storage migration ensures no data remains persisted in {name} and removes {name} from "
            "status.storedVersions"
        )
        errors.append(invalid(f"{path}[{index}]", name, detail))
    return errors


def _approval_errors(obj: Object, old: Object | None) -> list[FieldError]:
    if not approval.is_protected(spec_of(obj).get("group", "")):
        return []
    annotations = obj["metadata"].get("annotations") or {}
    state, why = approval.approval_of(annotations)
    if old is not None and approval.approval_of(old["metadata"].get("annotations")).state == state:
        return []  # an annotation that is unchanged is not validated again
    path = f"metadata.annotations[{approval.ANNOTATION}]"
    if state == approval.MISSING:
        return [required(path, why)]
    return [invalid(path, annotations[approval.ANNOTATION], why)] if state == approval.INVALID else []


# -- the spec --------------------------------------------------------------------------------------------------------


def _spec_errors(spec: Props, options: ValidationOptions) -> list[FieldError]:
    versions = spec.get("versions") or []
    split = top_level(versions)
    errors = _group_errors(spec.get("group", "")) + _scope_errors(spec.get("scope", ""))
    errors += _presence_errors(spec, split, options)
    structural = _needs_structure(spec, options)
    errors += _version_errors(split, options, structural=structural)
    errors += versionfields.conflicts(spec)
    errors += _version_list_errors(split.versions if spec.get("versions") is not None else None)
    errors += _names_errors(spec.get("names") or {})
    errors += _shared_errors(split, versions, options, structural=structural)
    conversion = spec.get("conversion")
    if conversion is not None:
        errors += _conversion_errors(conversion, options, preserves=bool(spec.get("preserveUnknownFields")))
    return errors


def _group_errors(group: str) -> list[FieldError]:
    if not group:
        return [required("spec.group")]
    sentences = rules.dns_subdomain(group)
    if sentences:
        return [invalid("spec.group", group, ",".join(sentences))]
    return [] if "." in group else [invalid("spec.group", group, "should be a domain with at least one dot")]


def _scope_errors(scope: str) -> list[FieldError]:
    if not scope:
        return [required("spec.scope")]
    return [] if scope in SCOPES else [not_supported("spec.scope", scope, SCOPES)]


def _presence_errors(spec: Props, split: TopLevel, options: ValidationOptions) -> list[FieldError]:
    """Validate that every version has a schema, and that defaults have one to be applied by."""
    errors: list[FieldError] = []
    preserves = bool(spec.get("preserveUnknownFields"))
    if schema_of(split.shared) is None and (options.needs_schemas or not preserves):
        detail = "" if options.needs_schemas else "because otherwise all fields are pruned"
        errors += [
            required(f"spec.versions[{index}].schema.openAPIV3Schema", detail)
            for index, one in enumerate(split.versions)
            if schema_of(one) is None and (options.needs_schemas or one.get("served"))
        ]
    if preserves and options.strictness.allow_defaults and _has_defaults(spec):
        detail = "must be false in order to use defaults in the schema"
        errors.append(invalid("spec.preserveUnknownFields", True, detail))
    return errors


def _needs_structure(spec: Props, options: ValidationOptions) -> bool:
    """Return True if schemas must be structural: to prune by, to default by, and for every extension."""
    if not spec.get("preserveUnknownFields") or options.needs_structure:
        return True
    if options.strictness.allow_defaults and _has_defaults(spec):
        return True
    return any(
        one.get(field) not in (None, False)
        for props in _schemas(spec)
        for one in schemafields.walk(props)
        for field in _EXTENSIONS
    )


def _has_defaults(spec: Props) -> bool:
    return any(one.get("default") is not None for props in _schemas(spec) for one in schemafields.walk(props))


def _schemas(spec: Props) -> list[Props]:
    return [props for one in spec.get("versions") or () if (props := schema_of(one)) is not None]


# -- versions --------------------------------------------------------------------------------------------------------


def _version_errors(split: TopLevel, options: ValidationOptions, *, structural: bool) -> list[FieldError]:
    """Validate the fields of single versions."""
    errors: list[FieldError] = []
    divided = any(one.get("subresources") is not None for one in split.versions)
    for index, one in enumerate(split.versions):
        path, name = f"spec.versions[{index}]", one.get("name", "")
        sentences = rules.dns1035_label(name)
        if sentences:
            errors.append(invalid(f"{path}.name", name, ",".join(sentences)))
        errors += versionfields.deprecation_errors(one, f"{path}.deprecationWarning")
        subresources = (one if divided else split.shared).get("subresources")
        errors += schema_errors(
            one.get("schema"), f"{path}.schema", options, name, structural=structural, status=_has_status(subresources)
        )
        errors += versionfields.part_errors(one, path, options, name)
    return errors


def _shared_errors(
    split: TopLevel, versions: Sequence[Props], options: ValidationOptions, *, structural: bool
) -> list[FieldError]:
    """Validate the top-level fields."""
    shared = split.shared
    first = versions[0].get("name", "") if versions else ""
    status = any(_has_status(one.get("subresources")) for one in versions)
    errors = schema_errors(
        shared.get("schema"), "spec.validation", options, first, structural=structural, status=status
    )
    return errors + versionfields.part_errors(shared, "spec", options, "")


def _has_status(subresources: Props | None) -> bool:
    return subresources is not None and subresources.get("status") is not None


def _version_list_errors(listed: Sequence[Props] | None) -> list[FieldError]:
    errors: list[FieldError] = []
    versions = listed or ()
    shown = None if listed is None else gostructs.versions(listed)
    if len({one.get("name", "") for one in versions}) != len(versions):
        errors.append(gostructs.invalid("spec.versions", shown, "must contain unique version names"))
    if sum(bool(one.get("storage")) for one in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        errors.append(gostructs.invalid("spec.versions", shown, detail))
    return errors


# -- names -----------------------------------------------------------------------------------------------------------


def _names_errors(names: Props) -> list[FieldError]:
    fields = ("plural", "singular", "kind", "listKind")
    missing = [required(f"spec.names.{field}") for field in fields if not names.get(field)]
    return missing + _name_form_errors(names, "spec.names")


def _name_form_errors(names: Props, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("plural", "singular"):
        errors += _label_errors(f"{path}.{field}", names.get(field, "")) if names.get(field) else []
    for field in ("kind", "listKind"):
        value = names.get(field, "")
        sentences = rules.dns1035_label(value.lower()) if value else []
        if sentences:
            detail = f"may have mixed case, but should otherwise match: {','.join(sentences)}"
            errors.append(invalid(f"{path}.{field}", value, detail))
    for index, name in enumerate(names.get("shortNames") or ()):
        errors += _label_errors(f"{path}.shortNames[{index}]", name)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        errors.append(invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same"))
    for index, name in enumerate(names.get("categories") or ()):
        errors += _label_errors(f"{path}.categories[{index}]", name)
    return errors


def _label_errors(path: str, name: str) -> list[FieldError]:
    sentences = rules.dns1035_label(name)
    return [invalid(path, name, ",".join(sentences))] if sentences else []


# -- conversion ------------------------------------------------------------------------------------------------------


def _conversion_errors(conversion: Props, options: ValidationOptions, *, preserves: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    strategy = conversion.get("strategy", "")
    if preserves and strategy != NONE:
        detail = "must be None if spec.preserveUnknownFields is true"
        errors.append(invalid("spec.conversion.strategy", strategy, detail))
    return errors + conversion_errors(
        conversion,
        "spec.conversion",
        recognized=options.needs_known_reviews,
        certificates=options.needs_usable_certificates,
    )
