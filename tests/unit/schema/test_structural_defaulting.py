from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.structural.defaulting import compile_default, compile_null_removal, has_default
from kapi.schema.structural.model import Schema, read
from kapi.schema.structural.pruning import compile_prune
from tests.structural_strategies import objects, schemas

TEXT = {"type": "string"}
X = {"type": "string", "default": "x"}


def obj_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def defaulted(props: dict[str, Any], obj: dict[str, Any]) -> dict[str, Any]:
    default = compile_default(read(props))
    assert default is not None
    default(obj)
    return obj


@pytest.mark.parametrize(
    ("props", "obj", "result"),
    [
        pytest.param(obj_of(a=X), {}, {"a": "x"}, id="missing"),
        pytest.param(obj_of(a=X), {"a": "y"}, {"a": "y"}, id="present"),
        pytest.param(obj_of(a=X), {"a": ""}, {"a": ""}, id="empty is present"),
        pytest.param(obj_of(a=X), {"a": None}, {"a": "x"}, id="null is missing"),
        pytest.param(obj_of(a={**X, "nullable": True}), {"a": None}, {"a": None}, id="unless null is allowed"),
        pytest.param(obj_of(a=obj_of(b=X)), {}, {}, id="nothing below what is not there"),
        pytest.param(obj_of(a=obj_of(b=X)), {"a": {}}, {"a": {"b": "x"}}, id="nested"),
        pytest.param(
            obj_of(a={**obj_of(b=X), "default": {}}), {}, {"a": {"b": "x"}}, id="defaults inside a default"
        ),
        pytest.param(
            obj_of(a={**obj_of(b=X), "default": {"b": "y"}}), {"a": None}, {"a": {"b": "y"}}, id="a default goes first"
        ),
        pytest.param(
            obj_of(a={"type": "array", "items": obj_of(b=X)}), {"a": [{}, {"b": "y"}, 1]},
            {"a": [{"b": "x"}, {"b": "y"}, 1]}, id="in items",
        ),
        pytest.param(
            obj_of(a={"type": "array", "items": X}), {"a": [None, "y"]}, {"a": ["x", "y"]}, id="null items"
        ),
        pytest.param(
            obj_of(a={"type": "array", "items": obj_of(b=X) | {"default": {}}}), {"a": [None]}, {"a": [{"b": "x"}]},
            id="null items with more inside",
        ),
        pytest.param(
            obj_of(a={"type": "object", "additionalProperties": obj_of(b=X)}), {"a": {"k": {}, "l": None}},
            {"a": {"k": {"b": "x"}, "l": None}}, id="in map values",
        ),
        pytest.param(
            obj_of(a={"type": "object", "additionalProperties": X}), {"a": {"k": None}}, {"a": {"k": "x"}},
            id="null map values",
        ),
        pytest.param(
            obj_of(a={"type": "array", "items": {"type": "array", "items": X}}), {"a": [[None]]}, {"a": [["x"]]},
            id="lists in lists",
        ),
        pytest.param(obj_of(a=obj_of(b=X)), {"a": "text"}, {"a": "text"}, id="wrong types are left to validation"),
    ],
)  # fmt: skip
def test_defaults_are_filled_in(props, obj, result):
    assert defaulted(props, obj) == result


@pytest.mark.parametrize(
    "props", [obj_of(a=TEXT), obj_of(a={**TEXT, "default": None}), {**obj_of(a=TEXT), "default": {"a": "x"}}]
)
def test_a_schema_without_defaults_needs_no_function(props):
    assert compile_default(read(props)) is None


def test_every_object_gets_a_default_of_its_own():
    props = obj_of(a={"type": "object", "default": {"l": [{"m": {}}]}}, b={"type": "array", "default": [1]})
    default = compile_default(read(props))
    assert default is not None
    one: dict[str, Any] = {}
    two: dict[str, Any] = {}
    default(one)
    one["a"]["l"][0]["m"]["changed"] = True
    one["b"].append(2)
    default(two)
    assert two == {"a": {"l": [{"m": {}}]}, "b": [1]}
    assert props["properties"]["a"]["default"] == {"l": [{"m": {}}]}


