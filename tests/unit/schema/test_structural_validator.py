import json

import pytest

from kapi.api.fielderror import FieldError
from kapi.codec.json import decode
from kapi.schema.structural.checks.acceptance import compile_accept
from kapi.schema.structural.model import MISSING, read
from kapi.schema.structural.validator import compile_validator

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}


def below_spec(schema):
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": {"v": schema}}}}


def errors(schema, value):
    """The errors for a value at `spec.v`, as the server would find them."""
    obj = decode(json.dumps({"spec": {"v": value}}).encode())
    return compile_validator(read(below_spec(schema)))(obj, MISSING, "")


def texts(schema, value):
    return [str(error) for error in errors(schema, value)]


def of_type(wanted, has):
    return f'spec.v: Invalid value: "{has}": spec.v in body must be of type {wanted}: "{has}"'


def broken(value, rule):
    return f"spec.v: Invalid value: {value}: spec.v in body should {rule}"


def odd(text):
    return f'<nil>: Invalid value: "": {text}'


def out_of_range(kind, what="Checked"):
    return odd(f"{what} value must be of type {kind} in spec.v")


INT32 = {"type": "integer", "format": "int32"}
FLOAT = {"type": "number", "format": "float"}
DATE_TIME = {"type": "string", "format": "date-time"}
EITHER = {"x-kubernetes-int-or-string": True}
ANY_EITHER = {**EITHER, "anyOf": [WHOLE, TEXT]}
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

TYPES = [
    (TEXT, 1, [of_type("string", "integer")]),
    (TEXT, 1.5, [of_type("string", "number")]),
    (TEXT, True, [of_type("string", "boolean")]),
    (TEXT, [], [of_type("string", "array")]),
    (TEXT, {}, [of_type("string", "object")]),
    (TEXT, None, [of_type("string", "null")]),
    (WHOLE, "x", [of_type("integer", "string")]),
    (WHOLE, True, [of_type("integer", "boolean")]),
    (WHOLE, 1.5, [of_type("integer", "number"), out_of_range("integer (default format)")]),
    (WHOLE, 2.0, []),
    (WHOLE, 2**63 - 1, []),
    (WHOLE, 2**63, [of_type("integer", "number"), out_of_range("integer (default format)")]),
    (WHOLE, 1e20, [of_type("integer", "number"), out_of_range("integer (default format)")]),
    ({"type": "number"}, "1", [of_type("number", "string")]),
    ({"type": "number"}, 5, []),
    ({"type": "number"}, 5.5, []),
    ({"type": "boolean"}, "true", [of_type("boolean", "string")]),
    ({"type": "boolean"}, 1, [of_type("boolean", "integer")]),
    ({"type": "object"}, [], [of_type("object", "array")]),
    ({"type": "array", "items": TEXT}, {}, [of_type("array", "object")]),
    (INT32, 2**31 - 1, []),
    (INT32, 2**31, [out_of_range("integer with format int32")]),
    (INT32, -(2**31) - 1, [out_of_range("integer with format int32")]),
    (INT32, True, [of_type("int32", "")]),
    (INT32, "x", [of_type("integer", "string")]),
    (INT32, 1.5, [of_type("int32", "float64"), out_of_range("integer with format int32")]),
    (FLOAT, 3e38, []),
    (FLOAT, 4e38, [out_of_range("number with format float")]),
    (FLOAT, True, [of_type("float", "")]),
    ({"type": "integer", "format": "odd"}, True, [of_type("integer", "boolean")]),
    (DATE_TIME, 5, [of_type("date-time", "int64")]),
    (DATE_TIME, 1.5, [of_type("date-time", "float64")]),
    (DATE_TIME, {}, [of_type("date-time", "")]),
    (DATE_TIME, ["lists", "pass"], []),
    (EITHER, 1.5, [of_type("integer,string", "number")]),
    (EITHER, True, [of_type("integer,string", "boolean")]),
    (EITHER, "x", []),
    (EITHER, 7, []),
    (
        ANY_EITHER,
        [],
        [
            of_type("integer,string", "array"),
            odd('"spec.v" must validate at least one schema (anyOf)'),
            of_type("integer", "array"),
        ],
    ),
    ({"type": "string", "nullable": True, "minLength": 2}, None, []),
    ({"type": "object", "nullable": True, "required": ["a"]}, None, []),
    (FREE, {"what": ["ever", None]}, []),
]

