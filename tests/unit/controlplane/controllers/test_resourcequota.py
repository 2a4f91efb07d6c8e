"""The resourcequota controller: the status of quotas is updated at once."""

import pytest
import structlog.testing

from api_client import CM, NS, PODS, SVC, cm, pod
from controller_api import running_controllers, with_controllers
from kapi.controlplane.controllers.resourcequota.controller import add_resourcequota_controller, status_of
from kapi.registry.quota.amounts import amounts_of
from kapi.storage.memory import MemoryStorage
from virtual_time import run

QUOTAS = f"{NS}/default/resourcequotas"


def quota(name="q", /, hard=None, **spec):
    return {"metadata": {"name": name}, "spec": {"hard": hard or {}, **spec}}


def using(name="p", cpu="100m", **spec):
    made = pod(name, **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


def status(api, name="q"):
    return api.find("resourcequotas", "default", name).get("status")


def used(api, name="q"):
    return status(api, name)["used"]


@with_controllers(add_resourcequota_controller)
async def test_the_status_of_a_quota_has_hard_and_used(api):
    await api.made(QUOTAS, quota(hard={"pods": "10", "cpu": "2", "configmaps": "5", "count/deployments.apps": "1"}))
    await api.run_until_idle()
    assert status(api) == {
        "hard": {"pods": "10", "cpu": "2", "configmaps": "5", "count/deployments.apps": "1"},
        "used": {"pods": "0", "cpu": "0", "configmaps": "0", "count/deployments.apps": "0"},
    }


@with_controllers(add_resourcequota_controller)
async def test_created_and_deleted_objects_are_counted(api):
    await api.made(QUOTAS, quota(hard={"pods": "10", "count/pods": "10", "requests.cpu": "2", "configmaps": "5"}))
    await api.made(PODS, using("a"))
    await api.made(PODS, using("b", cpu="1"))
    await api.made(CM, cm("a"))
    await api.run_until_idle(1)
    assert used(api) == {"pods": "2", "count/pods": "2", "requests.cpu": "1100m", "configmaps": "1"}
    await api.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
    await api.run_until_idle(1)
    assert used(api) == {"pods": "1", "count/pods": "2", "requests.cpu": "1", "configmaps": "1"}
    await api.delete(f"{PODS}/b", gracePeriodSeconds=0)
    await api.delete(f"{CM}/a")
    await api.run_until_idle(1)
    assert used(api) == {"pods": "0", "count/pods": "1", "requests.cpu": "0", "configmaps": "0"}


@with_controllers(add_resourcequota_controller)
async def test_a_changed_service_is_counted_again(api):
    await api.made(QUOTAS, quota(hard={"services": "9", "services.nodeports": "9", "services.loadbalancers": "9"}))
    ports = [{"port": 1, "name": "a"}, {"port": 2, "name": "b"}]
    await api.made(SVC, {"metadata": {"name": "s"}, "spec": {"ports": ports}})
    await api.run_until_idle(1)
    # The bootstrapped service of the API itself is there, too.
    before = int(used(api)["services"])
    assert used(api) == {"services": str(before), "services.nodeports": "0", "services.loadbalancers": "0"}
    await api.patch(f"{SVC}/s", {"spec": {"type": "LoadBalancer"}})
    await api.run_until_idle(1)
    assert used(api) == {"services": str(before), "services.nodeports": "2", "services.loadbalancers": "1"}


@with_controllers(add_resourcequota_controller)
async def test_only_pods_in_scope_are_counted(api):
    await api.made(QUOTAS, quota("best", hard={"pods": "9"}, scopes=["BestEffort"]))
    await api.made(QUOTAS, quota("rest", hard={"pods": "9", "cpu": "9"}, scopes=["NotBestEffort"]))
    await api.made(PODS, pod("a"))
    await api.made(PODS, using("b"))
    await api.made(PODS, using("c", activeDeadlineSeconds=5))
    await api.run_until_idle(1)
    assert used(api, "best") == {"pods": "1"}
    assert used(api, "rest") == {"pods": "2", "cpu": "200m"}


@with_controllers(add_resourcequota_controller)
async def test_a_changed_quota_is_counted_again(api):
    await api.made(PODS, using("a"))
    await api.made(QUOTAS, quota(hard={"pods": "1"}))
    await api.run_until_idle(1)
    await api.patch(f"{QUOTAS}/q", {"spec": {"hard": {"pods": None, "cpu": "1"}}})
    await api.run_until_idle(1)
    assert status(api) == {"hard": {"cpu": "1"}, "used": {"cpu": "100m"}}
    await api.patch(f"{QUOTAS}/q", {"spec": {"hard": {"cpu": "3"}}})
    await api.run_until_idle(1)
    assert status(api) == {"hard": {"cpu": "3"}, "used": {"cpu": "100m"}}


@with_controllers(add_resourcequota_controller)
async def test_other_namespaces_do_not_count(api):
    await api.made(NS, {"metadata": {"name": "other"}})
    await api.made(QUOTAS, quota(hard={"pods": "1", "secrets": "1"}))
    await api.made(f"{NS}/other/pods", pod("a"))
    await api.made(f"{NS}/other/secrets", {"metadata": {"name": "s"}})
    await api.run_until_idle(1)
    assert used(api) == {"pods": "0", "secrets": "0"}


@with_controllers(add_resourcequota_controller)
async def test_nothing_is_written_while_the_numbers_stay_the_same(api):
    await api.made(QUOTAS, quota(hard={"pods": "1", "configmaps": "5"}))
    await api.made(PODS, using("a"))
    await api.made(CM, cm("a"))
    await api.run_until_idle()
    version = api.find("resourcequotas", "default", "q")["metadata"]["resourceVersion"]
    await api.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})
    await api.patch(f"{CM}/a", {"data": {"x": "y"}})
    await api.run_until_idle()
    assert api.find("resourcequotas", "default", "q")["metadata"]["resourceVersion"] == version
    revision = api.revision
    await api.run_until_idle(100_000)
    assert api.revision == revision


