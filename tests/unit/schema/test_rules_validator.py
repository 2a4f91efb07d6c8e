"""Rules of schemas: what definitions must live up to, and what is said about objects.

The corpus has what kube-apiserver answers for the same definitions and objects, and what its rules cost at run time.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kapi.api.fielderror import FieldError, invalid, required, too_long
from kapi.schema.rules import validator as module
from kapi.schema.rules.checks import check_rules
from kapi.schema.rules.validator import REQUEST_BUDGET, RuleValidator, compile_rules, skipped_rules, validate_default
from kapi.schema.structural.model import MISSING, read

CORPUS = json.loads(Path(__file__).with_name("rules_corpus.json").read_text())
PATH = "$"
STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def rule(text: str, **more: Any) -> dict[str, Any]:
    return {"rule": text, **more}


def resource(*rules: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """The schema of a resource whose `spec` has these properties and rules."""
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules)}
    return {"type": "object", "properties": {"spec": spec}}


def validator_of(schema: dict[str, Any]) -> RuleValidator:
    validate = compile_rules(read(schema))
    assert validate is not None
    return validate


def lines(errors: list[FieldError]) -> list[str]:
    return sorted(f"{error.reason}|{error}" for error in errors)


# -- definitions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CORPUS["definitions"], ids=lambda case: case["name"])
def test_definitions_have_the_errors_of_kube_apiserver(case: dict[str, Any]) -> None:
    assert lines(check_rules(read(case["schema"]), PATH)) == case["errors"]


def test_only_wording_is_checked_where_the_schema_is_not_structural() -> None:
    schema = read(resource(rule("self.nope"), rule(""), a=STRING))
    assert [error.field for error in check_rules(schema, PATH, is_structural=False)] == [
        "$.properties[spec].x-kubernetes-validations[1].rule"
    ]


def test_expressions_above_another_error_are_not_looked_at() -> None:
    schema = read(resource(rule("self.nope"), a=STRING))
    below = invalid("$.properties[spec].properties[a].type", "x", "no such type")
    elsewhere = invalid("$.properties[other].type", "x", "no such type")
    assert check_rules(schema, PATH, known=[below]) == []
    assert len(check_rules(schema, PATH, known=[elsewhere])) == 1


def test_an_unchanged_schema_may_keep_expensive_rules() -> None:
    items = {"type": "array", "items": STRING, "maxItems": 100}
    schema = read(resource(rule("self.l.all(x, x.contains('abc'))"), l=items))
    assert "estimated rule cost exceeds budget by factor of 3.1x" in str(check_rules(schema, PATH)[0])
    assert check_rules(schema, PATH, cost_limited=False) == []


def test_the_four_most_expensive_rules_are_named_when_the_total_is_too_much() -> None:
    below = {"type": "integer", "x-kubernetes-validations": [rule("self > 1")]}
    lists = {f"l{size}": {"type": "array", "items": below, "maxItems": size * 100_000} for size in range(30, 50)}
    errors = [error.field for error in check_rules(read(resource(**lists)), PATH)]
    assert errors == [
        *(
            f"$.properties[spec].properties[l{size}].items.x-kubernetes-validations[0].rule"
            for size in (49, 48, 47, 46)
        ),
        PATH,
    ]


def test_a_rule_longer_than_expressions_may_be_is_refused() -> None:
    (error,) = check_rules(read(resource(rule(f"self.a == '{'x' * 100_001}'"), a=STRING)), PATH)
    assert "expression code point size exceeds limit: size: 100013, limit 100000" in error.body


def test_an_expression_that_can_never_run_is_refused() -> None:
    (error,) = check_rules(read(resource(rule("int('x') > 0"), a=STRING)), PATH)
    assert error.body.endswith("program instantiation failed: type conversion error from 'string' to 'int'")


# -- objects ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CORPUS["objects"], ids=lambda case: case["name"])
def test_objects_have_the_errors_of_kube_apiserver(case: dict[str, Any]) -> None:
    validate, warnings = validator_of(case["schema"]), list[str]()
    old = case.get("old", MISSING)
    assert lines(validate(case["value"], old, warnings=warnings)) == sorted(case["errors"])
    assert sorted(warnings) == sorted(case["warnings"])


@pytest.mark.parametrize("case", CORPUS["objects"], ids=lambda case: case["name"])
def test_rules_cost_at_run_time_what_they_cost_in_kube_apiserver(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluations = []

    class Watched(module._Evaluation):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            evaluations.append(self)

    monkeypatch.setattr(module, "_Evaluation", Watched)
    validator_of(case["schema"])(case["value"], case.get("old", MISSING))
    assert REQUEST_BUDGET - evaluations[0].budget == case["cost"]


def test_a_schema_without_rules_needs_no_validator() -> None:
    assert compile_rules(read(resource(a=STRING) | {"allOf": [{"x-kubernetes-validations": [rule("false")]}]})) is None


def test_rules_are_compiled_when_they_first_meet_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    compile_rule = module.compile_rule

    def counting(one: Any, variables: Any) -> Any:
        made.append(one.rule)
        return compile_rule(one, variables)

    monkeypatch.setattr(module, "compile_rule", counting)
    below = STRING | {"x-kubernetes-validations": [rule("self != 'x'")]}
    validate = validator_of(resource(rule("true"), a=below))
    validate({})
    assert made == []
    validate({"spec": {}})
    assert made == ["true"]
    validate({"spec": {"a": "y"}})
    validate({"spec": {"a": "y"}})
    assert made == ["true", "self != 'x'"]


def test_paths_begin_where_the_caller_says() -> None:
    validate = validator_of(resource(rule("false", fieldPath=".a"), rule("false"), a=STRING))
    assert [error.field for error in validate({"spec": {}}, MISSING, "template")] == [
        "template.spec.a",
        "template.spec",
    ]


def test_a_call_that_costs_too_much_ends_the_evaluation() -> None:
    expensive = rule("self.l.all(x, self.l.all(y, self.l.all(z, x + y != z)))", message="three")
    validate = validator_of(resource(expensive, rule("false"), l={"type": "array", "items": STRING}))
    (error,) = validate({"spec": {"l": [f"a{index}" for index in range(200)]}})
    assert str(error) == (
        "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules "
        "will be run due to call cost exceeds limit for rule: three"
    )


def test_a_message_that_costs_too_much_ends_the_evaluation() -> None:
    wording = "self.l.all(x, self.l.all(y, self.l.all(z, x + y != z))) ? 'a' : 'b'"
    items = {"type": "array", "items": STRING}
    validate = validator_of(resource(rule("false", messageExpression=wording, fieldPath=".l"), rule("false"), l=items))
    value = {"spec": {"l": [f"a{index}" for index in range(200)]}}
    (error,) = validate(value)
    assert str(error) == (
        'spec.l: Invalid value: "object": no further validation rules will be run due to call cost exceeds limit for '
        f'messageExpression: "{wording}"'
    )
    (error,) = validate(value, budget=1000)
    assert str(error) == (
        'spec.l: Invalid value: "object": messageExpression evaluation failed due to running out of cost budget, no '
        "further validation rules will be run"
    )


def test_one_budget_is_for_all_rules_of_an_object() -> None:
    search = rule(f"self.s.contains('{'z' * 50}')", message="no z")
    items = {"type": "object", "properties": {"s": STRING}, "x-kubernetes-validations": [search]}
    validate = validator_of(resource(l={"type": "array", "items": items}))
    errors = validate({"spec": {"l": [{"s": "a" * 1_000_000}] * 30}})
    assert [error.field for error in errors] == [f"spec.l[{index}]" for index in range(20)]
    assert {error.body for error in errors[:-1]} == {"Invalid value: no z"}
    assert errors[-1].body == (
        'Invalid value: "object": validation failed due to running out of cost budget, no further validation rules will '
        "be run"
    )


def test_long_messages_are_not_shown() -> None:
    validate = validator_of(resource(rule("false", messageExpression="self.a", message="too long"), a=STRING))
    assert str(validate({"spec": {"a": "é" * 2561}})[0]) == "spec: Invalid value: too long"
    assert str(validate({"spec": {"a": "é" * 2560}})[0]) == f"spec: Invalid value: {'é' * 2560}"


def test_many_failures_in_an_unchanged_list_are_compared_once() -> None:
    """Each failing item asks whether the list changed; if each compared the list anew this would take minutes."""
    items = INTEGER | {"x-kubernetes-validations": [rule("self > 0")]}
    validate = validator_of(resource(l={"type": "array", "items": items}))
    value = {"spec": {"l": [0] * 10_000}}
    warnings: list[str] = []
    assert validate(value, json.loads(json.dumps(value)), warnings=warnings) == []
    assert len(warnings) == 10_000


def test_what_is_said_about_one_object_is_bounded() -> None:
    items = INTEGER | {"x-kubernetes-validations": [rule("self > 0", message="x" * 10_000)]}
    validate = validator_of(resource(l={"type": "array", "items": items}))
    value = {"spec": {"l": [0] * 10_000}}
    assert len(validate(value)) < 200
    warnings: list[str] = []
    assert validate(value, json.loads(json.dumps(value)), warnings=warnings) == []
    assert len(warnings) < 200


def test_deep_schemas_with_deep_expressions_are_validated_or_refused() -> None:
    deep = rule(f"{'[' * 240}1{']' * 240}.size() > 1", message="deep")
    schema: dict[str, Any] = {"type": "object", "x-kubernetes-validations": [deep]}
    value: Any = {}
    for _ in range(100):
        schema, value = {"type": "object", "properties": {"a": schema}}, {"a": value}
    assert check_rules(read(schema), PATH) == []
    (error,) = validator_of(schema)(value)
    assert error.body == "Invalid value: deep"


def test_defaults_must_do_as_first_values_and_as_unchanged_ones() -> None:
    first = {"type": "integer", "x-kubernetes-validations": [rule("oldSelf.hasValue()", optionalOldSelf=True)]}
    growing = {"type": "integer", "x-kubernetes-validations": [rule("self > oldSelf")]}
    plain = {"type": "integer", "x-kubernetes-validations": [rule("self > 0", message="positive")]}
    assert str(validate_default(read(first), 1, "p.default", False)[0]) == (
        "p.default: Invalid value: 1: failed rule: oldSelf.hasValue()"
    )
    assert str(validate_default(read(growing), 1, "p.default", False)[0]) == (
        "p.default: Invalid value: 1: failed rule: self > oldSelf"
    )
    assert lines(validate_default(read(plain), 0, "p", False)) == ["FieldValueInvalid|p: Invalid value: 0: positive"]
    assert validate_default(read(plain), 1, "p", False) == []
    assert validate_default(read(INTEGER), 0, "p", False) == []


def test_values_are_left_as_they_were() -> None:
    props = {"n": {"type": "number"}, "t": STRING | {"format": "date-time"}}
    validate = validator_of(resource(rule("self.n > 0.5 && self.t > timestamp('2020-01-01T00:00:00Z')"), **props))
    value = {"spec": {"n": 1, "t": "2021-01-01T00:00:00Z"}}
    assert validate(value) == []
    assert value == {"spec": {"n": 1, "t": "2021-01-01T00:00:00Z"}}
    assert type(value["spec"]["n"]) is int


def test_an_optional_earlier_state_is_json_as_it_is() -> None:
    """kube-apiserver gives sets inside the optional as lists, so that order counts when they stand on the left."""
    tags = {"type": "array", "x-kubernetes-list-type": "set", "items": STRING}
    texts = ("self.tags == oldSelf.value().tags", "oldSelf.value().tags == self.tags")
    validate = validator_of(resource(*(rule(text, optionalOldSelf=True, message=text) for text in texts), tags=tags))
    errors = validate({"spec": {"tags": ["a", "b"]}}, {"spec": {"tags": ["b", "a"]}})
    assert lines(errors) == [f"FieldValueInvalid|spec: Invalid value: {texts[1]}"]


def test_rules_wait_for_an_object_of_the_right_shape() -> None:
    notice = skipped_rules([required("spec.a")])
    assert notice == skipped_rules([too_long("spec.a", 1)])
    assert str(notice) == (
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
        "existing errors to complete validation"
    )
    assert skipped_rules([invalid("spec.a", 1, "too small")]) is None
    assert skipped_rules([]) is None
