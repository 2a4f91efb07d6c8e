"""Structural schemas of custom resources, and objects for them, for property tests.

`schemas()` draws decoded `openAPIV3Schema` dictionaries that are structural and whose defaults are valid. `objects` draws
whole objects that are valid under such a schema; with `messy=True` also ones with unknown fields, stray nulls and
values of wrong types, at any depth. `values(props)` does the same for one place of a schema.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "count", "labels", "metadata", "kind", "x-y", "z.z", "ü")
"""Names of fields; some mean something at the root of an object and nothing elsewhere."""
KEYS = ("a", "k1", "k.2", "kind")
"""Keys of maps that a schema does not name."""
STRANGERS = ("unknown", "zz")
"""Names of fields that no schema here specifies."""
HEAD = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
"""What a schema may say of what every object has."""
META = {"name": "inner", "labels": {"a": "b"}}

TEXTS = st.sampled_from(("", "a", "bb", "ccc"))
SCALARS = st.one_of(TEXTS, st.integers(-3, 9), st.booleans(), st.sampled_from((0.5, 2.25)))
ANYTHING = st.recursive(
    st.one_of(st.none(), SCALARS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(KEYS), inner, max_size=2)),
    max_leaves=4,
)
NOT_NULL = ANYTHING.filter(lambda value: value is not None)

SCALAR_SCHEMAS = st.sampled_from(
    (
        {"type": "string"},
        {"type": "string", "maxLength": 3},
        {"type": "string", "enum": ["", "a", "bb", "ccc"]},
        {"type": "string", "pattern": "^[abc]*$"},
        {"type": "integer"},
        {"type": "integer", "format": "int32", "minimum": -3, "maximum": 9},
        {"type": "number"},
        {"type": "boolean"},
        {"x-kubernetes-int-or-string": True},
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"x-kubernetes-preserve-unknown-fields": True},
    )
)


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> dict[str, Any]:
    """The schema of a kind."""
    props = draw(_structs(depth, tuple(name for name in NAMES if name not in HEAD)))
    if draw(st.booleans()):
        props["properties"] = HEAD | props.get("properties", {})
    return props


@st.composite
def places(draw: st.DrawFn, depth: int, *, defaulted: bool = True) -> dict[str, Any]:
    """The schema of a field, an item or a map value."""
    made = [SCALAR_SCHEMAS]
    if depth > 0:
        made += [_structs(depth - 1, NAMES), _maps(depth - 1), _lists(depth - 1), _embedded(depth - 1)]
    props = dict(draw(st.one_of(made)))
    if draw(st.integers(0, 4)) == 0:
        props["nullable"] = True
    if defaulted and draw(st.integers(0, 2)) == 0:
        default = draw(values(props))
        if default is not None:
            props["default"] = default
    return props


@st.composite
def _structs(draw: st.DrawFn, depth: int, names: tuple[str, ...]) -> dict[str, Any]:
    chosen = draw(st.lists(st.sampled_from(names), unique=True, max_size=3))
    props: dict[str, Any] = {"type": "object"}
    if chosen:
        props["properties"] = {name: draw(places(depth)) for name in chosen}
        if draw(st.booleans()):
            props["required"] = chosen[:1]
    if draw(st.integers(0, 4)) == 0:
        props["x-kubernetes-preserve-unknown-fields"] = True
    if draw(st.integers(0, 5)) == 0:
        props["x-kubernetes-map-type"] = draw(st.sampled_from(("atomic", "granular")))
    return props


@st.composite
def _maps(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    inner = st.one_of(places(depth), places(depth), st.just(True))
    return {"type": "object", "additionalProperties": draw(inner)}


@st.composite
def _lists(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    kind = draw(st.sampled_from(("", "atomic", "set", "map")))
    props: dict[str, Any] = {"type": "array"}
    if kind:
        props["x-kubernetes-list-type"] = kind
    if kind == "map":
        key = draw(st.sampled_from(({"type": "string"}, {"type": "integer"})))
        other = draw(st.sampled_from(({}, {"default": "tcp"})))
        items = draw(_structs(depth, ("a", "b")))
        items.pop("required", None)
        items["properties"] = items.get("properties", {}) | {"key": key, "protocol": {"type": "string"} | other}
        items["required"] = ["key"] if other else ["key", "protocol"]
        return props | {"items": items, "x-kubernetes-list-map-keys": ["key", "protocol"]}
    items = draw(st.sampled_from(({"type": "string"}, {"type": "integer"})) if kind == "set" else places(depth))
    return props | {"items": items}


@st.composite
def _embedded(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    props = draw(_structs(depth, ("a", "b")))
    if "properties" not in props:
        props["x-kubernetes-preserve-unknown-fields"] = True
    return props | {"x-kubernetes-embedded-resource": True}


# -- objects ----------------------------------------------------------------------------------------------------------


@st.composite
def objects(draw: st.DrawFn, props: dict[str, Any], *, messy: bool = False) -> dict[str, Any]:
    """An object of the kind that has this schema."""
    head = {"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": {"name": "thing"}}
    return draw(_struct_values(props, messy=messy)) | head


@st.composite
def values(draw: st.DrawFn, props: dict[str, Any], *, messy: bool = False) -> Any:
    """A value for one place of a schema."""
    if messy and draw(st.integers(0, 5)) == 0:
        return draw(ANYTHING)
    if props.get("nullable") and "enum" not in props and draw(st.booleans()):  # an enum has to name null, too
        return None
    kind = props.get("type")
    if kind == "object":
        return draw(_struct_values(props, messy=messy))
    if kind == "array":
        return draw(_list_values(props, messy=messy))
    if kind is None and not props.get("x-kubernetes-int-or-string"):
        return draw(NOT_NULL)
    if kind == "integer" or (kind is None and draw(st.booleans())):
        return draw(st.integers(-3, 9))
    return draw({"number": st.sampled_from((0.5, 2, -1)), "boolean": st.booleans()}.get(kind or "", TEXTS))


@st.composite
def _struct_values(draw: st.DrawFn, props: dict[str, Any], *, messy: bool) -> dict[str, Any]:
    value: dict[str, Any] = {}
    required = props.get("required", ())
    for name, below in props.get("properties", {}).items():
        if (name in required and not messy) or draw(st.booleans()):
            value[name] = draw(values(below, messy=messy))
    additional = props.get("additionalProperties")
    if additional is not None:
        inner = SCALARS if additional is True else values(additional, messy=messy)
        value |= draw(st.dictionaries(st.sampled_from(KEYS), inner, max_size=2))
    if messy or props.get("x-kubernetes-preserve-unknown-fields"):
        value |= draw(st.dictionaries(st.sampled_from(STRANGERS), NOT_NULL, max_size=1))
    if props.get("x-kubernetes-embedded-resource"):
        value |= {"apiVersion": "v1", "kind": "Pod"}
        if draw(st.booleans()):
            value["metadata"] = dict(META) | ({"stranger": 1} if messy else {})
    return value


@st.composite
def _list_values(draw: st.DrawFn, props: dict[str, Any], *, messy: bool) -> list[Any]:
    items = draw(st.lists(values(props["items"], messy=messy), max_size=3))
    kind = props.get("x-kubernetes-list-type")
    if kind == "set":
        return [item for index, item in enumerate(items) if item not in items[:index]]
    if kind == "map":
        for index, item in enumerate(items):
            if isinstance(item, dict):
                item["key"] = index if props["items"]["properties"]["key"]["type"] == "integer" else f"k{index}"
    return items
