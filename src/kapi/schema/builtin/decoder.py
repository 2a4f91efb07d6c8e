"""Decoding of built-in kinds: a decoded JSON object becomes, in place, what the kind's typed decoder would keep.

Each definition becomes one function over dictionaries, compiled the first time a value of it is met and shared by all
kinds that use it. Such a function removes what the type does not know and returns the paths of it, checks the JSON
types, brings leaves into their canonical form, removes nulls, and leaves out empty values where kube-apiserver would
not write them. Paths are built on the way back, and only when there is something to report.

Unknown fields come back in the order of the document, each path starting with `.` or `[`. `TypeMismatch` ends it all.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from kapi.schema.builtin import definitions as builtin
from kapi.schema.builtin import scalars
from kapi.schema.builtin.scalars import TypeMismatch
from kapi.schema.builtin.zerovalues import zero_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kapi.schema.builtin.definitions import Node
    from kapi.schema.builtin.zerovalues import Zero

    Paths = list[str] | None
    """Unknown fields below a value; None when there are none."""
    Container = Callable[[Any], Paths]
    """Works on a dict or list in place."""

PLAIN, LEAF, CONTAINER = range(3)
"""The ways to read a field: by its Python type alone, by a function that returns the value to keep, or in place."""

if TYPE_CHECKING:
    Field = tuple[int, Any, bool, str]
    """The way to read it, its type, reader or container, True if empty values are dropped, and the name of its type."""

MOST_UNKNOWN = 100
"""The most unknown fields that are reported, as in kube-apiserver. It bounds the response to hostile bodies."""

_KINDS = {str: "string", bool: "bool"}
_ZEROES = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": []}


def go_type(node: Node) -> str:
    """The name kube-apiserver has for the type of a field."""
    if node.go_type:
        return node.go_type
    if node.ref:
        return ".".join(node.ref.rsplit(".", 2)[-2:])
    if node.type == "array":
        assert node.items is not None
        return "[]" + go_type(node.items)
    if node.type == "object":
        return "map[string]" + (go_type(node.values) if node.values else "interface {}")
    if node.type == "string":
        return "[]uint8" if node.format == "byte" else "string"
    return {"boolean": "bool", "number": "float64"}.get(node.type, node.format)


def _element(node: Node, element: Node) -> Node:
    """The item or value schema, knowing the name of its type when the container's name shows it."""
    name = node.go_type
    below = name[2:] if name.startswith("[]") else name.partition("]")[2] if name.startswith("map[") else ""
    if not below or element.ref:
        return element
    return builtin.Node(type=element.type, format=element.format, items=element.items, go_type=below)


class _Structs(dict[str, "Container"]):
    """The compiled definitions by name; compiling one compiles nothing below it."""

    def __missing__(self, name: str) -> Container:
        compiled = self[name] = _struct(name)
        return compiled


structs = _Structs()


def field(node: Node) -> Field:
    """Compile one field, list item or map value."""
    name, drops = go_type(node), node.drops_zero
    if node.ref:
        special = _SPECIAL.get(node.ref)
        return (*special, False, name) if special else (CONTAINER, _deferred(node.ref), False, name)
    if node.type == "array":
        assert node.items is not None
        return (CONTAINER, _list(name, _element(node, node.items)), drops, name)
    if node.type == "object":
        return (CONTAINER, _map(name, _element(node, node.values)) if node.values else _anything, drops, name)
    if node.type == "integer":
        return (LEAF, scalars.integer(name, 32 if node.format == "int32" else 64), drops, name)
    if node.type == "number":
        return (LEAF, scalars.floating, drops, name)
    if node.format == "byte":
        return (LEAF, scalars.base64, drops, name)
    return (PLAIN, bool if node.type == "boolean" else str, drops, name)


def _deferred(name: str) -> Container:
    """The function of a definition, looked up when it is needed: most of a Pod's schema never is."""

    def coerce(value: Any) -> Paths:
        return structs[name](value)

    return coerce


def _struct(name: str) -> Container:
    """The function of a definition with fields."""
    properties = builtin.definition(name).properties
    zeros = zero_values(name)
    find = {key: _member(name, node, zeros.get(key)) for key, node in properties.items()}.get
    embedded = {key: node.embedded for key, node in properties.items() if node.embedded}
    full_name = ".".join(name.rsplit(".", 2)[-2:])
    short = name.rpartition(".")[2]
    always = tuple((key, zero.value, zero.struct) for key, zero in zeros.items())

    def coerce(obj: Any) -> Paths:  # noqa: PLR0912 - the hot loop: calls per field would double its time
        if type(obj) is not dict:
            raise TypeMismatch.of(obj, full_name, "struct")
        gone: list[str] = []
        unknown: Paths = None
        key = ""
        try:
            for key, value in obj.items():
                known = find(key)
                if known is None:
                    gone.append(key)
                    unknown = _report(unknown, "", ("." + key,))
                    continue
                how, reader, drops, type_name = known
                kept = value
                if how == PLAIN:
                    if type(value) is not reader and value is not None:
                        raise TypeMismatch.of(value, type_name, _KINDS[reader])
                elif value is None:
                    pass
                elif how == CONTAINER:
                    below = reader(value)
                    if below is not None:
                        unknown = _report(unknown, "." + key, below)
                else:
                    kept = reader(value)
                    if kept is not value:
                        obj[key] = kept
                if not kept and (drops or kept is None):
                    gone.append(key)
        except TypeMismatch as error:
            error.enclose(short, f"{embedded[key]}.{key}" if key in embedded else key)
            raise
        for key in gone:
            del obj[key]
        for key, zero, struct in always:
            if key not in obj:
                obj[key] = empty_struct(struct) if struct else zero
        return unknown

    return coerce


