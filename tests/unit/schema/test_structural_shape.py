from __future__ import annotations

import copy
import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.errors import Conflict
from kapi.api.meta import GroupVersionKind
from kapi.api.ownership.managedfields import FieldManager
from kapi.api.ownership.shape import DEDUCED, field_set, problems
from kapi.schema.structural.model import read
from kapi.schema.structural.reader import compile_reader
from kapi.schema.structural.shape import shape_of
from tests.structural_strategies import objects, schemas

TEXT = {"type": "string"}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
HEAD = {"apiVersion": "example.dev/v1", "kind": "Thing"}
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def obj_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


PORTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["port", "protocol"],
    "items": obj_of(port={"type": "integer"}, protocol={**TEXT, "default": "TCP"}, name=TEXT),
}


def owned(spec: dict[str, Any], value: Any) -> Any:
    """What is owned below `spec`."""
    shape = shape_of(read(obj_of(spec=spec)))
    assert problems(shape, {"spec": value}) == []
    return field_set(shape, {"spec": value}).get("f:spec")


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        pytest.param(obj_of(a=TEXT), {"a": "x"}, {"f:a": {}}, id="fields one by one"),
        pytest.param({"type": "array", "items": TEXT}, ["a"], {}, id="lists as a whole"),
        pytest.param(
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            ["a", "b"],
            {'v:"a"': {}, 'v:"b"': {}},
            id="sets by value",
        ),
        pytest.param(
            PORTS,
            [{"port": 1, "name": "a"}, {"port": 1, "protocol": "UDP"}],
            {
                'k:{"port":1,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}},
                'k:{"port":1,"protocol":"UDP"}': {".": {}, "f:port": {}, "f:protocol": {}},
            },
            id="keyed lists, with the defaults of keys",
        ),
        pytest.param({**obj_of(a=TEXT), "x-kubernetes-map-type": "atomic"}, {"a": "x"}, {}, id="atomic structs"),
        pytest.param({**obj_of(a=TEXT), "x-kubernetes-map-type": "granular"}, {"a": "x"}, {"f:a": {}}, id="granular"),
        pytest.param({"type": "object", "additionalProperties": TEXT}, {"k": "x"}, {"f:k": {}}, id="maps key by key"),
        pytest.param(
            {"type": "object", "additionalProperties": True}, {"k": {"l": 1}}, {"f:k": {".": {}, "f:l": {}}}, id="any"
        ),
        pytest.param({"type": "object"}, {"k": {"l": 1}}, {"f:k": {".": {}, "f:l": {}}}, id="no fields said"),
        pytest.param(PRESERVE, {"k": [1]}, {"f:k": {}}, id="anything"),
        pytest.param(PRESERVE, "text", {}, id="anything, a scalar"),
        pytest.param(
            {**obj_of(a=obj_of(b=TEXT)), **PRESERVE},
            {"a": {"b": "x", "c": {"d": 1}}, "e": {"f": 1}},
            {"f:a": {"f:b": {}, "f:c": {".": {}, "f:d": {}}}, "f:e": {".": {}, "f:f": {}}},
            id="preserved at every depth",
        ),
        pytest.param({"x-kubernetes-int-or-string": True}, 1, {}, id="int or string"),
        pytest.param(
            {**obj_of(a=TEXT), "x-kubernetes-embedded-resource": True},
            {**HEAD, "metadata": {"labels": {"a": "b"}, "finalizers": ["x"]}},
            {
                "f:apiVersion": {},
                "f:kind": {},
                "f:metadata": {"f:finalizers": {'v:"x"': {}}, "f:labels": {"f:a": {}}},
            },
            id="embedded objects have metadata",
        ),
    ],
)
def test_fields_are_owned_as_the_schema_says(spec, value, expected):
    result = owned(spec, value)
    result.pop(".", None)
    assert result == expected


def test_metadata_is_that_of_every_object():
    shape = shape_of(read(obj_of(metadata=obj_of(name={"type": "integer"}))))
    assert problems(shape, {**HEAD, "metadata": {"name": "a", "labels": {"b": "c"}}}) == []


@pytest.mark.parametrize(
    ("spec", "value", "problem"),
    [
        (obj_of(a=TEXT), {"b": 1}, ".spec.b: field not declared in schema"),
        (obj_of(a={"type": "integer"}), {"a": "x"}, ".spec.a: expected numeric (int or float), got string"),
        ({"type": "array", "items": TEXT}, {"a": 1}, ".spec: expected list, got &{map[a:1]}"),
        (TEXT | {"format": "date-time"}, {}, ".spec: expected any scalar, got &{map[]}"),
    ],
)
def test_what_does_not_fit_is_said(spec, value, problem):
    assert problems(shape_of(read(obj_of(spec=spec))), {"spec": value}) == [problem]


def test_without_a_schema_any_field_is_allowed():
    value = {**HEAD, "metadata": {"name": "a"}, "spec": {"b": [{"c": 1}]}}
    shape = shape_of(None)
    assert problems(shape, value) == []
    assert field_set(shape, value) == field_set(DEDUCED, value)


def test_an_old_definition_that_preserves_owns_unknown_fields():
    value = {"spec": {"b": {"c": 1}}}
    schema = read(obj_of(spec=obj_of(a=TEXT)))
    assert problems(shape_of(schema), value) != []
    assert problems(shape_of(schema, preserve=True), value) == []


@given(st.data())
def test_what_was_read_fits_its_shape(data):
    props = data.draw(schemas())
    obj = data.draw(objects(props))
    compile_reader(read(props))(obj)
    assert problems(shape_of(read(props)), obj) == []


# -- applied ----------------------------------------------------------------------------------------------------------


def applied(live: Any, spec: Any, manager: str, *, force: bool = False) -> dict[str, Any]:
    schema = read(
        obj_of(spec=obj_of(ports=PORTS, tags={"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}))
    )
    manage = FieldManager(shape_of(schema), GroupVersionKind("example.dev", "v1", "Thing"), has_fixed_schema=False)
    config = {**HEAD, "metadata": {"name": "a"}, "spec": spec}
    return copy.deepcopy(manage.apply(live, config, manager=manager, force=force, now=NOW))


def test_items_of_different_managers_are_merged_by_their_keys():
    live = applied(None, {"ports": [{"port": 1, "name": "a"}], "tags": ["x"]}, "one")
    live = applied(live, {"ports": [{"port": 2, "name": "b"}], "tags": ["y"]}, "two")
    assert live["spec"] == {"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "b"}], "tags": ["x", "y"]}
    assert applied(live, {"tags": ["x"]}, "one")["spec"] == {"ports": [{"port": 2, "name": "b"}], "tags": ["x", "y"]}


def test_a_key_left_to_its_default_names_the_same_item():
    live = applied(None, {"ports": [{"port": 1, "name": "a"}]}, "one")
    with pytest.raises(Conflict, match="name"):
        applied(live, {"ports": [{"port": 1, "protocol": "TCP", "name": "b"}]}, "two")
