"""LimitRanger: when LimitRanges apply. What they do is in `admission_programs`."""

import pytest

from api_client import NS, PODS, STRATEGIC, pod, served
from kapi.registry.quota.amounts import amounts_of
from kapi.server.admission.limitranger import ANNOTATION, Limit, LimitRange

RANGES = f"{NS}/default/limitranges"
CLAIMS = f"{NS}/default/persistentvolumeclaims"


def limits(*items, name="l"):
    return {"metadata": {"name": name}, "spec": {"limits": list(items)}}


def sized(requests=None, limits=None):
    made = pod()
    made["spec"]["containers"][0]["resources"] = {"requests": requests or {}, "limits": limits or {}}
    return made


@served
async def test_an_update_of_a_pod_is_not_limited(api):
    await api.made(PODS, sized({"cpu": "1"}))
    await api.made(RANGES, limits({"type": "Container", "max": {"cpu": "500m"}}))
    assert (await api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})).status == 200
    assert (await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})).status == 200


@served
async def test_a_resize_is_limited(api):
    await api.made(RANGES, limits({"type": "Container", "max": {"cpu": "500m"}}))
    await api.made(PODS, sized({"cpu": "100m"}, {"cpu": "400m"}))
    container = {"name": "c", "resources": {"limits": {"cpu": "600m"}}}
    refused = await api.patch(f"{PODS}/p/resize", {"spec": {"containers": [container]}}, STRATEGIC)
    assert refused.message == 'pods "p" is forbidden: maximum cpu usage per Container is 500m, but limit is 600m'
    container["resources"]["limits"]["cpu"] = "450m"
    assert (await api.patch(f"{PODS}/p/resize", {"spec": {"containers": [container]}}, STRATEGIC)).status == 200


@served
async def test_an_update_of_a_claim_is_limited_unless_it_is_being_deleted(api):
    claim = {"metadata": {"name": "c", "finalizers": ["example.com/hold"]}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    claim["spec"]["resources"] = {"requests": {"storage": "5Gi"}}
    await api.made(CLAIMS, claim)
    await api.made(RANGES, limits({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}))
    assert (await api.patch(f"{CLAIMS}/c", {"metadata": {"labels": {"a": "b"}}})).status == 403
    assert (await api.delete(f"{CLAIMS}/c")).status == 200
    assert (await api.patch(f"{CLAIMS}/c", {"metadata": {"labels": {"a": "b"}}})).status == 200


@served
async def test_limits_apply_the_moment_they_are_written_and_until_they_are_deleted(api):
    assert (await api.post(PODS, pod("before"))).status == 201
    await api.made(RANGES, limits({"type": "Container", "min": {"cpu": "1"}}))
    assert ANNOTATION in (await api.post(PODS, pod("during"))).metadata["annotations"]
    await api.delete(f"{RANGES}/l")
    assert "annotations" not in (await api.post(PODS, pod("after"))).metadata


@served
async def test_limits_of_another_namespace_do_not_apply(api):
    await api.made(NS, {"metadata": {"name": "other"}})
    await api.made(f"{NS}/other/limitranges", limits({"type": "Pod", "max": {"cpu": "1m"}}))
    assert (await api.post(PODS, sized({"cpu": "1"}, {"cpu": "1"}))).status == 201


@served
async def test_the_annotation_names_what_the_last_limit_range_has_set(api):
    await api.made(RANGES, limits({"type": "Container", "default": {"cpu": "1"}}, name="a"))
    await api.made(RANGES, limits({"type": "Container", "default": {"memory": "1Gi"}}, name="b"))
    made = await api.made(PODS, pod())
    assert made["metadata"]["annotations"][ANNOTATION] == (
        "LimitRanger plugin set: memory request for container c; memory limit for container c"
    )
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "1", "memory": "1Gi"},
    }


@pytest.mark.parametrize(
    ("fields", "requests", "limits_", "problems"),
    [
        ({"min": {"cpu": "1"}}, {}, {}, ["minimum cpu usage per Pod is 1.  No request is specified"]),
        ({"min": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "999m"}, ["minimum cpu usage per Pod is 1, but limit is 999m"]),
        ({"min": {"cpu": "1"}}, {"cpu": "1"}, {}, []),
        ({"max": {"cpu": "1"}}, {}, {}, ["maximum cpu usage per Pod is 1.  No limit is specified"]),
        ({"max": {"cpu": "1"}}, {"cpu": "2"}, {"cpu": "1"}, ["maximum cpu usage per Pod is 1, but request is 2"]),
        ({"max": {"memory": "8Ei"}}, {"memory": "7Ei"}, {"memory": "7Ei"}, []),
        (
            {"maxLimitRequestRatio": {"cpu": "1500m"}},
            {"cpu": "1"},
            {"cpu": "1501m"},
            ["cpu max limit to request ratio per Pod is 1500m, but provided ratio is 1.501000"],
        ),
        ({"maxLimitRequestRatio": {"cpu": "1500m"}}, {"cpu": "1"}, {"cpu": "1500m"}, []),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"cpu": "0"},
            {"cpu": "1"},
            ["cpu max limit to request ratio per Pod is 2, but no request is specified or request is 0"],
        ),
    ],
)
def test_constraints(fields, requests, limits_, problems):
    limit = Limit({"type": "Pod", **fields})
    assert list(limit.problems(amounts_of(requests), amounts_of(limits_))) == problems


def test_defaults_of_pods_are_not_those_of_containers():
    read = LimitRange({"spec": {"limits": [{"type": "Pod", "default": {"cpu": "1"}}]}}, 100)
    assert (read.requests, read.maxima) == ({}, {})
