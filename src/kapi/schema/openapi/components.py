"""Schemas as OpenAPI writes them, and everything a set of them refers to.

The two versions differ in where references point, in how a reference carries a description (version 3 wraps it), and in
defaults (version 2 publishes none). Descriptions come from the definitions and are read here for the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.schema.builtin import definitions as builtin
from kapi.schema.builtin.mergekeys import is_struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kapi.schema.builtin.definitions import Node

    Schema = dict[str, Any]

V2, V3 = "#/definitions/", "#/components/schemas/"
"""The prefixes of references, which also tell the versions apart."""

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"

_OBJECT_FIELDS = frozenset({"metadata", "spec", "status"})
_ZEROES = {"string": "", "integer": 0, "boolean": False, "number": 0}


def closure(names: Iterable[str], custom: Mapping[str, Schema], base: str) -> dict[str, Schema]:
    """The schemas of `names` and of all they refer to, sorted.

    `custom` ones are taken as they are. They refer to the metadata of objects and lists and to each other; what else
    looks like a reference in them (in a default, say) is the author's own.
    """
    found: dict[str, Schema] = {}
    waiting = [name for name in names if name]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        if name in custom:
            found[name] = custom[name]
            waiting += (OBJECT_META, LIST_META)
        else:
            found[name] = render(name, base)
            waiting.extend(references(found[name], base))
    return dict(sorted(found.items()))


def references(value: Any, base: str) -> Iterable[str]:
    """Yield the names of the definitions that a value refers to."""
    if isinstance(value, list):
        for entry in value:
            yield from references(entry, base)
    elif isinstance(value, dict):
        for key, entry in value.items():
            if key == "$ref" and isinstance(entry, str) and entry.startswith(base):
                yield entry.removeprefix(base)
            else:
                yield from references(entry, base)


def render(name: str, base: str) -> Schema:
    """One definition of the built-in kinds."""
    node, texts = builtin.definition(name), builtin.descriptions(name)
    schema: Schema = {"description": texts[""]} if "" in texts else {}
    special = _SPECIAL_V3.get(name) if base == V3 else None
    if special:
        return schema | special
    schema |= _shape(node, base)
    if node.properties:
        schema["properties"] = {
            field: _property(field, below, texts.get(field, ""), node, base) for field, below in node.properties.items()
        }
    if node.required:
        schema["required"] = list(node.required)
    if node.kinds:
        schema["x-kubernetes-group-version-kind"] = list(node.kinds)
    if node.unions:
        schema["x-kubernetes-unions"] = list(node.unions)
    return schema


def _property(field: str, node: Node, text: str, owner: Node, base: str) -> Schema:
    schema: Schema = {"description": text} if text else {}
    if base == V2 or not node.ref:
        schema |= _shape(node, base)
        if base == V3 and field in owner.required and node.type in _ZEROES and node.format != "byte":
            schema["default"] = _ZEROES[node.type]
        return schema
    if is_struct(node) and (field in owner.required or (owner.kinds and field in _OBJECT_FIELDS)):
        schema["default"] = {}
    return schema | {"allOf": [{"$ref": base + node.ref}]} | _extensions(node)


def _shape(node: Node, base: str) -> Schema:
    """A schema without its description."""
    schema: Schema = {"$ref": base + node.ref} if node.ref else {}
    for key, value in (("type", node.type), ("format", node.format)):
        if value:
            schema[key] = value
    if node.enum:
        schema["enum"] = list(node.enum)
    if node.items:
        schema["items"] = _element(node.items, base)
    if node.values:
        schema["additionalProperties"] = _element(node.values, base)
    return schema | _extensions(node)


def _element(node: Node, base: str) -> Schema:
    """The items of a list or the values of a map."""
    if base == V3 and is_struct(node):
        return {"default": {}, "allOf": [{"$ref": base + node.ref}]}
    schema = _shape(node, base)
    if base == V3 and node.type in _ZEROES and node.format != "byte":
        schema["default"] = _ZEROES[node.type]
    return schema


def _extensions(node: Node) -> Schema:
    """The extensions that say how the field merges."""
    pairs: dict[str, Any] = {
        "x-kubernetes-list-map-keys": list(node.list_map_keys),
        "x-kubernetes-list-type": node.list_type,
        "x-kubernetes-map-type": node.map_type,
        "x-kubernetes-patch-merge-key": node.patch_merge_key,
        "x-kubernetes-patch-strategy": ",".join(node.patch_strategies),
    }
    return {key: value for key, value in pairs.items() if value}


_SPECIAL_V3: dict[str, Schema] = {
    builtin.INT_OR_STRING: {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    builtin.QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}]},
}
