from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.structural.model import Schema, read
from kapi.schema.structural.pruning import META_FIELDS, MOST_UNKNOWN, compile_prune
from tests.structural_strategies import objects, schemas

HEAD = {"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": {"name": "a", "strange": 1}}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = {"x-kubernetes-embedded-resource": True}


def obj_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("spec", "value", "kept", "paths"),
    [
        pytest.param(obj_of(a=TEXT), {"a": "x", "zz": 1}, {"a": "x"}, ["spec.zz"], id="unknown field"),
        pytest.param(
            {"type": "array", "items": obj_of(a=TEXT)},
            [{"a": "x"}, {"b": {"c": 1}}],
            [{"a": "x"}, {}],
            ["spec[1].b"],
            id="in list items",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": obj_of(a=TEXT)},
            {"k": {"a": "x", "b": 1}},
            {"k": {"a": "x"}},
            ["spec.k.b"],
            id="in map values",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": True},
            {"k": {"b": 1}, "l": [{"c": 1}, 2], "s": 3},
            {"k": {}, "l": [{}, 2], "s": 3},
            ["spec.k.b", "spec.l[0].c"],
            id="any key, nothing below",
        ),
        pytest.param(TEXT, {"b": 1}, {}, ["spec.b"], id="a map where a string should be"),
        pytest.param(PRESERVE, {"b": {"c": [{"d": 1}]}}, {"b": {"c": [{"d": 1}]}}, None, id="preserved"),
        pytest.param(
            obj_of(a=obj_of(b=TEXT)) | PRESERVE,
            {"x": {"y": 1}, "a": {"b": "s", "c": 1}},
            {"x": {"y": 1}, "a": {"b": "s"}},
            ["spec.a.c"],
            id="pruned again below what is specified",
        ),
        pytest.param(
            {"type": "array", "items": obj_of(a=obj_of(b=TEXT)), **PRESERVE},
            [{"x": 1, "a": {"c": 1}}],
            [{"x": 1, "a": {}}],
            ["spec[0].a.c"],
            id="items of a preserved list are preserved",
        ),
        pytest.param(
            obj_of(a=TEXT) | EMBEDDED,
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"x": 1}, "b": 1},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"x": 1}},
            ["spec.b"],
            id="embedded objects keep their head",
        ),
        pytest.param(
            obj_of(a=TEXT),
            {"metadata": {"x": 1}, "kind": "Pod"},
            {},
            ["spec.kind", "spec.metadata"],
            id="others do not",
        ),
        pytest.param(obj_of(a=TEXT), [{"a": 1}], [{}], ["spec[0].a"], id="a list where a map should be"),
    ],
)
def test_pruning_removes_what_the_schema_does_not_specify(spec, value, kept, paths):
    obj = {**HEAD, "spec": copy.deepcopy(value)}
    assert compile_prune(read(obj_of(spec=spec)))(obj) == paths
    assert obj == {**HEAD, "spec": kept}


def test_the_head_of_an_object_is_kept_even_when_its_schema_speaks_of_it():
    obj = copy.deepcopy(HEAD)
    assert compile_prune(read(obj_of(metadata=obj_of(name=TEXT))))(obj) is None
    assert obj == HEAD


def test_away_from_the_root_type_and_metadata_are_removed_silently():
    obj = {"kind": "x", "other": 1, "below": {"kind": "y"}}
    paths = compile_prune(read(obj_of(below=obj_of(a=TEXT))), root=False)(obj)
    assert paths == ["below.kind", "other"]
    assert obj == {"below": {}}
    assert compile_prune(read(obj_of(a=TEXT)), root=False)({"kind": "x"}) is None


def test_scalars_and_lists_can_be_pruned_by_themselves():
    prune = compile_prune(read({"type": "array", "items": obj_of(a=TEXT)}), root=False)
    value = [{"b": 1}]
    assert prune(value) == ["[0].b"]
    assert value == [{}]
    assert prune("text") is None


def test_the_report_is_bounded_and_the_removal_is_not():
    prune = compile_prune(read(obj_of(l={"type": "array", "items": obj_of(a=TEXT)})))
    obj = {"l": [{"x": 1, "y": 2} for _ in range(MOST_UNKNOWN)], **{f"k{i}": 1 for i in range(MOST_UNKNOWN)}}
    paths = prune(obj)
    assert paths is not None
    assert len(paths) == MOST_UNKNOWN
    assert obj == {"l": [{}] * MOST_UNKNOWN}


@pytest.mark.parametrize("wrap", [lambda x: {"k": x}, lambda x: [x]], ids=["maps", "lists"])
def test_depth_up_to_the_limit_of_the_codec_is_no_problem(wrap):
    value: Any = {"end": 1}
    inside: dict[str, Any] = {"type": "object"}
    for _ in range(250):
        value = wrap(value)
        name = "additionalProperties" if isinstance(value, dict) else "items"
        inside = {"type": "object" if isinstance(value, dict) else "array", name: inside}
    obj = {"spec": value}
    paths = compile_prune(read(obj_of(spec=inside)))(obj)
    assert paths is not None
    assert paths[0].endswith(".end")
    assert len(compile_prune(read(obj_of(other=TEXT)))(copy.deepcopy(obj)) or ()) == 1


# -- for any schema ---------------------------------------------------------------------------------------------------


def expected(value: Any, schema: Any, path: str, *, head: bool, stays: bool = False) -> tuple[Any, list[str]]:
    """What is left of a value and what is gone, said once more, slowly and one level at a time."""
    known = schema if isinstance(schema, Schema) else Schema()
    stays = known.preserve_unknown or stays
    if isinstance(value, list):
        parts = [
            expected(item, known.items, f"{path}[{i}]", head=bool(known.items and known.items.embedded), stays=stays)
            for i, item in enumerate(value)
        ]
        return [left for left, _ in parts], [gone for _, some in parts for gone in some]
    if not isinstance(value, dict):
        return value, []
    kept: dict[str, Any] = {}
    gone: list[str] = []
    for key, below in value.items():
        where = f"{path}.{key}" if path else key
        inner = known.properties.get(key, known.additional)
        if (head and key in META_FIELDS) or (inner is None and stays):
            kept[key] = below
        elif inner is None:
            gone.append(where)
        else:
            kept[key], more = expected(below, inner, where, head=isinstance(inner, Schema) and inner.embedded)
            gone += more
    return kept, gone


@given(st.data())
def test_pruning_removes_exactly_the_unknown(data):
    props = data.draw(schemas())
    obj = data.draw(objects(props, messy=True))
    schema = read(props)
    kept, gone = expected(obj, schema, "", head=True)
    paths = compile_prune(schema)(obj)
    assert obj == kept
    assert (paths or []) == sorted(gone)


@given(st.data())
def test_pruning_twice_changes_nothing(data):
    props = data.draw(schemas())
    obj = data.draw(objects(props, messy=True))
    prune = compile_prune(read(props))
    prune(obj)
    before = copy.deepcopy(obj)
    assert prune(obj) is None
    assert obj == before


@given(st.data())
def test_valid_objects_are_left_alone(data):
    props = data.draw(schemas())
    obj = data.draw(objects(props))
    before = copy.deepcopy(obj)
    prune = compile_prune(read(props))
    assert prune(obj) is None
    assert obj == before
