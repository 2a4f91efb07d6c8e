from __future__ import annotations

import pytest
from kind_support import assert_idempotent, create_errors, created, status_errors, thing, update_errors

from kapi.registry.kinds.core.limitranges import LimitRangeStrategy
from kapi.registry.kinds.core.resourcequotas import ResourceQuotaStrategy

QUOTA = ResourceQuotaStrategy()
LIMITS = LimitRangeStrategy()


def _quota(**spec):
    return thing(spec=spec)


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"hard": {"cpu": "1", "pods": "3", "count/widgets.example.com": "2", "requests.nvidia.com/gpu": "1"}}, []),
        ({"hard": {"cpu": "-1"}}, ['spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
        ({"hard": {"pods": "1500m"}}, ['spec.hard[pods]: Invalid value: "1500m": must be an integer']),
        (
            {"hard": {"foo": "1"}},
            [
                'spec.hard[foo]: Invalid value: "foo": must be a standard resource type or fully qualified',
                'spec.hard[foo]: Invalid value: "foo": must be a standard resource for quota',
            ],
        ),
        ({"hard": {"storage": "1"}}, ['spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota']),
        ({"scopes": ["X"]}, ['spec.scopes: Invalid value: ["X"]: unsupported scope']),
        (
            {"scopes": ["BestEffort"], "hard": {"cpu": "1"}},
            ['spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource'],
        ),
        (
            {"scopes": ["Terminating", "NotTerminating"]},
            ['spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes'],
        ),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
            [
                ("spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when "
                "`operator` is 'In' or 'NotIn' for scope selector")
            ],
        ),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "BestEffort", "operator": "X"}]}},
            [
                ("spec.scopeSelector.matchExpressions.operator: Invalid value: \"X\": must be 'Exists' when scope is any of "
                "ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
                "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"),
                'spec.scopeSelector.matchExpressions.operator: Invalid value: "X": not a valid selector operator',
            ],
        ),
    ],
)  # fmt: skip
def test_quota_rules(spec, wrong):
    assert create_errors(QUOTA, _quota(**spec)) == wrong


def test_errors_of_very_many_scopes_and_resources_take_little_memory():
    hard = {f"hugepages-{number}Mi": "1" for number in range(2000)}
    errors = create_errors(QUOTA, _quota(hard=hard, scopes=["BestEffort", "X"] * 1000))
    assert {error.rpartition(": ")[2] for error in errors} == {
        "unsupported scope",
        "unsupported scope applied to resource",
    }
    assert sum(map(len, errors)) < 1_000_000


def test_quota_scopes_are_immutable_in_any_order():
    old = _quota(scopes=["Terminating", "PriorityClass"])
    assert update_errors(QUOTA, _quota(scopes=["PriorityClass", "Terminating"]), old) == []
    assert update_errors(QUOTA, _quota(scopes=["Terminating"]), old) == [
        'spec.scopes: Invalid value: ["Terminating"]: field is immutable'
    ]


def test_quota_status_is_validated_too():
    obj = thing(status={"hard": {"foo/bar": "1"}, "used": {"pods": "-1"}})
    assert status_errors(QUOTA, obj, thing()) == [
        'status.used[pods]: Invalid value: "-1": must be greater than or equal to 0'
    ]


def _limits(*limits):
    return thing(spec={"limits": list(limits)})


def test_container_limits_fill_in_defaults():
    limit = {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}, "default": {"storage.x/y": "1"}}
    obj, _ = created(LIMITS, _limits(limit))
    assert obj["spec"]["limits"][0]["default"] == {"cpu": "2", "storage.x/y": "1"}
    assert obj["spec"]["limits"][0]["defaultRequest"] == {"memory": "1Mi", "cpu": "2", "storage.x/y": "1"}
    assert_idempotent(LIMITS, _limits(limit))


@pytest.mark.parametrize(
    ("limits", "wrong"),
    [
        ([{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}], []),
        ([{"type": "X"}], ['spec.limits[0].type: Invalid value: "X": must be a standard limit type or fully qualified']),
        (
            [{"type": "Pod", "max": {"cpu": "1"}}, {"type": "Pod", "max": {"cpu": "1"}}],
            ['spec.limits[1].type: Duplicate value: "Pod"'],
        ),
        (
            [{"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}, "default": {"cpu": "1"}}],
            [
                "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
                'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
            ],
        ),
        (
            [{"type": "Container", "default": {"cpu": "3"}, "defaultRequest": {"cpu": "4"}, "max": {"cpu": "2"}}],
            [
                'spec.limits[0].defaultRequest[cpu]: Invalid value: "4": default request value 4 is greater than max value 2',
                'spec.limits[0].defaultRequest[cpu]: Invalid value: "4": default request value 4 is greater than default limit value 3',
                'spec.limits[0].default[cpu]: Invalid value: "2": default value 3 is greater than max value 2',
            ],
        ),
        (
            [{"type": "PersistentVolumeClaim"}],
            [
                ("spec.limits[0].limits: Required value: either minimum or maximum storage value is required, "
                "but neither was provided")
            ],
        ),
        (
            [{"type": "Pod", "maxLimitRequestRatio": {"cpu": "500m"}}],
            ['spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1'],
        ),
        (
            [{"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}],
            ['spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000'],
        ),
        ([{"type": "Pod", "max": {"pods": "1"}}], ['spec.limits[0].max[pods]: Invalid value: "pods": must be a standard resource for containers']),
    ],
)  # fmt: skip
def test_limit_range_rules(limits, wrong):
    assert create_errors(LIMITS, _limits(*limits)) == wrong
