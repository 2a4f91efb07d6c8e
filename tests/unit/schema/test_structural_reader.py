from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.builtin.scalars import TypeMismatch
from kapi.schema.structural.metadata import MalformedMetadata
from kapi.schema.structural.model import read
from kapi.schema.structural.reader import compile_reader
from tests.structural_strategies import objects, schemas

PROPS = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "emb": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"kind": {"type": "string"}},
                },
                "n": {"type": "integer"},
                "s": {"type": "string", "default": "x"},
            },
        }
    },
}
HEAD = {"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": {"name": "a"}}


def test_unknown_fields_are_listed_metadata_first_and_embedded_metadata_last():
    obj = {
        **HEAD,
        "spec": {"zz": 1, "n": None, "s": None, "emb": {"metadata": {"bad": 1}}},
        "metadata": {"name": "a", "foo": 1},
    }
    assert compile_reader(read(PROPS))(obj) == ["metadata.foo", "spec.zz", "spec.emb.metadata.bad"]
    assert obj == {**HEAD, "spec": {"s": None, "emb": {"metadata": {}}}}


def test_nulls_go_before_heads_are_read():
    obj = {**HEAD, "spec": {"emb": {"kind": None}}}
    assert compile_reader(read(PROPS))(obj) == []
    assert obj["spec"] == {"emb": {}}


def test_bad_metadata_is_refused_except_from_the_store():
    reader, stored = compile_reader(read(PROPS)), compile_reader(read(PROPS), drop_malformed=True)
    with pytest.raises(TypeMismatch):
        reader({**HEAD, "metadata": {"labels": 1}})
    with pytest.raises(MalformedMetadata):
        reader({**HEAD, "spec": {"emb": {"metadata": 1}}})
    obj = {**HEAD, "metadata": {"name": "a", "labels": 1}, "spec": {"emb": {"apiVersion": 1}}}
    assert stored(obj) == []
    assert obj == {**HEAD, "spec": {"emb": {}}}


def test_an_old_definition_that_preserves_keeps_unknown_fields_and_nulls():
    obj = {**HEAD, "spec": {"zz": 1, "n": None}}
    assert compile_reader(read(PROPS), preserve=True)(obj) == []
    assert obj == {**HEAD, "spec": {"zz": 1, "n": None}}


@given(st.data())
def test_reading_twice_changes_nothing(data):
    props = data.draw(schemas())
    obj = data.draw(objects(props, messy=True))
    reader = compile_reader(read(props), drop_malformed=True)
    reader(obj)
    before = copy.deepcopy(obj)
    assert reader(obj) == []
    assert obj == before
