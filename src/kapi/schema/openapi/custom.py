"""Custom kinds as OpenAPI publishes them: from the schema of a definition to the schemas in the documents.

Version 3 publishes nearly all that was written. Version 2 is what old kubectl validates by, and it refuses what it does
not find: so whatever version 2 cannot express (choices, null, unknown fields) is published as less, never as something
stricter. Either way the standard fields of an object replace those of the author.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from kapi.schema.builtin import definitions as builtin
from kapi.schema.openapi import components
from kapi.schema.structural.violations import violations

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.schema.openapi.components import Schema
    from kapi.schema.openapi.served import ServedResource

_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_INT_OR_STRING_CHOICE = [{"type": "integer"}, {"type": "string"}]

_WORDS = (
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "pattern",
    "required",
    "enum",
    "uniqueItems",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    _EMBEDDED,
    _INT_OR_STRING,
    _PRESERVE,
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
)
"""Fields that are published as they are, unless empty."""

_VALUES = (
    "example",
    "maximum",
    "minimum",
    "multipleOf",
    "maxItems",
    "minItems",
    "maxLength",
    "minLength",
    "maxProperties",
    "minProperties",
)
"""Fields that are published as they are, zero included."""

_CHOICES = ("allOf", "anyOf", "oneOf")
_SUFFIX = "_v2"


def definition_name(group: str, version: str, kind: str) -> str:
    """The name of a custom kind's definition: `com.example.v1.Thing`. Never that of a built-in one."""
    name = ".".join((*reversed(group.split(".")), version, kind))
    try:
        builtin.definition(name)
    except KeyError:
        return name
    return name + _SUFFIX


def definitions(
    resource: ServedResource, props: dict[str, Any] | None, *, preserve_unknown: bool, base: str
) -> dict[str, Schema]:
    """The definitions of a custom kind and of its list, by name. Parts of `props` are used as they are, unchanged.

    A schema that is not structural does not tell enough to publish anything of it, nor does one that is not there.
    """
    return {
        resource.schema: _object(resource, props, preserve_unknown=preserve_unknown, base=base),
        resource.list_schema: _list(resource, base),
    }


def _object(resource: ServedResource, props: dict[str, Any] | None, *, preserve_unknown: bool, base: str) -> Schema:
    schema: Schema = {"type": "object"}
    # Readers of version 2 take the properties for complete, so a kind that may have others publishes none.
    is_open = base == components.V2 and (preserve_unknown or bool(props and props.get(_PRESERVE)))
    if props is not None and not is_open and not violations(props, ""):
        schema = _structural_v2(props) if base == components.V2 else _structural_v3(props)
        schema["properties"] = schema.get("properties", {}) | _type_fields() | {"metadata": _metadata(base)}
    return schema | _kind_extensions(resource, resource.kind)


def _list(resource: ServedResource, base: str) -> Schema:
    items = {
        "description": f"List of {resource.plural}. More info: {_CONVENTIONS}",
        "type": "array",
        "items": {"$ref": base + resource.schema},
    }
    text = _prose("io.k8s.api.core.v1.PodList", "metadata")
    schema: Schema = {
        "description": f"{resource.list_kind} is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": _type_fields() | {"items": items, "metadata": _reference(components.LIST_META, text, base)},
    }
    return schema | _kind_extensions(resource, resource.list_kind)


def _kind_extensions(resource: ServedResource, kind: str) -> Schema:
    extensions: Schema = {
        "x-kubernetes-group-version-kind": [{"group": resource.group, "version": resource.version, "kind": kind}]
    }
    if resource.selectable:
        extensions["x-kubernetes-selectable-fields"] = [{"fieldPath": path} for path in resource.selectable]
    return extensions


# -- the standard fields ----------------------------------------------------------------------------------------------


@functools.cache
def _prose(definition: str, field: str) -> str:
    """The description of a field that every kind has, from a built-in kind."""
    return builtin.descriptions(definition)[field]


def _type_fields() -> Schema:
    return {
        field: {"description": _prose("io.k8s.api.core.v1.Pod", field), "type": "string"}
        for field in ("apiVersion", "kind")
    }


def _metadata(base: str) -> Schema:
    return _reference(components.OBJECT_META, _prose("io.k8s.api.core.v1.Pod", "metadata"), base)