@with_controllers(add_resourcequota_controller)
async def test_a_pod_that_does_not_terminate_is_not_charged_after_its_grace_period(api):
    await api.made(QUOTAS, quota(hard={"pods": "9", "count/pods": "9"}))
    await api.made(PODS, pod("a", nodeName="lost", terminationGracePeriodSeconds=100))
    await api.delete(f"{PODS}/a")
    await api.run_until_idle(150)
    assert used(api) == {"pods": "1", "count/pods": "1"}
    await api.run_until_idle(100)
    assert used(api) == {"pods": "0", "count/pods": "1"}


@with_controllers(add_resourcequota_controller)
async def test_two_quotas_of_a_namespace_are_counted_independently(api):
    await api.made(QUOTAS, quota("a", hard={"resourcequotas": "5", "pods": "1"}))
    await api.made(QUOTAS, quota("b", hard={"count/resourcequotas": "5"}))
    await api.made(PODS, pod("p"))
    await api.run_until_idle(1)
    assert used(api, "a") == {"resourcequotas": "2", "pods": "1"}
    assert used(api, "b") == {"count/resourcequotas": "2"}
    await api.delete(f"{QUOTAS}/b")
    await api.run_until_idle(1)
    assert used(api, "a") == {"resourcequotas": "1", "pods": "1"}


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/quota.example.com/v1/namespaces/default/widgets"


def definition():
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": "widgets.quota.example.com"},
        "spec": {
            "group": "quota.example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


@with_controllers(add_resourcequota_controller)
async def test_a_quota_that_is_too_large_for_a_status_is_tried_once(api):
    large = {f"example.com/{'x' * 50}-{number}": "1" for number in range(10_000)}
    with structlog.testing.capture_logs() as logs:
        await api.made(QUOTAS, quota(hard=large))
        await api.run_until_idle()
    assert not status(api)
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("quota too large for a status", "warning")]
    assert (await api.patch(f"{QUOTAS}/q", {"spec": {"hard": None}})).status == 200
    assert (await api.patch(f"{QUOTAS}/q", {"spec": {"hard": {"pods": "1"}}})).status == 200
    await api.run_until_idle()
    assert status(api) == {"hard": {"pods": "1"}, "used": {"pods": "0"}}


def widget(name):
    return {"apiVersion": "quota.example.com/v1", "kind": "Widget", "metadata": {"name": name}}


@with_controllers(add_resourcequota_controller)
async def test_objects_of_a_custom_kind_are_counted_once_it_is_defined(api):
    await api.made(QUOTAS, quota(hard={"count/widgets.quota.example.com": "9", "pods": "1"}))
    await api.run_until_idle(1)
    assert used(api) == {"pods": "0"}
    await api.made(CRDS, definition())
    await api.run_until_idle(1)
    assert used(api) == {"count/widgets.quota.example.com": "0", "pods": "0"}
    await api.made(WIDGETS, widget("a"))
    await api.run_until_idle(1)
    assert used(api)["count/widgets.quota.example.com"] == "1"
    await api.delete(f"{WIDGETS}/a")
    await api.run_until_idle(1)
    assert used(api)["count/widgets.quota.example.com"] == "0"


def test_changes_before_the_start_are_counted_at_the_start():
    storage = MemoryStorage()

    async def main():
        async with running_controllers(add_resourcequota_controller, storage=storage) as api:
            await api.made(QUOTAS, quota(hard={"pods": "999", "cpu": "99"}))
            await api.made(PODS, using("a"))
            await api.run_until_idle(1)
        async with running_controllers(storage=storage) as api:
            for number in range(250):
                await api.made(PODS, using(f"p{number}"))
            await api.delete(f"{PODS}/a", gracePeriodSeconds=0)
        async with running_controllers(add_resourcequota_controller, storage=storage) as api:
            await api.run_until_idle(1)
            assert used(api) == {"pods": "250", "cpu": "25"}

    run(main())


@pytest.mark.parametrize(
    ("spec", "before", "now", "after"),
    [
        pytest.param({"pods": "1"}, None, {"pods": "0"}, {"hard": {"pods": "1"}, "used": {"pods": "0"}}, id="first"),
        pytest.param(
            {"cpu": "1"}, {"hard": {"cpu": "1000m"}, "used": {"cpu": "1k"}}, {"cpu": "1000"}, None, id="the same"
        ),
        pytest.param(
            {"cpu": "1", "count/x.y": "1"},
            {"hard": {"cpu": "1", "count/x.y": "1", "gone": "1"}, "used": {"cpu": "2", "count/x.y": "7", "gone": "3"}},
            {"cpu": "2"},
            {"hard": {"cpu": "1", "count/x.y": "1"}, "used": {"count/x.y": "7", "cpu": "2"}},
            id="a resource that is not served",
        ),
        pytest.param({}, None, {}, None, id="nothing"),
    ],
)
def test_the_computed_status_of_a_quota(spec, before, now, after):
    subject = {"spec": {"hard": spec}} | ({"status": before} if before else {})
    assert status_of(subject, amounts_of(now)) == after
