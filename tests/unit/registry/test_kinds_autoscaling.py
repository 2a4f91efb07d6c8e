from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kind_support import assert_idempotent, create_errors, created, status_errors, thing, update_errors

from kapi.registry.kinds.autoscaling.conversion import cpu_metric, to_v1, to_v2
from kapi.registry.kinds.autoscaling.horizontal import HorizontalPodAutoscalerStrategy

STRATEGY = HorizontalPodAutoscalerStrategy()
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
PREFIX = "autoscaling.alpha.kubernetes.io/"


def _scaler(**spec):
    return thing(spec={"scaleTargetRef": TARGET, "maxReplicas": 3, **spec})


def test_defaults():
    obj, errors = created(STRATEGY, _scaler(behavior={"scaleDown": {"selectPolicy": "Min"}}))
    assert errors == []
    assert obj["spec"]["minReplicas"] == 1
    assert obj["spec"]["metrics"] == [cpu_metric(80)]
    assert obj["spec"]["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ],
        },
        "scaleDown": {
            "selectPolicy": "Min",
            "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
        },
    }
    assert_idempotent(STRATEGY, _scaler(behavior={}))


def _metric(kind, **source):
    return {"metrics": [{"type": kind, kind[:1].lower() + kind[1:]: source}]}


VALUE = {"type": "Value", "value": "1"}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"maxReplicas": 0}, [
            "spec.maxReplicas: Required value: must be set and greater than 0",
            "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
        ]),
        ({"minReplicas": 0}, [
            "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
            "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
        ]),
        ({"minReplicas": 4}, ["spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"]),
        ({"scaleTargetRef": {"kind": "Deployment", "name": "d"}}, ['spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group']),
        ({"scaleTargetRef": {"kind": "ReplicationController", "name": "d", "apiVersion": "v1"}}, []),
        (
            {"scaleTargetRef": {**TARGET, "apiVersion": "a/b/c", "name": ""}},
            [
                "spec.scaleTargetRef.name: Required value",
                'spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
            ],
        ),
        (_metric("Resource", name="cpu", target={"type": "Utilization", "averageUtilization": 0}), [
            "spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
        ]),
        (_metric("Resource", name="cpu", target={"type": "X"}), [
            'spec.metrics[0].resource.target.type: Invalid value: "X": must be either Utilization, Value, or AverageValue',
            "spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization",
        ]),
        (_metric("ContainerResource", name="cpu", target={"type": "AverageValue", "averageValue": "1"}), [
            "spec.metrics[0].containerResource.container: Required value: must specify a container",
        ]),
        (_metric("Pods", metric={"name": "m"}, target=VALUE), [
            "spec.metrics[0].pods.target.averageValue: Required value: must specify a positive target averageValue",
        ]),
        (_metric("External", metric={}, target={**VALUE, "averageValue": "1"}), [
            "spec.metrics[0].external.metric.name: Required value: must specify a metric name",
            "spec.metrics[0].external.target.value: Forbidden: may not set both a target value for metric and a per-pod target",
        ]),
        (_metric("Object", metric={"name": "m"}, describedObject={"kind": "S", "name": "s"}, target=VALUE), []),
        ({"metrics": [{"type": "Pods"}]}, ["spec.metrics[0].pods: Required value: must populate information for the given metric source"]),
        (
            {"behavior": {"scaleUp": {"policies": [{"type": "X", "value": 0, "periodSeconds": 1801}], "stabilizationWindowSeconds": 3601}}},
            [
                "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
                'spec.behavior.scaleUp.policies[0].type: Unsupported value: "X": supported values: "Percent", "Pods"',
                "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
            ],
        ),
    ],
)  # fmt: skip
def test_rules(spec, wrong):
    assert create_errors(STRATEGY, _scaler(**spec)) == wrong


def test_a_stored_invalid_target_may_stay():
    old = _scaler(scaleTargetRef={"kind": "Deployment", "name": "d"}, minReplicas=1, metrics=[cpu_metric(1)])
    renamed = copy.deepcopy(old)
    renamed["spec"]["scaleTargetRef"]["name"] = "e"
    assert update_errors(STRATEGY, renamed, old) == []


def test_status_counts():
    assert status_errors(STRATEGY, thing(status={"desiredReplicas": -1}), thing()) == [
        "status.desiredReplicas: Invalid value: -1: must be greater than or equal to 0"
    ]


# -- versions ---------------------------------------------------------------------------------------------------------


