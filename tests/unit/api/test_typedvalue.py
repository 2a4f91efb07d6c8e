"""Typed values: the fields an object sets and its type errors, with small schemas, built-in kinds and without a schema."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.ownership import fieldset as fs
from kapi.api.ownership.shape import (
    ATOMIC_LIST,
    DEDUCED,
    KEYED,
    SCALAR,
    SET,
    STRUCT,
    Shape,
    ensure_named,
    field_set,
    problems,
    reconcile,
    struct,
)
from kapi.schema.builtin.typed import kind_schema

STRING = Shape(SCALAR, scalar="string")
NUMBER = Shape(SCALAR, scalar="numeric")
FLAG = Shape(SCALAR, scalar="boolean")
ITEM = struct({"k": STRING, "n": NUMBER, "o": struct({"x": NUMBER})})
KIND = struct(
    {
        "text": STRING,
        "number": NUMBER,
        "flag": FLAG,
        "keyed": Shape(KEYED, items=ITEM, keys=[("k", None), ("n", 7)]),
        "plain": Shape(KEYED, items=struct({"k": STRING, "v": STRING}), keys=[("k", None)]),
        "set": Shape(SET, items=STRING),
        "list": Shape(ATOMIC_LIST, items=ITEM),
        "whole": struct({"x": NUMBER}, atomic=True),
        "map": Shape(STRUCT, values=struct({"x": NUMBER})),
        "any": Shape(STRUCT, values=DEDUCED),
    }
)


@pytest.mark.parametrize(
    ("value", "owned"),
    [
        ({}, {}),
        ({"text": "a", "number": None}, {"f:text": {}, "f:number": {}}),
        ({"list": [{"k": "a"}], "whole": {"x": 1}}, {"f:list": {}, "f:whole": {}}),
        ({"set": ["b", "a", "b"]}, {"f:set": {'v:"b"': {}, 'v:"a"': {}}}),
        ({"set": [], "map": {}, "plain": None}, {"f:map": {}, "f:plain": {}}),
        ({"map": {"a": {}, "b": {"x": 1}}}, {"f:map": {"f:a": {}, "f:b": {".": {}, "f:x": {}}}}),
        (
            {"keyed": [{"k": "a"}, {"n": 1, "o": {"x": 1}}]},
            {
                "f:keyed": {
                    'k:{"k":"a","n":7}': {".": {}, "f:k": {}},
                    'k:{"n":1}': {".": {}, "f:n": {}, "f:o": {"f:x": {}}},
                }
            },
        ),
        ({"plain": [{"k": "a"}, {"k": "a", "v": "b"}]}, {"f:plain": {'k:{"k":"a"}': {}}}),
        ({"any": {"a": [1], "b": {"c": 1}}}, {"f:any": {"f:a": {}, "f:b": {".": {}, "f:c": {}}}}),
    ],
)
def test_an_object_sets_its_leaves_items_and_keys(value, owned):
    assert field_set(KIND, value) == owned


def test_without_a_schema_maps_are_open_and_lists_closed():
    owned = field_set(DEDUCED, {"spec": {"a": [{"b": 1}], "c": {"d": None, "e": {}}}})
    assert owned == {"f:spec": {".": {}, "f:a": {}, "f:c": {".": {}, "f:d": {}, "f:e": {}}}}
    assert problems(DEDUCED, {"spec": {"a": [{"b": [1, None]}]}}) == []


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"foo": 1}, ".foo: field not declared in schema"),
        ({"map": {"a": {"foo": 1}}}, ".map.a.foo: field not declared in schema"),
        ({"list": [{"k": "a"}, {"foo": 1}]}, ".list[1].foo: field not declared in schema"),
        ({"text": 1}, ".text: expected string, got &value.valueUnstructured{Value:1}"),
        (
            {"text": {"a": [None, "b"]}},
            (
                ".text: expected string, got &value.valueUnstructured"
                '{Value:map[string]interface {}{"a":[]interface {}{interface {}(nil), "b"}}}'
            ),
        ),
        ({"number": "1"}, ".number: expected numeric (int or float), got string"),
        ({"number": True}, ".number: expected numeric (int or float), got bool"),
        ({"number": []}, ".number: expected numeric (int or float), got []interface {}"),
        ({"flag": 1}, ".flag: expected boolean, got &{1}"),
        ({"map": "x"}, ".map: expected map, got &{x}"),
        ({"set": {"a": 1}}, ".set: expected list, got &{map[a:1]}"),
        ({"set": ["a", "a"]}, '.set: duplicate entries for key [="a"]'),
        ({"set": [{}]}, ".set: element 0: associative list without keys has an element that's a map type"),
        ({"set": ["a", []]}, ".set: element 1: not supported: associative list with lists as elements"),
        ({"set": [None]}, ".set: element 0: associative list without keys has an element that's an explicit null"),
        ({"plain": [{"k": "a"}, {"k": "a"}]}, '.plain: duplicate entries for key [k="a"]'),
        ({"plain": [None]}, ".plain: element 0: associative list with keys may not have a null element"),
        ({"plain": ["a"]}, ".plain: element 0: associative list with keys may not have non-map elements"),
        (
            {"plain": [{"v": "b"}]},
            (
                '.plain: element 0: associative list with keys has an element that omits all key fields ["k"] '
                "(and doesn't have default values for any key fields)"
            ),
        ),
        ({"keyed": [{"k": "a", "o": {"y": 1}}]}, '.keyed[k="a",n=7].o.y: field not declared in schema'),
    ],
)
def test_errors_are_worded_as_in_kubernetes(value, problem):
    assert problems(KIND, value) == [problem]


def test_errors_in_different_fields_are_all_reported():
    assert problems(KIND, {"text": 1, "map": {"a": {"x": "b"}}}) == [
        ".text: expected string, got &value.valueUnstructured{Value:1}",
        ".map.a.x: expected numeric (int or float), got string",
    ]


def test_nulls_fit_everywhere_but_among_items():
    assert problems(KIND, dict.fromkeys(KIND.fields)) == []


def test_declared_fields_with_something_below_become_members():
    owned = fs.parse({"f:map": {"f:a": {"f:x": {}}}, "f:keyed": {'k:{"k":"a","n":7}': {"f:o": {"f:x": {}}}}})
    assert ensure_named(KIND, owned) == {
        "f:map": {".": {}, "f:a": {"f:x": {}}},
        "f:keyed": {".": {}, 'k:{"k":"a","n":7}': {"f:o": {".": {}, "f:x": {}}}},
    }


def test_a_field_that_became_atomic_is_owned_as_one():
    owned = fs.parse({"f:whole": {"f:x": {}}, "f:list": {"i:0": {}}, "f:map": {"f:a": {"f:x": {}}}, "f:text": {}})
    assert reconcile(KIND, owned) == {"f:whole": {}, "f:list": {}, "f:map": {"f:a": {"f:x": {}}}, "f:text": {}}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_values_without_a_schema_have_no_errors(value):
    assert problems(DEDUCED, value) == []
    field_set(DEDUCED, value)


# -- built-in kinds ---------------------------------------------------------------------------------------------------


def pod(container):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}


def test_ports_of_a_pod_are_keyed_by_number_and_defaulted_protocol():
    shape = kind_schema("", "v1", "Pod").shape
    owned = field_set(
        shape, pod({"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]})
    )
    ports = owned["f:spec"]["f:containers"]['k:{"name":"c"}']["f:ports"]
    assert set(ports) == {'k:{"containerPort":80,"protocol":"TCP"}', 'k:{"containerPort":80,"protocol":"UDP"}'}


def test_repeated_containers_of_a_pod_are_refused():
    shape = kind_schema("", "v1", "Pod").shape
    broken = pod({"name": "c"})
    broken["spec"]["containers"].append({"name": "c"})
    assert problems(shape, broken) == ['.spec.containers: duplicate entries for key [name="c"]']


@pytest.mark.parametrize(
    ("group", "kind", "path", "atomic"),
    [
        ("apps", "Deployment", ("spec", "selector"), True),
        ("", "Pod", ("spec", "nodeSelector"), True),
        ("", "Pod", ("spec", "tolerations"), True),
        ("", "Service", ("spec", "selector"), True),
        ("", "Pod", ("spec", "containers"), False),
        ("", "Pod", ("metadata", "labels"), False),
        ("", "PersistentVolume", ("spec", "claimRef"), False),
    ],
)
def test_selectors_and_plain_lists_have_one_owner(group, kind, path, atomic):
    shape = kind_schema(group, "v1", kind).shape
    for name in path:
        shape = shape.fields[name][1]
    assert (shape.kind <= ATOMIC_LIST) is atomic


def test_only_kinds_with_free_form_fields_compare_booleans_strictly():
    assert not kind_schema("apps", "v1", "Deployment").shape.is_loose
    assert kind_schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition").shape.is_loose


def test_structs_that_go_always_writes_are_present():
    spec = kind_schema("apps", "v1", "Deployment").shape.fields["spec"][1]
    assert spec.present == {"strategy": {}, "template": {}, "selector": None}
