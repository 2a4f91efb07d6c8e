"""The fields of a schema in a definition: those that are not supported, and those that contradict each other.

Whether a schema is structural, whether its defaults fit, and whether its validation rules compile is validated
elsewhere (`kapi.schema`); here are the fields that are not supported at all, and those that contradict each other.
Walks a schema once. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kapi.api.fielderror import FieldError, forbidden, invalid, not_supported, required
from kapi.registry.kinds.apiextensions import gostructs
from kapi.schema.structural.report import Report, join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kapi.schema.structural.report import Path

    Props = Mapping[str, Any]

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")

_META: Final = frozenset({"metadata", "kind", "apiVersion"})
_LIST_TYPE, _MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-map-type"
_WITH_STATUS: Final = "at the root of the schema if the status subresource is enabled"
_LIST_KEYS: Final = "x-kubernetes-list-map-keys"

_UNSUPPORTED: Final = (
    ("id", "id", True),
    ("additionalItems", "additionalItems", False),
    ("patternProperties", "patternProperties", True),
    ("definitions", "definitions", True),
    ("dependencies", "dependencies", False),
    ("$ref", "$ref", False),
)
"""Fields that no schema may have, their names in the message, and whether an empty one is overlooked."""

_AT_ROOT: Final = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength",
    "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties",
    "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
"""The fields allowed at the root of a schema with a status sub-resource."""


@dataclass(frozen=True, slots=True)
class Strictness:
    """The options for the fields of schemas: what is stored already may stay as it is."""

    allow_defaults: bool = True
    no_defaults_because: str = ""
    known_types: bool = True
    atomic_sets: bool = True
    complete_keys: bool = True
    """The keys of lists are required or have defaults, and neither keys nor items are nullable."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A position in a schema, as far as rules depend on it."""

    strictness: Strictness
    in_metadata: bool = False

    def without_defaults(self, why: str) -> _Place:
        return replace(self, strictness=replace(self.strictness, allow_defaults=False, no_defaults_because=why))


def schema_errors(props: Props, path: str, strictness: Strictness) -> list[FieldError]:
    """Validate a whole schema, found at a path."""
    report = Report()
    _walk(props, (None, path), _Place(strictness), report, root=True)
    return report.errors


def root_errors(props: Props, path: str) -> list[FieldError]:
    """Validate the root of a schema of a kind with a status sub-resource."""
    for name, key, _, zero in gostructs.FIELDS:
        value = props.get(key)
        if value is None or value == zero:
            continue
        if name == "Type":
            if value != "object":
                detail = f'only "object" is allowed as the type {_WITH_STATUS}'
                return [invalid(f"{path}.type", value, detail)]
        elif name not in _AT_ROOT:
            detail = f"only [{' '.join(_AT_ROOT)}] fields are allowed {_WITH_STATUS}"
            return [gostructs.invalid(path, gostructs.schema(props), detail)]
    return []


def walk(props: Props) -> Iterator[Props]:
    """A schema and all below it, in every place where a schema can be."""
    waiting = [props]
    while waiting:
        one = waiting.pop()
        yield one
        single = (one.get(key) for key in ("not", "additionalProperties", "additionalItems"))
        waiting += [below for below in single if isinstance(below, dict)]
        for key in ("allOf", "anyOf", "oneOf"):
            waiting += one.get(key) or ()
        for key in ("properties", "patternProperties", "definitions", "dependencies"):
            waiting += [below for below in (one.get(key) or {}).values() if isinstance(below, dict)]
        items = one.get("items")
        waiting += items if isinstance(items, list) else [items] if isinstance(items, dict) else []


# -- the walk --------------------------------------------------------------------------------------------------------


def _report(report: Report, errors: Iterator[FieldError]) -> None:
    """Take errors as they are found, until enough has been said."""
    for error in errors:
        report.add(error)
        if report.full:
            return


