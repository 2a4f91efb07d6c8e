"""Namespaces that are deleted: emptied, pods first, and gone with the last object that was in them."""

import asyncio

import pytest

from api_client import NS, SlowStorage, cm, lease, pod
from controller_api import running_controllers, with_controllers
from custom_kinds import GROUP, defined, definition, redefined, version, widget
from kapi.controlplane.controllers.namespace.controller import add_namespace_controller
from kapi.storage.memory import MemoryStorage
from virtual_time import run

PROBE = f"{NS}/probe"
CMS = f"{PROBE}/configmaps"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/probe/widgets"

FINE = {
    "NamespaceDeletionDiscoveryFailure": ("False", "ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("False", "ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": (
        "False",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


async def _ns(api, name="probe", spec=None, **metadata):
    body = {"metadata": {"name": name, **metadata}, **({"spec": spec} if spec else {})}
    return await api.made(NS, body)


async def _freed(api, path):
    answer = await api.patch(path, {"metadata": {"finalizers": None}})
    assert answer.status == 200, answer


def _held(name="held", *finalizers):
    return cm(name, metadata={"finalizers": list(finalizers or ("example.com/x",))})


def _conditions(namespace):
    return {
        condition["type"]: (condition["status"], condition["reason"], condition["message"])
        for condition in namespace["status"]["conditions"]
    }


def _remaining(api, name="probe"):
    """The messages about remaining content and finalizers."""
    conditions = _conditions(api.find("namespaces", "", name))
    return conditions["NamespaceContentRemaining"][2], conditions["NamespaceFinalizersRemaining"][2]


# -- deletion ----------------------------------------------------------------------------------------------------------


@with_controllers(add_namespace_controller)
async def test_a_namespace_is_deleted_with_its_content(api):
    made = await _ns(api)
    await api.made(CMS, cm("a"))
    await api.made("/apis/coordination.k8s.io/v1/namespaces/probe/leases", lease("l"))
    await api.made(f"{PROBE}/pods", pod("p"))
    await api.made(f"{PROBE}/events", {"metadata": {"name": "e"}, "involvedObject": {"namespace": "probe"}})
    other = await api.made(f"{NS}/default/configmaps", cm("a"))
    watch = await api.watch(NS, resourceVersion=made["metadata"]["resourceVersion"])
    assert (await api.delete(PROBE)).status == 200
    marked, updated, gone = await watch.take(3)
    assert [event["type"] for event in (marked, updated, gone)] == ["MODIFIED", "MODIFIED", "DELETED"]
    assert "conditions" not in marked["object"]["status"]
    assert _conditions(updated["object"]) == FINE
    assert updated["object"]["spec"] == {"finalizers": ["kubernetes"]}
    assert gone["object"]["status"]["phase"] == "Terminating"
    assert (await api.get(PROBE)).status == 404
    assert api.find("configmaps", "default", "a") == other
    for resource in ("configmaps", "leases.coordination.k8s.io", "pods", "events"):
        assert not [key for key in api.there(resource) if key[0] == "probe"], resource


@with_controllers(add_namespace_controller)
async def test_an_ordinary_namespace_is_deleted_at_once(api):
    await _ns(api)
    await api.made(CMS, cm("a"))
    before = api.clock.monotonic()
    watch = await api.watch(NS, resourceVersion=str(api.revision))
    await api.delete(PROBE)
    await watch.take(3)
    assert api.clock.monotonic() - before < 0.1


@with_controllers(add_namespace_controller)
async def test_two_namespaces_are_deleted_at_the_same_time(api):
    for name in ("one", "two"):
        await _ns(api, name)
        for number in range(20):
            await api.made(f"{NS}/{name}/configmaps", cm(f"c{number}"))
    await asyncio.gather(api.delete(f"{NS}/one"), api.delete(f"{NS}/two"))
    await api.run_until_idle(1)
    assert not {("", "one"), ("", "two")} & api.there("namespaces")
    assert not api.there("configmaps")


@with_controllers(add_namespace_controller)
async def test_objects_of_a_kind_defined_a_moment_ago_are_deleted(api):
    await _ns(api)
    await defined(api, definition())
    await api.made(WIDGETS, widget("w", metadata={"finalizers": ["example.com/w"]}))
    await api.delete(PROBE)
    await api.run_until_idle()
    assert _remaining(api) == (
        "Some resources are remaining: widgets.example.com has 1 resource instances",
        "Some content in the namespace has finalizers remaining: example.com/w in 1 resource instances",
    )
    await _freed(api, f"{WIDGETS}/w")
    await api.run_until_idle(0.1)
    assert (await api.get(PROBE)).status == 404


@with_controllers(add_namespace_controller)
async def test_kinds_that_are_not_served_do_not_block_the_deletion(api):
    await _ns(api)
    await defined(api, definition(versions=[version("v1", storage=True), version("v2")]))
    await api.made(WIDGETS, widget("w"))

    def hide(spec):
        spec["versions"][0]["served"] = spec["versions"][1]["served"] = False

    await redefined(api, f"widgets.{GROUP}", hide)
    await api.delete(PROBE)
    await api.run_until_idle()
    assert (await api.get(PROBE)).status == 404


@with_controllers(add_namespace_controller)
async def test_system_namespaces_cannot_be_deleted(api):
    for name in ("default", "kube-system", "kube-public"):
        answer = await api.delete(f"{NS}/{name}")
        assert answer.error == (
            403,
            "Forbidden",
            f'namespaces "{name}" is forbidden: this namespace may not be deleted',
        )
    await api.run_until_idle()
    assert len(api.there("namespaces")) == 4


@with_controllers(add_namespace_controller)
async def test_dry_run_of_a_deletion_changes_nothing(api):
    await _ns(api)
    await api.made(CMS, cm("a"))
    before = api.revision
    assert (await api.delete(PROBE, dryRun="All")).status == 200
    await api.run_until_idle()
    assert api.revision == before


@with_controllers(add_namespace_controller)
async def test_a_namespace_of_the_same_name_can_be_created_again(api):
    for _ in range(3):
        await _ns(api)
        await api.made(CMS, cm("a"))
        await api.delete(PROBE)
        await api.run_until_idle(1)
    assert (await api.get(PROBE)).status == 404


# -- being held up ---------------------------------------------------------------------------------------------------


@with_controllers(add_namespace_controller)
async def test_a_blocked_namespace_reports_the_finalizers_and_is_deleted_without_them(api):
    await _ns(api)
    for number in range(1000):
        await api.made(CMS, cm(f"c{number}"))
    await api.made(CMS, _held())
    await api.delete(PROBE)
    await api.run_until_idle(0.1)
    assert [key for key in api.there("configmaps") if key[0] == "probe"] == [("probe", "held")]
    held = api.find("namespaces", "", "probe")
    assert _conditions(held) == FINE | {
        "NamespaceContentRemaining": (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 1 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/x in 1 resource instances",
        ),
    }
    await api.run_until_idle()
    before = api.revision
    await api.run_until_idle(24 * 3600)
    assert api.revision == before
    await _freed(api, f"{CMS}/held")
    await api.run_until_idle(0.01)
    assert (await api.get(PROBE)).status == 404


@with_controllers(add_namespace_controller)
async def test_the_conditions_are_kept_up_to_date(api):
    await _ns(api)
    await api.made(CMS, _held("a", "example.com/x", "example.com/y"))
    await api.made(CMS, _held("b"))
    await api.made(f"{PROBE}/secrets", {"metadata": {"name": "s", "finalizers": ["example.com/y"]}})
    await api.delete(PROBE)
    await api.run_until_idle()
    assert _remaining(api) == (
        "Some resources are remaining: configmaps. has 2 resource instances, secrets. has 1 resource instances",
        (
            "Some content in the namespace has finalizers remaining: "
            "example.com/x in 2 resource instances, example.com/y in 2 resource instances"
        ),
    )
    first = api.find("namespaces", "", "probe")["status"]["conditions"]
    await _freed(api, f"{CMS}/b")
    await api.patch(f"{CMS}/a", {"metadata": {"finalizers": ["example.com/y"]}})
    await api.run_until_idle()
    assert _remaining(api) == (
        "Some resources are remaining: configmaps. has 1 resource instances, secrets. has 1 resource instances",
        "Some content in the namespace has finalizers remaining: example.com/y in 2 resource instances",
    )
    then = api.find("namespaces", "", "probe")["status"]["conditions"]
    assert [one["lastTransitionTime"] for one in then] == [one["lastTransitionTime"] for one in first]


@with_controllers(add_namespace_controller)
async def test_many_finalizers_removed_one_by_one_cause_few_status_updates(api):
    await _ns(api)
    for number in range(50):
        await api.made(CMS, _held(f"c{number}"))
    await api.delete(PROBE)
    await api.run_until_idle()
    watch = await api.watch(NS, resourceVersion=str(api.revision))
    for number in range(50):
        await _freed(api, f"{CMS}/c{number}")
        await asyncio.sleep(0.1)
    updated = 0
    while (await watch.next())["type"] != "DELETED":
        updated += 1
    assert 4 <= updated <= 8


@with_controllers(add_namespace_controller)
async def test_finalizers_of_the_namespace_block_its_deletion(api):
    await _ns(api, finalizers=["example.com/ns"])
    await api.made(CMS, cm("a"))
    await api.delete(PROBE)
    await api.run_until_idle()
    held = api.find("namespaces", "", "probe")
    assert not held["spec"].get("finalizers")
    assert held["metadata"]["finalizers"] == ["example.com/ns"]
    assert _conditions(held) == FINE
    assert not [key for key in api.there("configmaps") if key[0] == "probe"]
    await _freed(api, PROBE)
    assert (await api.get(PROBE)).status == 404


@with_controllers(add_namespace_controller)
async def test_other_finalizers_in_the_spec_are_kept(api):
    await _ns(api, spec={"finalizers": ["example.com/mine"]})
    await api.delete(PROBE)
    await api.run_until_idle()
    held = api.find("namespaces", "", "probe")
    assert held["spec"]["finalizers"] == ["example.com/mine"]
    held["spec"]["finalizers"] = []
    assert (await api.put(f"{PROBE}/finalize", held)).status == 200
    assert (await api.get(PROBE)).status == 404


@with_controllers(add_namespace_controller)
async def test_the_controller_is_the_field_manager_of_its_writes(api):
    await _ns(api, spec={"finalizers": ["example.com/mine"]})
    await api.delete(PROBE)
    await api.run_until_idle()
    entries = api.find("namespaces", "", "probe")["metadata"]["managedFields"]
    ours = {entry.get("subresource") for entry in entries if entry["manager"] == "kube-controller-manager"}
    assert ours == {"status", "finalize"}


# -- pods ------------------------------------------------------------------------------------------------------------


@with_controllers(add_namespace_controller)
async def test_everything_else_waits_for_the_pods(api):
    await _ns(api)
    await api.made(CMS, cm("used"))
    await api.made(f"{PROBE}/pods", pod("p", nodeName="n", terminationGracePeriodSeconds=30))
    await api.delete(PROBE)
    await api.run_until_idle(10)
    assert api.find("pods", "probe", "p")["metadata"]["deletionGracePeriodSeconds"] == 30
    assert api.find("configmaps", "probe", "used") is not None
    assert _conditions(api.find("namespaces", "", "probe"))["NamespaceContentRemaining"] == (
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: pods. has 1 resource instances",
    )
    await api.delete(f"{PROBE}/pods/p", {"gracePeriodSeconds": 0})
    await api.run_until_idle(0.1)
    assert (await api.get(PROBE)).status == 404


@with_controllers(add_namespace_controller)
async def test_pods_that_outlive_their_grace_period_are_reported_as_a_failure(api):
    await _ns(api)
    await api.made(f"{PROBE}/pods", pod("p", nodeName="n", terminationGracePeriodSeconds=30))
    await api.delete(PROBE)
    await api.run_until_idle(30)
    assert _conditions(api.find("namespaces", "", "probe"))["NamespaceDeletionContentFailure"][0] == "False"
    await api.run_until_idle(10)
    assert _conditions(api.find("namespaces", "", "probe"))["NamespaceDeletionContentFailure"] == (
        "True",
        "ContentDeletionFailed",
        (
            "Failed to delete all resource types, 1 remaining: "
            "unexpected items still remain in namespace: probe for gvr: /v1, Resource=pods"
        ),
    )
    before = api.revision
    await api.run_until_idle(3600)
    assert api.revision == before
    await api.delete(f"{PROBE}/pods/p", {"gracePeriodSeconds": 0})
    await api.run_until_idle(0.1)
    assert (await api.get(PROBE)).status == 404


# -- races and restarts -------------------------------------------------------------------------------------------------


class Latecomer(SlowStorage):
    """A store that keeps the writes of one key back until they are let through."""

    def __init__(self, key):
        super().__init__()
        self._key = key
        self.held = asyncio.Event()
        self.through = asyncio.Event()

    async def put(self, key, draft, expected, note=None):
        if key == self._key and not self.through.is_set():
            self.held.set()
            await self.through.wait()
        return await super().put(key, draft, expected, note)


@pytest.mark.parametrize("when", ["while it is emptied", "after it has gone"])
def test_objects_admitted_before_the_deletion_are_deleted(when):
    async def main():
        storage = Latecomer("/registry/core/configmaps/probe/late")
        async with running_controllers(add_namespace_controller, storage=storage) as api:
            await _ns(api)
            if when == "while it is emptied":
                await api.made(CMS, _held())
            creating = asyncio.ensure_future(api.post(CMS, cm("late")))
            await storage.held.wait()
            await api.delete(PROBE)
            await api.run_until_idle(0.2)
            assert (api.find("namespaces", "", "probe") is None) == (when == "after it has gone")
            storage.through.set()
            assert (await creating).status == 201
            await api.run_until_idle(0.1)
            assert api.find("configmaps", "probe", "late") is None
            if when == "while it is emptied":
                await _freed(api, f"{CMS}/held")
                await api.run_until_idle(0.1)
            assert (await api.get(PROBE)).status == 404

    run(main())


def test_a_deletion_begun_before_a_restart_is_continued():
    async def main():
        storage = MemoryStorage()
        async with running_controllers(storage=storage) as api:
            for name in ("probe", "active"):
                await _ns(api, name)
                await api.made(f"{NS}/{name}/configmaps", cm("a"))
            await api.delete(PROBE)
        async with running_controllers(add_namespace_controller, storage=storage) as api:
            assert api.there("namespaces") & {("", "probe"), ("", "active")} == {("", "active")}
            assert api.there("configmaps") == {("active", "a")}

    run(main())


def test_content_without_a_namespace_is_found_at_the_start():
    async def main():
        storage = MemoryStorage()
        async with running_controllers(storage=storage) as api:
            for name in ("gone", "gone0", "here"):
                await _ns(api, name)
                for number in range(3):
                    await api.made(f"{NS}/{name}/configmaps", cm(f"c{number}"))
            for name in ("gone", "gone0"):
                await api.delete(f"{NS}/{name}")
                let_go = api.find("namespaces", "", name)
                let_go["spec"] = {}
                assert (await api.put(f"{NS}/{name}/finalize", let_go)).status == 200
            assert len(api.there("configmaps")) == 9
        async with running_controllers(add_namespace_controller, storage=storage) as api:
            assert api.there("configmaps") == {("here", f"c{number}") for number in range(3)}

    run(main())


@with_controllers(add_namespace_controller)
async def test_content_of_a_force_finalized_namespace_is_deleted(api):
    await _ns(api)
    await api.made(CMS, _held())
    await api.delete(PROBE)
    await api.run_until_idle()
    forced = api.find("namespaces", "", "probe")
    forced["spec"] = {}
    await api.put(f"{PROBE}/finalize", forced)
    assert (await api.get(PROBE)).status == 404
    await api.run_until_idle()
    await _freed(api, f"{CMS}/held")
    assert not api.there("configmaps")
    await _ns(api)
    await api.made(CMS, cm("held"))
    await api.run_until_idle()
    assert api.find("configmaps", "probe", "held") is not None


@with_controllers(add_namespace_controller)
async def test_active_namespaces_are_not_touched(api):
    await _ns(api)
    await api.made(CMS, _held())
    await api.delete(f"{CMS}/held")
    before = api.revision
    await api.run_until_idle(3600)
    assert api.revision == before
    assert api.find("configmaps", "probe", "held") is not None


@with_controllers(add_namespace_controller)
async def test_a_conflict_on_the_namespace_is_retried(api):
    await _ns(api)
    await api.made(CMS, _held())
    await api.delete(PROBE)

    async def touch():
        for number in range(50):
            answer = await api.patch(PROBE, {"metadata": {"labels": {"n": str(number)}}})
            assert answer.status in (200, 404), answer
            await asyncio.sleep(0)

    await asyncio.gather(touch(), _freed(api, f"{CMS}/held"))
    await api.run_until_idle(1)
    assert (await api.get(PROBE)).status == 404
