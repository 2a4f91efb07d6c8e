from __future__ import annotations

import pytest
from kind_support import Shelf, create_errors, created, status_errors, thing, update_errors

from kapi.api.errors import Forbidden
from kapi.registry.kinds.core.serviceaccounts import ServiceAccountStrategy
from kapi.registry.kinds.policy import PodDisruptionBudgetStrategy
from kapi.registry.kinds.scheduling import PriorityClassStrategy

BUDGET = PodDisruptionBudgetStrategy()
PRIORITY = PriorityClassStrategy()
ACCOUNT = ServiceAccountStrategy()


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"minAvailable": 1}, []),
        ({"maxUnavailable": "50%"}, []),
        ({"minAvailable": "101%"}, ['spec.minAvailable: Invalid value: "101%": must not be greater than 100%']),
        ({"minAvailable": -1}, ["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"]),
        (
            {"maxUnavailable": "x"},
            [
                (
                    'spec.maxUnavailable: Invalid value: "x": a valid percent string must be a numeric string followed by an '
                    "ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
                )
            ],
        ),
        (
            {"minAvailable": 1, "maxUnavailable": 1},
            [
                (
                    'spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":1,'
                    '"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set'
                )
            ],
        ),
        (
            {"unhealthyPodEvictionPolicy": "X"},
            [
                (
                    'spec.unhealthyPodEvictionPolicy: Unsupported value: "X": supported values: "AlwaysAllow", '
                    '"IfHealthyBudget"'
                )
            ],
        ),
    ],
)
def test_disruption_budget_rules(spec, wrong):
    assert create_errors(BUDGET, thing(spec=spec)) == wrong


def test_disruption_budget_status():
    obj, _ = created(BUDGET, thing(spec={"minAvailable": 1}))
    assert obj["status"] == {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    assert status_errors(BUDGET, thing(status={"currentHealthy": -1}), obj) == [
        "status.currentHealthy: Invalid value: -1: must be greater than or equal to 0"
    ]


RESERVED = "priority class names with 'system-' prefix are reserved for system use only. error:"


@pytest.mark.parametrize(
    ("name", "fields", "wrong"),
    [
        ("a", {"value": 1_000_000_000}, []),
        (
            "a",
            {"value": 1_000_000_001},
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        ),
        ("system-cluster-critical", {"value": 2_000_000_000}, []),
        (
            "system-x",
            {"value": 1},
            [f"metadata.name: Forbidden: {RESERVED} system-x is not a known system priority class"],
        ),
        (
            "system-node-critical",
            {"value": 1},
            [f"metadata.name: Forbidden: {RESERVED} value of system-node-critical PriorityClass must be 2000001000"],
        ),
        (
            "a",
            {"value": 1, "preemptionPolicy": "X"},
            ['preemptionPolicy: Unsupported value: "X": supported values: "PreemptLowerPriority", "Never"'],
        ),
    ],
)
def test_priority_rules(name, fields, wrong):
    assert create_errors(PRIORITY, thing(name, "", **fields)) == wrong


def test_priority_is_immutable():
    old, _ = created(PRIORITY, thing(value=1))
    assert old["preemptionPolicy"] == "PreemptLowerPriority"
    assert update_errors(PRIORITY, {**old, "value": 2, "preemptionPolicy": "Never"}, old) == [
        "value: Forbidden: may not be changed in an update.",
        'preemptionPolicy: Invalid value: "Never": field is immutable',
    ]
    assert not PRIORITY.generation_changed({**old, "description": "x"}, old)


def test_there_is_one_default_priority():
    shelf = Shelf(priorityclasses=[thing("first", "", value=1, globalDefault=True)])
    with pytest.raises(Forbidden) as refused:
        created(PRIORITY, thing("second", "", value=1, globalDefault=True), lookup=shelf)
    assert refused.value.message == (
        'priorityclasses.scheduling.k8s.io "second" is forbidden: '
        "PriorityClass first is already marked as default. Only one default can exist"
    )
    first = thing("first", "", value=1, globalDefault=True, preemptionPolicy="PreemptLowerPriority")
    assert update_errors(PRIORITY, first, first, lookup=shelf) == []


def test_service_account_secrets_are_names():
    obj, _ = created(ACCOUNT, thing(secrets=[{"name": "s", "namespace": "x", "kind": "Secret"}]))
    assert obj["secrets"] == [{"name": "s"}]
    obj["metadata"]["annotations"] = {"kubernetes.io/enforce-mountable-secrets": "true"}
    assert "deprecated in v1.32+" in ACCOUNT.warnings(obj, None)[0]
    assert ACCOUNT.warnings(obj, obj) == []