@pytest.mark.parametrize(
    ("props", "obj", "result"),
    [
        pytest.param(obj_of(a=TEXT), {"a": None}, {}, id="not allowed"),
        pytest.param(obj_of(a={**TEXT, "nullable": True}), {"a": None}, {"a": None}, id="allowed"),
        pytest.param(obj_of(a=X), {"a": None}, {"a": None}, id="left to the default"),
        pytest.param(obj_of(a=TEXT), {"b": None}, {"b": None}, id="unknown fields"),
        pytest.param(obj_of(a=obj_of(b=TEXT)), {"a": {"b": None, "c": None}}, {"a": {"c": None}}, id="nested"),
        pytest.param(
            obj_of(a={"type": "array", "items": TEXT}), {"a": [None, "x"]}, {"a": [None, "x"]}, id="items stay"
        ),
        pytest.param(
            obj_of(a={"type": "array", "items": obj_of(b=TEXT)}), {"a": [{"b": None}, None]}, {"a": [{}, None]},
            id="inside items",
        ),
        pytest.param(
            obj_of(a={"type": "object", "additionalProperties": TEXT}), {"a": {"k": None, "l": "x"}},
            {"a": {"l": "x"}}, id="map values",
        ),
    ],
)  # fmt: skip
def test_nulls_that_mean_nothing_are_removed(props, obj, result):
    remove = compile_null_removal(read(props))
    if remove is not None:
        remove(obj)
    assert obj == result


@pytest.mark.parametrize("props", [{"type": "object", "x-kubernetes-preserve-unknown-fields": True}, obj_of(a=X)])
def test_without_nulls_to_remove_there_is_no_function(props):
    assert compile_null_removal(read(props)) is None


def test_a_default_at_every_depth_is_not_kept_once_per_depth():
    inner: dict[str, Any] = obj_of(**{f"f{i}": X for i in range(1000)})
    for _ in range(100):
        inner = obj_of(a={**inner, "default": {}})
    obj = defaulted(inner, {})
    for _ in range(100):
        obj = obj["a"]
    assert len(obj) == 1000


# -- for any schema ---------------------------------------------------------------------------------------------------


def lacking(value: Any, schema: Any) -> list[str]:
    """The fields of a value that have a default and are not there, or are null without being allowed to."""
    if not isinstance(schema, Schema):
        return []
    if isinstance(value, list):
        return [name for item in value for name in lacking(item, schema.items)]
    if not isinstance(value, dict):
        return []
    found = [
        name
        for name, below in schema.properties.items()
        if has_default(below) and (name not in value or (value[name] is None and not below.nullable))
    ]
    for key, below in value.items():
        found += lacking(below, schema.properties.get(key, schema.additional))
    return found


@given(st.data())
def test_a_defaulted_object_lacks_no_default(data):
    props = data.draw(schemas())
    schema = read(props)
    obj = data.draw(objects(props, messy=True))
    default = compile_default(schema)
    if default is None:
        assert lacking(obj, schema) == []
        return
    default(obj)
    assert lacking(obj, schema) == []
    before = copy.deepcopy(obj)
    default(obj)
    assert obj == before


@given(st.data())
def test_what_was_there_stays(data):
    props = data.draw(schemas())
    obj = data.draw(objects(props))
    before = copy.deepcopy(obj)
    default = compile_default(read(props))
    if default is not None:
        default(obj)
    assert {key: value for key, value in obj.items() if key in before}.keys() == before.keys()
    for key, value in before.items():
        if not isinstance(value, dict | list) and value is not None:
            assert obj[key] == value


@given(st.data())
def test_pruning_and_defaulting_again_changes_nothing(data):
    props = data.draw(schemas())
    schema = read(props)
    obj = data.draw(objects(props, messy=True))
    prune, default = compile_prune(schema), compile_default(schema) or (lambda _: None)
    prune(obj)
    default(obj)
    before = copy.deepcopy(obj)
    assert prune(obj) is None
    default(obj)
    assert obj == before
