"""The Scale of an object, and an object scaled."""

import pytest

from kapi.api.errors import Invalid
from kapi.registry.scale import apply_scale, scale_of


def _object(**fields):
    metadata = {"name": "d", "namespace": "ns", "uid": "u", "resourceVersion": "5", "labels": {"x": "y"}}
    return {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": metadata, **fields}


def test_scale_shows_replicas_and_selector():
    spec = {"replicas": 3, "selector": {"matchLabels": {"b": "2", "a": "1"}}}
    scale = scale_of(_object(spec=spec, status={"replicas": 2, "readyReplicas": 1}))
    assert scale == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "d", "namespace": "ns", "uid": "u", "resourceVersion": "5"},
        "spec": {"replicas": 3},
        "status": {"replicas": 2, "selector": "a=1,b=2"},
    }


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({"b": "2", "a": "1"}, "a=1,b=2"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["2", "1"]}]}, "a in (1,2)"),
        ({"matchLabels": {"x": "y"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}, "a,x=y"),
    ],
)
def test_selector_is_shown_as_text(selector, text):
    assert scale_of(_object(spec={"selector": selector}))["status"]["selector"] == text


def test_scale_of_an_empty_object():
    scale = scale_of(_object())
    assert (scale["spec"], scale["status"]) == ({}, {"replicas": 0})


def test_scaling_changes_replicas_and_takes_preconditions():
    scale = {"metadata": {"name": "d", "resourceVersion": "9", "uid": "other"}, "spec": {"replicas": 4}}
    obj = apply_scale(_object(spec={"replicas": 1, "paused": True}), scale)
    assert obj["spec"] == {"replicas": 4, "paused": True}
    assert (obj["metadata"]["resourceVersion"], obj["metadata"]["uid"]) == ("9", "other")
    assert obj["metadata"]["labels"] == {"x": "y"}


def test_scaling_without_replicas_means_none():
    assert apply_scale(_object(spec={"replicas": 1}), {"metadata": {}})["spec"]["replicas"] == 0
    assert apply_scale(_object(spec={"replicas": 1}), {"metadata": {}})["metadata"]["resourceVersion"] == ""


def test_negative_replicas_are_invalid():
    with pytest.raises(Invalid, match="must be greater than or equal to 0"):
        apply_scale(_object(), {"spec": {"replicas": -1}})
