"""From Python types to structural schemas.

The walk follows the annotations as msgspec reads them, so that what the schema accepts is what the class decodes. What
no structural schema can say (a set of integers or objects side by side, a class that contains itself) is refused with
the path to it.
"""

from __future__ import annotations

import datetime as dt
import enum
import types
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec.structs import fields as struct_fields

from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.api.crd.docstrings import class_doc, field_docs
from kapi.api.crd.markers import Marker, Rule

if TYPE_CHECKING:
    from msgspec.structs import FieldInfo

    Schema = dict[str, Any]

_LIMITS = {
    "ge": "minimum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "title": "title",
    "description": "description",
}
_LENGTHS = {"string": "Length", "array": "Items", "object": "Properties"}
_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


class UnsupportedType(TypeError):
    """A type that no schema can describe; the text says where and why."""


def schema_of(annotation: Any) -> Schema:
    """The schema of a type: a class, an annotation, anything msgspec decodes from JSON."""
    return _schema(annotation, "", ())


def struct_schema(cls: type[msgspec.Struct], *, skip: frozenset[str] = frozenset()) -> Schema:
    """The schema of a class, without some of its fields."""
    return _struct(cls, "", (), skip)


def _schema(annotation: Any, path: str, above: tuple[type, ...]) -> Schema:
    annotation, notes = _unfold(annotation)
    schema = _bare(annotation, path, above)
    for note in notes:
        if isinstance(note, msgspec.Meta):
            _limit(schema, note)
        elif isinstance(note, Marker):
            note.apply(schema)
    return schema


def _unfold(annotation: Any) -> tuple[Any, list[Any]]:
    """A type and everything that was noted about it; `| None` is dropped, since a field may be absent anyway."""
    notes: list[Any] = []
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation, *found = get_args(annotation)
            notes = [*found, *notes]
        elif origin in (Union, types.UnionType) and type(None) in get_args(annotation):
            kept = [one for one in get_args(annotation) if one is not type(None) and one is not msgspec.UnsetType]
            if len(kept) != 1:
                return Union[tuple(kept)], notes  # noqa: UP007 - a union of what is left, however many
            annotation = kept[0]
        elif isinstance(annotation, type) and issubclass(annotation, str | int) and annotation in _JSON_TYPES:
            return annotation, notes
        else:
            return annotation, notes


def _limit(schema: Schema, meta: msgspec.Meta) -> None:
    for attribute, key in _LIMITS.items():
        value = getattr(meta, attribute)
        if value is not None:
            schema[key] = value
    for attribute, key, flag in (("gt", "minimum", "exclusiveMinimum"), ("lt", "maximum", "exclusiveMaximum")):
        value = getattr(meta, attribute)
        if value is not None:
            schema[key], schema[flag] = value, True
    suffix = _LENGTHS.get(schema.get("type", ""), "Length")
    for attribute, key in (("min_length", f"min{suffix}"), ("max_length", f"max{suffix}")):
        value = getattr(meta, attribute)
        if value is not None:
            schema[key] = value
    if meta.pattern is not None:
        schema["pattern"] = meta.pattern
    schema |= meta.extra_json_schema or {}


def _bare(annotation: Any, path: str, above: tuple[type, ...]) -> Schema:
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return {"x-kubernetes-preserve-unknown-fields": True}
    if origin is Literal:
        return _enumeration(list(args), path)
    if origin in (Union, types.UnionType):
        return _union(args, path, above)
    if origin is dict or annotation is dict:
        return _map(args, path, above)
    if origin in (list, tuple, set, frozenset) or annotation in (list, tuple, set, frozenset):
        return _list(origin or annotation, args, path, above)
    if isinstance(annotation, type):
        return _named(annotation, path, above)
    raise UnsupportedType(f"{path or 'the type'}: {annotation!r} has no schema")


def _named(cls: type, path: str, above: tuple[type, ...]) -> Schema:
    if issubclass(cls, enum.Enum):
        return _enumeration([member.value for member in cls], path)
    if cls in _JSON_TYPES:
        schema: Schema = {"type": _JSON_TYPES[cls]}
        return schema | ({"format": "int64"} if cls is int else {})
    if issubclass(cls, dt.datetime):
        return {"type": "string", "format": "date-time"}
    if issubclass(cls, dt.date):
        return {"type": "string", "format": "date"}
    if cls is bytes:
        return {"type": "string", "format": "byte"}
    if cls is ObjectMeta:
        return {"type": "object"}
    if issubclass(cls, msgspec.Struct):
        return _struct(cls, path, above, frozenset())
    raise UnsupportedType(f"{path or 'the type'}: {cls.__qualname__} has no schema")


