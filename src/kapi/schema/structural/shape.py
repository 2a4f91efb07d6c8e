"""The shapes of custom kinds for server-side apply, made from their schemas.

`apiVersion`, `kind` and `metadata` are those of every object, at the root and in embedded ones, whatever the schema
has for them. Below `x-kubernetes-preserve-unknown-fields` unknown fields are owned as they come, at every depth. Lists
have one owner unless they are sets or maps; maps are owned key by key unless they are atomic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.ownership.shape import (
    ATOMIC_LIST,
    ATOMIC_MAP,
    DEDUCED,
    KEYED,
    SCALAR,
    SET,
    STRUCT,
    UNTYPED,
    WHOLE,
    Shape,
    any_shape,
)
from kapi.schema.builtin import shapes
from kapi.schema.structural.defaulting import has_default
from kapi.schema.structural.metadata import OBJECT_META
from kapi.schema.structural.model import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.api.ownership.shape import Field, Key

_SCALARS: Final = {name: Shape(SCALAR, scalar=name) for name in ("numeric", "boolean", "string", UNTYPED)}
_SCALAR_OF: Final = {"integer": "numeric", "number": "numeric", "boolean": "boolean"}
_LISTS: Final = {"set": SET, "map": KEYED}


def shape_of(schema: Schema | None, *, preserve: bool = False) -> Shape:
    """The shape of the objects of a schema; without one, of objects with any fields.

    `preserve` is `spec.preserveUnknownFields` of an old definition.
    """
    if schema is None:
        return Shape(STRUCT, values=DEDUCED)
    return _map(schema, preserve=preserve or schema.preserve_unknown, embedded=True)


def _shape(schema: Schema, *, preserve: bool) -> Shape:
    """The shape of a field, an item or a further key; `preserve` is inherited from above."""
    preserve = preserve or schema.preserve_unknown
    if schema.type == "object":
        return _map(schema, preserve=preserve, embedded=schema.embedded)
    if schema.type == "array":
        return _list(schema, preserve=preserve)
    if not schema.type:
        if not (schema.properties or schema.items or schema.additional is not None or schema.embedded):
            return DEDUCED
        return any_shape(_map(schema, preserve=preserve, embedded=schema.embedded), _list(schema, preserve=preserve))
    plain_string = schema.type == "string" and schema.format in ("", "byte")
    return _SCALARS["string" if plain_string else _SCALAR_OF.get(schema.type, UNTYPED)]


def _map(schema: Schema, *, preserve: bool, embedded: bool) -> Shape:
    def fill() -> tuple[Mapping[str, Field], Mapping[str, Any]]:
        fields = {name: (f"f:{name}", _shape(below, preserve=preserve)) for name, below in schema.properties.items()}
        return (fields | _head() if embedded else fields), {}

    # Called here and not in a function of its own, to take fewer frames of the stack for deep schemas.
    others = _shape(schema.additional, preserve=preserve) if isinstance(schema.additional, Schema) else None
    if others is None and _takes_others(schema, preserve=preserve, embedded=embedded):
        others = DEDUCED
    return Shape(ATOMIC_MAP if schema.map_type == "atomic" else STRUCT, values=others, fill=fill)


def _takes_others(schema: Schema, *, preserve: bool, embedded: bool) -> bool:
    """Return True if there may be keys that no schema describes."""
    if schema.additional is not None:
        return bool(schema.additional)
    return preserve or not (schema.properties or embedded)


def _head() -> dict[str, Field]:
    string = _SCALARS["string"]
    return {
        "apiVersion": ("f:apiVersion", string),
        "kind": ("f:kind", string),
        "metadata": ("f:metadata", shapes.kind_shape(OBJECT_META)),
    }


def _list(schema: Schema, *, preserve: bool) -> Shape:
    items = _shape(schema.items, preserve=preserve) if schema.items is not None else WHOLE
    return Shape(_LISTS.get(schema.list_type, ATOMIC_LIST), items=items, keys=_keys(schema))


def _keys(schema: Schema) -> list[Key]:
    """The keys of a list of type map; an item without one has its default."""
    known = schema.items.properties if schema.items is not None else {}
    names = schema.list_map_keys if schema.list_type == "map" else ()
    return [(name, known[name].default if name in known and has_default(known[name]) else None) for name in names]
