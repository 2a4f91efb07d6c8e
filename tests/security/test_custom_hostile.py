"""Definitions and objects made to stall or confuse a server that runs users' schemas, patterns and expressions.

Each is refused with a Status, or accepted and harmless; afterwards the server still answers and nothing half done is left.
"""

import pytest

from api_client import served

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/hostile.example.com/v1/namespaces/default/things"


def definition(spec, **version):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.hostile.example.com"},
        "spec": {
            "group": "hostile.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                    **version,
                }
            ],
        },
    }


def thing(name, spec):
    return {"apiVersion": "hostile.example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def nested(depth, leaf):
    schema = leaf
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def expression(rule, **schema):
    return {"type": "object", "x-kubernetes-validations": [{"rule": rule}], **schema}


LIST = {"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string"}}}}

REFUSED = {
    "a reference": ({"$ref": "#/definitions/Other"}, "$ref: Forbidden: $ref is not supported"),
    "a reference to itself": ({"type": "object", "$ref": "#"}, "$ref: Forbidden"),
    "a pattern that is none": ({"type": "string", "pattern": "(((("}, "missing closing )"),
    "a pattern with a look-behind": ({"type": "string", "pattern": "(?<=a)b"}, "pattern: Invalid value"),
    "a pattern with a back-reference": ({"type": "string", "pattern": r"(a)\1"}, "pattern: Invalid value"),
    "a schema without types": ({"properties": {"a": {}}}, "type: Required value"),
    "a loop in loops over lists without limits": (
        expression("self.l.all(a, self.l.all(b, self.l.all(c, a + b != c)))", **LIST),
        "exceeds budget",
    ),
    "a pattern over texts without limits, for each item": (
        expression("self.l.all(a, a.matches('^(a+)+$') && self.l.exists(b, b.contains(a)))", **LIST),
        "exceeds budget",
    ),
    "an expression that does not end": (expression("self." * 400 + "a"), "compilation failed"),
    "an expression of brackets": (expression("(" * 3000), "compilation failed"),
    "an expression of another type": (expression("1 + 1"), "cel expression must evaluate to a bool"),
    "an expression that reads what is not there": (expression("self.nope == 1"), "undefined field 'nope'"),
    "a default that breaks its own rule": (
        {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 1"}]},
        "default: Invalid value",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@served
async def test_a_hostile_schema_is_refused_with_a_message_and_not_served(api, case):
    spec, said = REFUSED[case]
    answer = await api.post(CRDS, definition(spec))
    assert answer.status == 422, answer
    assert said in answer.message
    assert answer["details"]["causes"]
    assert (await api.get(f"{CRDS}/things.hostile.example.com")).status == 404
    assert (await api.get(THINGS)).status == 404


@pytest.mark.parametrize("depth", [60, 100])
@served
async def test_a_schema_as_deep_as_a_body_may_be_works_to_its_leaf(api, depth):
    answer = await api.post(CRDS, definition(nested(depth, {"type": "integer", "maximum": 5, "default": 3})))
    assert answer.status == 201, answer
    value, path = 9, "spec" + ".a" * depth
    for _ in range(depth):
        value = {"a": value}
    refused = await api.post(THINGS, thing("deep", value))
    assert refused.status == 422, refused
    assert refused["details"]["causes"][0]["field"] == path
    empty = await api.post(THINGS, thing("empty", {}))
    assert empty.status == 201, empty


@served
async def test_an_enum_of_twenty_thousand_values_is_validated(api):
    values = [f"value-{number}" for number in range(20_000)]
    spec = {"type": "array", "items": {"type": "string", "enum": values}}
    assert (await api.post(CRDS, definition(spec))).status == 201
    assert (await api.post(THINGS, thing("good", values[::-1]))).status == 201
    answer = await api.post(THINGS, thing("bad", [*values, "other"]))
    assert answer.status == 422
    assert answer["details"]["causes"][0]["field"] == "spec[20000]"


@served
async def test_a_pattern_that_makes_other_engines_backtrack_is_validated(api):
    assert (await api.post(CRDS, definition({"type": "string", "pattern": "^(a+)+$"}))).status == 201
    answer = await api.post(THINGS, thing("slow", "a" * 200_000 + "!"))
    assert answer.status == 422
    assert "should match '^(a+)+$'" in answer.message


@served
async def test_unknown_field_errors_are_limited_to_a_hundred(api):
    assert (await api.post(CRDS, definition({"type": "object"}))).status == 201
    spec = {f"unknown{number}": number for number in range(100_000)}
    answer = await api.post(THINGS, thing("much", spec), fieldValidation="Strict")
    assert answer.status == 400
    assert answer.message.count("unknown field") == 100
    kept = await api.post(THINGS, thing("much", spec), fieldValidation="Ignore")
    assert kept.status == 201
    assert kept["spec"] == {}


@served
async def test_a_cel_rule_over_its_cost_budget_is_stopped_with_an_error(api):
    """A definition is accepted up to an estimate of ten times what one evaluation may cost."""
    rule = {"rule": "self.l.all(a, self.l.all(b, a.size() + b.size() >= 0))"}
    limited = {
        "type": "object",
        "x-kubernetes-validations": [rule],
        "properties": {
            "l": {"type": "array", "maxItems": 700, "items": {"type": "string", "maxLength": 4}},
        },
    }
    answer = await api.post(CRDS, definition(limited))
    assert answer.status == 201, answer
    refused = await api.post(THINGS, thing("dear", {"l": ["abcd"] * 700}))
    assert refused.status == 422, refused
    assert "call cost exceeds limit" in refused.message
    assert (await api.post(THINGS, thing("cheap", {"l": ["abcd"] * 10}))).status == 201


@served
async def test_an_object_too_large_after_defaulting_is_refused(api):
    item = {
        "type": "object",
        "properties": {"text": {"type": "string", "default": "x" * 10_000}},
    }
    assert (await api.post(CRDS, definition({"type": "array", "items": item}))).status == 201
    answer = await api.post(THINGS, thing("many", [{}] * 20_000))
    assert answer.status == 413, answer
    assert (await api.get(THINGS))["items"] == []


@served
async def test_an_object_nested_too_deep_is_a_bad_request(api):
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert (await api.post(CRDS, definition(spec))).status == 201
    value = {}
    for _ in range(240):
        value = {"a": value}
    assert (await api.post(THINGS, thing("deep", value))).status == 201
    for _ in range(300):
        value = {"a": value}
    assert (await api.post(THINGS, thing("deeper", value))).status == 400


@served
async def test_thousands_of_versions_are_refused_or_served_completely(api):
    crd = definition({"type": "object"})
    one = crd["spec"]["versions"][0]
    crd["spec"]["versions"] += [{**one, "name": f"v{number}", "storage": False} for number in range(2, 1000)]
    answer = await api.post(CRDS, crd)
    assert answer.status == 201, answer
    assert (await api.get("/apis/hostile.example.com/v999/namespaces/default/things")).status == 200
    group = await api.get("/apis/hostile.example.com")
    assert len(group["versions"]) == 999
    assert group["preferredVersion"]["version"] == "v999"