def test_v1_shows_cpu_as_a_field_and_the_rest_as_annotations():
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", "annotations": {"own": "1"}},
        "spec": {
            "scaleTargetRef": TARGET,
            "minReplicas": 1,
            "maxReplicas": 3,
            "metrics": [
                cpu_metric(60),
                {
                    "type": "Resource",
                    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
                },
            ],
            "behavior": {"scaleUp": {"selectPolicy": "Max"}},
        },
        "status": {
            "currentReplicas": 2,
            "desiredReplicas": 2,
            "currentMetrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "current": {"averageUtilization": 50, "averageValue": "5m"}},
                }
            ],
            "conditions": [{"type": "AbleToScale", "status": "True"}],
        },
    }
    v1 = to_v1(scaler)
    assert v1["apiVersion"] == "autoscaling/v1"
    assert v1["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 60,
    }
    assert v1["status"] == {"currentReplicas": 2, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 50}
    annotations = {key: json.loads(value) for key, value in v1["metadata"]["annotations"].items()}
    assert annotations == {
        "own": 1,
        f"{PREFIX}metrics": [{"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}}],
        f"{PREFIX}current-metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "currentAverageUtilization": 50, "currentAverageValue": "5m"},
            }
        ],
        f"{PREFIX}behavior": {"ScaleUp": {"SelectPolicy": "Max"}},
        f"{PREFIX}conditions": [{"type": "AbleToScale", "status": "True"}],
    }
    back = to_v2(v1)
    back["spec"]["metrics"].reverse()
    assert back == scaler


def test_v1_without_metrics_means_80_per_cent():
    v1 = {"metadata": {"name": "a"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 1}}
    assert to_v2(v1)["spec"]["metrics"] == [cpu_metric(80)]
    assert "annotations" not in to_v2(v1)["metadata"]


def test_broken_annotations_are_dropped():
    v1 = {
        "metadata": {"name": "a", "annotations": {f"{PREFIX}metrics": "{", f"{PREFIX}behavior": "[]", "own": "1"}},
        "spec": {"scaleTargetRef": TARGET, "maxReplicas": 1, "targetCPUUtilizationPercentage": 5},
    }
    v2 = to_v2(v1)
    assert v2["metadata"]["annotations"] == {"own": "1"}
    assert v2["spec"] == {"scaleTargetRef": TARGET, "maxReplicas": 1, "metrics": [cpu_metric(5)]}


QUANTITY = st.sampled_from(["1", "500m", "2Gi"])
IDENTIFIER = st.fixed_dictionaries(
    {"name": st.sampled_from(["m", "n"])}, optional={"selector": st.just({"matchLabels": {"a": "b"}})}
)
AVERAGE = st.fixed_dictionaries({"type": st.just("AverageValue"), "averageValue": QUANTITY})
TOTAL = st.fixed_dictionaries({"type": st.just("Value"), "value": QUANTITY})
UTILIZATION = st.fixed_dictionaries({"type": st.just("Utilization"), "averageUtilization": st.integers(1, 99)})
METRICS = st.one_of(
    st.fixed_dictionaries({"metric": IDENTIFIER, "target": AVERAGE}).map(lambda s: {"type": "Pods", "pods": s}),
    st.fixed_dictionaries({"metric": IDENTIFIER, "target": AVERAGE | TOTAL}).map(
        lambda s: {"type": "External", "external": s}
    ),
    st.fixed_dictionaries({"metric": IDENTIFIER, "target": AVERAGE | TOTAL, "describedObject": st.just(TARGET)}).map(
        lambda s: {"type": "Object", "object": s}
    ),
    st.fixed_dictionaries({"name": st.just("memory"), "target": AVERAGE | UTILIZATION}).map(
        lambda s: {"type": "Resource", "resource": s}
    ),
    st.fixed_dictionaries({"name": st.just("cpu"), "container": st.just("c"), "target": AVERAGE | UTILIZATION}).map(
        lambda s: {"type": "ContainerResource", "containerResource": s}
    ),
)


@given(st.lists(METRICS, min_size=1, max_size=4))
def test_metrics_round_trip_through_v1(metrics):
    scaler = {
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": "a"},
        "spec": {"maxReplicas": 1, "metrics": metrics},
        "status": {"desiredReplicas": 0, "currentMetrics": None},
    }
    before = copy.deepcopy(scaler)
    assert to_v2(to_v1(scaler)) == scaler
    assert scaler == before


def test_a_v2_object_with_nulls_converts_as_if_they_were_absent():
    """The configuration of a server-side apply is converted before anything has removed its nulls."""
    metrics = [
        None,
        {"type": "Resource", "resource": None},
        {"type": "Resource", "resource": {"name": "cpu", "target": None}},
    ]
    scaler = thing(spec={"metrics": metrics, "behavior": None}, status={"currentMetrics": [None, {"resource": None}]})
    converted = to_v1(scaler)
    assert json.loads(converted["metadata"]["annotations"][f"{PREFIX}metrics"])[0] == {}
    assert to_v1(thing(spec=None, status=None))["spec"] == {}
    assert to_v2(thing(spec=None, status=None))["spec"]["metrics"] == [cpu_metric(80)]
