"""Concurrent requests for one object: which one wins, which get a conflict, and that no update is lost."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_client import (
    CM,
    DEPLOY,
    JSON_PATCH,
    LEASES,
    MERGE,
    NS,
    PODS,
    STRATEGIC,
    SVC,
    SlowStorage,
    cm,
    deployment,
    lease,
    pod,
    served,
)

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PDB = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"

raced = served(storage=SlowStorage)


async def _statuses(*requests):
    return Counter(answer.status for answer in await asyncio.gather(*requests))


@pytest.mark.parametrize("media", [MERGE, STRATEGIC])
@raced
async def test_concurrent_patches_are_all_applied(api, media):
    await api.made(CM, cm("a"))
    found = await _statuses(*(api.patch(f"{CM}/a", {"data": {f"k{n}": "v"}}, media) for n in range(20)))
    assert found == {200: 20}
    assert (await api.get(f"{CM}/a"))["data"] == {f"k{n}": "v" for n in range(20)}


@raced
async def test_concurrent_json_patches_are_all_applied(api):
    await api.made(CM, cm("a", data={"x": "y"}))
    patches = [[{"op": "add", "path": f"/data/k{n}", "value": "v"}] for n in range(20)]
    assert await _statuses(*(api.patch(f"{CM}/a", patch, JSON_PATCH) for patch in patches)) == {200: 20}
    assert len((await api.get(f"{CM}/a"))["data"]) == 21


@raced
async def test_concurrent_patches_of_object_status_and_scale_are_all_applied(api):
    await api.made(DEPLOY, deployment("d"))
    found = await _statuses(
        *(api.patch(f"{DEPLOY}/d", {"metadata": {"labels": {f"l{n}": "v"}}}) for n in range(5)),
        *(api.patch(f"{DEPLOY}/d/status", {"status": {"replicas": n}}) for n in range(5)),
        *(api.patch(f"{DEPLOY}/d/scale", {"spec": {"replicas": n}}) for n in range(5)),
    )
    assert found == {200: 15}
    assert len((await api.get(f"{DEPLOY}/d")).metadata["labels"]) == 5


@raced
async def test_of_concurrent_patches_with_a_version_one_wins(api):
    made = await api.made(CM, cm("a"))
    version = made["metadata"]["resourceVersion"]
    patches = [{"metadata": {"resourceVersion": version}, "data": {"k": str(n)}} for n in range(10)]
    assert await _statuses(*(api.patch(f"{CM}/a", patch) for patch in patches)) == {200: 1, 409: 9}


@raced
async def test_of_concurrent_updates_with_a_version_one_wins(api):
    made = await api.made(CM, cm("a"))
    answers = await asyncio.gather(*(api.put(f"{CM}/a", {**made, "data": {"k": str(n)}}) for n in range(10)))
    assert Counter(answer.status for answer in answers) == {200: 1, 409: 9}
    # The winner's state is what is stored, and no other write has replaced it unseen.
    winner = next(answer for answer in answers if answer.status == 200)
    assert (await api.get(f"{CM}/a")).json == winner.json


@raced
async def test_one_of_several_candidates_acquires_a_lease(api):
    made = await api.made(LEASES, lease(holderIdentity="none"))
    bodies = [{**made, "spec": {"holderIdentity": f"me-{n}"}} for n in range(10)]
    assert await _statuses(*(api.put(f"{LEASES}/l", body) for body in bodies)) == {200: 1, 409: 9}


@raced
async def test_of_concurrent_status_updates_with_a_version_one_wins(api):
    made = await api.made(DEPLOY, deployment("d"))
    bodies = [{**made, "status": {"replicas": n + 1}} for n in range(10)]
    assert await _statuses(*(api.put(f"{DEPLOY}/d/status", body) for body in bodies)) == {200: 1, 409: 9}


@raced
async def test_of_concurrent_scales_with_a_version_one_wins(api):
    made = await api.made(DEPLOY, deployment("d"))
    metadata = {"name": "d", "resourceVersion": made["metadata"]["resourceVersion"]}
    bodies = [{"metadata": metadata, "spec": {"replicas": n + 2}} for n in range(10)]
    assert await _statuses(*(api.put(f"{DEPLOY}/d/scale", body) for body in bodies)) == {200: 1, 409: 9}


@raced
async def test_concurrent_updates_without_a_version_all_succeed(api):
    made = await api.made(CM, cm("a"))
    found = await _statuses(*(api.put(f"{CM}/a", cm("a", data={"k": str(n)})) for n in range(10)))
    assert found == {200: 10}
    assert (await api.get(f"{CM}/a")).metadata["uid"] == made["metadata"]["uid"]


@raced
async def test_of_concurrent_creations_one_wins(api):
    assert await _statuses(*(api.post(CM, cm("a")) for _ in range(10))) == {201: 1, 409: 9}


@raced
async def test_concurrent_creations_by_update_update_the_winner(api):
    role = {"metadata": {"name": "r"}}
    found = await _statuses(*(api.put(f"{RBAC}/clusterroles/r", {**role, "rules": []}) for _ in range(5)))
    assert found == {201: 1, 200: 4}


@raced
async def test_of_concurrent_deletions_one_wins(api):
    await api.made(CM, cm("a"))
    assert await _statuses(*(api.delete(f"{CM}/a") for _ in range(5))) == {200: 1, 404: 4}


@raced
async def test_deletion_succeeds_during_concurrent_updates(api):
    await api.made(CM, cm("a"))
    patches = [api.patch(f"{CM}/a", {"data": {"k": str(n)}}) for n in range(5)]
    *patched, deleted = await asyncio.gather(*patches, api.delete(f"{CM}/a"))
    assert deleted.status == 200
    assert {answer.status for answer in patched} <= {200, 404}
    assert (await api.get(f"{CM}/a")).status == 404


@raced
async def test_deletion_with_a_version_conflicts_with_concurrent_updates(api):
    made = await api.made(CM, cm("a"))
    version = made["metadata"]["resourceVersion"]
    options = {"preconditions": {"resourceVersion": version}}
    patched, deleted = await asyncio.gather(api.patch(f"{CM}/a", {"data": {"k": "v"}}), api.delete(f"{CM}/a", options))
    assert (patched.status, deleted.status) == (200, 409)
    current = patched.version
    assert deleted.message.endswith(
        f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({current}). "
        "The object might have been modified"
    )


@raced
async def test_removal_of_the_last_finalizer_succeeds_during_concurrent_updates(api):
    await api.made(CM, cm("a", metadata={"finalizers": ["x.io/f"]}))
    await api.delete(f"{CM}/a")
    first, last = await asyncio.gather(
        api.patch(f"{CM}/a", {"data": {"k": "v"}}), api.patch(f"{CM}/a", {"metadata": {"finalizers": None}})
    )
    # Neither patch carried a version, so neither may get a conflict.
    assert (first.status, last.status) == (200, 200)
    assert (await api.get(f"{CM}/a")).status == 404


@raced
async def test_finalizers_added_and_removed_concurrently_are_all_respected(api):
    await api.made(CM, cm("a", metadata={"finalizers": [f"x.io/f{n}" for n in range(6)]}))
    await api.delete(f"{CM}/a")
    removals = [{"metadata": {"$deleteFromPrimitiveList/finalizers": [f"x.io/f{n}"]}} for n in range(6)]
    assert await _statuses(*(api.patch(f"{CM}/a", patch, STRATEGIC) for patch in removals)) == {200: 6}
    assert (await api.get(f"{CM}/a")).status == 404


@raced
async def test_concurrent_services_get_different_cluster_ips(api):
    service = {"spec": {"ports": [{"port": 80}], "type": "NodePort"}}
    answers = await asyncio.gather(*(api.post(SVC, {**service, "metadata": {"name": f"s{n}"}}) for n in range(40)))
    assert len({answer["spec"]["clusterIP"] for answer in answers}) == 40
    assert len({answer["spec"]["ports"][0]["nodePort"] for answer in answers}) == 40


@raced
async def test_services_that_lose_the_race_for_a_name_release_their_cluster_ips(api):
    async def create(n):
        spec = {"ports": [{"port": 80}], "clusterIP": f"10.0.0.{100 + n}"}
        return await api.post(SVC, {"metadata": {"name": "s"}, "spec": spec})

    answers = await asyncio.gather(*(create(n) for n in range(5)))
    assert Counter(answer.status for answer in answers) == {201: 1, 409: 4}
    for n, answer in enumerate(answers):
        spec = {"ports": [{"port": 80}], "clusterIP": f"10.0.0.{100 + n}"}
        again = await api.post(SVC, {"metadata": {"name": f"t{n}"}, "spec": spec})
        assert again.status == (422 if answer.status == 201 else 201)


@raced
async def test_budget_is_not_overspent_by_concurrent_evictions(api):
    for n in range(5):
        made = await api.made(PODS, pod(f"p{n}", metadata={"labels": {"app": "x"}}, nodeName="n1"))
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await api.put(f"{PODS}/p{n}/status", {**made, "status": ready})
    spec = {"minAvailable": 3, "selector": {"matchLabels": {"app": "x"}}}
    await api.made(PDB, {"metadata": {"name": "b"}, "spec": spec})
    status = {
        "disruptionsAllowed": 2,
        "currentHealthy": 5,
        "desiredHealthy": 3,
        "expectedPods": 5,
        "observedGeneration": 1,
    }
    await api.patch(f"{PDB}/b/status", {"status": status})
    evictions = [api.post(f"{PODS}/p{n}/eviction", {"metadata": {"name": f"p{n}"}}) for n in range(5)]
    found = await _statuses(*evictions)
    assert found == {201: 2, 429: 3}
    going = [item for item in (await api.get(PODS))["items"] if "deletionTimestamp" in item["metadata"]]
    assert len(going) == 2
    assert (await api.get(f"{PDB}/b"))["status"]["disruptionsAllowed"] == 0


@raced
async def test_pod_is_bound_to_one_node_only(api):
    await api.made(PODS, pod("p"))
    bindings = [{"metadata": {"name": "p"}, "target": {"kind": "Node", "name": f"n{n}"}} for n in range(5)]
    assert await _statuses(*(api.post(f"{PODS}/p/binding", body) for body in bindings)) == {201: 1, 409: 4}


@raced
async def test_concurrent_namespace_deletions_set_one_deletion_timestamp(api):
    await api.made(NS, {"metadata": {"name": "n"}})
    watch = await api.watch(NS, resourceVersion=api.revision)
    answers = await asyncio.gather(*(api.delete(f"{NS}/n") for _ in range(5)))
    assert {answer.status for answer in answers} == {200}
    assert len({answer.version for answer in answers}) == 1
    assert await watch.brief(1) == [("MODIFIED", "n")]
    assert await watch.is_quiet()


@raced
async def test_cancelled_write_is_complete_or_absent(api):
    for n in range(5):
        task = asyncio.ensure_future(api.post(SVC, {"metadata": {"name": f"s{n}"}, "spec": {"ports": [{"port": 80}]}}))
        for _ in range(n):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    await asyncio.sleep(1)
    stored = (await api.get(SVC))["items"]
    addresses = {item["spec"]["clusterIP"] for item in stored}
    for address in range(2, 255):
        spec = {"ports": [{"port": 80}], "clusterIP": f"10.0.0.{address}"}
        answer = await api.post(SVC, {"metadata": {"name": f"t{address}"}, "spec": spec})
        assert answer.status == (422 if f"10.0.0.{address}" in addresses else 201), answer


# -- watches against concurrent writes --------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d")
STEPS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("label"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("data"), st.sampled_from(NAMES), st.integers(0, 3)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("watch"), st.sampled_from(["now", "initial", "past"]), st.booleans()),
    st.tuples(st.just("pause"), st.none(), st.none()),
)


class Replica:
    """The state a client builds from a watch, with a check that the events are consistent."""

    def __init__(self, watch, known, since, *, selective, initial):
        self.watch = watch
        self.known = dict(known)
        self.since = since
        self.selective = selective
        self.initial = initial

    async def catch_up(self):
        """Take in everything there is."""
        while True:
            try:
                event = await self.watch.next(within=5)
            except TimeoutError:
                return
            self.take(event)

    def take(self, event):
        kind, metadata = event["type"], event["object"]["metadata"]
        name, version = metadata.get("name"), int(metadata["resourceVersion"])
        if kind == "BOOKMARK":
            assert version >= self.since
            self.since = version
            self.initial = self.initial and "annotations" not in metadata
            return
        if self.initial:
            assert kind == "ADDED"
        else:
            assert version > self.since, "an event came twice, or late"
            self.since = version
        assert (kind == "ADDED") is (name not in self.known), (kind, name)
        if kind == "DELETED":
            del self.known[name]
        else:
            self.known[name] = metadata["resourceVersion"]


async def _open(api, how, selective):
    query = {"labelSelector": "on=yes"} if selective else {}
    if how == "initial":
        watch = await api.watch(CM, allowWatchBookmarks="true", **query)
        return Replica(watch, {}, 0, selective=selective, initial=True)
    listed = await api.get(CM, **query)
    known = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed["items"]}
    if how == "past":
        # Let others write between the list and the watch.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    watch = await api.watch(CM, resourceVersion=listed.version, allowWatchBookmarks="true", **query)
    return Replica(watch, known, int(listed.version), selective=selective, initial=False)


async def _act(api, step, replicas):
    what, where, how = step
    if what == "watch":
        replicas.append(await _open(api, where, how))
    elif what == "create":
        await api.post(CM, cm(where, metadata={"labels": {"on": "yes" if how else "no"}}))
    elif what == "label":
        await api.patch(f"{CM}/{where}", {"metadata": {"labels": {"on": "yes" if how else "no"}}})
    elif what == "data":
        await api.patch(f"{CM}/{where}", {"data": {"k": str(how)}})
    elif what == "delete":
        await api.delete(f"{CM}/{where}")
    else:
        await asyncio.sleep(0)


@settings(max_examples=60)
@given(st.lists(st.lists(STEPS, max_size=12), min_size=1, max_size=4))
def test_every_watch_converges_to_the_list(clients):
    """Several clients write, list and watch at the same time; there is no gap between a list and its watch."""

    @served(storage=SlowStorage)
    async def main(api):
        replicas = []

        async def client(steps):
            for step in steps:
                await _act(api, step, replicas)

        replicas.append(await _open(api, "initial", False))
        await asyncio.gather(*(client(steps) for steps in clients))
        for replica in replicas:
            await replica.catch_up()
            query = {"labelSelector": "on=yes"} if replica.selective else {}
            listed = await api.get(CM, **query)
            assert replica.known == {
                item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed["items"]
            }

    main()
