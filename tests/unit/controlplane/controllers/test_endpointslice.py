"""The endpointslice controller: what it reacts to, what it writes, and that it writes nothing else."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_client import MERGE, NS, PODS, SVC, SlowStorage
from controller_api import running_controllers, with_controllers
from endpoint_objects import (
    ES,
    NODES,
    SLICES,
    TRIGGER,
    addresses,
    listed,
    node,
    pod,
    report,
    run_pod,
    serve,
    service,
    slices,
    status,
)
from kapi.controller.reconcile import Request
from kapi.controlplane.controllers.endpoints.controller import add_endpoints_controller
from kapi.controlplane.controllers.endpointslice.controller import add_endpointslice_controller
from kapi.controlplane.controllers.endpointslice.plan import MANAGED_BY, MANAGER, SERVICE_NAME, Plan
from kapi.controlplane.controllers.endpointslice.tracker import SliceTracker
from kapi.controlplane.controllers.serviceendpoints.index import ServiceIndex
from kapi.controlplane.controllers.view import CacheView
from kapi.storage.memory import MemoryStorage
from virtual_time import run


async def idle(api):
    """Nothing is written, however long one waits."""
    before = api.revision
    await api.run_until_idle(3600)
    assert api.revision == before


@with_controllers(add_endpointslice_controller)
async def test_a_service_and_its_pods_become_a_slice(api):
    await node(api, zone="z1")
    made = await serve(api)
    await run_pod(api, "a", "10.1.0.1")
    await api.run_until_idle()
    [found] = slices(api)
    assert found["metadata"]["name"].startswith("web-")
    assert found["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    [endpoint] = found["endpoints"]
    assert (endpoint["addresses"], endpoint["nodeName"], endpoint["zone"]) == (["10.1.0.1"], "n1", "z1")
    assert endpoint["targetRef"]["uid"] == api.find("pods", "default", "a")["metadata"]["uid"]
    await idle(api)


@with_controllers(add_endpointslice_controller)
async def test_changes_of_readiness_update_the_slice(api):
    await node(api)
    await serve(api)
    await run_pod(api, "a", "10.1.0.1", ready=False)
    await api.run_until_idle()
    assert addresses(api) == {"10.1.0.1": False}
    await report(api, "a", "10.1.0.1", ready=True, since="2026-01-01T00:05:00Z")
    await api.run_until_idle()
    assert addresses(api) == {"10.1.0.1": True}
    assert slices(api)[0]["metadata"]["annotations"] == {TRIGGER: "2026-01-01T00:05:00Z"}


@with_controllers(add_endpointslice_controller)
async def test_the_first_slice_has_the_creation_of_the_service_as_trigger_time(api):
    made = await serve(api)
    await api.run_until_idle()
    assert slices(api)[0]["metadata"]["annotations"] == {TRIGGER: made["metadata"]["creationTimestamp"]}


@with_controllers(add_endpointslice_controller)
async def test_a_terminating_pod_serves_until_it_is_deleted(api):
    await node(api)
    await serve(api)
    await run_pod(api, "a", "10.1.0.1")
    await api.run_until_idle()
    await api.delete(f"{PODS}/a")
    await api.run_until_idle()
    [endpoint] = slices(api)[0]["endpoints"]
    assert endpoint["conditions"] == {"ready": False, "serving": True, "terminating": True}
    await api.delete(f"{PODS}/a", gracePeriodSeconds=0)
    await api.run_until_idle()
    assert addresses(api) == {}
    await idle(api)


@with_controllers(add_endpointslice_controller)
async def test_labels_and_selectors_move_pods_between_services(api):
    await node(api)
    await serve(api, "web")
    await serve(api, "other", {"app": "other"})
    await run_pod(api, "a", "10.1.0.1")
    await run_pod(api, "b", "10.1.0.2", made=pod("b", {"app": "other"}))
    await api.run_until_idle()
    assert (set(addresses(api)), set(addresses(api, "other"))) == ({"10.1.0.1"}, {"10.1.0.2"})
    await api.patch(f"{PODS}/a", {"metadata": {"labels": {"app": "other"}}})
    await api.run_until_idle()
    assert (set(addresses(api)), set(addresses(api, "other"))) == (set(), {"10.1.0.1", "10.1.0.2"})
    await api.patch(f"{SVC}/web", {"spec": {"selector": {"app": "other"}}})
    await api.run_until_idle()
    assert set(addresses(api)) == {"10.1.0.1", "10.1.0.2"}
    await api.patch(f"{PODS}/a", {"metadata": {"labels": {"app": None}}})
    await api.run_until_idle()
    assert (set(addresses(api)), set(addresses(api, "other"))) == ({"10.1.0.2"}, {"10.1.0.2"})


@with_controllers(add_endpointslice_controller)
async def test_pod_changes_that_do_not_affect_slices_write_nothing(api):
    await node(api)
    await serve(api)
    await run_pod(api, "a", "10.1.0.1")
    await api.run_until_idle()
    [before] = slices(api)
    await api.patch(f"{PODS}/a", {"metadata": {"annotations": {"x": "y"}, "labels": {"more": "1"}}})
    await api.patch(f"{PODS}/a/status", {"status": {"message": "well"}})
    await report(api, "a", "10.1.0.1", since="2026-01-01T00:09:00Z")
    await api.run_until_idle()
    assert slices(api) == [before]


@with_controllers(add_endpointslice_controller)
async def test_deleting_one_of_two_hundred_and_fifty_pods_updates_one_of_three_slices(api):
    await node(api)
    await serve(api)
    for number in range(250):
        await run_pod(api, f"p{number}", f"10.1.1.{number + 1}")
    await api.run_until_idle()
    before = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in slices(api)}
    assert sorted(len(each["endpoints"]) for each in slices(api)) == [50, 100, 100]
    await api.delete(f"{PODS}/p7", gracePeriodSeconds=0)
    await api.run_until_idle()
    after = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in slices(api)}
    assert set(before) == set(after)
    assert sum(before[name] != after[name] for name in before) == 1
    assert len(addresses(api)) == 249
    await idle(api)


@with_controllers(add_endpointslice_controller)
async def test_slices_that_are_deleted_or_edited_are_restored(api):
    await node(api)
    await serve(api)
    await run_pod(api, "a", "10.1.0.1")
    await api.run_until_idle()
    name = slices(api)[0]["metadata"]["name"]
    await api.delete(f"{ES}/{name}")
    await api.run_until_idle()
    assert addresses(api) == {"10.1.0.1": True}
    name = slices(api)[0]["metadata"]["name"]
    wrong = {"endpoints": [{"addresses": ["10.6.6.6"]}], "metadata": {"labels": {"mine": "1"}}}
    assert (await api.patch(f"{ES}/{name}", wrong, MERGE)).status == 200
    await api.run_until_idle()
    assert addresses(api) == {"10.1.0.1": True}
    assert "mine" not in slices(api)[0]["metadata"]["labels"]
    await idle(api)


@with_controllers(add_endpointslice_controller, add_endpoints_controller)
async def test_own_writes_do_not_enqueue_the_service(api):
    def reconciles(controller):
        names = {"controller": controller, "result": "success"}
        return api.registry.get_sample_value("controller_runtime_reconcile_total", names)

    await node(api)
    await serve(api)
    await api.run_until_idle()
    before = [reconciles("endpointslice-controller"), reconciles("endpoints-controller")]
    await run_pod(api, "a", "10.1.0.1")
    await api.run_until_idle()
    assert addresses(api) == listed(api) == {"10.1.0.1": True}
    assert [reconciles("endpointslice-controller"), reconciles("endpoints-controller")] == [n + 1 for n in before]


@with_controllers(add_endpointslice_controller)
async def test_a_slice_that_loses_its_label_is_replaced(api):
    await node(api)
    await serve(api)
    await run_pod(api, "a", "10.1.0.1")
    await api.run_until_idle()
    name = slices(api)[0]["metadata"]["name"]
    await api.patch(f"{ES}/{name}", {"metadata": {"labels": {MANAGED_BY: "me"}}})
    await api.run_until_idle()
    managers = {each["metadata"]["name"]: each["metadata"]["labels"][MANAGED_BY] for each in slices(api)}
    assert managers.pop(name) == "me"
    assert list(managers.values()) == ["endpointslice-controller.k8s.io"]
    await idle(api)


@with_controllers(add_endpointslice_controller)
async def test_slices_of_other_managers_are_not_touched(api):
    await serve(api)
    body = {"metadata": {"name": "mine", "labels": {"kubernetes.io/service-name": "web"}}, "addressType": "IPv4"}
    await api.made(ES, {**body, "endpoints": [{"addresses": ["10.6.6.6"]}]})
    await api.run_until_idle()
    assert [e["addresses"] for e in api.find(SLICES, "default", "mine")["endpoints"]] == [["10.6.6.6"]]


@with_controllers(add_endpointslice_controller)
async def test_services_without_a_selector_get_no_slices(api):
    await api.made(SVC, service("plain"))
    await api.made(SVC, service("named", {"app": "web"}, [], type="ExternalName", externalName="example.com"))
    await api.made(SVC, service("empty", {}))
    await api.run_until_idle()
    assert [slices(api, name) for name in ("plain", "named", "empty", "kubernetes")] == [[], [], [], []]


@with_controllers(add_endpointslice_controller)
async def test_slices_of_a_deleted_service_are_left_to_the_garbage_collector(api):
    await serve(api)
    await api.run_until_idle()
    await api.delete(f"{SVC}/web")
    await api.run_until_idle()
    assert len(slices(api)) == 1
    await serve(api)
    await api.run_until_idle()
    [left] = slices(api)
    assert left["metadata"]["ownerReferences"][0]["uid"] == api.find("services", "default", "web")["metadata"]["uid"]


@with_controllers(add_endpointslice_controller)
async def test_pods_without_a_node_are_left_out_and_recorded_as_an_event(api):
    await serve(api)
    await run_pod(api, "a", "10.1.0.1", made=pod("a", node="late"))
    await api.run_until_idle()
    assert addresses(api) == {}
    events = (await api.get(f"{NS}/default/events")).json["items"]
    why = "skipping Pod a for Service default/web: Node late Not Found"
    assert [(event["type"], event["reason"], event["message"]) for event in events] == [
        ("Warning", "FailedToUpdateEndpointSlices", f"Error updating Endpoint Slices for Service default/web: {why}")
    ]
    await idle(api)
    await node(api, "late", "z1")
    await api.run_until_idle()
    assert addresses(api) == {"10.1.0.1": True}


@with_controllers(add_endpointslice_controller)
async def test_zone_changes_of_nodes_update_slices_and_heartbeats_do_not(api):
    await node(api, zone="z1")
    await serve(api)
    await run_pod(api, "a", "10.1.0.1")
    await api.run_until_idle()
    await api.patch(f"{NODES}/n1", {"metadata": {"labels": {"topology.kubernetes.io/zone": "z2"}}})
    await api.run_until_idle()
    [found] = slices(api)
    assert found["endpoints"][0]["zone"] == "z2"
    await api.patch(f"{NODES}/n1", {"metadata": {"labels": {"other": "1"}}})
    await api.run_until_idle()
    assert slices(api) == [found]


@with_controllers(add_endpointslice_controller)
async def test_no_slices_are_created_in_a_terminating_namespace(api):
    await api.made(NS, {"metadata": {"name": "ns", "finalizers": ["example.com/wait"]}})
    await api.made(f"{NS}/ns/services", service("web", {"app": "web"}))
    await api.run_until_idle()
    [found] = slices(api)
    await api.delete(f"{NS}/ns")
    name = found["metadata"]["name"]
    await api.delete(f"/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices/{name}")
    await api.run_until_idle()
    assert slices(api) == []
    assert (await api.get(f"{NS}/ns/events")).json["items"] == []


def test_changes_before_the_start_are_found_at_the_start():
    async def main():
        storage = MemoryStorage()
        async with running_controllers(add_endpointslice_controller, storage=storage) as api:
            await node(api)
            await serve(api)
            await run_pod(api, "a", "10.1.0.1")
            await api.run_until_idle()
        async with running_controllers(storage=storage) as api:
            await run_pod(api, "b", "10.1.0.2")
            await api.delete(f"{PODS}/a", gracePeriodSeconds=0)
        async with running_controllers(add_endpointslice_controller, storage=storage) as api:
            await api.run_until_idle()
            assert addresses(api) == {"10.1.0.2": True}
            await idle(api)

    run(main())


@pytest.mark.parametrize("other_writes", [True, False])
def test_a_write_of_another_client_during_an_update_is_noticed(other_writes):
    web, contexts = Request("default", "web"), []
    labels = {SERVICE_NAME: "web", MANAGED_BY: MANAGER}

    async def main():
        async with running_controllers(contexts.append, storage=SlowStorage()) as api:
            bodies = [{"metadata": {"name": f"s{n}", "labels": labels}, "addressType": "IPv4"} for n in range(10)]
            made = [await api.made(ES, {**body, "endpoints": []}) for body in bodies]
            tracker = SliceTracker(contexts[0].view, contexts[0].writer, MANAGER)
            assert tracker.load() == [web]
            enqueued, tasks = [], []

            def listen(events):
                enqueued.extend(request for event in events for request in tracker.enqueue(event))
                if other_writes and not tasks:
                    tasks.append(asyncio.ensure_future(api.patch(f"{ES}/s0", {"metadata": {"labels": {"mine": "1"}}})))

            api.catalog.store(SLICES).cache.listen(listen)
            plan = Plan(update=[{**each, "ports": [{"port": 1}]} for each in made[:-1]], delete=made[-1:])
            assert await tracker.apply(web, plan) == other_writes
            assert not enqueued, "changes during an update are not enqueued"
            assert [each["ports"][0]["port"] for each in tracker.of(web)] == [1] * 9

    run(main())


# -- the index of Services ---------------------------------------------------------------------------------------------


def indexed(api, enqueued):
    """Record the Services that the index enqueues, event by event."""
    index = ServiceIndex(CacheView(api.catalog))
    index.load()
    for request in index.load():
        index.pods(request)
    api.catalog.store("pods").cache.listen(lambda events: [enqueued.append(list(index.enqueue_pod(e))) for e in events])
    api.catalog.store("services").cache.listen(lambda events: [index.enqueue_service(e) for e in events])
    return index


@with_controllers()
async def test_only_pod_changes_that_affect_endpoints_are_enqueued(api):
    enqueued = []
    await serve(api, "web")
    await serve(api, "pair", {"app": "web", "tier": "1"})
    index = indexed(api, enqueued)
    web, pair = Request("default", "web"), Request("default", "pair")

    async def after(*changes):
        enqueued.clear()
        for change in changes:
            await change
        return [sorted(requests) for requests in enqueued]

    assert await after(api.made(PODS, pod("a"))) == [[]], "it has no address"
    assert await after(report(api, "a", "10.1.0.1")) == [[web]]
    assert await after(report(api, "a", "10.1.0.1", since="2026-01-02T00:00:00Z")) == [[]]
    assert await after(api.patch(f"{PODS}/a", {"metadata": {"annotations": {"x": "y"}}})) == [[]]
    assert await after(api.patch(f"{PODS}/a", {"metadata": {"labels": {"tier": "1"}}})) == [[pair]]
    assert await after(report(api, "a", "10.1.0.1", ready=False)) == [[pair, web]]
    assert await after(report(api, "a", "10.1.0.1", ready=False, phase="Failed")) == [[pair, web]]
    assert await after(api.patch(f"{PODS}/a", {"metadata": {"labels": {"app": None}}})) == [[pair, web]]
    assert await after(report(api, "a", "10.1.0.1")) == [[]]
    assert await after(api.made(PODS, pod("b", {})), report(api, "b", "10.1.0.2")) == [[], []]
    await api.patch(f"{PODS}/a", {"metadata": {"labels": {"app": "web"}}})
    assert [pod.name for pod in index.pods(web)] == ["a"]
    # Marked as terminating first, then deleted.
    assert await after(api.delete(f"{PODS}/a", gracePeriodSeconds=0)) == [[pair, web], [pair, web]]
    assert index.pods(web) == []


@with_controllers()
async def test_deleted_services_are_removed_from_the_index(api):
    enqueued = []
    await serve(api)
    index = indexed(api, enqueued)
    assert Request("default", "web") in index
    await api.patch(f"{SVC}/web", {"spec": {"selector": None}})
    assert Request("default", "web") not in index
    await api.patch(f"{SVC}/web", {"spec": {"selector": {"app": "web"}}})
    await api.delete(f"{SVC}/web")
    await run_pod(api)
    assert enqueued == [[], []]
    assert vars(index)["_namespaces"] == {}


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)
CHANGE = st.one_of(
    st.tuples(st.just("pod"), st.integers(0, 3), LABELS, st.booleans(), st.booleans()),
    st.tuples(st.just("service"), st.integers(0, 3), LABELS),
    st.tuples(st.just("no pod"), st.integers(0, 3)),
    st.tuples(st.just("no service"), st.integers(0, 3)),
)


async def change(api, what, number, *values):
    if what == "pod":
        labels, has_address, ready = values
        if api.find("pods", "default", f"p{number}") is None:
            await api.made(PODS, pod(f"p{number}"))
        body = api.find("pods", "default", f"p{number}")
        body["metadata"]["labels"] = labels
        assert (await api.put(f"{PODS}/p{number}", body)).status == 200
        reported = status(*([f"10.1.0.{number + 1}"] if has_address else []), ready=ready)
        assert (await api.patch(f"{PODS}/p{number}/status", {"status": reported})).status == 200
    elif what == "service":
        body = api.find("services", "default", f"s{number}") or service(f"s{number}")
        body["spec"]["selector"] = values[0]
        assert (await api.put(f"{SVC}/s{number}", body)).status in (200, 201)
    else:
        where = PODS if what == "no pod" else SVC
        await api.delete(f"{where}/{'p' if what == 'no pod' else 's'}{number}", gracePeriodSeconds=0)


@settings(deadline=None, max_examples=40)
@given(st.lists(CHANGE, max_size=25), st.integers(0, 25))
def test_slices_match_services_and_pods_after_random_changes(changes, pause):
    @with_controllers(add_endpointslice_controller)
    async def check(api):
        await node(api)
        for index, each in enumerate(changes):
            await change(api, *each)
            if index == pause:
                await api.run_until_idle()
        await api.run_until_idle()
        for number in range(4):
            found = api.find("services", "default", f"s{number}")
            if found is None or not found["spec"].get("selector"):
                continue
            wanted = {
                each["status"]["podIP"]: each["status"]["conditions"][0]["status"] == "True"
                for name in ("p0", "p1", "p2", "p3")
                if (each := api.find("pods", "default", name)) is not None
                and each["status"].get("podIP")
                and found["spec"]["selector"].items() <= (each["metadata"].get("labels") or {}).items()
            }
            owned = [
                each
                for each in slices(api, f"s{number}")
                if each["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
            ]
            shown = {e["addresses"][0]: e["conditions"]["ready"] for each in owned for e in each["endpoints"] or ()}
            assert shown == wanted
        await idle(api)

    check()
