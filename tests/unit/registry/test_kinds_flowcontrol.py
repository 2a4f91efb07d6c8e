from __future__ import annotations

import pytest
from kind_support import create_errors, created, status_errors, thing

from kapi.registry.kinds.flowcontrol import GROUP, STRATEGIES

SCHEMA = STRATEGIES[GROUP, "FlowSchema"]
LEVEL = STRATEGIES[GROUP, "PriorityLevelConfiguration"]
USER = {"kind": "User", "user": {"name": "u"}}
RESOURCES = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}


def _schema(name="a", **spec):
    rules = [{"subjects": [USER], "resourceRules": [RESOURCES]}]
    return thing(name, spec={"priorityLevelConfiguration": {"name": "l"}, "rules": rules, **spec})


def test_schema_defaults():
    obj, errors = created(SCHEMA, _schema())
    assert errors == []
    assert obj["spec"]["matchingPrecedence"] == 1000


def _rules(**rule):
    return {"rules": [{"subjects": [USER], "resourceRules": [RESOURCES], **rule}]}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"matchingPrecedence": -1}, ["spec.matchingPrecedence: Invalid value: -1: must be a positive value"]),
        ({"matchingPrecedence": 10001}, ["spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"]),
        ({"matchingPrecedence": 1}, ["spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"]),
        ({"priorityLevelConfiguration": {}}, ["spec.priorityLevelConfiguration.name: Required value: must reference a priority level"]),
        ({"distinguisherMethod": {"type": "X"}}, ['spec.distinguisherMethod.type: Unsupported value: {"Type":"X"}: supported values: "ByNamespace", "ByUser"']),
        (_rules(subjects=[]), ["spec.rules[0].subjects: Required value: subjects must contain at least one value"]),
        (_rules(resourceRules=[]), ["spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty"]),
        (_rules(subjects=[{"kind": "X"}]), ['spec.rules[0].subjects[0].kind: Unsupported value: "X": supported values: "Group", "ServiceAccount", "User"']),
        (_rules(subjects=[{"kind": "Group", "user": {"name": "u"}}]), [
            "spec.rules[0].subjects[0].group: Required value: group is required when subject kind is 'Group'",
            "spec.rules[0].subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'",
        ]),
        (_rules(subjects=[{"kind": "ServiceAccount", "serviceAccount": {"name": "*"}}]), [
            "spec.rules[0].subjects[0].serviceAccount.namespace: Required value: must specify namespace for service account",
        ]),
        (_rules(resourceRules=[{**RESOURCES, "verbs": ["*", "get"], "namespaces": []}]), [
            "spec.rules[0].resourceRules[0].verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not specify other verbs",
            "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace",
        ]),
        (_rules(resourceRules=[{**RESOURCES, "namespaces": [], "clusterScope": True}]), []),
        (_rules(nonResourceRules=[{"verbs": ["get"], "nonResourceURLs": ["x", "/a*"]}]), [
            'spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "x": must start with slash',
            'spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: "/a*": wildcard can only do suffix matching',
        ]),
    ],
)  # fmt: skip
def test_schema_rules(spec, wrong):
    assert create_errors(SCHEMA, _schema(**spec)) == wrong


def test_level_defaults():
    spec = {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}
    obj, errors = created(LEVEL, thing(spec=spec))
    assert errors == []
    assert obj["spec"]["limited"] == {
        "nominalConcurrencyShares": 30,
        "lendablePercent": 0,
        "limitResponse": {"type": "Queue", "queuing": {"handSize": 8, "queues": 64, "queueLengthLimit": 50}},
    }


def _queue(**queuing):
    return {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": queuing}}}


QUEUING = "spec.limited.limitResponse.queuing"


@pytest.mark.parametrize(
    ("name", "spec", "wrong"),
    [
        ("a", {"type": "Exempt"}, ["spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"]),
        ("exempt", {"type": "Exempt", "exempt": {}}, []),
        ("a", {"type": "Limited"}, ["spec.limited: Required value: must not be empty when type is Limited"]),
        ("a", {}, ["spec.type: Required value"]),
        ("a", {"type": "X"}, ['spec.type: Unsupported value: "X": supported values: "Exempt", "Limited"']),
        ("a", {"type": "Limited", "limited": {"limitResponse": {"type": "Reject", "queuing": {}}, "lendablePercent": 101}}, [
            "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
            f"{QUEUING}: Forbidden: must be nil if limited.limitResponse.type is not Limited",
        ]),
        ("a", _queue(queues=4, handSize=5), [f"{QUEUING}.handSize: Invalid value: 5: should not be greater than queues (4)"]),
        ("a", _queue(queues=512, handSize=8), [
            f"{QUEUING}.handSize: Invalid value: 8: required entropy bits of deckSize 512 and handSize 8 should not be greater than 60",
        ]),
        ("a", _queue(queues=-1, queueLengthLimit=-1), [
            f"{QUEUING}.queueLengthLimit: Invalid value: -1: must be positive",
            f"{QUEUING}.queues: Invalid value: -1: must be positive",
            f"{QUEUING}.handSize: Invalid value: 8: should not be greater than queues (-1)",
        ]),
    ],
)  # fmt: skip
def test_level_rules(name, spec, wrong):
    assert create_errors(LEVEL, thing(name, spec=spec)) == wrong


def test_condition_types_are_unique():
    obj = thing(status={"conditions": [{"type": "A"}, {"type": "A"}, {}]})
    expected = [
        'status.conditions[1].type: Duplicate value: "A"',
        "status.conditions[2].type: Required value",
    ]
    assert status_errors(SCHEMA, obj, thing()) == status_errors(LEVEL, obj, thing()) == expected
