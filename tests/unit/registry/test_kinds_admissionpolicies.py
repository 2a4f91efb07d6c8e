"""Admission policies and bindings: defaults, and what is refused with which words."""

import copy

import pytest
from kind_support import assert_idempotent, create_errors, created, thing, update_errors

from kapi.registry.kinds.admissionpolicies import GROUP, STRATEGIES

VALIDATING = STRATEGIES[GROUP, "ValidatingAdmissionPolicy"]
MUTATING = STRATEGIES[GROUP, "MutatingAdmissionPolicy"]
BINDING = STRATEGIES[GROUP, "ValidatingAdmissionPolicyBinding"]
MUTATING_BINDING = STRATEGIES[GROUP, "MutatingAdmissionPolicyBinding"]

RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
SPEC = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}
PATCH = {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/x'}]"}}
MUTATIONS = {
    "matchConstraints": {"resourceRules": [RULE]},
    "mutations": [PATCH],
    "reinvocationPolicy": "Never",
}
BOUND = {"policyName": "p", "validationActions": ["Deny"]}
UNDECLARED = "compilation failed: ERROR: <input>:1:1: undeclared reference to '{0}' (in container '')\n | {0}\n | ^"


def errors_of(strategy, base, change):
    spec = {key: value for key, value in {**copy.deepcopy(base), **change}.items() if value is not None}
    return create_errors(strategy, thing(spec=spec))


def test_defaults():
    obj, errors = created(VALIDATING, thing(spec=copy.deepcopy(SPEC)))
    assert errors == []
    assert obj["spec"] == {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "resourceRules": [{**RULE, "scope": "*"}],
        },
        "validations": [{"expression": "true"}],
    }
    assert created(MUTATING_BINDING, thing(spec={"policyName": "p"}))[0]["spec"] == {"policyName": "p"}
    assert_idempotent(VALIDATING, thing(spec=copy.deepcopy(SPEC)))


