from __future__ import annotations

import pytest
from kind_support import assert_idempotent, create_errors, created, thing, update_errors

from kapi.registry.kinds.admissionregistration import GROUP, STRATEGIES

VALIDATING = STRATEGIES[GROUP, "ValidatingWebhookConfiguration"]
MUTATING = STRATEGIES[GROUP, "MutatingWebhookConfiguration"]
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
HOOK = {
    "name": "a.b.io",
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "clientConfig": {"url": "https://x/y"},
    "rules": [RULE],
}


def _configuration(**change):
    hook = {key: value for key, value in {**HOOK, **change}.items() if value is not None}
    return thing(webhooks=[hook])


def test_webhook_defaults():
    service = {"service": {"name": "s", "namespace": "n"}}
    obj, errors = created(MUTATING, _configuration(clientConfig=service))
    assert errors == []
    hook = obj["webhooks"][0]
    assert hook["failurePolicy"] == "Fail"
    assert hook["matchPolicy"] == "Equivalent"
    assert hook["timeoutSeconds"] == 10
    assert hook["reinvocationPolicy"] == "Never"
    assert hook["namespaceSelector"] == hook["objectSelector"] == {}
    assert hook["rules"][0]["scope"] == "*"
    assert hook["clientConfig"]["service"]["port"] == 443
    assert "reinvocationPolicy" not in created(VALIDATING, _configuration())[0]["webhooks"][0]
    assert_idempotent(MUTATING, _configuration())


def _rule(**change):
    return {"rules": [{**RULE, **change}]}


URL = "webhooks[0].clientConfig.url"
FORM = "; desired format: https://host[/path]"


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, []),
        ({"name": "a.b"}, ['webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments separated by dots']),
        ({"name": None}, ["webhooks[0].name: Required value"]),
        ({"sideEffects": None}, ["webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"]),
        ({"sideEffects": "Some"}, ['webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"']),
        ({"timeoutSeconds": 31}, ["webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"]),
        ({"admissionReviewVersions": None}, ["webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"]),
        ({"admissionReviewVersions": ["v2"]}, ['webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1']),
        ({"failurePolicy": "X"}, ['webhooks[0].failurePolicy: Unsupported value: "X": supported values: "Fail", "Ignore"']),
        ({"clientConfig": {}}, ["webhooks[0].clientConfig: Required value: exactly one of url or service is required"]),
        ({"clientConfig": {"url": "::"}}, [f'{URL}: Required value: url must be a valid URL: parse "::": missing protocol scheme{FORM}']),
        ({"clientConfig": {"url": "http://u@x/?q#f"}}, [
            f"{URL}: Invalid value: \"http\": 'https' is the only allowed URL scheme{FORM}",
            f'{URL}: Invalid value: "u": user information is not permitted in the URL',
            f'{URL}: Invalid value: "f": fragments are not permitted in the URL',
            f'{URL}: Invalid value: "q": query parameters are not permitted in the URL',
        ]),
        ({"clientConfig": {"service": {"namespace": "n", "path": "a//b", "port": 0}}}, [
            "webhooks[0].clientConfig.service.namespace: Required value",
            "webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            "webhooks[0].clientConfig.service.path: Invalid value: \"a//b\": must start with a '/'",
            'webhooks[0].clientConfig.service.path: Invalid value: "a//b": segment[0] may not be empty',
            'webhooks[0].clientConfig.service.path: Invalid value: "a//b": segment[1] may not be empty',
        ]),
        (_rule(operations=[]), ["webhooks[0].rules[0].operations: Required value"]),
        (_rule(operations=["*", "CREATE"]), [
            "webhooks[0].rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations",
        ]),
        (_rule(apiGroups=["*", "x"], apiVersions=[""]), [
            "webhooks[0].rules[0].apiGroups: Invalid value: [\"*\",\"x\"]: if '*' is present, must not specify other API groups",
            "webhooks[0].rules[0].apiVersions[0]: Required value",
        ]),
        (_rule(resources=["pods/*", "pods/log"]), [
            "webhooks[0].rules[0].resources[1]: Invalid value: \"pods/log\": if 'pods/*' is present, must not specify pods/log",
        ]),
        (_rule(resources=["*/*", "pods"]), [
            "webhooks[0].rules[0].resources: Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources",
        ]),
        (_rule(resources=["*", "pods"]), [
            "webhooks[0].rules[0].resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources without subresources",
        ]),
        ({"matchConditions": [{"name": "a", "expression": " "}, {"name": "a", "expression": "true"}]}, [
            "webhooks[0].matchConditions[0].expression: Required value",
            'webhooks[0].matchConditions[1].name: Duplicate value: "a"',
        ]),
    ],
)  # fmt: skip
def test_webhook_rules(change, wrong):
    assert create_errors(VALIDATING, _configuration(**change)) == wrong


def test_webhook_names_differ():
    assert create_errors(VALIDATING, thing(webhooks=[HOOK, HOOK])) == ['webhooks[1].name: Duplicate value: "a.b.io"']


def test_side_effects_accepted_long_ago_may_stay():
    old = _configuration(sideEffects="Unknown")
    assert update_errors(VALIDATING, old, old) == []
    assert update_errors(VALIDATING, old, _configuration()) != []


def test_generation_counts_webhooks_only():
    old, _ = created(VALIDATING, _configuration())
    assert not VALIDATING.generation_changed({**old, "metadata": {"name": "b"}}, old)
    assert VALIDATING.generation_changed({**old, "webhooks": []}, old)


def test_match_conditions_must_compile():
    conditions = [{"name": "a", "expression": "variables.x"}, {"name": "b", "expression": " 1 "}]
    errors = create_errors(VALIDATING, _configuration(matchConditions=conditions))
    assert errors == [
        (
            'webhooks[0].matchConditions[0].expression: Invalid value: "variables.x": compilation failed: ERROR: '
            "<input>:1:1: undeclared reference to 'variables' (in container '')\n | variables.x\n | ^"
        ),
        'webhooks[0].matchConditions[1].expression: Invalid value: "1": must evaluate to bool but got int',
    ]
