"""From Python types to structural schemas.

The walk follows the annotations as msgspec reads them, so that what a class encodes is what the schema accepts. What
no structural schema can say (a set of integers or objects side by side, a class that contains itself) is refused with
the path to it.
"""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from collections import abc
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args, get_origin

import msgspec
from msgspec.structs import fields as struct_fields

from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.api.crd.annotations import Unfolded, is_union, unfold
from kapi.api.crd.docstrings import class_doc, field_docs
from kapi.api.crd.limits import BASE64, annotate, merge
from kapi.api.crd.markers import Format, Required, Rule
from kapi.api.crd.unions import Disagreement, Member, united

if TYPE_CHECKING:
    from msgspec.structs import FieldInfo

    Schema = dict[str, Any]

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_JSON_TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number"}
_TEXTS: Final = {dt.datetime: "date-time", dt.date: "date", bytes: BASE64, uuid.UUID: "uuid"}
_MAPS: Final = (dict, abc.Mapping, abc.MutableMapping)
_SETS: Final = (set, frozenset, abc.Set, abc.MutableSet)
_LISTS: Final = (list, tuple, abc.Sequence, abc.MutableSequence, abc.Collection)
_HEAD: Final = {"apiVersion": "string", "kind": "string", "metadata": "object"}
_TEMPLATE_META: Final = ("name", "generateName", "namespace", "labels", "annotations", "finalizers")
_DEEPEST: Final = 64


class UnsupportedType(TypeError):
    """A type that no schema can describe; the text says where and why."""


class _Place(NamedTuple):
    """A position in the types of a kind, with the classes around it."""

    path: str
    above: tuple[Any, ...] = ()

    def below(self, step: str) -> _Place:
        return self._replace(path=f"{self.path}{step}" if self.path else step.removeprefix("."))

    def inside(self, cls: Any) -> _Place:
        if cls in self.above:
            raise self.refusal(f"{_name(cls)} contains itself, which no structural schema can say; use Any here")
        if len(self.above) > _DEEPEST:
            raise self.refusal("classes are nested too deeply")
        return self._replace(above=(*self.above, cls))

    def refusal(self, why: str) -> UnsupportedType:
        return UnsupportedType(f"{self.path or 'the type'}: {why}")


def schema_of(annotation: Any) -> Schema:
    """The schema of a type: a class, an annotation, anything msgspec decodes from JSON."""
    return _schema(annotation, _Place(""))


def kind_schema(cls: type[msgspec.Struct]) -> Schema:
    """The schema of a whole kind, whose apiVersion, kind and metadata the server validates."""
    return _struct(cls, _Place(cls.__name__), is_whole=True)


def _schema(annotation: Any, place: _Place, *, none_is_absent: bool = False) -> Schema:
    found = unfold(annotation)
    schema = _bare(found.type, place)
    if found.nullable and not none_is_absent:
        if "enum" in schema:
            raise place.refusal("an enumeration cannot be null: servers refuse it; give the field the default None")
        schema["nullable"] = True
    annotate(schema, found.notes, BASE64 if found.type is bytes else schema.get("type", ""))
    return schema


def _bare(annotation: Any, place: _Place) -> Schema:
    origin, args = get_origin(annotation) or annotation, get_args(annotation)
    if annotation in (Any, object, msgspec.Raw):
        return {PRESERVE: True}
    if origin is Literal:
        return _enumeration(list(args), place)
    if is_union(annotation):
        return _union([unfold(one) for one in args], place)
    if origin in _MAPS:
        return _map(args, place)
    if origin in _SETS:
        return _set(args, place)
    if origin in _LISTS:
        return _list(origin, args, place)
    if isinstance(origin, type):
        return _named(origin, annotation, place)
    raise place.refusal(f"{annotation!r} has no schema")


def _named(cls: type, annotation: Any, place: _Place) -> Schema:
    if cls is ObjectMeta:
        return _template_meta(place)
    if issubclass(cls, msgspec.Struct):
        return _struct(annotation, place, is_whole=_is_object(cls))
    if issubclass(cls, enum.Enum):
        schema = _enumeration([member.value for member in cls], place)
        doc = class_doc(cls)
        return schema | ({"description": doc} if doc else {})
    if cls in _JSON_TYPES:
        schema = {"type": _JSON_TYPES[cls]}
        return schema | ({"format": "int64"} if cls is int else {})
    if cls in _TEXTS:
        return {"type": "string", "format": _TEXTS[cls]}
    raise place.refusal(f"{_name(cls)} has no schema")


