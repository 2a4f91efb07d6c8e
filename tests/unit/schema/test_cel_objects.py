"""Objects that expressions construct, as those of mutating admission policies.

The table was recorded from the libraries of kube-apiserver v1.36.4, with the types of MutatingAdmissionPolicy: issues
of the checker, types, estimated and actual costs, errors and results.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kapi.schema.cel import Environment, EvaluationError, ExpressionErrors, ProgramError, ResultTypeError
from kapi.schema.cel.check.checker import CheckErrors
from kapi.schema.cel.libraries import mutation
from kapi.schema.cel.types import BOOL, DYN, INT, STRING, Object, list_of, map_of, optional_of
from kapi.schema.cel.values import Constructed, Optional

TABLE = json.loads(Path(__file__).with_name("cel_objects.json").read_text())
USER = Object("kubernetes.UserInfo", fields={"username": STRING, "groups": list_of(STRING)})
ENVIRONMENT = Environment({"object": DYN, "user": USER, "n": INT}, types={"kubernetes.UserInfo": USER}).extend(
    types=mutation.TYPES, libraries=[mutation.LIBRARY]
)
VALUES = {
    "object": {"spec": {"replicas": 3, "none": None}, "__namespace__": "q", "namespace": "p"},
    "n": 7,
    "user": {"username": "ann", "groups": ["a", "b"]},
}


def outcome(source: str) -> dict[str, Any]:
    """What comes of an expression, in the form of the table."""
    try:
        program = ENVIRONMENT.compile(source)
    except ExpressionErrors as error:
        return {"issues": str(error)}
    except ProgramError as error:
        return {"program": str(error)}
    found: dict[str, Any] = {"type": str(program.type), "estimate": [*program.estimate(lambda path: None)]}
    try:
        value, cost = program.evaluate(VALUES)
    except EvaluationError as error:
        return {**found, "cost": error.cost, "error": str(error)}
    if isinstance(value, (bool, Constructed)):
        found["json"] = mutation.to_json(value)
    if isinstance(value, Constructed) and (mismatch := mutation.type_name_errors(value)):
        found["mismatch"] = mismatch
    return {**found, "cost": cost}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["source"])
def test_objects_are_constructed_as_in_kube_apiserver(row: dict[str, Any]) -> None:
    assert {"source": row["source"], **outcome(row["source"])} == row


# -- object types with typed fields -----------------------------------------------------------------------------------

PART = Object("Shape.part", fields={"weight": INT}, constructible=True)
SHAPE = Object(
    "Shape",
    fields={
        "name": STRING,
        "sides": INT,
        "tags": list_of(STRING),
        "labels": map_of(STRING, STRING),
        "part": PART,
        "note": optional_of(STRING),
        "any": DYN,
    },
    constructible=True,
)
SHAPES = Environment({"shape": SHAPE, "anything": DYN}, types={"Shape": SHAPE, "Shape.part": PART})


def issues(source: str) -> list[str]:
    with pytest.raises(CheckErrors) as caught:
        SHAPES.compile(source)
    return [issue.message for issue in caught.value.issues]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Shape{nam: 'x'}", ["undefined field 'nam'"]),
        ("Shape{name: 1}", ["expected type of field 'name' is 'string' but provided type is 'int'"]),
        ("Shape{part: Shape{}}", ["expected type of field 'part' is 'Shape.part' but provided type is 'Shape'"]),
        ("Shape{tags: [1]}", ["expected type of field 'tags' is 'list(string)' but provided type is 'list(int)'"]),
        ("Shape{name: null}", ["expected type of field 'name' is 'string' but provided type is 'null'"]),
        ("Shape{?name: 'x'}", ["expected type 'optional_type(string)' but found 'string'"]),
        (
            "Shape{?sides: optional.of('x')}",
            ["expected type of field 'sides' is 'int' but provided type is 'string'"],
        ),
        ("Shape{name: other}", ["undeclared reference to 'other' (in container '')"]),
        ("Shape.whole{}", ["undeclared reference to 'Shape.whole' (in container '')"]),
        ("Shape{}.weight", ["undefined field 'weight'"]),
        ("shape{name: 'x'}", ["'Shape' is not a type", "unexpected failed resolution of 'shape'"]),
        ("Shape{nam: 'x', sides: ''}", ["undefined field 'nam'", "expected type of field 'sides' is 'int' but "]),
    ],
)
def test_fields_are_checked_by_their_declared_types(source: str, expected: list[str]) -> None:
    found = issues(source)
    assert len(found) == len(expected)
    assert all(message.startswith(start) for message, start in zip(found, expected, strict=True))


def evaluate(source: str, **values: Any) -> Any:
    return SHAPES.compile(source).evaluate({"shape": {}, "anything": None, **values})[0]


@pytest.mark.parametrize(
    "source",
    [
        "Shape{name: 'x'}.name == 'x'",
        "Shape{}.name == '' && Shape{}.sides == 0 && Shape{}.tags == [] && Shape{}.labels == {}",
        "Shape{}.part.weight == 0 && Shape{}.any == null && !Shape{}.note.hasValue()",
        "has(Shape{sides: 1}.sides) && !has(Shape{sides: 0}.sides) && !has(Shape{}.part)",
        "has(Shape{part: Shape.part{}}.part)",
        "Shape{part: Shape.part{weight: 2}}.part.weight == 2",
        "Shape{?name: optional.of('x')} == Shape{name: 'x'}",
        "Shape{?name: optional.none()} == Shape{}",
        "Shape{}.?name == optional.none() && Shape{name: 'x'}.?name.value() == 'x'",
        "[Shape{sides: 3}, Shape{sides: 4}].map(s, s.sides) == [3, 4]",
        "(shape.sides > 3 ? shape : Shape{sides: 9}).sides == 9",
        "shape.name == 'square' && has(shape.name) && !has(shape.note)",
        "dyn(Shape{sides: 1}).sides == 1",
    ],
)
def test_constructed_objects_and_dictionaries_are_read_alike(source: str) -> None:
    assert evaluate(source, shape={"name": "square", "sides": 3}) is True


def test_what_the_checker_cannot_know_is_checked_when_an_object_is_constructed() -> None:
    assert evaluate("Shape{sides: anything}.sides", anything=3) == 3
    assert evaluate("Shape{part: anything}.part.weight", anything={"weight": 3}) == 3
    for value, given in (("x", "string"), (None, "structpb.NullValue"), ([1], r"\[\]ref.Val"), (True, "bool")):
        with pytest.raises(EvaluationError, match=f"unexpected type {given} for ShapeType 'sides' field"):
            evaluate("Shape{sides: anything}", anything=value)


def test_an_object_type_that_is_not_constructible_is_refused_at_run_time() -> None:
    environment = Environment(types={"Closed": Object("Closed", fields={"a": INT})})
    with pytest.raises(EvaluationError, match="unknown type 'Closed'"):
        environment.compile("Closed{a: 1}").evaluate({})


def test_a_result_of_an_object_type_can_be_asked_for() -> None:
    value, _ = SHAPES.compile("Shape{sides: 4}", SHAPE).evaluate({})
    assert isinstance(value, Constructed)
    assert value.fields == {"sides": 4}
    with pytest.raises(ResultTypeError, match="Shape"):
        SHAPES.compile("Shape{sides: 4}", BOOL)


# -- JSON -------------------------------------------------------------------------------------------------------------


def test_values_of_objects_become_json() -> None:
    source = """Object{
        list: [1, 2], map: {"k": [true]}, span: duration("1500ms"), time: timestamp("2020-01-01T00:00:00.5Z"),
        bytes: b"ab", unsigned: 1u, real: 1.5, nothing: null, below: Object.below{x: optional.of("y")}}"""
    value, _ = ENVIRONMENT.compile(source).evaluate(VALUES)
    assert mutation.to_json(value) == {
        "list": [1, 2],
        "map": {"k": [True]},
        "span": "1.5s",
        "time": "2020-01-01T00:00:00.5Z",
        "bytes": "YWI=",
        "unsigned": 1,
        "real": 1.5,
        "nothing": None,
        "below": {"x": "y"},
    }
    assert mutation.to_json(Optional()) is None


def test_what_json_cannot_hold_is_an_error() -> None:
    for source, message in (("{1: 2}", "map key 1 is of type int, not string"), ("quantity('1')", "type conversion")):
        value, _ = ENVIRONMENT.compile(source).evaluate(VALUES)
        with pytest.raises(EvaluationError, match=message):
            mutation.to_json(value)