VARIABLE = "spec.variables[0]"
VALIDATION = "spec.validations[0]"
ANNOTATION = "spec.auditAnnotations[0]"
PARAM = "spec.paramKind"


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, []),
        (
            {"failurePolicy": "Maybe"},
            ['spec.failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"'],
        ),
        (
            {"failurePolicy": ""},
            ['spec.failurePolicy: Unsupported value: "": supported values: "Fail", "Ignore"'],
        ),
        ({"matchConstraints": None}, ["spec.matchConstraints: Required value"]),
        ({"matchConstraints": {}}, ["spec.matchConstraints.resourceRules: Required value"]),
        (
            {"matchConstraints": {"resourceRules": [{**RULE, "operations": [], "resourceNames": ["a", "a", "b/c"]}]}},
            [
                'spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"',
                "spec.matchConstraints.resourceRules[0].resourceNames[2]: Invalid value: \"b/c\": may not contain '/'",
                "spec.matchConstraints.resourceRules[0].operations: Required value",
            ],
        ),
        (
            {"matchConstraints": {"resourceRules": [RULE], "matchPolicy": "Near"}},
            ['spec.matchConstraints.matchPolicy: Unsupported value: "Near": supported values: "Equivalent", "Exact"'],
        ),
        (
            {"validations": None},
            [
                "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
                "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
            ],
        ),
        ({"validations": [{}]}, [f"{VALIDATION}.expression: Required value: expression is not specified"]),
        (
            {"validations": [{"expression": "foo", "messageExpression": "authorizer"}]},
            [
                f'{VALIDATION}.expression: Invalid value: "foo": {UNDECLARED.format("foo")}',
                f'{VALIDATION}.messageExpression: Invalid value: "authorizer": {UNDECLARED.format("authorizer")}',
            ],
        ),
        (
            {"validations": [{"expression": "'a'", "messageExpression": "1", "reason": "Why", "message": "a\nb"}]},
            [
                f"{VALIDATION}.expression: Invalid value: \"'a'\": must evaluate to bool but got string",
                f'{VALIDATION}.messageExpression: Invalid value: "1": must evaluate to string but got int',
                f'{VALIDATION}.message: Invalid value: "a\\nb": must not contain line breaks',
                (
                    f'{VALIDATION}.reason: Unsupported value: "Why": '
                    'supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"'
                ),
            ],
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": " ", "message": " "}]},
            [
                f'{VALIDATION}.messageExpression: Invalid value: " ": must be non-empty if specified',
                f'{VALIDATION}.message: Invalid value: " ": must be non-empty if specified',
            ],
        ),
        (
            {"validations": [{"expression": "variables.a"}]},
            [
                (
                    f'{VALIDATION}.expression: Invalid value: "variables.a": compilation failed: ERROR: <input>:1:1: '
                    "undeclared reference to 'variables' (in container '')\n | variables.a\n | ^"
                )
            ],
        ),
        ({"variables": [{"name": "a", "expression": "1 == 1"}], "validations": [{"expression": "variables.a"}]}, []),
        (
            {"variables": [{"name": "a", "expression": "variables.b"}, {"name": "for", "expression": ""}]},
            [
                (
                    f'{VARIABLE}.expression: Invalid value: "variables.b": compilation failed: ERROR: <input>:1:10: '
                    "undefined field 'b'\n | variables.b\n | .........^"
                ),
                'spec.variables[1].name: Invalid value: "for": must be a valid CEL identifier',
                "spec.variables[1].expression: Required value: expression is not specified",
            ],
        ),
        (
            {"paramKind": {"apiVersion": "a/b/c", "kind": "A_"}},
            [
                f'{PARAM}.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
                (
                    f'{PARAM}.kind: Invalid value: "A_": may have mixed case, but should otherwise match: a DNS-1035 label '
                    "must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and "
                    "end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
                    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
                ),
            ],
        ),
        ({"paramKind": {}}, [f"{PARAM}.apiVersion: Required value", f"{PARAM}.kind: Required value"]),
        (
            {"validations": [{"expression": "params.x == 1"}]},
            [
                (
                    f'{VALIDATION}.expression: Invalid value: "params.x == 1": compilation failed: ERROR: <input>:1:1: '
                    "undeclared reference to 'params' (in container '')\n | params.x == 1\n | ^"
                )
            ],
        ),
        (
            {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": "params.x == 1"}]},
            [],
        ),
        (
            {"auditAnnotations": [{"key": "a b", "valueExpression": "1"}, {"key": "a b", "valueExpression": ""}]},
            [
                (
                    f"{ANNOTATION}.key: Invalid value: \"a/a b\": name part must consist of alphanumeric characters, '-', "
                    "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
                    "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
                ),
                (
                    f'{ANNOTATION}.valueExpression: Invalid value: "1": '
                    "must evaluate to one of [string null_type] but got int"
                ),
                (
                    'spec.auditAnnotations[1].key: Invalid value: "a/a b": name part must consist of alphanumeric '
                    "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  "
                    "or 'my.name',  or '123-abc', regex used for validation is "
                    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
                ),
                "spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified",
                'spec.auditAnnotations[1].key: Duplicate value: "a b"',
            ],
        ),
    ],
)
def test_a_validating_policy_is_checked(change, wrong):
    assert errors_of(VALIDATING, SPEC, change) == wrong


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, []),
        ({"mutations": None}, ["spec.mutations: Required value: mutations must contain at least one item"]),
        ({"reinvocationPolicy": None}, ["spec.reinvocationPolicy: Required value"]),
        (
            {"matchConstraints": {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}},
            [
                (
                    'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": '
                    'supported values: "*", "CONNECT", "CREATE", "UPDATE"'
                )
            ],
        ),
        ({"mutations": [{}]}, ["spec.mutations[0].patchType: Required value"]),
        (
            {"mutations": [{"patchType": "Merge"}]},
            [
                (
                    'spec.mutations[0].patchType: Unsupported value: "Merge": '
                    'supported values: "ApplyConfiguration", "JSONPatch"'
                )
            ],
        ),
        (
            {"mutations": [{"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}}]},
            [
                "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
                (
                    'spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": '
                    "must not be specified when patchType is JSONPatch"
                ),
            ],
        ),
        (
            {"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "{'a': 1}"}}]},
            [
                (
                    "spec.mutations[0].applyConfiguration.expression: Invalid value: \"{'a': 1}\": "
                    "must evaluate to Object but got map(string, int)"
                )
            ],
        ),
        (
            {"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "Object{}"}}]},
            [
                (
                    'spec.mutations[0].jsonPatch.expression: Invalid value: "Object{}": '
                    "must evaluate to list(JSONPatch) but got Object"
                )
            ],
        ),
    ],
)
def test_a_mutating_policy_is_checked(change, wrong):
    assert errors_of(MUTATING, MUTATIONS, change) == wrong


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, []),
        ({"policyName": None}, ["spec.policyName: Required value"]),
        (
            {"validationActions": None},
            ["spec.validationActions: Required value: at least one validation action is required"],
        ),
        (
            {"validationActions": ["Deny", "Deny", "Shout"]},
            [
                'spec.validationActions[1]: Duplicate value: "Deny"',
                'spec.validationActions[2]: Unsupported value: "Shout": supported values: "Audit", "Deny", "Warn"',
            ],
        ),
        (
            {"validationActions": ["Deny", "Warn"]},
            [
                (
                    'spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn (repeating '
                    "the same validation failure information in the API response and headers serves no purpose)"
                )
            ],
        ),
        (
            {"paramRef": {}},
            [
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.paramRef.parameterNotFoundAction: Required value",
            ],
        ),
        (
            {"paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Cry"}},
            [
                "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
                'spec.paramRef.parameterNotFoundAction: Unsupported value: "Cry": supported values: "Deny", "Allow"',
            ],
        ),
    ],
)
def test_a_binding_is_checked(change, wrong):
    assert errors_of(BINDING, BOUND, change) == wrong


