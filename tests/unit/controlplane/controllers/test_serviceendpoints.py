"""Reading Pods and Services for endpoints, and the trigger time."""

import pytest

from api_client import PODS, served
from endpoint_objects import facts, named_port, pod, service, stored_service
from kapi.controller.reconcile import Request
from kapi.controlplane.controllers.serviceendpoints.pods import (
    canonical,
    endpoint_pod,
    has_address,
    has_selector,
    selector_of,
)
from kapi.controlplane.controllers.serviceendpoints.triggertime import TRIGGER_TIME, TriggerTimes, stamp

WEB = Request("default", "web")


@served
async def test_a_pod_is_read_from_its_encoded_form(api):
    body = pod("a", hostname="h", subdomain="s", ports=[{"name": "web", "containerPort": 80}, {"containerPort": 81}])
    body["spec"]["initContainers"] = [
        {"name": "one", "image": "i", "ports": [{"name": "once", "containerPort": 1}]},
        {"name": "two", "image": "i", "restartPolicy": "Always", "ports": [{"name": "side", "containerPort": 2}]},
    ]
    made = await api.made(PODS, body)
    cache = api.catalog.store("pods").cache
    assert not has_address(cache.items()[0])
    addresses = [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}]
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T01:00:00+01:00"}]
    status = {"podIPs": addresses, "podIP": "10.0.0.1", "conditions": conditions, "phase": "Running"}
    await api.patch(f"{PODS}/a/status", {"status": status})
    [item] = cache.items()
    assert has_address(item)
    wanted = facts(
        "a",
        "10.0.0.1",
        "2001:db8::1",
        uid=made["metadata"]["uid"],
        hostname="h",
        subdomain="s",
        ports=(named_port("web", 80), named_port("side", 2)),
        ready_since="2026-01-01T00:00:00Z",
    )
    assert endpoint_pod(item) == wanted
    await api.delete(f"{PODS}/a")
    await api.patch(f"{PODS}/a/status", {"status": {"phase": "Failed", "conditions": []}})
    [item] = cache.items()
    ended = wanted._replace(is_ready=False, is_terminating=True, is_terminal=True, ready_since="")
    assert endpoint_pod(item) == ended
    assert ended.differs(wanted)


def test_the_time_of_readiness_is_not_compared():
    assert not facts().differs(facts(ready_since="later"))
    assert facts().differs(facts(is_ready=False))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("010.0.0.01", "10.0.0.1"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("nowhere", ""),
        ("", ""),
    ],
)
def test_addresses_are_canonical(text, address):
    assert canonical(text) == address


@pytest.mark.parametrize(
    ("selector", "spec", "found", "any_selector"),
    [
        ({"a": "b"}, {}, {"a": "b"}, True),
        ({}, {}, None, False),
        (None, {}, None, False),
        ({"a": "b"}, {"type": "ExternalName", "externalName": "example.com"}, None, True),
    ],
    ids=str,
)
def test_the_selectors_of_services(selector, spec, found, any_selector):
    @served
    async def check(api):
        await api.made("/api/v1/namespaces/default/services", service("web", selector, **spec))
        store = api.catalog.store("services")
        item = store.find("default", "web")
        assert (selector_of(item), has_selector(item)) == (found, any_selector)

    check()


def test_the_trigger_time_is_the_earliest_change_since_the_last_update():
    times, web = TriggerTimes(), stored_service()
    before = [facts("a", ready_since="2026-01-01T00:01:00Z"), facts("b", ready_since="2026-01-01T00:02:00Z")]
    assert times.next(WEB, web, before) == "2026-01-01T00:00:00Z", "the Service is new"
    assert times.next(WEB, web, before) == ""
    after = [before[0], facts("b", ready_since="2026-01-01T00:05:00Z"), facts("c", ready_since="2026-01-01T00:04:00Z")]
    assert times.next(WEB, web, after) == "2026-01-01T00:04:00Z"
    assert times.next(WEB, web, [facts("d", ready_since="")]) == ""
    web["metadata"]["creationTimestamp"] = "2026-01-01T00:09:00Z"
    assert times.next(WEB, web, []) == "2026-01-01T00:09:00Z"
    times.forget(WEB)
    assert times.next(WEB, web, after) == "2026-01-01T00:09:00Z"


def test_the_trigger_time_annotation_is_set_and_removed():
    obj = {"metadata": {"annotations": {"a": "b"}}}
    stamp(obj, "now")
    assert obj["metadata"]["annotations"] == {"a": "b", TRIGGER_TIME: "now"}
    stamp(obj, "")
    assert obj["metadata"]["annotations"] == {"a": "b"}