def empty_struct(name: str) -> dict[str, Any]:
    """Return an empty value of a definition, with the fields that are always written."""
    return _copied(_empty_struct(name))


@functools.cache
def _empty_struct(name: str) -> dict[str, Any]:
    obj: dict[str, Any] = {}
    structs[name](obj)
    return obj


def _copied(obj: dict[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if type(value) is dict else value for key, value in obj.items()} if obj else {}


def _member(struct: str, node: Node, zero: Zero | None) -> Field:
    """Compile a field of a struct. One that is null when it is not set is null when it is empty, too.

    Objects are stored in protobuf, which has no empty lists; definitions alone are stored in JSON.
    """
    how, reader, drops, type_name = field(node)
    is_nullable = (
        zero is not None and zero.value is None and (node.type in ("array", "object") or node.format == "byte")
    )
    return how, reader, drops or (is_nullable and not struct.startswith(builtin.EXTENSIONS)), type_name


def _report(unknown: Paths, prefix: str, below: Iterable[str]) -> Paths:
    """Add the unknown fields found below a prefix, up to the number that is reported at all."""
    unknown = [] if unknown is None else unknown
    if len(unknown) < MOST_UNKNOWN:
        unknown.extend(prefix + path for path in below)
    return unknown


def _list(name: str, item: Node) -> Container:
    """The function of a list. A null item is the zero value of its type, not a gap."""
    how, reader, _, item_type = field(item)
    zero = _zero(item)

    def coerce(value: Any) -> Paths:
        if type(value) is not list:
            raise TypeMismatch.of(value, name, "slice")
        unknown: Paths = None
        for index, entry in enumerate(value):
            if entry is None:
                value[index] = zero()
            elif how == PLAIN:
                if type(entry) is not reader:
                    raise TypeMismatch.of(entry, item_type, _KINDS[reader])
            elif how == CONTAINER:
                below = reader(entry)
                if below is not None:
                    unknown = _report(unknown, f"[{index}]", below)
            else:
                value[index] = reader(entry)
        return unknown

    return coerce


def _map(name: str, item: Node) -> Container:
    """The function of a map with string keys. A null value is the zero value of its type."""
    how, reader, _, item_type = field(item)
    zero = _zero(item)

    def coerce(value: Any) -> Paths:
        if type(value) is not dict:
            raise TypeMismatch.of(value, name, "map")
        unknown: Paths = None
        for key, entry in value.items():
            if entry is None:
                value[key] = zero()
            elif how == PLAIN:
                if type(entry) is not reader:
                    raise TypeMismatch.of(entry, item_type, _KINDS[reader])
            elif how == CONTAINER:
                below = reader(entry)
                if below is not None:
                    unknown = _report(unknown, "." + key, below)
            else:
                kept = reader(entry)
                if kept is not entry:
                    value[key] = kept
        return unknown

    return coerce


def _zero(node: Node) -> Callable[[], Any]:
    """The value that a null among the items of a list or the values of a map is read as."""
    if node.ref == builtin.QUANTITY:
        return lambda: "0"
    if node.ref == builtin.INT_OR_STRING:
        return lambda: 0
    if node.ref in builtin.NOT_STRUCTS:
        return lambda: None
    if node.type == "array":
        return list
    if node.ref:
        return lambda: empty_struct(node.ref)
    if node.type == "object":
        return dict
    zero = _ZEROES[node.type]
    return lambda: zero


# -- definitions that read themselves ---------------------------------------------------------------------------------


def _anything(value: Any) -> Paths:
    """Any JSON at all, untouched."""
    return None


def _silently(reader: Container, value: Any) -> None:
    """These decode their content on their own and report no unknown fields in it, though they drop them."""
    reader(value)


def _json_schema_or_bool(value: Any) -> Paths:
    if type(value) is dict:
        _silently(structs[builtin.JSON_SCHEMA], value)
    elif type(value) is not bool:
        raise TypeMismatch("boolean or JSON schema expected")
    return None


def _json_schema_or_array(value: Any) -> Any:
    if type(value) is dict:
        _silently(structs[builtin.JSON_SCHEMA], value)
        return value
    if type(value) is not list:
        return None
    _silently(_json_schemas, value)
    return value or None


def _json_schema_or_strings(value: Any) -> Any:
    if type(value) is dict:
        _silently(structs[builtin.JSON_SCHEMA], value)
        return value
    if type(value) is not list:
        return None
    _silently(_strings, value)
    return value or None


_SPECIAL: dict[str, tuple[int, Any]] = {
    builtin.QUANTITY: (LEAF, scalars.quantity),
    builtin.INT_OR_STRING: (LEAF, scalars.int_or_string),
    builtin.TIME: (LEAF, scalars.time),
    builtin.MICRO_TIME: (LEAF, scalars.micro_time),
    builtin.RAW_EXTENSION: (CONTAINER, _anything),
    builtin.FIELDS_V1: (CONTAINER, _anything),
    builtin.JSON: (CONTAINER, _anything),
    builtin.JSON_SCHEMA_OR_BOOL: (CONTAINER, _json_schema_or_bool),
    builtin.JSON_SCHEMA_OR_ARRAY: (LEAF, _json_schema_or_array),
    builtin.JSON_SCHEMA_OR_STRINGS: (LEAF, _json_schema_or_strings),
}

_json_schemas = _list("[]v1.JSONSchemaProps", builtin.Node(ref=builtin.JSON_SCHEMA))
_strings = _list("[]string", builtin.Node(type="string"))
