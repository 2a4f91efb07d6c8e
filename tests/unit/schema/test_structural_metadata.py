from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.builtin.scalars import TypeMismatch
from kapi.schema.structural.metadata import (
    MalformedMetadata,
    coerce_object_meta,
    compile_coerce,
    compile_embedded_check,
)
from kapi.schema.structural.model import read
from tests.structural_strategies import objects, schemas

EMBEDDED = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}
PROPS = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "template": EMBEDDED,
                "byName": {"type": "object", "additionalProperties": EMBEDDED},
                "list": {"type": "array", "items": EMBEDDED},
            },
        }
    },
}
POD = {"apiVersion": "v1", "kind": "Pod"}


def coerced(spec: Any, **options: bool) -> list[str] | None:
    coerce = compile_coerce(read(PROPS), root=False, **options)
    assert coerce is not None
    return coerce({"spec": spec})


def complaints(spec: Any) -> list[str]:
    check = compile_embedded_check(read(PROPS))
    assert check is not None
    return [str(error) for error in check({"spec": spec}, "")]


# -- the metadata of the object itself --------------------------------------------------------------------------------


def test_unknown_metadata_is_dropped_and_reported_in_order():
    obj = {"metadata": {"name": "a", "foo": 1, "bar": 2, "ownerReferences": [{"uid": "1", "x": 1}], "labels": {}}}
    assert coerce_object_meta(obj) == ["metadata.bar", "metadata.foo", "metadata.ownerReferences[0].x"]
    assert obj["metadata"].keys() == {"name", "ownerReferences"}
    assert coerce_object_meta(obj) is None


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (
            {"labels": 1},
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type map[string]string",
        ),
        ({"labels": {"a": 1}}, "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"),
        ("x", "json: cannot unmarshal string into Go value of type v1.ObjectMeta"),
        ([], "json: cannot unmarshal array into Go value of type v1.ObjectMeta"),
        (
            {"creationTimestamp": "zz"},
            'parsing time "zz" as "2006-01-02T15:04:05Z07:00": cannot parse "zz" as "2006"',
        ),
        (
            {"generation": 1.5},
            "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.generation of type int64",
        ),
    ],
)
def test_metadata_of_a_wrong_type_is_refused(metadata, message):
    with pytest.raises(TypeMismatch) as refused:
        coerce_object_meta({"metadata": metadata})
    assert refused.value.message == message


def test_null_metadata_is_empty_and_absent_metadata_absent():
    obj: dict[str, Any] = {"metadata": None}
    assert coerce_object_meta(obj) is None
    assert obj == {"metadata": {}}
    absent: dict[str, Any] = {}
    assert coerce_object_meta(absent) is None
    assert absent == {}


def test_from_the_store_malformed_fields_are_dropped_one_by_one():
    obj = {"metadata": {"name": "a", "labels": 1, "foo": 2, "annotations": {"a": "b"}, "generation": "x"}}
    assert coerce_object_meta(obj, drop_malformed=True) == ["metadata.foo"]
    assert obj == {"metadata": {"name": "a", "annotations": {"a": "b"}}}
    with pytest.raises(TypeMismatch):
        coerce_object_meta({"metadata": "x"}, drop_malformed=True)


# -- reading embedded objects -----------------------------------------------------------------------------------------


def test_a_schema_without_embedded_objects_needs_no_function():
    plain = read({"type": "object", "properties": {"spec": {"type": "object"}}})
    assert compile_coerce(plain, root=False) is None
    assert compile_embedded_check(plain) is None
    assert compile_coerce(plain) is not None


def test_unknown_metadata_of_embedded_objects_is_dropped_wherever_they_are():
    spec = {
        "template": {**POD, "metadata": {"name": "q", "bad": 1, "labels": None, "creationTimestamp": None}, "x": 1},
        "byName": {"k": {**POD, "metadata": {"bad": 1}}},
        "list": [POD, {**POD, "metadata": {"bad": 1}}],
    }
    paths = coerced(spec)
    assert paths == ["spec.byName[k].metadata.bad", "spec.list[1].metadata.bad", "spec.template.metadata.bad"]
    assert spec["template"] == {**POD, "metadata": {"name": "q"}, "x": 1}


