"""The schema of a custom kind as a whole: what is read, defaulted and found valid stays so."""

import copy

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kapi.schema.builtin.scalars import TypeMismatch
from kapi.schema.customschema import CustomSchema
from kapi.schema.structural.defaultvalues import default_errors
from tests.structural_strategies import objects, schemas

HEAD = {"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": {"name": "a"}}


def schema_of(props, *, preserve_unknown=False):
    return CustomSchema(lambda: props, preserve_unknown=preserve_unknown)


@given(st.data())
def test_a_valid_object_stays_valid_when_it_is_defaulted(data):
    props = data.draw(schemas())
    assume(not default_errors(props, "schema"))
    schema = schema_of(props)
    obj = data.draw(objects(props))
    schema.coerce(obj)
    assume(not schema.validate(obj))
    schema.default(obj)
    assert schema.validate(obj) == []


@given(st.data())
def test_reading_and_defaulting_again_changes_nothing(data):
    props = data.draw(schemas())
    schema = schema_of(props)
    obj = data.draw(objects(props, messy=True))
    try:
        schema.coerce(obj)
    except TypeMismatch:
        assume(False)
    schema.default(obj)
    before = copy.deepcopy(obj)
    assert schema.coerce(obj) == []
    schema.default(obj)
    assert obj == before


RULES = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"low": {"type": "integer"}, "high": {"type": "integer", "default": 10}},
            "x-kubernetes-validations": [
                {"rule": "self.low <= self.high", "message": "low must not be above high"},
                {"rule": "self.high >= oldSelf.high", "message": "high must not shrink"},
            ],
        },
        "status": {"type": "object", "properties": {"seen": {"type": "integer", "minimum": 0}}},
    },
}


def thing(**spec):
    return {**HEAD, "spec": spec}


def test_rules_see_defaults():
    schema, obj = schema_of(RULES), thing(low=11)
    schema.default(obj)
    assert [str(error) for error in schema.validate(obj)] == ["spec: Invalid value: low must not be above high"]


def test_rules_are_not_asked_about_what_is_not_of_its_type():
    errors = schema_of(RULES).validate(thing(low="x", high=1))
    assert [error.field for error in errors] == ["spec.low", "<nil>"]
    assert "some validation rules were not checked" in errors[1].body


def test_transition_rules_hold_for_updates_only():
    schema = schema_of(RULES)
    assert schema.validate(thing(low=1, high=2)) == []
    (error,) = schema.validate(thing(low=1, high=2), thing(low=1, high=3))
    assert error.body == "Invalid value: high must not shrink"


def test_a_status_is_validated_by_its_schema_and_the_whole_object_by_its_rules():
    schema = schema_of(RULES)
    old = {**thing(low=5, high=1), "status": {}}
    assert schema.validate_status({**old, "status": {"seen": 1}}, old) == []
    (error,) = schema.validate_status({**old, "status": {"seen": -1}}, old)
    assert error.field == "status.seen"


@pytest.mark.parametrize("props", [None, RULES], ids=["no schema", "a schema"])
def test_a_kind_that_preserves_unknown_fields_keeps_them(props):
    schema, obj = schema_of(props, preserve_unknown=True), {**thing(low=1, other=2), "more": 3}
    assert schema.coerce(obj) == []
    assert (obj["spec"]["other"], obj["more"]) == (2, 3)


def test_metadata_is_read_even_without_a_schema():
    obj = {**HEAD, "metadata": {"name": "a", "unknown": 1}}
    assert schema_of(None, preserve_unknown=True).coerce(obj) == ["metadata.unknown"]
    with pytest.raises(TypeMismatch):
        schema_of(None, preserve_unknown=True).coerce({**HEAD, "metadata": {"labels": 1}})
    stored = {**HEAD, "metadata": {"name": "a", "labels": 1}}
    assert schema_of(None, preserve_unknown=True).coerce(stored, lenient=True) == []
    assert stored["metadata"] == {"name": "a"}


def test_nothing_is_compiled_before_it_is_needed():
    asked = []

    def load():
        asked.append(1)
        return RULES

    schema = CustomSchema(load, preserve_unknown=False)
    assert asked == []
    schema.default(thing())
    schema.validate(thing(low=1, high=2))
    assert asked == [1]