NUMBERS = [
    ({"type": "integer", "minimum": 1}, 0, [broken(0, "be greater than or equal to 1")]),
    ({"type": "integer", "minimum": 1}, 1, []),
    ({"type": "integer", "maximum": 10}, 11, [broken(11, "be less than or equal to 10")]),
    ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 1, [broken(1, "be greater than 1")]),
    ({"type": "integer", "maximum": 10, "exclusiveMaximum": True}, 10, [broken(10, "be less than 10")]),
    ({"type": "number", "minimum": 0.5}, 0.25, [broken(0.25, "be greater than or equal to 0.5")]),
    ({"type": "number", "maximum": 1000000}, 1000000.5, [broken("1.0000005e+06", "be less than or equal to 1e+06")]),
    ({"type": "number", "maximum": 1000000}, 1000001, [broken(1000001, "be less than or equal to 1000000")]),
    ({"type": "number", "minimum": 0.5}, 0, []),
    ({"type": "number", "maximum": 2.5, "exclusiveMaximum": True}, 2, [broken(2, "be less than 2")]),
    ({"type": "number", "maximum": 1e300}, 5, []),
    ({"type": "number", "minimum": -1e300}, -5, []),
    ({"type": "integer", "maximum": 2.5}, 1, [out_of_range("integer (default format)", "Maximum boundary")]),
    (
        {"type": "integer", "maximum": 2.5},
        3,
        [out_of_range("integer (default format)", "Maximum boundary"), broken(3, "be less than or equal to 2.5")],
    ),
    ({"type": "integer", "minimum": 0.5}, 1, [out_of_range("integer (default format)", "Minimum boundary")]),
    ({"type": "integer", "multipleOf": 3}, 4, [broken(4, "be a multiple of 3")]),
    ({"type": "integer", "multipleOf": 3}, -9, []),
    ({"type": "number", "multipleOf": 0.1}, 0.3, []),
    ({"type": "number", "multipleOf": 0.1}, 0.35, [broken(0.35, "be a multiple of 0.1")]),
    ({"type": "number", "multipleOf": 2.5}, 5, [broken(5, "be a multiple of 2")]),
    ({"type": "number", "multipleOf": 2.5}, 7.5, []),
    (
        {"type": "number", "multipleOf": 0.5},
        3,
        ["spec.v: Invalid value: 0: factor MultipleOf declared for spec.v must be positive: 0"],
    ),
    ({"type": "integer", "multipleOf": 0.5}, 1, [out_of_range("integer (default format)", "MultipleOf")]),
    (
        {"type": "integer", "multipleOf": 4, "minimum": 9, "maximum": 5},
        7,
        [
            broken(7, "be a multiple of 4"),
            broken(7, "be greater than or equal to 9"),
            broken(7, "be less than or equal to 5"),
        ],
    ),
]

STRINGS = [
    ({"type": "string", "maxLength": 5}, "123456", ["spec.v: Too long: may not be more than 5 bytes"]),
    ({"type": "string", "maxLength": 5}, "ééééé", []),
    ({"type": "string", "maxLength": 1}, "ab", ["spec.v: Too long: may not be more than 1 byte"]),
    ({"type": "string", "maxLength": 0}, "a", ["spec.v: Too long: may not be more than 0 bytes"]),
    ({"type": "string", "minLength": 3}, "é☃", [broken('"é☃"', "be at least 3 chars long")]),
    (
        {"type": "string", "maxLength": 1, "minLength": 3, "pattern": "x"},
        "ab",
        ["spec.v: Too long: may not be more than 1 byte"],
    ),
    ({"type": "string", "minLength": 3, "pattern": "x"}, "ab", [broken('"ab"', "be at least 3 chars long")]),
    ({"type": "string", "pattern": "^[a-z]+$"}, "ab\n", [broken('"ab\\n"', "match '^[a-z]+$'")]),
    ({"type": "string", "pattern": "b"}, "abc", []),
    ({"type": "string", "pattern": "^\\p{Lu}"}, "É", []),
    ({"type": "string", "pattern": "^\\p{Lu}"}, "é", [broken('"é"', "match '^\\p{Lu}'")]),
    ({"type": "string", "pattern": "^[\\p{L}\\p{N}]{1,1000}$"}, "ab1", []),
    (
        {"type": "string", "pattern": "^y"},
        'x\t"\\\x00\x7f\u200b',
        [broken('"x\\t\\"\\\\\\x00\\x7f\\u200b"', "match '^y'")],
    ),
    (DATE_TIME, "soon", [of_type("date-time", "soon")]),
    ({"type": "string", "format": "no-such"}, "soon", []),
    (
        {**DATE_TIME, "maxLength": 2},
        "soon",
        ["spec.v: Too long: may not be more than 2 bytes", of_type("date-time", "soon")],
    ),
]