def _enumeration(values: list[Any], place: _Place) -> Schema:
    kinds = {_JSON_TYPES.get(type(value)) for value in values}
    if len(kinds) != 1 or None in kinds:
        raise place.refusal("the values of an enumeration must be of one JSON type")
    return {"type": kinds.pop(), "enum": values}


# -- maps and lists ---------------------------------------------------------------------------------------------------


def _map(args: tuple[Any, ...], place: _Place) -> Schema:
    key, value = args or (str, Any)
    kind = _schema(key, place.below("[key]"))
    if kind.get("type") != "string":
        raise place.refusal("the keys of a map must be strings")
    if unfold(value) == Unfolded(Any):
        return {"type": "object", PRESERVE: True}
    return {"type": "object", "additionalProperties": _schema(value, place.below("[*]"))}


def _list(kind: Any, args: tuple[Any, ...], place: _Place) -> Schema:
    """A list; a tuple of so many things of one type is one, too."""
    fixed = kind is tuple and bool(args) and args[-1] is not Ellipsis
    if fixed and any(one != args[0] for one in args):
        raise place.refusal("the items of a tuple must be of one type")
    schema: Schema = {"type": "array", "items": _schema(args[0] if args else Any, place.below("[]"))}
    return schema | ({"minItems": len(args), "maxItems": len(args)} if fixed else {})


def _set(args: tuple[Any, ...], place: _Place) -> Schema:
    items = _schema(args[0] if args else Any, place.below("[]"))
    # Items of a set are compared as wholes, which servers want to be told of all that have parts.
    if items.get("type") == "object":
        items.setdefault("x-kubernetes-map-type", "atomic")
    elif items.get("type") == "array":
        items.setdefault("x-kubernetes-list-type", "atomic")
    return {"type": "array", "items": items, "x-kubernetes-list-type": "set"}


# -- unions -----------------------------------------------------------------------------------------------------------


def _union(members: list[Unfolded], place: _Place) -> Schema:
    kinds = [member.type for member in members]
    classes = [get_origin(kind) or kind for kind in kinds]
    if all(isinstance(one, type) and issubclass(one, msgspec.Struct) for one in classes):
        return _tagged(kinds, classes, place)
    if set(kinds) == {int, float}:
        schema: Schema = {"type": "number"}
    elif {int, str} <= set(kinds) <= {int, str, float}:  # with floats: a quantity, whose schema this is by custom
        schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], INT_OR_STRING: True}
    else:
        names = " | ".join(_name(kind) for kind in kinds)
        raise place.refusal(f"no structural schema describes {names}; unions are of tagged classes, or int | str")
    for member in members:
        # Limits of numbers and of strings do not get into each other's way; formats would.
        notes = [note for note in member.notes if not isinstance(note, Format)]
        annotate(schema, notes, _JSON_TYPES[member.type])
    return schema


def _tagged(kinds: list[Any], classes: list[type[msgspec.Struct]], place: _Place) -> Schema:
    configs = [cls.__struct_config__ for cls in classes]
    tag_field = configs[0].tag_field
    if tag_field is None or any(config.tag_field != tag_field for config in configs):
        raise place.refusal("the classes of a union must all be tagged, with the same tag field")
    members = [
        Member(config.tag, _struct(kind, place, is_whole=False)) for kind, config in zip(kinds, configs, strict=True)
    ]
    tag = _enumeration([config.tag for config in configs], place.below(f".{tag_field}"))
    try:
        return united(tag_field, tag, members)
    except Disagreement as error:
        raise place.below(f".{error.field}").refusal("the classes of a union disagree about this field") from None


# -- classes ----------------------------------------------------------------------------------------------------------