def _reference(name: str, text: str, base: str) -> Schema:
    reference = {"$ref": base + name}
    return {"description": text} | (reference if base == components.V2 else {"allOf": [reference]})


def _with_embedded_fields(schema: Schema, base: str) -> Schema:
    """The schema of an embedded object with `apiVersion`, `kind` and `metadata`; the first two are required."""
    if not schema.get(_EMBEDDED) or (base == components.V2 and schema.get(_PRESERVE)):
        return schema
    schema["properties"] = schema.get("properties", {}) | {
        "apiVersion": {"description": "The group and version of the embedded object.", "type": "string"},
        "kind": {"description": "The kind of the embedded object.", "type": "string"},
        "metadata": _metadata(base),
    }
    required = schema.get("required", [])
    schema["required"] = required + [field for field in ("kind", "apiVersion") if field not in required]
    return schema


# -- version 3 --------------------------------------------------------------------------------------------------------


def _structural_v3(props: dict[str, Any]) -> Schema:
    schema = _plain(props)
    if props.get("default") is not None:
        schema["default"] = props["default"]
    schema |= _below(props, _structural_v3)
    schema |= _choices(props)
    if props.get(_INT_OR_STRING):
        _spell_int_or_string(schema)
    return _with_embedded_fields(schema, components.V3)


def _choices(props: dict[str, Any]) -> Schema:
    found: Schema = {key: [_nested(one) for one in props[key]] for key in _CHOICES if props.get(key)}
    return found | {"not": _nested(props["not"])} if props.get("not") is not None else found


def _nested(props: dict[str, Any]) -> Schema:
    """A schema inside a choice, which only narrows what the schema around it says."""
    schema = _plain(props) | _choices(props)
    if isinstance(props.get("items"), dict):
        schema["items"] = _nested(props["items"])
    if props.get("properties"):
        schema["properties"] = {name: _nested(below) for name, below in props["properties"].items()}
    return schema


def _spell_int_or_string(schema: Schema) -> None:
    """Express the extension with anyOf, which every reader knows."""
    every, some = schema.get("allOf", []), schema.get("anyOf")
    if some == _INT_OR_STRING_CHOICE or (every and every[0].get("anyOf") == _INT_OR_STRING_CHOICE):
        return
    if some is None:
        schema["anyOf"] = _INT_OR_STRING_CHOICE
    else:
        schema["allOf"] = [{"anyOf": _INT_OR_STRING_CHOICE}, *every]


# -- version 2 --------------------------------------------------------------------------------------------------------


def _structural_v2(props: dict[str, Any]) -> Schema:
    schema = _plain(props)
    is_open, nullable = props.get(_PRESERVE), schema.pop("nullable", False)
    if nullable:
        schema.pop("type", None)
    schema |= _below(props, _structural_v2)
    if nullable or is_open:
        # kubectl trips over items and properties of what has no type, or may have other fields.
        schema.pop("items", None)
        schema.pop("properties", None)
    kind = schema.get("type")
    if (kind == "array" and "items" not in schema) or (kind == "object" and is_open):
        del schema["type"]
    _relax_required(schema, props)
    return _with_embedded_fields(schema, components.V2)


def _relax_required(schema: Schema, props: dict[str, Any]) -> None:
    """Drop requirements of nullable fields: version 2 cannot express null, which counts as missing there."""
    values = props.get("additionalProperties")
    if isinstance(values, dict) and values.get("nullable"):
        schema.pop("required", None)
    if "properties" in schema and "required" in schema:
        below = props["properties"]
        kept = [name for name in schema["required"] if not below.get(name, {}).get("nullable")]
        schema.pop("required")
        if kept:
            schema["required"] = kept


# -- both -------------------------------------------------------------------------------------------------------------


def _plain(props: dict[str, Any]) -> Schema:
    schema = {key: props[key] for key in _WORDS if props.get(key)}
    return schema | {key: props[key] for key in _VALUES if props.get(key) is not None}


def _below(props: dict[str, Any], publish: Callable[[dict[str, Any]], Schema]) -> Schema:
    """The schemas of fields, items and values."""
    items, values = props.get("items"), props.get("additionalProperties")
    schema: Schema = {}
    if props.get("properties"):
        schema["properties"] = {name: publish(below) for name, below in props["properties"].items()}
    if items is not None:
        schema["items"] = publish(items)
    if values is not None:
        schema["additionalProperties"] = publish(values) if isinstance(values, dict) else values
    return schema
