from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from kapi.schema.patterns import pattern_problem
from kapi.schema.structural.violations import unconvertible, violations
from tests.structural_strategies import schemas

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
CHOICE = [{"type": "integer"}, {"type": "string"}]


def obj_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def texts(props: dict[str, Any]) -> list[str]:
    return [str(error) for error in violations(props, "p")]


@given(schemas())
def test_structural_schemas_have_no_violations(props):
    assert texts(props) == []


@pytest.mark.parametrize(
    ("props", "expected"),
    [
        pytest.param({}, ["p.type: Required value: must not be empty at the root"], id="no type at the root"),
        pytest.param({"type": "array", "items": {"type": "string"}},
            ['p.type: Invalid value: "array": must be object at the root'], id="no object at the root"),
        pytest.param(obj_of(a={}), ["p.properties[a].type: Required value: must not be empty for specified object fields"],
            id="field without type"),
        pytest.param(obj_of(a={"type": "array", "items": {}}),
            ["p.properties[a].items.type: Required value: must not be empty for specified array items"],
            id="items without type"),
        pytest.param(obj_of(a={"type": "array"}), ["p.properties[a].items: Required value: must be specified"],
            id="list without items"),
        pytest.param(obj_of(a={PRESERVE: True}, b={INT_OR_STRING: True}), [], id="types that need not be said"),
        pytest.param({"type": "object", "additionalProperties": {"type": "string"}},
            ["p.additionalProperties: Forbidden: must not be used at the root"], id="a map at the root"),
        pytest.param(obj_of(a={"type": "object", "additionalProperties": {}}),
            ["p.properties[a].additionalProperties.type: Required value: must not be empty for specified object fields"],
            id="map values without type"),
        pytest.param(obj_of(a={INT_OR_STRING: True, PRESERVE: True, EMBEDDED: True, "type": "object"}), [
            f"p.properties[a].{EMBEDDED}: Invalid value: true: must be false if {INT_OR_STRING} is true",
            f"p.properties[a].{PRESERVE}: Invalid value: true: must be false if {INT_OR_STRING} is true",
        ], id="int or string and something else"),
        pytest.param(obj_of(a={EMBEDDED: True, PRESERVE: True}),
            [f"p.properties[a].type: Required value: must be object if {EMBEDDED} is true"], id="embedded without type"),
        pytest.param(obj_of(a={EMBEDDED: True, PRESERVE: True, "type": "string"}),
            [f'p.properties[a].type: Invalid value: "string": must be object if {EMBEDDED} is true'],
            id="embedded of another type"),
        pytest.param(obj_of(a={EMBEDDED: True, "type": "object", "additionalProperties": {"type": "string"}}), [
            f"p.properties[a].additionalProperties: Forbidden: must not be used if {EMBEDDED} is set",
            f"p.properties[a].properties: Required value: must not be empty if {EMBEDDED} is true without {PRESERVE}",
        ], id="embedded map"),
        pytest.param(obj_of(kind={"type": "integer"}, apiVersion={PRESERVE: True}, metadata={"type": "string"}), [
            'p.properties[apiVersion].type: Invalid value: "": must be string',
            'p.properties[kind].type: Invalid value: "integer": must be string',
            'p.properties[metadata].type: Invalid value: "string": must be object',
        ], id="types of the head"),
        pytest.param(obj_of(metadata={"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}), [],
            id="restricted names"),
        pytest.param(obj_of(metadata={"type": "object", "properties": {"labels": {"type": "object"}}}), [
            ("p.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified"),
        ], id="restricted labels"),
        pytest.param(obj_of(metadata={"type": "object", "description": "x"}), [
            ("p.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified"),
        ], id="described metadata"),
        pytest.param(obj_of(a=obj_of(metadata={"type": "string"}, kind={"type": "integer"})), [], id="no head, no rules"),
        pytest.param(obj_of(a={"type": "string", "pattern": "[a"}), [
            ('p.properties[a].pattern: Invalid value: "[a": must be a valid regular expression, but isn\'t: '
            "error parsing regexp: missing closing ]: `[a`"),
        ], id="pattern"),
    ],
)  # fmt: skip
def test_the_structure_is_checked(props, expected):
    assert texts(props) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param({"minimum": 1, "required": ["a"]}, [], id="about values"),
        pytest.param({"type": "string"}, ["type: Forbidden: must be empty to be structural"], id="type"),
        pytest.param({"default": {}}, ["default: Forbidden: must be undefined to be structural"], id="default"),
        pytest.param({"title": "t", "description": "d"}, [
            "description: Forbidden: must be empty to be structural", "title: Forbidden: must be empty to be structural",
        ], id="prose"),
        pytest.param({"nullable": True}, ["nullable: Forbidden: must be false to be structural"], id="nullable"),
        pytest.param({"additionalProperties": {"minimum": 1}},
            ["additionalProperties: Forbidden: must be undefined to be structural"], id="map values"),
        pytest.param({"additionalProperties": False}, [], id="no map values"),
        pytest.param({PRESERVE: True, EMBEDDED: True, INT_OR_STRING: True}, [
            f"{EMBEDDED}: Forbidden: must be false to be structural",
            f"{INT_OR_STRING}: Forbidden: must be false to be structural",
            f"{PRESERVE}: Forbidden: must be false to be structural",
        ], id="extensions"),
        pytest.param({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "x-kubernetes-map-type": "atomic"},
            [
                "x-kubernetes-list-map-keys: Forbidden: must be empty to be structural",
                "x-kubernetes-list-type: Forbidden: must be undefined to be structural",
                "x-kubernetes-map-type: Forbidden: must be undefined to be structural",
            ], id="merging"),
        pytest.param({"x-kubernetes-validations": [{"rule": "true"}]},
            ["x-kubernetes-validations: Forbidden: must be empty to be structural"], id="CEL"),
        pytest.param({"properties": {"metadata": {}}},
            ["properties[metadata]: Forbidden: must not be specified in a nested context"], id="metadata"),
        pytest.param({"items": {"type": "string"}, "properties": {"a": {"title": "t"}}}, [
            "items.type: Forbidden: must be empty to be structural",
            "properties[a].title: Forbidden: must be empty to be structural",
        ], id="further down"),
        pytest.param({"allOf": [{"anyOf": CHOICE}]}, [
            "allOf[0].anyOf[0].type: Forbidden: must be empty to be structural",
            "allOf[0].anyOf[1].type: Forbidden: must be empty to be structural",
        ], id="int or string, too deep"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["not", "allOf", "anyOf", "oneOf"])
def test_rules_speak_of_values_only(where, rule, expected):
    field = {"type": "object", where: rule if where == "not" else [{}, rule]}
    step = where if where == "not" else f"{where}[1]"
    assert texts(obj_of(f=field)) == [f"p.properties[f].{step}.{line}" for line in expected]


@pytest.mark.parametrize("extra", [{}, {INT_OR_STRING: True}])
def test_rules_may_say_integer_or_string_in_two_ways(extra):
    typed = {} if extra else {"type": "string"}
    assert texts(obj_of(a={**typed, **extra, "anyOf": CHOICE})) == []
    assert texts(obj_of(a={**typed, **extra, "allOf": [{"anyOf": CHOICE, "pattern": "a"}, {"minLength": 1}]})) == []


@pytest.mark.parametrize(
    "rules",
    [
        {"oneOf": CHOICE},
        {"anyOf": CHOICE[::-1]},
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]},
        {"allOf": [{"minLength": 1}, {"anyOf": CHOICE}]},
    ],
)
def test_and_in_no_other_way(rules):
    assert len(texts(obj_of(a={INT_OR_STRING: True, **rules}))) == 2