def _walk(props: Props, path: Path, place: _Place, report: Report, *, root: bool = False) -> None:
    if report.full:
        return
    _check_support(props, path, place, report)
    if props.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        report.add(forbidden(join((path, ".uniqueItems")), detail))
    _walk_additional(props, path, place, report)
    _walk_properties(props, path, place, report, root=root)
    _walk_nested(props, path, place, report)
    if props.get("x-kubernetes-preserve-unknown-fields") is False:
        report.add(invalid(join((path, ".x-kubernetes-preserve-unknown-fields")), False, "must be true or undefined"))
    for check in (_check_map_type, _check_list_type, _check_list_keys):
        check(props, path, place.strictness, report)
    if place.strictness.complete_keys:
        _report(report, incomplete_keys(props, path))


def _check_support(props: Props, path: Path, place: _Place, report: Report) -> None:
    kind, strictness = props.get("type", ""), place.strictness
    if strictness.known_types and kind and kind not in TYPES:
        report.add(not_supported(join((path, ".type")), kind, TYPES))
    if props.get("default") is not None and not strictness.allow_defaults:
        why = strictness.no_defaults_because
        report.add(forbidden(join((path, ".default")), f"must not be set {why}".rstrip()))
    for field, name, unless_empty in _UNSUPPORTED:
        if props.get(field) or (field in props and not unless_empty):
            report.add(forbidden(join((path, f".{field}")), f"{name} is not supported"))
    if kind == "null":
        report.add(forbidden(join((path, ".type")), "type cannot be set to null, use nullable as an alternative"))
    if isinstance(props.get("items"), list):
        report.add(forbidden(join((path, ".items")), "items must be a schema object and not an array"))
    if place.in_metadata and props.get("x-kubernetes-embedded-resource"):
        report.add(
            forbidden(join((path, ".x-kubernetes-embedded-resource")), "must not be used inside of resource meta")
        )


def _walk_additional(props: Props, path: Path, place: _Place, report: Report) -> None:
    additional = props.get("additionalProperties")
    if additional is None:
        return
    if props.get("properties") and additional is not True:
        detail = "additionalProperties and properties are mutual exclusive"
        report.add(forbidden(join((path, ".additionalProperties")), detail))
    if isinstance(additional, dict):
        if place.in_metadata:
            place = place.without_defaults("inside additionalProperties applying to object metadata")
        _walk(additional, (path, ".additionalProperties"), place, report)


def _walk_properties(props: Props, path: Path, place: _Place, report: Report, *, root: bool) -> None:
    resource = root or props.get("x-kubernetes-embedded-resource")
    for name, below in (props.get("properties") or {}).items():
        inside = place
        if resource and name in _META:
            inside = replace(place, in_metadata=True)
            if root:
                inside = inside.without_defaults(f"in top-level {name}")
        _walk(below, (path, f".properties[{name}]"), inside, report)


def _walk_nested(props: Props, path: Path, place: _Place, report: Report) -> None:
    if isinstance(props.get("not"), dict):
        _walk(props["not"], (path, ".not"), place, report)
    for key in ("allOf", "oneOf", "anyOf"):
        for index, below in enumerate(props.get(key) or ()):
            _walk(below, (path, f".{key}[{index}]"), place, report)
    for key in ("definitions", "dependencies"):
        for name, below in (props.get(key) or {}).items():
            if isinstance(below, dict):
                _walk(below, (path, f".{key}[{name}]"), place, report)
    items = props.get("items")
    if isinstance(items, dict):
        _walk(items, (path, ".items"), place, report)
    for index, below in enumerate(items if isinstance(items, list) else ()):
        _walk(below, (path, f".items[{index}]"), place, report)


# -- lists and maps --------------------------------------------------------------------------------------------------


def _check_type(props: Props, path: Path, wanted: str, extension: str, report: Report) -> bool:
    kind = props.get("type", "")
    if kind == wanted:
        return True
    detail = f"must be {wanted} if {extension} is specified"
    report.add(invalid(join((path, ".type")), kind, detail) if kind else required(join((path, ".type")), detail))
    return False


def _check_map_type(props: Props, path: Path, strictness: Strictness, report: Report) -> None:
    relation = props.get(_MAP_TYPE)
    if relation is None:
        return
    _check_type(props, path, "object", _MAP_TYPE, report)
    if relation not in ("atomic", "granular"):
        report.add(not_supported(join((path, f".{_MAP_TYPE}")), relation, ("atomic", "granular")))