def test_null_metadata_of_an_embedded_object_is_empty():
    spec = {"template": {**POD, "metadata": None}}
    assert coerced(spec) is None
    assert spec == {"template": {**POD, "metadata": {}}}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"template": {"apiVersion": 1}}, "spec.template.apiVersion: Invalid value: 1: must be a string"),
        ({"byName": {"k": {"kind": None}}}, "spec.byName[k].kind: Invalid value: null: must be a string"),
        (
            {"list": [{"metadata": "x"}]},
            (
                'spec.list[0].metadata: Invalid value: "x": json: cannot unmarshal string into Go value of type '
                "v1.ObjectMeta"
            ),
        ),
        (
            {"template": {"metadata": {"name": "a", "labels": 1}}},
            (
                'spec.template.metadata: Invalid value: {"labels":1,"name":"a"}: json: cannot unmarshal number into Go '
                "struct field ObjectMeta.labels of type map[string]string"
            ),
        ),
    ],
)
def test_a_malformed_head_is_refused_with_its_place(spec, message):
    with pytest.raises(MalformedMetadata) as refused:
        coerced(spec)
    assert refused.value.message == str(refused.value.error) == message


def test_from_the_store_malformed_heads_lose_what_is_wrong():
    spec = {
        "template": {"apiVersion": 1, "kind": "Pod", "metadata": {"labels": 1, "name": "a"}},
        "list": [{**POD, "metadata": "x"}],
    }
    assert coerced(spec, drop_malformed=True) is None
    assert spec == {"template": {"kind": "Pod", "metadata": {"name": "a"}}, "list": [{**POD, "metadata": "x"}]}


def test_the_root_counts_as_embedded_when_asked():
    coerce = compile_coerce(read({"type": "object"}))
    assert coerce is not None
    assert coerce({**POD, "metadata": {"bad": 1}}) == ["metadata.bad"]
    with pytest.raises(MalformedMetadata, match=r"^kind: Invalid value: 7: must be a string$"):
        coerce({"kind": 7})


# -- validating embedded objects---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("embedded", "expected"),
    [
        (POD, []),
        ({}, ["apiVersion: Required value", "kind: Required value"]),
        (
            {"apiVersion": "", "kind": ""},
            ['apiVersion: Invalid value: "": must not be empty', 'kind: Invalid value: "": must not be empty'],
        ),
        (
            {"apiVersion": 1, "kind": {"b": 1, "a": 2}},
            ["apiVersion: Invalid value: 1: must be a string", 'kind: Invalid value: {"a":2,"b":1}: must be a string'],
        ),
        (
            {"apiVersion": "v1/2/3", "kind": "P_d"},
            [
                'apiVersion: Invalid value: "v1/2/3": unexpected GroupVersion string: v1/2/3',
                (
                    'kind: Invalid value: "P_d": may have mixed case, but should otherwise match: a DNS-1035 label must '
                    "consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with "
                    "an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
                    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
                ),
            ],
        ),
        ({**POD, "metadata": {"name": "a/b"}}, ["metadata.name: Invalid value: \"a/b\": may not contain '/'"]),
        ({**POD, "metadata": {"finalizers": ["unqualified"]}}, []),
        (
            {**POD, "metadata": {"labels": 1}},
            [
                (
                    'metadata: Invalid value: {"labels":1}: json: cannot unmarshal number into Go struct field '
                    "ObjectMeta.labels of type map[string]string"
                )
            ],
        ),
    ],
)
def test_metadata_of_embedded_objects_is_validated(embedded, expected):
    before = copy.deepcopy(embedded)
    assert complaints({"template": embedded}) == [f"spec.template.{line}" for line in expected]
    assert complaints({"byName": {"k": embedded}}) == [f"spec.byName[k].{line}" for line in expected]
    assert embedded == before


def test_a_namespace_in_an_embedded_object_must_be_a_name():
    (only,) = complaints({"template": {**POD, "metadata": {"namespace": "A"}}})
    assert only.startswith('spec.template.metadata.namespace: Invalid value: "A": a lowercase RFC 1123 label')


def test_paths_go_below_the_path_that_is_given():
    check = compile_embedded_check(read(EMBEDDED))
    assert check is not None
    assert [error.field for error in check({"kind": "Pod"}, "items[0].default")] == ["items[0].default.apiVersion"]


def test_errors_below_a_huge_key_do_not_repeat_it_without_end():
    spec = {"byName": {"x" * 600_000: {}, **{f"k{i}": {} for i in range(10)}}}
    assert len(complaints(spec)) == 2


@given(st.data())
def test_coercing_twice_changes_nothing(data):
    props = data.draw(schemas())
    obj = data.draw(objects(props, messy=True))
    coerce = compile_coerce(read(props), drop_malformed=True)
    assert coerce is not None
    coerce(obj)
    before = copy.deepcopy(obj)
    assert coerce(obj) is None
    assert obj == before


@given(st.data())
def test_valid_objects_pass(data):
    props = data.draw(schemas())
    obj = data.draw(objects(props))
    check = compile_embedded_check(read(props), root=True)
    coerce = compile_coerce(read(props))
    assert check is not None
    assert coerce is not None
    assert coerce(obj) is None
    assert check(obj, "") == []
