from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.fielderror import invalid
from kapi.schema.structural.defaulting import compile_default
from kapi.schema.structural.defaultvalues import default_errors, prune_defaults
from kapi.schema.structural.model import read
from kapi.schema.structural.pruning import compile_prune
from kapi.schema.structural.violations import violations
from tests.structural_strategies import objects, schemas

TEXT = {"type": "string"}
POD = {"apiVersion": "v1", "kind": "Pod"}


def obj_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def embedded(**properties: Any) -> dict[str, Any]:
    return {
        **obj_of(**properties),
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }


def texts(props: dict[str, Any]) -> list[str]:
    assert violations(props, "p") == []
    return [str(error) for error in default_errors(props, "p")]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        pytest.param({**TEXT, "default": "x"}, [], id="valid"),
        pytest.param({**TEXT, "default": None}, [], id="null is no default"),
        pytest.param(
            {**TEXT, "default": 1},
            ['.default: Invalid value: "integer":  in body must be of type string: "integer"'],
            id="wrong type",
        ),
        pytest.param(
            {**TEXT, "maxLength": 2, "default": "xxx"},
            [".default: Too long: may not be more than 2 bytes"],
            id="invalid",
        ),
        pytest.param(
            {**obj_of(a=TEXT), "default": {"b": 1, "a": "x"}},
            ['.default: Invalid value: {"a":"x","b":1}: must not have unknown fields'],
            id="unknown fields",
        ),
        pytest.param(
            {**obj_of(a=TEXT), "default": {"kind": "x"}},
            ['.default: Invalid value: {"kind":"x"}: must not have unknown fields'],
            id="a head where there is none",
        ),
        pytest.param({"x-kubernetes-preserve-unknown-fields": True, "default": {"b": 1}}, [], id="preserved fields"),
        pytest.param({"type": "array", "items": {**TEXT, "default": 1}},
            ['.items.default: Invalid value: "integer":  in body must be of type string: "integer"'], id="of items"),
        pytest.param({"type": "object", "additionalProperties": {**TEXT, "default": 1}}, [], id="of map values"),
        pytest.param({"x-kubernetes-int-or-string": True, "default": []}, [], id="int or string"),
        pytest.param({**embedded(), "default": POD}, [], id="embedded"),
        pytest.param({**embedded(), "default": {"kind": "Pod"}}, [".default.apiVersion: Required value"],
            id="embedded without head"),
        pytest.param({**embedded(), "default": {**POD, "kind": 1}},
            [".default.kind: Invalid value: 1: must be a string"], id="embedded with a bad head"),
        pytest.param({**obj_of(e=embedded()), "default": {"e": {**POD, "metadata": {"labels": 1}}}}, [
            ('.default.e.metadata: Invalid value: {"labels":1}: json: cannot unmarshal number into Go struct field '
            "ObjectMeta.labels of type map[string]string"),
        ], id="bad metadata further down"),
        pytest.param(embedded(kind={**TEXT, "default": "Pod"}), [], id="a head by default"),
        pytest.param(embedded(kind={**TEXT, "default": ""}), [
            ('.properties[kind].default: Invalid value: "": must result in valid metadata: '
            'kind: Invalid value: "": must not be empty'),
        ], id="a bad head by default"),
        pytest.param(embedded(metadata=obj_of(labels={"type": "object", "additionalProperties": TEXT, "default": 1})), [
            (".properties[metadata].properties[labels].default: Invalid value: 1: must result in valid metadata: "
            'metadata: Invalid value: {"labels":1}: json: cannot unmarshal number into Go struct field '
            "ObjectMeta.labels of type map[string]string"),
        ], id="malformed metadata by default"),
        pytest.param(embedded(metadata={"type": "object", "default": {"name": "a/b", "namespace": "a.b"}}), [
            ('.properties[metadata].default: Invalid value: {"name":"a/b","namespace":"a.b"}: must result in valid '
            "metadata: [metadata.name: Invalid value: \"a/b\": may not contain '/', "
            'metadata.namespace: Invalid value: "a.b": must not contain dots]'),
        ], id="invalid metadata by default"),
        pytest.param(embedded(metadata=obj_of(finalizers={"type": "array", "items": {**TEXT, "default": 1}})), [
            (".properties[metadata].properties[finalizers].items.default: Invalid value: 1: must result in valid "
            'metadata: metadata: Invalid value: {"finalizers":[1]}: json: cannot unmarshal number into Go struct field '
            "ObjectMeta.finalizers of type string"),
        ], id="lists in metadata by default"),
    ],
)  # fmt: skip
def test_defaults_are_validated_at_their_place(field, expected):
    assert texts(obj_of(f=field)) == [f"p.properties[f]{line}" for line in expected]


def test_unknown_fields_are_forgiven_where_they_were_before():
    props = obj_of(f={**obj_of(a=TEXT), "default": {"b": 1}})
    assert default_errors(props, "p", require_pruned=False) == []


def test_rules_are_asked_about_valid_defaults_only():
    asked = []

    def check_rules(schema, value, path, is_root):
        asked.append((schema.type, value, path, is_root))
        return [invalid(path, value, "rule")]

    props = obj_of(a={**TEXT, "default": "x"}, b={**TEXT, "default": 1}, e={**embedded(), "default": POD})
    errors = default_errors(props, "p", check_rules=check_rules)
    assert asked == [
        ("string", "x", "p.properties[a].default", False),
        ("object", POD, "p.properties[e].default", True),
    ]
    assert len(errors) == 3


def test_validation_changes_no_default():
    props = obj_of(e={**embedded(), "default": {**POD, "metadata": {"strange": 1}}})
    before = copy.deepcopy(props)
    assert texts(props) == []
    assert props == before


def test_errors_below_a_huge_key_do_not_repeat_it_without_end():
    huge = obj_of(**{"x" * 600_000: obj_of(**{f"f{i}": {**TEXT, "default": 1} for i in range(1000)})})
    assert len(default_errors(huge, "p")) == 2


@given(schemas())
def test_valid_defaults_have_no_errors(props):
    assert texts(props) == []


# -- when a schema is used --------------------------------------------------------------------------------------------


def test_accepted_defaults_lose_unknown_fields_before_use():
    props = obj_of(
        a={**obj_of(b=TEXT), "default": {"b": "x", "c": 1}},
        l={"type": "array", "items": {**obj_of(b=TEXT), "default": {"c": 1}}},
        m={"type": "object", "additionalProperties": {**obj_of(b=TEXT), "default": {"b": "y", "c": 1}}},
        e={**embedded(metadata={"type": "object", "default": {"name": "n", "strange": 1}}), "default": POD},
    )
    schema = read(props)
    prune_defaults(schema)
    default = compile_default(schema)
    assert default is not None
    obj = {"l": [None], "m": {"k": None}}
    default(obj)
    assert obj == {
        "a": {"b": "x"},
        "l": [{}],
        "m": {"k": {"b": "y"}},
        "e": {**POD, "metadata": {"name": "n"}},
    }
    assert props["properties"]["a"]["default"] == {"b": "x", "c": 1}


@given(st.data())
def test_valid_defaults_are_used_as_they_are(data):
    props = data.draw(schemas())
    obj = data.draw(objects(props))
    plain, pruned = read(props), read(props)
    prune_defaults(pruned)
    results = []
    for schema in (plain, pruned):
        result = copy.deepcopy(obj)
        (compile_default(schema) or (lambda _: None))(result)
        results.append(result)
    assert results[0] == results[1]
    assert compile_prune(plain)(results[0]) is None