def test_rules_at_the_root_speak_only_of_what_is_specified():
    props = obj_of(a={"type": "array", "items": {"type": "string"}}, b={"type": "object"}, c={PRESERVE: True})
    rules = {
        "properties": {"a": {"items": {"minLength": 1}}, "b": {"properties": {"x": {}}}, "c": {"items": {}}, "d": {}}
    }
    assert texts(props | {"anyOf": [rules], "not": {"allOf": [{"properties": {"e": {}}}]}}) == [
        (
            "p.properties[b].properties[x]: Required value: because it is defined in "
            "p.anyOf[0].properties[b].properties[x]"
        ),
        "p.properties[c].items: Required value: because it is defined in p.anyOf[0].properties[c].items",
        "p.properties[d]: Required value: because it is defined in p.anyOf[0].properties[d]",
        "p.properties[e]: Required value: because it is defined in p.not.allOf[0].properties[e]",
    ]
    assert texts(obj_of(a={"type": "object", "anyOf": [{"properties": {"unheard": {}}}]})) == []


@pytest.mark.parametrize(
    ("props", "text"),
    [
        ({"id": "x"}, "OpenAPIV3Schema 'id' is not supported"),
        ({"$schema": "x"}, "OpenAPIV3Schema 'schema' is not supported"),
        ({"$ref": "x"}, "OpenAPIV3Schema '$ref' is not supported"),
        ({"patternProperties": {"a": {}}}, "OpenAPIV3Schema 'patternProperties' is not supported"),
        ({"dependencies": {"a": ["b"]}}, "OpenAPIV3Schema 'dependencies' is not supported"),
        ({"additionalItems": False}, "OpenAPIV3Schema 'additionalItems' is not supported"),
        ({"definitions": {"a": {}}}, "OpenAPIV3Schema 'definitions' is not supported"),
        ({"items": [{"type": "string"}]}, "OpenAPIV3Schema 'items' must be a schema, but is an array"),
        ({PRESERVE: False}, f"internal error: '{PRESERVE}' must be true or undefined"),
    ],
)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda props: props,
        obj_of,
        lambda props: {"type": "object", "not": {"anyOf": [{"items": props}]}},
        lambda props: {"additionalProperties": props},
    ],
    ids=["root", "property", "rule", "map value"],
)
def test_what_cannot_be_read_at_all_is_the_only_violation(props, text, wrap):
    whole = obj_of(a=props) if wrap is obj_of else wrap(props)
    assert unconvertible(whole) == text
    assert texts(whole) == [f'p: Invalid value: "": {text}']


@pytest.mark.parametrize(
    "wrap",
    [
        lambda props: {"type": "array", "items": props},
        lambda props: {"type": "object", "additionalProperties": props},
        lambda props: {"type": "string", "not": props},
    ],
    ids=["items", "map values", "not"],
)
def test_depth_up_to_the_limit_of_the_codec_is_no_problem(wrap):
    props: dict[str, Any] = {}
    for _ in range(250):
        props = wrap(props)
    assert violations(obj_of(a=props), "p")


def test_violations_below_a_huge_key_do_not_repeat_it_without_end():
    huge = obj_of(**{"x" * 600_000: obj_of(**{f"f{i}": {} for i in range(1000)})})
    assert len(violations(huge, "p")) == 2


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("^a+$", None),
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("a{2000}", "invalid repeat count: `{2000}`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("\\q", "invalid escape sequence: `\\q`"),
    ],
)
def test_patterns_are_refused_in_the_words_people_know(pattern, problem):
    assert pattern_problem(pattern) == (None if problem is None else f"error parsing regexp: {problem}")