def _enumeration(values: list[Any], path: str) -> Schema:
    kinds = {_JSON_TYPES.get(type(value)) for value in values}
    if len(kinds) != 1 or None in kinds:
        raise UnsupportedType(f"{path}: the values of an enumeration must be of one JSON type")
    return {"type": kinds.pop(), "enum": values}


def _map(args: tuple[Any, ...], path: str, above: tuple[type, ...]) -> Schema:
    key, value = args or (str, Any)
    if _unfold(key)[0] is not str:
        raise UnsupportedType(f"{path}: the keys of a map must be strings")
    if value is Any:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"type": "object", "additionalProperties": _schema(value, f"{path}[*]", above)}


def _list(kind: Any, args: tuple[Any, ...], path: str, above: tuple[type, ...]) -> Schema:
    if kind is tuple and (len(args) != 2 or args[1] is not Ellipsis):
        raise UnsupportedType(f"{path}: only tuples of any length have a schema: tuple[T, ...]")
    schema: Schema = {"type": "array", "items": _schema(args[0] if args else Any, f"{path}[]", above)}
    if kind in (set, frozenset):
        schema["x-kubernetes-list-type"] = "set"
    return schema


def _union(args: tuple[Any, ...], path: str, above: tuple[type, ...]) -> Schema:
    kinds = [_unfold(one)[0] for one in args]
    if set(kinds) == {int, str}:
        return {"x-kubernetes-int-or-string": True}
    if all(isinstance(one, type) and issubclass(one, msgspec.Struct) for one in kinds):
        return _tagged(kinds, path, above)
    raise UnsupportedType(f"{path}: no structural schema describes {' | '.join(map(str, args))}")


def _tagged(classes: list[type[msgspec.Struct]], path: str, above: tuple[type, ...]) -> Schema:
    """One object with the fields of all members of a tagged union, of which only those of its tag may be required."""
    configs = [cls.__struct_config__ for cls in classes]
    tag_fields = {config.tag_field for config in configs}
    if len(tag_fields) != 1 or None in tag_fields:
        raise UnsupportedType(f"{path}: the classes of a union must all be tagged, with the same tag field")
    tag_field = tag_fields.pop()
    assert tag_field is not None
    properties: Schema = {tag_field: _enumeration([config.tag for config in configs], path)}
    choices: list[Schema] = []
    for cls, config in zip(classes, configs, strict=True):
        member = _struct(cls, path, above, frozenset())
        for name, schema in member.get("properties", {}).items():
            if properties.setdefault(name, schema) != schema:
                raise UnsupportedType(f"{path}.{name}: the classes of a union disagree about this field")
        choices.append(
            {
                "properties": {tag_field: {"enum": [config.tag]}},
                "required": [tag_field, *member.get("required", ())],
            }
        )
    return {"type": "object", "properties": properties, "required": [tag_field], "oneOf": choices}


def _struct(cls: type[msgspec.Struct], path: str, above: tuple[type, ...], skip: frozenset[str]) -> Schema:
    if cls in above:
        raise UnsupportedType(f"{path}: {cls.__qualname__} contains itself, which no structural schema can say")
    if cls.__struct_config__.array_like:
        raise UnsupportedType(f"{path}: {cls.__qualname__} is written as a list")
    schema: Schema = {"type": "object"}
    doc = class_doc(cls)
    if doc:
        schema["description"] = doc
    docs = field_docs(cls)
    properties: Schema = {}
    for info in struct_fields(cls):
        if info.name in skip:
            continue
        below = _schema(info.type, f"{path}.{info.encode_name}".lstrip("."), (*above, cls))
        if info.name in docs:
            below["description"] = docs[info.name]
        _default(info, below)
        properties[info.encode_name] = below
    if properties:
        schema["properties"] = properties
    required = [info.encode_name for info in struct_fields(cls) if info.required and info.name not in skip]
    if required:
        schema["required"] = required
    for rule in getattr(cls, "RULES", ()):
        if isinstance(rule, Rule):
            rule.apply(schema)
    return schema


def _default(info: FieldInfo, schema: Schema) -> None:
    """A default that is not null and not empty is the schema's, too; others mean that the field is absent."""
    value = info.default
    if value is msgspec.NODEFAULT and info.default_factory is not msgspec.NODEFAULT:
        value = info.default_factory()
    if value is msgspec.NODEFAULT or value is None or value is msgspec.UNSET:
        return
    plain = msgspec.to_builtins(value)
    if plain not in ({}, [], ""):
        schema["default"] = plain
