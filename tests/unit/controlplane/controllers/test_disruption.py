"""The disruption controller: the status of PodDisruptionBudgets."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_client import DEPLOY, NS, PODS, deployment, pod
from controller_api import running_controllers, with_controllers
from kapi.base.clock import ManualClock
from kapi.controlplane.controllers.disruption.budget import (
    BudgetNumbers,
    PodState,
    count_healthy,
    expected_and_desired,
    failed_status,
    selector_text,
    status_of,
    still_disrupted,
)
from kapi.controlplane.controllers.disruption.controller import add_disruption_controller
from kapi.storage.memory import MemoryStorage
from virtual_time import EPOCH, run

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
REPLICASETS = "/apis/apps/v1/namespaces/default/replicasets"
STATEFULSETS = "/apis/apps/v1/namespaces/default/statefulsets"
CONTROLLERS = f"{NS}/default/replicationcontrollers"
APP = {"app": "a"}


def budget(name="b", **spec):
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": APP}, **spec}}


def reference(obj, api_version, kind):
    metadata = obj["metadata"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


def owned(name, owner=None, labels=None):
    metadata = {"labels": APP if labels is None else labels}
    return pod(name, metadata=metadata | ({"ownerReferences": [owner]} if owner else {}), nodeName="n")


def template():
    return {"metadata": {"labels": APP}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def ready(api, *names, value="True"):
    for name in names:
        condition = {"type": "Ready", "status": value}
        answer = await api.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": [condition]}})
        assert answer.status == 200, answer


def status(api, name="b"):
    return api.find("poddisruptionbudgets.policy", "default", name)["status"]


def numbers(api, name="b"):
    """Expected, desired, healthy, allowed."""
    now = status(api, name)
    return tuple(now[key] for key in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"))


def condition(api, name="b"):
    (one,) = status(api, name)["conditions"]
    return one["status"], one["reason"], one["message"]


async def recorded(api):
    events = (await api.get(f"{NS}/default/events"))["items"]
    return {(event["involvedObject"]["kind"], event["type"], event["reason"], event["message"]) for event in events}


@with_controllers(add_disruption_controller)
async def test_min_available_as_a_number(api):
    await api.made(BUDGETS, budget(minAvailable=1))
    await api.run_until_idle(1)
    assert numbers(api) == (0, 1, 0, 0)
    assert condition(api) == ("False", "InsufficientPods", "")
    assert status(api)["observedGeneration"] == 1
    assert ("PodDisruptionBudget", "Normal", "NoPods", "No matching pods found") in await recorded(api)
    for name in ("x", "y"):
        await api.made(PODS, owned(name))
    await api.made(PODS, owned("other", labels={"app": "z"}))
    await ready(api, "x", "y", "other")
    await api.run_until_idle(1)
    assert numbers(api) == (2, 1, 2, 1)
    assert condition(api) == ("True", "SufficientPods", "")
    await ready(api, "x", value="False")
    await api.run_until_idle(1)
    assert numbers(api) == (2, 1, 1, 0)
    assert condition(api) == ("False", "InsufficientPods", "")


@with_controllers(add_disruption_controller)
async def test_a_pod_that_is_no_longer_selected_is_not_counted(api):
    await api.made(BUDGETS, budget(minAvailable=0))
    await api.made(PODS, owned("x"))
    await ready(api, "x")
    await api.run_until_idle(1)
    assert numbers(api) == (1, 0, 1, 1)
    await api.patch(f"{PODS}/x", {"metadata": {"labels": {"app": "z"}}})
    await api.run_until_idle(1)
    assert numbers(api) == (0, 0, 0, 0)


async def _deployment(api, replicas):
    made = await api.made(DEPLOY, deployment("d", replicas=replicas))
    spec = {"replicas": 1, "selector": {"matchLabels": APP}, "template": template()}
    owner = reference(made, "apps/v1", "Deployment")
    replica_set = await api.made(REPLICASETS, {"metadata": {"name": "rs", "ownerReferences": [owner]}, "spec": spec})
    return reference(replica_set, "apps/v1", "ReplicaSet")


async def _replica_set(api, replicas):
    spec = {"replicas": replicas, "selector": {"matchLabels": APP}, "template": template()}
    return reference(await api.made(REPLICASETS, {"metadata": {"name": "rs"}, "spec": spec}), "apps/v1", "ReplicaSet")


async def _stateful_set(api, replicas):
    spec = {"replicas": replicas, "serviceName": "s", "selector": {"matchLabels": APP}, "template": template()}
    return reference(await api.made(STATEFULSETS, {"metadata": {"name": "s"}, "spec": spec}), "apps/v1", "StatefulSet")


async def _replication_controller(api, replicas):
    spec = {"replicas": replicas, "selector": APP, "template": template()}
    made = await api.made(CONTROLLERS, {"metadata": {"name": "rc"}, "spec": spec})
    return reference(made, "v1", "ReplicationController")


async def _orphaned_replica_set(api, replicas):
    """Of a Deployment that is gone: then its own scale counts."""
    gone = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone", "uid": "u", "controller": True}
    spec = {"replicas": replicas, "selector": {"matchLabels": APP}, "template": template()}
    metadata = {"name": "rs", "ownerReferences": [gone]}
    return reference(await api.made(REPLICASETS, {"metadata": metadata, "spec": spec}), "apps/v1", "ReplicaSet")


async def _custom(api, replicas):
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    one = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"scale": scale}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "fleets", "kind": "Fleet"},
        "versions": [one],
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await api.made(definitions, {"metadata": {"name": "fleets.example.com"}, "spec": spec})
    path = "/apis/example.com/v1/namespaces/default/fleets"
    fleet = {"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "f"}}
    return reference(await api.made(path, {**fleet, "spec": {"replicas": replicas}}), "example.com/v1", "Fleet")


@pytest.mark.parametrize(
    "make", [_deployment, _replica_set, _stateful_set, _replication_controller, _orphaned_replica_set, _custom]
)
def test_a_percentage_is_of_the_scale_of_the_controllers(make):
    @with_controllers(add_disruption_controller)
    async def check(api):
        owner = await make(api, 5)
        for name in ("x", "y", "z"):
            await api.made(PODS, owned(name, owner))
        await ready(api, "x", "y", "z")
        await api.made(BUDGETS, budget("share", minAvailable="50%"))
        await api.made(BUDGETS, budget("few", maxUnavailable=4))
        await api.run_until_idle(1)
        assert numbers(api, "share") == (5, 3, 3, 0)
        assert numbers(api, "few") == (5, 1, 3, 2)

    check()


@with_controllers(add_disruption_controller)
async def test_unmanaged_pods_are_recorded_as_an_event(api):
    await api.made(BUDGETS, budget(maxUnavailable=1))
    await api.made(PODS, owned("x"))
    await ready(api, "x")
    await api.run_until_idle(1)
    assert numbers(api) == (0, 0, 1, 0)
    text = (
        "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: a,},"
        "MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result, the status of the "
        "PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
        'set ".spec.minAvailable" field of the PDB to an integer value.'
    )
    assert ("PodDisruptionBudget", "Warning", "UnmanagedPods", text) in await recorded(api)


FAILURES = [
    pytest.param(
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j"},
        "jobs.batch does not implement the scale subresource",
        id="no scale",
    ),
    pytest.param(
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone"}, 'found no controllers for pod "x"', id="gone"
    ),
    pytest.param(
        {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f"},
        'no matches for kind "Fleet" in version "example.com/v1"',
        id="unheard of",
    ),
]


@pytest.mark.parametrize(("owner", "why"), FAILURES)
def test_no_disruptions_are_allowed_when_the_numbers_cannot_be_computed(owner, why):
    @with_controllers(add_disruption_controller)
    async def check(api):
        await api.made(PODS, owned("x", {**owner, "uid": "u", "controller": True}))
        await ready(api, "x")
        await api.made(BUDGETS, budget(maxUnavailable="50%"))
        await api.run_until_idle()
        assert condition(api) == ("False", "SyncFailed", why)
        assert status(api)["disruptionsAllowed"] == 0
        text = f"Failed to calculate the number of expected pods: {why}"
        assert ("PodDisruptionBudget", "Warning", "CalculateExpectedPodCountFailed", text) in await recorded(api)
        revision = api.revision
        await api.run_until_idle(1000)
        assert api.revision == revision

    check()


@with_controllers(add_disruption_controller)
async def test_an_eviction_is_counted_once(api):
    await api.made(BUDGETS, budget(minAvailable=1))
    for name in ("x", "y"):
        await api.made(PODS, owned(name))
    await ready(api, "x", "y")
    await api.run_until_idle(1)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"}}
    assert (await api.post(f"{PODS}/x/eviction", eviction)).status == 201
    await api.run_until_idle(1)
    assert numbers(api) == (2, 1, 1, 0)
    assert "disruptedPods" not in status(api)
    refused = await api.post(f"{PODS}/y/eviction", {**eviction, "metadata": {"name": "y"}})
    assert refused.status == 429
    assert refused.json["details"]["causes"][0]["message"] == (
        "The disruption budget b needs 1 healthy pods and has 1 currently"
    )


@with_controllers(add_disruption_controller)
async def test_an_eviction_without_deletion_times_out(api):
    await api.made(BUDGETS, budget(minAvailable=1))
    for name in ("x", "y"):
        await api.made(PODS, owned(name))
    await ready(api, "x", "y")
    await api.run_until_idle(1)
    at = (EPOCH + dt.timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    spent = {"disruptedPods": {"x": at, "gone": at}, "disruptionsAllowed": 0}
    assert (await api.patch(f"{BUDGETS}/b/status", {"status": spent})).status == 200
    await api.run_until_idle(100)
    assert status(api)["disruptedPods"] == {"x": at}
    assert numbers(api) == (2, 1, 1, 0)
    await api.run_until_idle(30)
    assert "disruptedPods" not in status(api)
    assert numbers(api) == (2, 1, 2, 1)
    text = "Pod was expected by PDB default/default to be deleted but it wasn't"
    assert ("Pod", "Warning", "NotDeleted", text) in await recorded(api)


@with_controllers(add_disruption_controller)
async def test_a_pod_with_two_budgets_is_recorded_as_an_event(api):
    await api.made(BUDGETS, budget("b", minAvailable=1))
    await api.made(BUDGETS, budget("a", minAvailable=1))
    await api.run_until_idle(1)
    await api.made(PODS, owned("x"))
    await api.run_until_idle(1)
    text = 'Pod "default"/"x" matches multiple PodDisruptionBudgets.  Chose "a" arbitrarily.'
    assert ("Pod", "Warning", "MultiplePodDisruptionBudgets", text) in await recorded(api)


@with_controllers(add_disruption_controller)
async def test_a_changed_budget_is_computed_again(api):
    await api.made(BUDGETS, budget(minAvailable=1))
    for name in ("x", "y"):
        await api.made(PODS, owned(name))
    await ready(api, "x", "y")
    await api.patch(f"{BUDGETS}/b", {"spec": {"minAvailable": 2}})
    await api.run_until_idle(1)
    assert numbers(api) == (2, 2, 2, 0)
    assert status(api)["observedGeneration"] == 2
    await api.delete(f"{BUDGETS}/b")
    await api.run_until_idle(1)
    await ready(api, "x", value="False")
    await api.run_until_idle(1)
    assert not api.there("poddisruptionbudgets.policy")


@with_controllers(add_disruption_controller)
async def test_nothing_is_written_while_the_numbers_stay_the_same(api):
    await api.made(BUDGETS, budget(minAvailable=1))
    await api.made(PODS, owned("x"))
    await ready(api, "x")
    await api.run_until_idle()
    version = api.find("poddisruptionbudgets.policy", "default", "b")["metadata"]["resourceVersion"]
    await api.patch(f"{PODS}/x", {"metadata": {"annotations": {"a": "b"}}})
    await api.run_until_idle()
    assert api.find("poddisruptionbudgets.policy", "default", "b")["metadata"]["resourceVersion"] == version
    revision = api.revision
    await api.run_until_idle(100_000)
    assert api.revision == revision


def test_changes_before_the_start_are_counted_at_the_start():
    storage = MemoryStorage()

    async def main():
        async with running_controllers(storage=storage) as api:
            await api.made(BUDGETS, budget(minAvailable=1))
            for name in ("x", "y"):
                await api.made(PODS, owned(name))
            await ready(api, "x", "y")
        async with running_controllers(add_disruption_controller, storage=storage) as api:
            await api.run_until_idle(1)
            assert numbers(api) == (2, 1, 2, 1)
            await ready(api, "x", value="False")
            await api.run_until_idle(1)
            assert numbers(api) == (2, 1, 1, 0)

    run(main())


# -- announcements ----------------------------------------------------------------------------------------------------


def announced(reason="PreemptionByScheduler", at="2026-01-01T00:00:00Z"):
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": at}
    return {"status": {"phase": "Running", "conditions": [condition]}}


def target(api, name="x"):
    (one,) = api.find("pods", "default", name)["status"]["conditions"]
    return one


@with_controllers(add_disruption_controller)
async def test_a_stale_disruption_target_is_cleared(api):
    await api.made(PODS, owned("x"))
    await api.patch(f"{PODS}/x/status", announced())
    await api.run_until_idle(110)
    assert target(api)["status"] == "True"
    await api.run_until_idle(15)
    assert {key: value for key, value in target(api).items() if value is not None} == {
        "type": "DisruptionTarget",
        "status": "False",
        "lastTransitionTime": "2026-01-01T00:02:00Z",
        "observedGeneration": 1,
    }


@with_controllers(add_disruption_controller)
async def test_disruption_targets_of_kubelets_and_of_terminated_pods_are_kept(api):
    for name in ("node", "ended"):
        await api.made(PODS, owned(name))
    await api.patch(f"{PODS}/node/status", announced("TerminationByKubelet"))
    ended = announced()
    ended["status"]["phase"] = "Failed"
    await api.patch(f"{PODS}/ended/status", ended)
    await api.run_until_idle(1000)
    assert target(api, "node")["status"] == "True"
    assert target(api, "ended")["status"] == "True"


# -- sums -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected", "desired"),
    [
        pytest.param({"minAvailable": 2}, 4, 2, id="number that stays"),
        pytest.param({"minAvailable": "25%"}, 10, 3, id="share that stays"),
        pytest.param({"maxUnavailable": 3}, 10, 7, id="maxUnavailable number"),
        pytest.param({"maxUnavailable": "25%"}, 10, 7, id="maxUnavailable percentage"),
        pytest.param({"maxUnavailable": 30}, 10, 0, id="more than there are"),
        pytest.param({}, 0, 0, id="neither"),
    ],
)
def test_expected_and_desired_pods(spec, expected, desired):
    assert expected_and_desired(spec, matching=4, scale=10) == (expected, desired)


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_allowed_disruptions_keep_the_desired_pods(expected, desired, healthy):
    sums = BudgetNumbers(expected, desired, healthy)
    assert 0 <= sums.allowed <= healthy
    assert sums.allowed == 0 or (expected > 0 and healthy - sums.allowed == desired)


@given(st.integers(0, 1000), st.integers(0, 100))
def test_min_available_and_max_unavailable_percentages_agree(scale, percent):
    _, stays = expected_and_desired({"minAvailable": f"{percent}%"}, matching=0, scale=scale)
    _, left = expected_and_desired({"maxUnavailable": f"{percent}%"}, matching=0, scale=scale)
    assert 0 <= left <= scale
    assert scale * percent <= stays * 100 < scale * percent + 100
    assert (scale - left) == stays


def test_evicted_pods_are_not_healthy():
    now = EPOCH + dt.timedelta(seconds=60)
    at = {"a": "2026-01-01T00:00:00Z", "late": "2025-12-31T23:58:59Z", "deleting": "2026-01-01T00:00:00Z"}
    pods = [
        PodState("a", is_ready=True),
        PodState("b", is_ready=True),
        PodState("late", is_ready=True),
        PodState("deleting", is_ready=True, is_deleting=True),
        PodState("unwell"),
    ]
    found = still_disrupted({"status": {"disruptedPods": at}}, pods, now)
    assert found.pending == {"a": at["a"]}
    assert [one.name for one in found.not_deleted] == ["late"]
    assert found.recheck == EPOCH + dt.timedelta(seconds=120)
    assert count_healthy(pods, found, now) == 2


def test_a_correct_status_is_not_written():
    subject = {"metadata": {"generation": 3}}
    clock = ManualClock()
    first = status_of(subject, BudgetNumbers(3, 1, 2), {}, clock)
    assert first["conditions"][0]["observedGeneration"] == 3
    assert status_of({**subject, "status": first}, BudgetNumbers(3, 1, 2), {}, clock) is None
    assert status_of({"metadata": {"generation": 4}, "status": first}, BudgetNumbers(3, 1, 2), {}, clock) is not None
    clock.advance(60)
    second = status_of({**subject, "status": first}, BudgetNumbers(3, 1, 3), {"x": "t"}, clock)
    assert second["conditions"][0]["lastTransitionTime"] == first["conditions"][0]["lastTransitionTime"]
    assert second["disruptedPods"] == {"x": "t"}
    failed = failed_status({**subject, "status": second}, "why", clock)
    assert (failed["disruptionsAllowed"], failed["currentHealthy"]) == (0, 3)
    assert failed["conditions"][0]["message"] == "why"
    assert failed_status({**subject, "status": failed}, "why", clock) is None
    assert failed_status({**subject, "status": failed}, "another", clock) is not None


def test_selectors_are_printed_as_go_prints_them():
    expressions = [{"key": "k", "operator": "In", "values": ["x", "y"]}, {"key": "l", "operator": "Exists"}]
    assert selector_text({"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": expressions}) == (
        "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{"
        "LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},"
        "LabelSelectorRequirement{Key:l,Operator:Exists,Values:[],},},}"
    )
    assert selector_text(None) == "nil"