def unsupported(value, *supported):
    listed = ", ".join(json.dumps(one) for one in supported)
    return f"spec.v: Unsupported value: {value}: supported values: {listed}"


ENUMS = [
    ({"type": "string", "enum": ["A", "B"]}, "Z", [unsupported('"Z"', "A", "B")]),
    ({"type": "string", "enum": ["A", "B"]}, "B", []),
    ({"type": "integer", "enum": [1, 2]}, 3, [unsupported(3, "1", "2")]),
    ({"type": "number", "enum": [1, 2.5]}, 7.5, [unsupported(7.5, "1", "2.5")]),
    ({"type": "number", "enum": [1, 2.5]}, 1.5, []),
    ({"type": "number", "enum": [1, 2.5]}, 2, [unsupported(2, "1", "2.5")]),
    ({"type": "boolean", "enum": [True]}, False, [unsupported("false", "true")]),
    ({"type": "boolean", "enum": [True]}, True, []),
    ({**FREE, "enum": [{"a": 1}]}, {"a": 2}, [unsupported('{"a":2}', '{"a":1}')]),
    ({**FREE, "enum": [{"a": 1, "b": 2}]}, {"b": 2, "a": 1}, []),
    ({**FREE, "enum": ["x"]}, {"z": "<&>", "a": 1.5}, [unsupported('{"a":1.5,"z":"\\u003c\\u0026\\u003e"}', "x")]),
    ({**FREE, "enum": ["x"]}, {"a": 1e19, "b": 1e-7}, [unsupported('{"a":10000000000000000000,"b":1e-7}', "x")]),
    ({"type": "string", "nullable": True, "enum": ["A", None]}, None, [unsupported("null", "A", "null")]),
    ({**EITHER, "enum": ["A", 7]}, 65, []),
    ({**EITHER, "enum": ["A", 7]}, 66, [unsupported(66, "A", "7")]),
]

LISTS = [
    ({"type": "array", "maxItems": 3, "items": WHOLE}, [1] * 4, ["spec.v: Too many: 4: must have at most 3 items"]),
    ({"type": "array", "maxItems": 1, "items": WHOLE}, [1] * 4, ["spec.v: Too many: 4: must have at most 1 item"]),
    ({"type": "array", "minItems": 2, "items": WHOLE}, [1], [broken(1, "have at least 2 items")]),
    (
        {"type": "array", "maxItems": 1, "items": TEXT},
        ["a", 1],
        [
            'spec.v[1]: Invalid value: "integer": spec.v[1] in body must be of type string: "integer"',
            "spec.v: Too many: 2: must have at most 1 item",
        ],
    ),
    (
        {"type": "array", "items": {"type": "array", "items": {"type": "object", "required": ["k"]}}},
        [[], [{"k": 1}, {}]],
        ["spec.v[1][1].k: Required value"],
    ),
    (
        {"type": "array", "uniqueItems": True, "items": TEXT},
        ["a", "b", "a"],
        ['spec.v: Invalid value: "": spec.v in body shouldn\'t contain duplicates'],
    ),
    ({"type": "array", "uniqueItems": True, "items": FREE}, [1, True, "1", {"a": 1}, {"a": True}], None),
]

OBJECTS = [
    ({"type": "object", "required": ["a", "b"]}, {}, ["spec.v.a: Required value", "spec.v.b: Required value"]),
    ({"type": "object", "required": ["a"], "properties": {"a": {**TEXT, "nullable": True}}}, {"a": None}, []),
    ({"type": "object", "minProperties": 2}, {"x": 1}, [broken(1, "have at least 2 properties")]),
    ({"type": "object", "maxProperties": 1}, {"x": 1, "y": 1}, ["spec.v: Too many: 2: must have at most 1 item"]),
    ({"type": "object", "maxProperties": 0}, {"x": 1}, ["spec.v: Too many: 1: must have at most 0 items"]),
    (
        {"type": "object", "additionalProperties": {"type": "integer", "maximum": 5}},
        {"a.b/c": 6, "d": "x", "e": 1},
        [
            "spec.v.a.b/c: Invalid value: 6: spec.v.a.b/c in body should be less than or equal to 5",
            'spec.v.d: Invalid value: "string": spec.v.d in body must be of type integer: "string"',
        ],
    ),
    (
        {"type": "object", "additionalProperties": False, "properties": {"a": TEXT}},
        {"a": 1, "b": 1},
        [
            'spec.v: Invalid value: "b": spec.v.b in body is a forbidden property',
            'spec.v.a: Invalid value: "integer": spec.v.a in body must be of type string: "integer"',
        ],
    ),
    ({"type": "object", "additionalProperties": True, "properties": {"a": TEXT}}, {"b": 1}, []),
    (
        {"type": "object", "additionalProperties": TEXT, "properties": {"a": {}}},
        {"a": 1, "b": 1},
        ['spec.v.b: Invalid value: "integer": spec.v.b in body must be of type string: "integer"'],
    ),
]

