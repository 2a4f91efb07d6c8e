"""The pod garbage collector: removes terminating Pods that no kubelet removes."""

import asyncio

import pytest

from api_client import NS, PODS, pod
from controller_api import running_controllers, with_controllers
from kapi.controlplane.controllers.podgarbagecollector import add_pod_garbage_collector
from kapi.storage.memory import MemoryStorage
from virtual_time import run

NODES = "/api/v1/nodes"
POD = f"{PODS}/p"
HELD = {"finalizers": ["example.com/x"]}


async def _running(api, name="p", *, metadata=None, **spec):
    made = await api.made(PODS, pod(name, metadata=metadata, nodeName="n", **spec))
    answer = await api.put(f"{PODS}/{name}/status", {**made, "status": {"phase": "Running"}})
    assert answer.status == 200, answer


async def _node(api, name="n", **fields):
    return await api.made(NODES, {"metadata": {"name": name}, **fields})


@with_controllers(add_pod_garbage_collector)
async def test_a_pod_of_a_missing_node_is_removed_after_its_grace_period(api):
    await _running(api, terminationGracePeriodSeconds=30)
    watch = await api.watch(PODS, resourceVersion=str(api.revision))
    await api.delete(POD)
    await api.run_until_idle(28)
    assert api.find("pods", "default", "p") is not None
    await api.run_until_idle(3)
    assert api.find("pods", "default", "p") is None
    marked, failed, shortened, deleted = await watch.take(4)
    assert marked["object"]["status"]["phase"] == "Running"
    status = failed["object"]["status"]
    assert status["phase"] == "Failed"
    (condition,) = [one for one in status["conditions"] if one["type"] == "DisruptionTarget"]
    moment = condition.pop("lastTransitionTime")
    assert moment >= marked["object"]["metadata"]["deletionTimestamp"]
    generation = failed["object"]["metadata"]["generation"]
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "observedGeneration": generation,
        "lastProbeTime": None,
    }
    assert status["observedGeneration"] == generation
    assert shortened["object"]["metadata"]["deletionGracePeriodSeconds"] == 0
    assert deleted["type"] == "DELETED"


@with_controllers(add_pod_garbage_collector)
async def test_pods_that_are_not_being_deleted_are_not_touched(api):
    await _running(api)
    await api.made(PODS, pod("unscheduled"))
    await api.made(PODS, pod("annotated", metadata={"annotations": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}))
    before = api.revision
    await api.run_until_idle(24 * 3600)
    assert api.revision == before


@with_controllers(add_pod_garbage_collector)
async def test_pods_of_existing_nodes_are_left_to_the_kubelet(api):
    await _node(api)
    await _running(api)
    await api.delete(POD)
    before = api.revision
    await api.run_until_idle(3600)
    assert api.revision == before
    await api.delete(f"{NODES}/n")
    await api.run_until_idle(1)
    assert api.find("pods", "default", "p") is None


@with_controllers(add_pod_garbage_collector)
async def test_a_node_created_in_time_keeps_its_pods(api):
    await _running(api)
    await api.delete(POD)
    await api.run_until_idle(10)
    await _node(api)
    await api.run_until_idle(3600)
    assert api.find("pods", "default", "p")["status"]["phase"] == "Running"


@with_controllers(add_pod_garbage_collector)
async def test_a_shortened_grace_period_is_honoured(api):
    await _running(api, terminationGracePeriodSeconds=3600)
    await api.delete(POD)
    await api.run_until_idle(60)
    await api.delete(POD, {"gracePeriodSeconds": 5})
    await api.run_until_idle(10)
    assert api.find("pods", "default", "p") is None


@with_controllers(add_pod_garbage_collector)
async def test_a_failed_pod_with_finalizers_is_kept(api):
    await _running(api, metadata=HELD, terminationGracePeriodSeconds=5)
    await api.delete(POD)
    await api.run_until_idle()
    held = api.find("pods", "default", "p")
    assert held["status"]["phase"] == "Failed"
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    before = api.revision
    await api.run_until_idle(3600)
    assert api.revision == before
    await api.patch(POD, {"metadata": {"finalizers": None}})
    assert api.find("pods", "default", "p") is None


@with_controllers(add_pod_garbage_collector)
async def test_an_unscheduled_pod_with_finalizers_is_marked_failed(api):
    await api.made(PODS, pod(metadata=HELD))
    await api.delete(POD)
    await api.run_until_idle(1)
    held = api.find("pods", "default", "p")
    assert held["status"]["phase"] == "Failed"
    assert "DisruptionTarget" not in [one["type"] for one in held["status"].get("conditions", ())]
    before = api.revision
    await api.run_until_idle(3600)
    assert api.revision == before


@with_controllers(add_pod_garbage_collector)
async def test_a_succeeded_pod_is_not_marked_failed(api):
    made = await api.made(PODS, pod(metadata=HELD, nodeName="n", terminationGracePeriodSeconds=5))
    await api.put(f"{POD}/status", {**made, "status": {"phase": "Running"}})
    await api.delete(POD)
    await api.patch(f"{POD}/status", {"status": {"phase": "Succeeded"}})
    await api.run_until_idle()
    assert api.find("pods", "default", "p")["status"]["phase"] == "Succeeded"
    assert api.find("pods", "default", "p")["metadata"]["deletionGracePeriodSeconds"] == 0


OUT = {"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}}


@pytest.mark.parametrize(
    ("ready", "taint", "removed"),
    [("False", True, True), ("True", True, False), ("False", False, False)],
    ids=["out of service", "still ready", "only not ready"],
)
def test_pods_of_nodes_out_of_service_are_removed_at_once(ready, taint, removed):
    @with_controllers(add_pod_garbage_collector)
    async def check(api):
        await _node(api)
        await _running(api)
        await api.delete(POD)
        await api.run_until_idle(1)
        status = {"conditions": [{"type": "Ready", "status": ready}]}
        await api.patch(f"{NODES}/n/status", {"status": status})
        if taint:
            await api.patch(f"{NODES}/n", OUT)
        await api.run_until_idle(1)
        assert (api.find("pods", "default", "p") is None) == removed

    check()


@with_controllers(add_pod_garbage_collector)
async def test_another_pod_of_the_same_name_is_not_removed(api):
    await _running(api, terminationGracePeriodSeconds=30)
    await api.delete(POD)
    await api.run_until_idle(10)
    await api.delete(POD, {"gracePeriodSeconds": 0})
    await _running(api)
    await api.run_until_idle(3600)
    assert api.find("pods", "default", "p")["status"]["phase"] == "Running"


def test_a_deletion_begun_before_a_restart_is_continued():
    async def main():
        storage = MemoryStorage()
        async with running_controllers(storage=storage) as api:
            await _running(api)
            await _running(api, "stays")
            await api.delete(POD)
            await api.run_until_idle(3600)
        async with running_controllers(add_pod_garbage_collector, storage=storage) as api:
            await api.run_until_idle()
            assert api.there("pods") == {("default", "stays")}

    run(main())


@with_controllers(add_pod_garbage_collector)
async def test_many_pods_are_removed_concurrently(api):
    await api.made(NS, {"metadata": {"name": "probe"}})
    for number in range(100):
        await _running(api, f"p{number}")
    await asyncio.gather(*(api.delete(f"{PODS}/p{number}") for number in range(100)))
    await api.run_until_idle(31)
    assert not api.there("pods")
