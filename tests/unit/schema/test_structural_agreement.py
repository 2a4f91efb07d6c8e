import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapi.schema.structural.checks.acceptance import compile_accept
from kapi.schema.structural.checks.explanation import Explainer
from kapi.schema.structural.correlation import Comparison
from kapi.schema.structural.model import MISSING, read
from kapi.schema.structural.report import LIMIT, Report
from kapi.schema.structural.validator import compile_validator

pytestmark = pytest.mark.slow

NAMES = st.sampled_from("abc")
LETTERS = st.text("abé", max_size=4)
SCALARS = st.one_of(LETTERS, st.integers(-5, 5), st.sampled_from([0.5, -1.5, 2.25]), st.booleans())


def values(scalars):
    return st.recursive(
        scalars,
        lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3),
        max_leaves=6,
    )


TYPE_NAMES = st.sampled_from(["string", "integer", "number", "boolean", "object", "array"])
SHARED_RULES = {
    "minimum": st.integers(-3, 3),
    "maximum": st.integers(-3, 3),
    "exclusiveMaximum": st.booleans(),
    "minLength": st.integers(0, 3),
    "maxLength": st.integers(0, 3),
    "minItems": st.integers(0, 2),
    "maxItems": st.integers(0, 2),
    "minProperties": st.integers(0, 2),
    "maxProperties": st.integers(0, 2),
    "enum": st.lists(LETTERS.filter(bool), min_size=1, max_size=3),
    "required": st.lists(NAMES, min_size=1, max_size=2, unique=True),
    "type": TYPE_NAMES,
}


@st.composite
def schemas(draw, rules, depth=2):
    chosen = draw(st.sets(st.sampled_from(sorted(rules)), max_size=3))
    schema = {name: draw(rules[name]) for name in chosen}
    if "exclusiveMaximum" in schema:
        schema.setdefault("maximum", 1)
    if depth:
        below = schemas(rules, depth - 1)
        branches = st.lists(below, min_size=1, max_size=3)
        parts = {
            "properties": st.dictionaries(NAMES, below, max_size=2),
            "items": below,
            "additionalProperties": below,
            "allOf": branches,
            "anyOf": branches,
            "oneOf": branches,
            "not": below,
        }
        for name in draw(st.sets(st.sampled_from(sorted(parts)), max_size=2)):
            schema[name] = draw(parts[name])
    return schema


@settings(deadline=None, max_examples=300)
@given(schemas(SHARED_RULES), values(SCALARS))
def test_what_is_valid_is_what_json_schema_says(schema, value):
    ours = compile_validator(read(schema))(value, MISSING, "") == []
    assert ours == jsonschema.Draft4Validator(schema).is_valid(value)


OWN_RULES = {
    **SHARED_RULES,
    "multipleOf": st.sampled_from([2, 0.5, 1.5]),
    "exclusiveMinimum": st.booleans(),
    "format": st.sampled_from(["date", "int32", "float", "ipv4", "odd"]),
    "pattern": st.sampled_from(["^a", "b$", "é"]),
    "uniqueItems": st.booleans(),
    "nullable": st.booleans(),
    "x-kubernetes-int-or-string": st.booleans(),
    "enum": st.lists(values(SCALARS | st.none()), min_size=1, max_size=3),
}


@settings(deadline=None, max_examples=300)
@given(schemas(OWN_RULES), values(SCALARS | st.none() | st.floats(allow_nan=False, allow_infinity=False)))
def test_there_are_words_for_exactly_the_values_that_are_refused(schema, value):
    parsed = read(schema)
    accept = compile_accept(parsed)
    found = Report(distinct=True)
    Explainer(parsed).explain(value, MISSING, None, found, Comparison())
    assert (accept is None or accept(value)) == (not found.failed)
    assert found.failed == bool(found.errors)


# --- hostile ----------------------------------------------------------------------------------------------------------


def deep(kind, levels):
    schema, value = {"type": "integer", "maximum": 3}, 7
    for _ in range(levels):
        if kind == "list":
            schema, value = {"type": "array", "items": schema, "maxItems": 3}, [value]
        elif kind == "object":
            schema, value = {"type": "object", "properties": {"a": schema}, "required": ["a"]}, {"a": value}
        else:
            schema = {kind: schema} if kind == "not" else {kind: [schema]}
    return read(schema), value


@pytest.mark.parametrize(
    ("kind", "levels"), [("list", 250), ("object", 125), ("not", 250), ("anyOf", 125), ("allOf", 125), ("oneOf", 125)]
)
def test_what_fits_through_the_decoder_can_be_validated(kind, levels):
    schema, value = deep(kind, levels)
    validate = compile_validator(schema)
    found = validate(value, MISSING, "")
    assert found
    assert not any("deeply" in error.body for error in found)
    assert validate(value, value, "") == [] or kind in {"not", "anyOf", "allOf", "oneOf"}


def test_a_value_too_deep_for_its_rules_is_an_error_and_no_crash():
    schema, value = {"type": "integer"}, 7
    for _ in range(250):
        schema = {
            "type": "array",
            "items": schema,
            "maxItems": 1,
            "minLength": 1,
            "not": {"enum": [9]},
            "allOf": [{"minItems": 1}],
        }
        value = [value]
    assert [str(error) for error in compile_validator(read(schema))(value, MISSING, "")] == [
        '<nil>: Invalid value: "": nested too deeply to be validated'
    ]


def found_in(schema, value):
    return compile_validator(read(schema))(value, MISSING, "")


def test_large_enumerations_and_lists_take_time_in_proportion():
    numbers = [str(index) for index in range(10_000)]
    listed = {"type": "array", "items": {"type": "string", "enum": numbers}}
    assert found_in(listed, numbers * 10) == []
    unique = {"type": "array", "uniqueItems": True, "items": {}}
    assert found_in(unique, list(range(100_000))) == []
    assert len(found_in(unique, [{"a": index} for index in range(50_000)] + [{"a": 7}])) == 1
    assert len(found_in({"type": "string", "pattern": "^(a+)+$"}, "a" * 100_000 + "b")) == 1


def test_a_hundred_thousand_faults_below_a_huge_key_are_named_up_to_a_limit():
    schema = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer", "maximum": 3}}}
    found = found_in(schema, {"k" * 1_000_000: list(range(100_000))})
    assert len(found) == 1
    few = found_in(schema, {"k": list(range(100_000))})
    size = sum(len(error.field) + len(error.body) for error in few)
    assert LIMIT * 0.9 < size < LIMIT + 1000
