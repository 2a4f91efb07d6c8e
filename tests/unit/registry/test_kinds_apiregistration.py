from __future__ import annotations

import pytest
from kind_support import NOW_TEXT, create_errors, created, status_errors, thing

from kapi.registry.kinds.apiregistration import APIServiceStrategy

STRATEGY = APIServiceStrategy()
SPEC = {"group": "x.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
SERVICE = {"namespace": "n", "name": "s"}


def test_local_services_are_available_at_once():
    obj, errors = created(STRATEGY, thing("v1.x.io", spec=SPEC))
    assert errors == []
    assert obj["status"]["conditions"] == [
        {
            "type": "Available",
            "status": "True",
            "lastTransitionTime": NOW_TEXT,
            "reason": "Local",
            "message": "Local APIServices are always available",
        }
    ]
    remote, _ = created(STRATEGY, thing("v1.x.io", spec={**SPEC, "service": dict(SERVICE)}))
    assert remote["status"] == {}
    assert remote["spec"]["service"]["port"] == 443


@pytest.mark.parametrize(
    ("name", "change", "wrong"),
    [
        ("v1.", {"group": ""}, []),
        ("a", {}, ['metadata.name: Invalid value: "a": must be `spec.version+"."+spec.group`: "v1.x.io"']),
        (
            "v2.",
            {"group": "", "version": "v2"},
            ["spec.group: Required value: only v1 may have an empty group and it better be legacy kube"],
        ),
        (
            "v1.x.io",
            {"groupPriorityMinimum": 0, "versionPriority": 1001},
            [
                "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
            ],
        ),
        (
            "v1.x.io",
            {"caBundle": "eHl6", "insecureSkipTLSVerify": True},
            [
                'spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle',
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
            ],
        ),
        (
            "v1.x.io",
            {"service": {}, "caBundle": "eHl6", "insecureSkipTLSVerify": True},
            [
                "spec.service.namespace: Required value",
                "spec.service.name: Required value",
                "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
            ],
        ),
    ],
)
def test_rules(name, change, wrong):
    assert create_errors(STRATEGY, thing(name, spec={**SPEC, **change})) == wrong


def test_conditions_and_names():
    assert status_errors(STRATEGY, thing(status={"conditions": [{"status": "X"}]}), thing()) == [
        'status.conditions[0].status: Unsupported value: "X": supported values: "True", "False", "Unknown"'
    ]
    assert STRATEGY.validate_name("v1.") == []
    assert STRATEGY.validate_name("a/b") != []