def _check_list_type(props: Props, path: Path, strictness: Strictness, report: Report) -> None:
    relation = props.get(_LIST_TYPE)
    if relation is None:
        return
    if _check_type(props, path, "array", _LIST_TYPE, report) and strictness.atomic_sets:
        extension = divided_items(props)
        if extension:
            shown = props["items"].get(_LIST_TYPE)
            detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
            report.add(invalid(join((path, f".items.{extension}")), shown, detail))
    if relation not in ("atomic", "set", "map"):
        report.add(not_supported(join((path, f".{_LIST_TYPE}")), relation, ("atomic", "set", "map")))


def divided_items(props: Props) -> str:
    """The extension by which the items of a set have several owners each; empty when they have not."""
    items = props.get("items")
    if props.get(_LIST_TYPE) != "set" or not isinstance(items, dict):
        return ""
    if items.get("type") == "array" and items.get(_LIST_TYPE, "atomic") != "atomic":
        return _LIST_TYPE
    return _MAP_TYPE if items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic" else ""


def _check_list_keys(props: Props, path: Path, strictness: Strictness, report: Report) -> None:
    relation, keys = props.get(_LIST_TYPE), props.get(_LIST_KEYS) or []
    if keys and relation != "map":
        detail, where = f"must be map if {_LIST_KEYS} is non-empty", join((path, f".{_LIST_TYPE}"))
        report.add(required(where, detail) if relation is None else invalid(where, relation, detail))
    if relation != "map":
        return
    if not keys:
        report.add(required(join((path, f".{_LIST_KEYS}")), f"must not be empty if {_LIST_TYPE} is map"))
    items = props.get("items")
    if items is None:
        report.add(required(join((path, ".items")), f"must have a schema if {_LIST_TYPE} is map"))
    elif isinstance(items, list):
        detail = f"must only have a single schema if {_LIST_TYPE} is map"
        report.add(gostructs.invalid(join((path, ".items")), gostructs.items(items), detail))
    elif items.get("type", "") != "object":
        detail = f"must be object if parent array's {_LIST_TYPE} is map"
        report.add(invalid(join((path, ".items.type")), items.get("type", ""), detail))
    else:
        _report(report, _key_errors(keys, items, path))


def _key_errors(keys: list[str], items: Props, path: Path) -> Iterator[FieldError]:
    seen: set[str] = set()
    for key in keys:
        property_ = (items.get("properties") or {}).get(key)
        if property_ is None:
            detail = "entries must all be names of item properties"
            yield invalid(join((path, f".{_LIST_KEYS}")), keys, detail)
        elif property_.get("type") in ("array", "object"):
            where = join((path, f".items.properties[{key}].type"))
            detail = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield invalid(where, "object", detail)
        if key in seen:
            yield invalid(join((path, f".{_LIST_KEYS}")), keys, "must not contain duplicate entries")
        seen.add(key)


def incomplete_keys(props: Props, path: Path) -> Iterator[FieldError]:
    """Validate the items and keys of a set or a keyed list: they must always be there."""
    relation, items = props.get(_LIST_TYPE), props.get("items")
    if relation not in ("set", "map") or not isinstance(items, dict):
        return
    if items.get("nullable"):
        yield forbidden(join((path, ".items.nullable")), f"cannot be nullable when {_LIST_TYPE} is {relation}")
    needed = set(items.get("required") or ())
    because = f"this property is in {_LIST_KEYS}, so it"
    for key in props.get(_LIST_KEYS) or () if relation == "map" else ():
        property_ = (items.get("properties") or {}).get(key)
        if property_ is None:
            continue
        where = join((path, f".items.properties[{key}]"))
        if key not in needed and property_.get("default") is None:
            yield required(f"{where}.default", f"{because} must have a default or be a required property")
        if property_.get("nullable"):
            yield forbidden(f"{where}.nullable", f"{because} cannot be nullable")