def _struct(annotation: Any, place: _Place, *, is_whole: bool) -> Schema:
    """The schema of a class. `is_whole`: it is an object with an apiVersion, a kind and metadata."""
    cls: type[msgspec.Struct] = get_origin(annotation) or annotation
    config = cls.__struct_config__
    if config.array_like:
        raise place.refusal(f"{_name(cls)} is written as a list")
    inside, docs = place.inside(annotation), field_docs(cls)
    schema: Schema = {"type": "object"}
    if doc := class_doc(cls):
        schema["description"] = doc
    properties: Schema = {}
    if config.tag is not None and config.tag_field is not None:
        properties[config.tag_field] = _enumeration([config.tag], place)
    for info in _fields(annotation, place):
        if is_whole and info.encode_name in _HEAD:
            continue
        below = inside.below(f".{info.encode_name}")
        properties[info.encode_name] = _field(info, below, docs, none_is_absent=config.omit_defaults)
        if info.required or any(isinstance(note, Required) for note in unfold(info.type).notes):
            schema.setdefault("required", []).append(info.encode_name)
    if is_whole:
        properties = _head(annotation, place) | properties
        if place.above:
            schema["x-kubernetes-embedded-resource"] = True
    if properties:
        schema["properties"] = properties
    _add_own(schema, cls)
    return schema


def _add_own(schema: Schema, cls: type[msgspec.Struct]) -> None:
    """Return what a class says of itself as a whole. A class that is no `Model` may have fields of these names."""
    rules, extra = getattr(cls, "RULES", ()), getattr(cls, "SCHEMA", {})
    if isinstance(rules, tuple | list):
        annotate(schema, (rule for rule in rules if isinstance(rule, Rule)), "object")
    if isinstance(extra, abc.Mapping):
        merge(schema, extra.items())


def _fields(annotation: Any, place: _Place) -> tuple[FieldInfo, ...]:
    try:
        return struct_fields(annotation)
    except NameError as error:
        raise place.refusal(f"{error}: {_name(annotation)} names it, and its module does not know it") from None


def _field(info: FieldInfo, place: _Place, docs: dict[str, str], *, none_is_absent: bool) -> Schema:
    schema = _schema(info.type, place, none_is_absent=none_is_absent and info.default is None)
    if info.name in docs:
        schema["description"] = docs[info.name]
    if "default" not in schema:
        _add_default(schema, info, place)
    return schema


def _add_default(schema: Schema, info: FieldInfo, place: _Place) -> None:
    """A default that says something is the schema's, too; None and what is empty mean that the field is absent.

    An empty object says something if there are defaults inside: without it servers would not get to them.
    """
    value = info.default
    try:
        if value is msgspec.NODEFAULT and info.default_factory is not msgspec.NODEFAULT:
            value = info.default_factory()
        if value is msgspec.NODEFAULT or value is None or value is msgspec.UNSET:
            return
        plain = _lean(msgspec.json.decode(msgspec.json.encode(value, order="deterministic")), schema)
    except Exception as error:
        raise place.refusal(f"the default cannot be made: {error}") from None
    properties = schema.get("properties", {}).values()
    if plain not in ({}, [], "") or (plain == {} and any("default" in below for below in properties)):
        schema["default"] = plain


def _lean(value: Any, schema: Schema) -> Any:
    """A default without what the defaults further down would fill in anyway."""
    if isinstance(value, list):
        return [_lean(item, schema.get("items", {})) for item in value]
    if not isinstance(value, dict):
        return value
    properties, required = schema.get("properties", {}), schema.get("required", ())
    other = schema.get("additionalProperties", {})
    lean = {name: _lean(below, properties.get(name, other)) for name, below in value.items()}
    return {
        name: below
        for name, below in lean.items()
        # What is required must be there before anything is filled in.
        if name in required or "default" not in properties.get(name, {}) or properties[name]["default"] != below
    }


# -- objects in objects -----------------------------------------------------------------------------------------------


def _is_object(cls: type[msgspec.Struct]) -> bool:
    return hasattr(cls, "gvk") and set(_HEAD) <= set(cls.__struct_encode_fields__)


def _head(annotation: Any, place: _Place) -> Schema:
    """Return what every object has; servers allow no more than a type there, and limits of names."""
    head: Schema = {name: {"type": kind} for name, kind in _HEAD.items()}
    for info in _fields(annotation, place):
        if info.encode_name == "metadata":
            annotate(head["metadata"], unfold(info.type).notes, "object")
    return head


def _template_meta(place: _Place) -> Schema:
    """Metadata inside an object, as of a pod's template. Go's clients write fields there that are null: let them be."""
    infos = {info.encode_name: info for info in struct_fields(ObjectMeta)}
    properties = {name: _field(infos[name], place, {}, none_is_absent=True) for name in _TEMPLATE_META}
    return {"type": "object", "properties": properties, PRESERVE: True}


def _name(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
