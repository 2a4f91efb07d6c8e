"""Random valid objects of any built-in kind, made from its schema; the property tests of this package share them."""

from __future__ import annotations

import random
from typing import Any

from kapi.schema.builtin import definitions as builtin

LEAVES = {
    builtin.QUANTITY: ["1", "500m", "128Mi"],
    builtin.INT_OR_STRING: [80, "http"],
    builtin.TIME: ["2026-01-02T03:04:05Z"],
    builtin.MICRO_TIME: ["2026-01-02T03:04:05.123456Z"],
    builtin.RAW_EXTENSION: [{"any": {"thing": None}}],
    builtin.FIELDS_V1: [{"f:data": {}}],
    builtin.JSON: [1, "a", {"b": [None]}],
    builtin.JSON_SCHEMA_OR_BOOL: [True, False, {"type": "string"}],
    builtin.JSON_SCHEMA_OR_ARRAY: [{"type": "string"}, [{"type": "integer"}]],
    builtin.JSON_SCHEMA_OR_STRINGS: [["a"], {"type": "string"}],
}


def stable_kinds() -> list[tuple[str, str, str]]:
    """Group, version and kind of everything in a stable version that is an object of its own."""
    nodes = [builtin.definition(name) for name in builtin.names()]
    return sorted(
        {
            (kind["group"], kind["version"], kind["kind"])
            for node in nodes
            for kind in node.kinds
            if kind["version"].lstrip("v").isdigit() and "metadata" in node.properties
        }
    )


class Sampler:
    """Makes values; `structs` collects the path and the dict of every struct it made."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.structs: list[tuple[str, dict[str, Any]]] = []

    def struct(self, name: str, path: str = "", depth: int = 0) -> dict[str, Any]:
        made: dict[str, Any] = {}
        self.structs.append((path, made))
        chance = (1.0, 0.6, 0.4, 0.3, 0.2, 0.1, 0.1)[depth] if depth < 7 else 0.0
        for field, node in builtin.definition(name).properties.items():
            if self.random.random() < chance:
                made[field] = self.value(node, f"{path}.{field}" if path else field, depth + 1)
        return made

    def value(self, node: builtin.Node, path: str, depth: int) -> Any:
        if node.ref in LEAVES:
            return self.random.choice(LEAVES[node.ref])
        if node.ref:
            return self.struct(node.ref, path, depth)
        if node.items:
            return [self.value(node.items, f"{path}[{index}]", depth) for index in range(self.random.randint(1, 2))]
        if node.values:
            return {key: self.value(node.values, f"{path}.{key}", depth) for key in ("a", "b.c/d")}
        if node.format == "byte":
            return "aGVsbG8="
        return {"string": "text", "integer": 7, "number": 1.5, "boolean": True}[node.type]
