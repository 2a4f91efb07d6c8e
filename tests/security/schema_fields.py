"""Objects of every built-in kind with many entries in a list or map, made from the schemas.

No list or map field of a built-in kind can be forgotten in a test of what it costs.
"""

from typing import NamedTuple

import msgspec
from every_route import STORED
from valid_objects import valid

from kapi.registry.resource import Resource
from kapi.schema.builtin import definitions
from kapi.schema.builtin.typed import kind_schema

DEEPEST = 3
"""Levels of structs inside a new entry that are filled in."""

NOT_WALKED = {"metadata", "status", "apiVersion", "kind"}
KINDS = {(one.group, one.kind): one for one in STORED if one.version == one.store.gvk.version}


class Field(NamedTuple):
    """Lists and maps of one struct of a kind: the path of the struct, and the names of the fields."""

    resource: Resource
    struct: str
    path: tuple[str, ...]
    names: tuple[str, ...]

    def __str__(self):
        where = ".".join((*self.path, "+".join(self.names)))
        return f"{self.resource.kind}.{self.resource.group or 'core'}:{where}"


# -- the fields of the schemas ----------------------------------------------------------------------------------------


def resolved(node):
    """The schema that a reference names."""
    if node.ref and node.ref not in definitions.NOT_STRUCTS:
        return definitions.definition(node.ref)
    return node


def many(node):
    """Return True if a field has any number of entries."""
    return node.type == "array" or node.values is not None


def entry_schema(node):
    return node.items if node.type == "array" else node.values


def fields(resource):
    """Every list and map of a kind's spec by itself, and those of one struct together."""
    root = definitions.definition_name(resource.group, resource.version, resource.kind)
    return walk(resource, root, (), frozenset())


def walk(resource, struct, path, above):
    if struct in above or struct in definitions.NOT_STRUCTS:
        return
    properties = definitions.definition(struct).properties
    walked = {name: node for name, node in properties.items() if path or name not in NOT_WALKED}
    lists = tuple(name for name, node in walked.items() if many(node))
    for names in [(name,) for name in lists] + [lists] if len(lists) > 1 else [lists] if lists else []:
        yield Field(resource, struct, path, names)
    for name, node in walked.items():
        inner = entry_schema(node) if many(node) else node
        if inner is not None and inner.ref:
            yield from walk(resource, inner.ref, (*path, name), above | {struct})


EVERY = [field for resource in KINDS.values() for field in fields(resource)]
ONCE = list({(field.struct, field.names): field for field in reversed(EVERY)}.values())
"""One field of each struct, however many kinds have that struct."""


# -- objects ----------------------------------------------------------------------------------------------------------


def scalar(node, name, number):
    if node.ref == definitions.QUANTITY:
        return "1"
    if node.ref in {definitions.TIME, definitions.MICRO_TIME}:
        return "2026-01-01T00:00:00Z" if node.ref == definitions.TIME else "2026-01-01T00:00:00.000000Z"
    if node.ref == definitions.INT_OR_STRING or node.type in {"integer", "number"}:
        return number % 30000 + 1
    if node.type == "boolean":
        return True
    if node.format == "byte":
        return "eA=="
    if node.type == "string":
        if node.enum:
            return node.enum[number % len(node.enum)]
        if name in {"addresses", "ip", "ips", "externalIPs", "nameservers"}:
            return f"10.1.{number // 250}.{number % 250}"
        if name in {"cidr", "except", "cidrs", "podCIDRs", "loadBalancerSourceRanges"}:
            return f"10.1.{number // 250}.{number % 250}/32"
        return f"x{number}"
    return {}


def entry(node, name, number, depth=0):
    """A value of a schema that differs from those of other numbers."""
    node = resolved(node)
    if many(node):
        inner = entry(entry_schema(node), name, number, depth + 1)
        return [inner] if node.type == "array" else {f"x{number}": inner}
    if not node.properties:
        return scalar(node, name, number)
    made = {}
    for field, schema in node.properties.items():
        inner = resolved(schema)
        if field in node.required or (depth < DEEPEST and not inner.properties and not many(inner)):
            made[field] = entry(schema, field, number, depth + 1)
    return made


def filled(field, count, *, distinct):
    """An object with so many entries in the lists and maps of a field; maps have distinct keys in any case."""
    obj = copied(valid(field.resource))
    if field.resource.namespaced:
        obj["metadata"]["namespace"] = "default"
    root = definitions.definition_name(field.resource.group, field.resource.version, field.resource.kind)
    here, schema = obj, definitions.definition(root)
    for name in field.path:
        node = schema.properties[name]
        inner = entry_schema(node) if many(node) else node
        if node.type == "array":
            found = here.setdefault(name, [])
            if not found:
                found.append(entry(inner, name, 0))
            here = found[0]
        elif many(node):
            here = here.setdefault(name, {}).setdefault("x0", entry(inner, name, 0))
        else:
            here = here.setdefault(name, entry(inner, name, 0))
        schema = resolved(inner)
    for name in field.names:
        node = schema.properties[name]
        numbers = range(count) if distinct else [0] * count
        if node.type == "array":
            here[name] = [entry(node.items, name, number) for number in numbers]
        else:
            value = entry(node.values, name, 0)
            here[name] = {f"example.com/x{number}": copied(value) for number in range(count)}
    kind_schema(*field.resource.store.gvk).coerce(obj)
    return obj


def copied(obj):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(obj))