def test_a_mutating_binding_has_no_actions_and_no_deletions():
    match = {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}
    assert errors_of(MUTATING_BINDING, {"policyName": "p"}, {"matchResources": match}) == [
        (
            'spec.matchResources.resourceRules.operations: Unsupported value: "DELETE": '
            'supported values: "*", "CONNECT", "CREATE", "UPDATE"'
        )
    ]


def test_too_many_annotations_are_shown_by_the_names_of_kubernetes():
    annotations = [{"key": f"k{number}", "valueExpression": "'x'"} for number in range(21)]
    (error,) = errors_of(VALIDATING, SPEC, {"auditAnnotations": annotations})
    assert error.startswith('spec.auditAnnotations: Invalid value: [{"Key":"k0","ValueExpression":"\'x\'"},')
    assert error.endswith("]: must not have more than 20 auditAnnotations")


def test_accepted_match_conditions_are_left_alone_on_update():
    broken = {**SPEC, "matchConditions": [{"name": "a", "expression": "no such language"}]}
    old = thing(spec=broken)
    assert update_errors(VALIDATING, thing(spec=copy.deepcopy(broken)), old) == []
    with_params = {**copy.deepcopy(broken), "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
    assert len(update_errors(VALIDATING, thing(spec=with_params), old)) == 1


def test_the_status_names_fields_by_path():
    warnings = [{"fieldRef": "spec.validations[0].expression", "warning": "w"}, {"fieldRef": "a[", "warning": ""}]
    obj = thing(spec=SPEC, status={"typeChecking": {"expressionWarnings": warnings}})
    errors = [str(error) for error in VALIDATING.validate_status(None, obj, obj)]
    assert errors[0] == "status.typeChecking.expressionWarnings[1].warning: Required value"
    assert errors[1].startswith(
        'status.typeChecking.expressionWarnings[1].fieldRef: Invalid value: "a[": invalid JSONPath: '
    )
