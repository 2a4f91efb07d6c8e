"""Whatever the typed decoder lets through, the hooks answer with field errors or an API error, never with a crash."""

from __future__ import annotations

import copy
import random

import pytest
from kind_support import Shelf, a_write
from test_kinds_flags import STRATEGIES

from kapi.api.errors import ApiError
from kapi.api.fielderror import FieldError
from kapi.schema.builtin import definitions as builtin
from kapi.schema.builtin.typed import kind_schema

VERSIONS = {"autoscaling": "v2"}
STRINGS = ("", "a", "A b", "a.b.io", "a/b", "10.0.0.5", "fd00::1", "10.0.0.0/8", "*", "None", "Pod", "In", "50%")
ENUMS = (
    "ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "Local", "ClientIP", "Container", "Resource", "Exact",
    "Limited", "Queue", "User", "ServiceAccount", "IPv4", "IPv6", "Bound", "Exempt", "Approved", "True", "Exists",
)  # fmt: skip
SAMPLES = 40


class Maker:
    """Random values of a schema, sparse, and now and then from a vocabulary that opens doors."""

    def __init__(self, seed):
        self.rand = random.Random(seed)

    def make(self, node, depth=0):
        if node.ref:
            return self.scalar(node.ref) or self.make(builtin.definition(node.ref), depth)
        if node.type == "object" or node.properties:
            return self.object(node, depth)
        if node.type == "array":
            return [self.make(node.items, depth + 1) for _ in range(self.rand.choice((0, 1, 1, 2, 3)))]
        if node.type == "boolean":
            return self.rand.random() < 0.5
        if node.type in {"integer", "number"}:
            return self.rand.choice((-1, 0, 1, 2, 80, 443, 30080, 70000))
        if node.format == "byte":
            return self.rand.choice(("", "YQ==", "e30="))
        return self.rand.choice((*node.enum, *STRINGS, *ENUMS))

    def scalar(self, ref):
        return {
            builtin.QUANTITY: self.rand.choice(("1", "0", "-1", "500m", "1Gi")),
            builtin.INT_OR_STRING: self.rand.choice((1, "a", "50%", -1)),
            builtin.TIME: "2026-01-01T00:00:00Z",
            builtin.MICRO_TIME: "2026-01-01T00:00:00.000000Z",
            builtin.RAW_EXTENSION: {},
            builtin.JSON_SCHEMA_OR_BOOL: True,
            builtin.JSON_SCHEMA_OR_ARRAY: {"type": "string"},
            builtin.JSON_SCHEMA_OR_STRINGS: ["a"],
        }.get(ref)

    def object(self, node, depth):
        if node.values is not None:
            count = self.rand.choice((0, 1, 2))
            return {
                self.rand.choice((*STRINGS[1:], "cpu", "storage")): self.make(node.values, depth + 1)
                for _ in range(count)
            }
        share = 0.7 if depth < 2 else 0.35
        return {
            name: self.make(field, depth + 1)
            for name, field in node.properties.items()
            if depth < 7 and self.rand.random() < share
        }


def _object(group, kind, seed):
    schema = kind_schema(group, VERSIONS.get(group, "v1"), kind)
    obj = Maker(seed).make(builtin.definition(schema.name))
    obj["metadata"] = {"name": "a", "namespace": "default", "annotations": {"a": "b"}}
    assert schema.coerce(obj) == []
    return obj


def _run(strategy, obj, old, writing):
    strategy.default(obj)
    if old is None:
        if strategy.has_status:
            obj.pop("status", None)
        strategy.prepare_create(writing, obj)
        errors = strategy.validate_create(writing, obj)
    else:
        strategy.prepare_update(writing, obj, old)
        errors = strategy.validate_update(writing, obj, old)
    assert all(isinstance(error, FieldError) for error in errors)
    strategy.warnings(obj, old)
    strategy.selectable(obj)
    return errors


@pytest.mark.parametrize("kind", sorted(set(STRATEGIES) - {("events.k8s.io", "Event")}), ids=lambda kind: kind[1])
def test_hooks_survive_anything_the_decoder_lets_through(kind):
    strategy = STRATEGIES[kind]
    for seed in range(SAMPLES):
        obj = _object(*kind, seed)
        writing = a_write(lookup=Shelf(), dry_run=bool(seed % 2))
        try:
            _run(strategy, obj, None, writing)
            once = copy.deepcopy(obj)
            strategy.default(obj)
            assert obj == once, "defaulting is not idempotent"
            _run(strategy, _object(*kind, seed + SAMPLES), obj, writing)
            assert obj == once, "an update changed the stored object"
            status = {**copy.deepcopy(obj), "status": _object(*kind, seed + 1).get("status", {})}
            strategy.prepare_status(writing, status, obj)
            strategy.validate_status(writing, status, obj)
        except ApiError:
            continue
