"""The shapes of built-in kinds for server-side apply: how their fields are owned and merged.

Made from the definitions, struct by struct as objects need them, and shared by all kinds. The definitions leave out
two things: which keys of list items have defaults, and which fields kube-apiserver writes even when they are not set
(`zerovalues`). The second matters because such a field exists in every object: a manager that sets something inside it
does not own the field itself.
"""

from __future__ import annotations

import functools
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
)
from kapi.schema.builtin import definitions as builtin
from kapi.schema.builtin.zerovalues import zero_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.api.ownership.shape import Field, Key
    from kapi.schema.builtin.definitions import Node

_ZEROES: Final = {"string": "", "integer": 0, "number": 0, "boolean": False}

_KEY_DEFAULTS: Final = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.LocalObjectReference", "name"): "",
}
"""Defaults of optional keys of list items. Required keys that are missing are zero values of their type."""


@functools.cache
def kind_shape(definition: str) -> Shape:
    """The shape of the objects of a definition."""
    return _struct(definition, atomic=False)


def _shape(node: Node) -> Shape:
    """The shape of a field, a list item or a map value."""
    if node.ref:
        special = _SPECIAL.get(node.ref)
        if special is not None:
            return special
        relation = node.map_type or builtin.definition(node.ref).map_type
        return _struct(node.ref, atomic=relation == "atomic")
    if node.type == "array":
        return _list(node)
    if node.type == "object":
        values = _shape(node.values) if node.values else DEDUCED
        return Shape(ATOMIC_MAP if node.map_type == "atomic" else STRUCT, values=values)
    return _SCALARS[_scalar(node)] if node.type else DEDUCED


@functools.cache
def _struct(definition: str, *, atomic: bool) -> Shape:
    kind = ATOMIC_MAP if atomic else STRUCT
    if not builtin.definition(definition).properties:
        return Shape(kind, values=DEDUCED)
    return Shape(kind, fill=lambda: _fields(definition))


def _fields(definition: str) -> tuple[Mapping[str, Field], Mapping[str, Any]]:
    properties = builtin.definition(definition).properties
    fields = {name: (f"f:{name}", _shape(node)) for name, node in properties.items()}
    return fields, {name: zero.value for name, zero in zero_values(definition).items()}


def _list(node: Node) -> Shape:
    assert node.items is not None
    items = _shape(node.items)
    if node.list_type == "map":
        return Shape(KEYED, items=items, keys=_keys(node.items.ref, node.list_map_keys))
    if node.list_type == "set":
        return Shape(SET, items=items)
    if not node.list_type and "merge" in node.patch_strategies:
        if node.patch_merge_key:
            return Shape(KEYED, items=items, keys=_keys(node.items.ref, (node.patch_merge_key,)))
        return Shape(SET, items=items)
    return Shape(ATOMIC_LIST, items=items)


def _keys(definition: str, names: tuple[str, ...]) -> list[Key]:
    item = builtin.definition(definition)
    return [(name, _key_default(definition, item, name)) for name in names]


def _key_default(definition: str, item: Node, name: str) -> Any:
    default = _KEY_DEFAULTS.get((definition, name))
    return _ZEROES.get(item.properties[name].type) if default is None and name in item.required else default


def _scalar(node: Node) -> str:
    if node.type in ("integer", "number"):
        return "numeric"
    if node.type == "boolean":
        return "boolean"
    return "string" if node.format in ("", "byte") else UNTYPED


_SCALARS: Final = {name: Shape(SCALAR, scalar=name) for name in ("numeric", "boolean", "string", UNTYPED)}
_FIELDS_V1: Final = Shape(ATOMIC_MAP)
_FIELDS_V1.values = _FIELDS_V1

_SPECIAL: Final = {
    builtin.INT_OR_STRING: _SCALARS[UNTYPED],
    builtin.QUANTITY: _SCALARS[UNTYPED],
    builtin.TIME: _SCALARS[UNTYPED],
    builtin.MICRO_TIME: _SCALARS[UNTYPED],
    builtin.RAW_EXTENSION: WHOLE,
    builtin.FIELDS_V1: _FIELDS_V1,
    builtin.JSON: DEDUCED,
    builtin.JSON_SCHEMA_OR_ARRAY: DEDUCED,
    builtin.JSON_SCHEMA_OR_BOOL: DEDUCED,
    builtin.JSON_SCHEMA_OR_STRINGS: DEDUCED,
}
