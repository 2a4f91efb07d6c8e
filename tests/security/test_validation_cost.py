"""The CPU of defaulting and validation grows no faster than the lists and maps of an object.

Built from the schemas themselves, so that no list or map field of a built-in kind can be forgotten.
"""

import datetime as dt
import gc
import time
from typing import NamedTuple

import msgspec
import pytest
from every_route import STORED
from valid_objects import valid

from kapi.api.errors import Invalid
from kapi.registry import write as writepath
from kapi.registry.request import Write, WriteOptions
from kapi.registry.resource import Resource
from kapi.schema.builtin import definitions
from kapi.schema.builtin.typed import kind_schema

COUNTS = (500, 1000, 2000)
LEAST = 0.02
"""Seconds of CPU below which growth cannot be told from noise."""

GROWTH = 9.0
"""Four times the entries may take at most so many times the CPU: n log n takes a little over four, a square sixteen."""

DEEPEST = 3
"""Levels of structs inside a new entry that are filled in."""

NOT_WALKED = {"metadata", "status", "apiVersion", "kind"}
KINDS = {(one.group, one.kind): one for one in STORED if one.version == one.store.gvk.version}
NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


class Nothing:
    """A Lookup that finds no object."""

    def get(self, resource, namespace, name):
        return None

    def list(self, resource, namespace="", *, ending=""):
        return []


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


# -- the work ---------------------------------------------------------------------------------------------------------


def reported(write, obj, errors):
    """Make the answer of a write that is refused."""
    if errors:
        Invalid.of(write.store.group_kind, obj["metadata"]["name"], errors)


def a_write(resource, operation):
    return Write(operation, resource, lookup=Nothing(), now=NOW, options=WriteOptions(dry_run=False))


def create(resource, obj):
    write = a_write(resource, "CREATE")
    write.store.object_scope.default(write, obj)
    writepath.prepare_create(write, obj)
    reported(write, obj, writepath.create_errors(write, obj))
    write.store.strategy.warnings(obj, None)


def update(resource, obj, old):
    write = a_write(resource, "UPDATE")
    scope = write.store.object_scope
    scope.default(write, obj)
    writepath.prepare_update(write, scope, obj, old)
    reported(write, obj, writepath.update_errors(write, scope, obj, old))
    write.store.strategy.warnings(obj, old)


def copied(obj):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(obj))


def cpu(field, count, *, distinct, times):
    """The CPU of a create, and of an update of the labels: the least of several runs."""
    made = filled(field, count, distinct=distinct)
    taken = []
    gc.disable()  # its passes grow with all objects of the process, not with those of the write
    try:
        for _ in range(times):
            new = copied(made)
            start = time.process_time()
            create(field.resource, new)
            create_time = time.process_time() - start
            changed, old = copied(new), copied(new)
            for one in (changed, old):
                one["metadata"]["resourceVersion"] = "1"
            changed["metadata"]["labels"] = {"a": "b"}
            start = time.process_time()
            update(field.resource, changed, old)
            taken.append((create_time, time.process_time() - start))
    finally:
        gc.enable()
    return tuple(map(min, zip(*taken, strict=True)))


def grows_too_fast(field, *, distinct):
    """The CPU for each count where it grows faster than the field; None where it does not."""
    lots = cpu(field, COUNTS[-1], distinct=distinct, times=1)
    if max(lots) < LEAST or not too_much(cpu(field, COUNTS[0], distinct=distinct, times=3), lots):
        return None
    measured = [cpu(field, count, distinct=distinct, times=5) for count in COUNTS]
    return measured if too_much(measured[0], measured[-1]) else None


def too_much(few, lots):
    return any(four > LEAST and four > one * GROWTH for one, four in zip(few, lots, strict=True))


def assert_no_field_grows_too_fast(tested):
    bad = {}
    for field in tested:
        for distinct in (True, False):
            measured = grows_too_fast(field, distinct=distinct)
            if measured is not None:
                bad[f"{field} {'distinct' if distinct else 'repeated'}"] = measured
    assert bad == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=[f"{kind}.{group or 'core'}" for group, kind in KINDS])
def test_cpu_of_writes_grows_no_faster_than_the_lists_and_maps_of_each_struct(kind):
    assert_no_field_grows_too_fast([field for field in ONCE if (field.resource.group, field.resource.kind) == kind])


KNOWN = (
    ("PodSpec", "tolerations"),
    ("PodSpec", "topologySpreadConstraints"),
    ("ResourceQuotaSpec", "hard", "scopes"),
    ("Scheduling", "tolerations"),
)
"""Fields whose validation was slower than linear once."""


@pytest.mark.parametrize("known", KNOWN, ids=".".join)
def test_cpu_of_writes_grows_no_faster_than_a_field_that_was_slow_once(known):
    struct, *names = known
    tested = [field for field in ONCE if field.struct.endswith(f".{struct}") and field.names == tuple(names)]
    assert tested
    assert_no_field_grows_too_fast(tested)