ANY = '"spec.v" must validate at least one schema (anyOf)'
ONE = '"spec.v" must validate one and only one schema (oneOf). '
ALL = '"spec.v" must validate all the schemas (allOf)'
NOT = '"spec.v" must not validate the schema (not)'
X_OR_Y = [{"required": ["x"]}, {"required": ["y"]}]
XY = {"type": "object", "properties": {"x": WHOLE, "y": TEXT}}

JUNCTORS = [
    ({**XY, "anyOf": X_OR_Y}, {}, [odd(ANY), "spec.v.x: Required value"]),
    ({**XY, "anyOf": X_OR_Y}, {"x": 1, "y": ""}, []),
    (
        {"type": "integer", "anyOf": [{"minimum": 9}, {"maximum": 3}]},
        5,
        [odd(ANY), broken(5, "be greater than or equal to 9")],
    ),
    (
        # The branch that more validators were content with gives the reasons, though it is not the first.
        {
            **XY,
            "anyOf": [
                {"properties": {"x": {"minimum": 9}}},
                {"properties": {"x": {"minimum": 8}, "y": {"enum": ["q"]}}},
            ],
        },
        {"x": 3, "y": "z"},
        [
            odd(ANY),
            "spec.v.x: Invalid value: 3: spec.v.x in body should be greater than or equal to 8",
            'spec.v.y: Unsupported value: "z": supported values: "q"',
        ],
    ),
    ({**XY, "oneOf": X_OR_Y}, {}, [odd(ONE + "Found none valid"), "spec.v.x: Required value"]),
    ({**XY, "oneOf": X_OR_Y}, {"x": 1, "y": ""}, [odd(ONE + "Found 2 valid alternatives")]),
    ({**XY, "oneOf": X_OR_Y}, {"y": ""}, []),
    (
        {"type": "integer", "oneOf": [{"minimum": 9}, {"maximum": 30}, {"multipleOf": 7}]},
        15,
        [odd(ONE + "Found 2 valid alternatives")],
    ),
    (
        {"type": "integer", "allOf": [{"minimum": 9}, {"maximum": 30}, {"multipleOf": 7}]},
        5,
        [broken(5, "be greater than or equal to 9"), broken(5, "be a multiple of 7"), odd(ALL)],
    ),
    (
        {"type": "integer", "allOf": [{"minimum": 9}, {"multipleOf": 7}]},
        5,
        [broken(5, "be greater than or equal to 9"), broken(5, "be a multiple of 7"), odd(ALL + ". None validated")],
    ),
    (
        {"type": "integer", "minimum": 9, "allOf": [{"minimum": 9}]},
        5,
        [broken(5, "be greater than or equal to 9"), odd(ALL + ". None validated")],
    ),
    ({"type": "string", "not": {"enum": ["bad"]}}, "bad", [odd(NOT)]),
    ({"type": "string", "not": {"enum": ["bad"]}}, "good", []),
    ({"type": "string", "not": {}}, "any", [odd(NOT)]),
    ({"type": "string", "not": {"not": {"pattern": "^a"}}}, "b", [odd(NOT)]),
    (
        {"type": "string", "anyOf": [{"oneOf": [{"maxLength": 1}, {"enum": ["q"]}]}]},
        "ab",
        [odd(ANY), odd(ONE + "Found none valid"), "spec.v: Too long: may not be more than 1 byte"],
    ),
    # Null is of the right type or not; no branch is asked.
    ({"type": "string", "nullable": True, "not": {}, "allOf": [{"minLength": 5}]}, None, []),
]

ROWS = {
    "types": TYPES,
    "numbers": NUMBERS,
    "strings": STRINGS,
    "enums": ENUMS,
    "lists": [row for row in LISTS if row[2] is not None],
    "objects": OBJECTS,
    "junctors": JUNCTORS,
}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [pytest.param(*row, id=f"{name}-{index}") for name, rows in ROWS.items() for index, row in enumerate(rows)],
)
def test_errors_are_those_of_kube_apiserver(schema, value, expected):
    assert texts(schema, value) == expected


def test_each_rule_has_the_reason_clients_branch_on():
    schema = {
        "type": "object",
        "required": ["gone"],
        "properties": {
            "kind_of": WHOLE,
            "long": {"type": "string", "maxLength": 1},
            "listed": {"type": "string", "enum": ["A"]},
            "many": {"type": "array", "maxItems": 0, "items": TEXT},
            "small": {"type": "integer", "minimum": 3},
            "dated": {"type": "string", "format": "date"},
        },
    }
    value = {"kind_of": "", "long": "ab", "listed": "B", "many": ["a"], "small": 1, "dated": "x"}
    assert [error.reason for error in errors(schema, value)] == [
        "FieldValueTypeInvalid",
        "FieldValueTooLong",
        "FieldValueNotSupported",
        "FieldValueTooMany",
        "FieldValueInvalid",
        "FieldValueTypeInvalid",
        "FieldValueRequired",
    ]


def test_unique_items_are_told_apart_by_type_as_well_as_value():
    items = [1, True, "1", 1.5, None, [1], {"a": 1}, {"a": True}, [[1]]]
    assert texts({"type": "array", "uniqueItems": True, "items": {}}, items) == []
    assert texts({"type": "array", "uniqueItems": True, "items": {}}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}]) != []


def test_whole_floats_pass_for_integers_even_if_they_come_undecoded():
    validate = compile_validator(read(WHOLE))
    assert validate(2.0, MISSING, "") == []
    assert validate(-2.0, MISSING, "") == []
    assert validate(float(2**53), MISSING, "") != []
    # Off by less than a billionth is an integer to the type and none to the range.
    assert [error.reason for error in validate(1.0000000001, MISSING, "")] == ["FieldValueInvalid"]
    assert validate(-1.0000000001, MISSING, "")[0].reason == "FieldValueTypeInvalid"


def test_what_concerns_the_whole_object_has_no_field():
    validate = compile_validator(read({"type": "object", "minProperties": 1, "required": ["spec"]}))
    assert validate({}, MISSING, "") == [
        FieldError("FieldValueInvalid", "<nil>", "Invalid value: 0:  in body should have at least 1 properties"),
        FieldError("FieldValueRequired", "spec", "Required value"),
    ]


def test_keys_of_a_map_at_the_root_have_a_dot_in_the_text_and_none_in_the_field():
    validate = compile_validator(read({"type": "object", "additionalProperties": TEXT}))
    assert [str(error) for error in validate({"a": 1}, MISSING, "")] == [
        'a: Invalid value: "integer": .a in body must be of type string: "integer"'
    ]


def test_a_part_validated_alone_has_fields_below_its_path_and_texts_without_it():
    validate = compile_validator(read({"type": "object", "required": ["b"], "properties": {"a": TEXT}, "not": {}}))
    assert [str(error) for error in validate({"a": 1}, MISSING, "status")] == [
        'status: Invalid value: "": "" must not validate the schema (not)',
        'status.a: Invalid value: "integer": a in body must be of type string: "integer"',
        "status.b: Required value",
    ]


def test_a_pattern_that_slipped_in_broken_matches_nothing():
    why = "error parsing regexp: missing closing ): `(`"
    assert texts({"type": "string", "pattern": "("}, "x") == [
        f"spec.v: Invalid value: \"x\": spec.v in body should match '(, but pattern is invalid: {why}'"
    ]


@pytest.mark.parametrize("part", [{"properties": {"a": {"not": {}}}}, {"additionalProperties": {"not": {}}}])
@pytest.mark.parametrize("value", ["", 0, 0.5, False, [], {}], ids=repr)
def test_where_nothing_may_stand_nothing_is_accepted(part, value):
    schema = read({"type": "object", "properties": {"b": {}}, **part})
    accept, accept_items = compile_accept(schema), compile_accept(read({"items": {"not": {}}}))
    assert accept({})
    assert not accept({"a": value})
    assert accept_items([])
    assert not accept_items([value])


def test_a_schema_without_rules_takes_anything():
    validate = compile_validator(read({"x-kubernetes-preserve-unknown-fields": True}))
    assert validate({"a": [None, 1]}, MISSING, "") == []
    assert compile_accept(read({})) is None
