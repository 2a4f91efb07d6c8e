"""The garbage collector: background deletion and orphans, and objects with several owners."""

import asyncio

import pytest

from api_client import CM, NS, cm
from controller_api import running_controllers, with_controllers
from custom_kinds import WIDGETS, defined, definition, widget
from kapi.controlplane.controllers.garbagecollector.collector import add_garbage_collector
from kapi.controlplane.controllers.garbagecollector.operations import Operations
from kapi.storage.memory import MemoryStorage
from owned_objects import blocking, chain, metadata, names, owned, owners, reconciles, reference
from virtual_time import run

HOLD = "test.dev/hold"
NO_UID = "00000000-0000-0000-0000-000000000000"


async def free(api, path):
    """Take a user's finalizer away."""
    assert (await api.patch(path, {"metadata": {"finalizers": None}})).status == 200


# -- what is deleted --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("Background", set()),
        ("Foreground", set()),
        ("Orphan", {("widgets.example.com", "child"), ("configmaps", "grandchild")}),
        (None, set()),
    ],
)
def test_dependents_are_deleted_with_their_owner_unless_orphaned(policy, left):
    """Three levels, built-in and custom kinds by turns."""

    @with_controllers(add_garbage_collector)
    async def check(api):
        await defined(api, definition())
        await api.made(CM, cm("other"))
        parent = await api.made(CM, cm("parent"))
        child = await api.made(WIDGETS, widget("child", metadata={"ownerReferences": [blocking(parent)]}))
        await api.made(CM, owned("grandchild", reference(child)))
        await api.run_until_idle()
        assert names(api) == {"other", "parent", "grandchild"}
        await api.delete(f"{CM}/parent", **({} if policy is None else {"propagationPolicy": policy}))
        await api.run_until_idle()
        there = {(kind, name) for kind in ("widgets.example.com", "configmaps") for _, name in api.there(kind)}
        assert there == {("configmaps", "other"), *left}
        if left:
            assert owners(api, "child", resource="widgets.example.com") == []
            assert owners(api, "grandchild") == ["child"]

    check()


@with_controllers(add_garbage_collector)
async def test_an_object_with_one_solid_owner_is_kept_and_loses_the_other_references(api):
    one, two, three = [await api.made(CM, cm(name)) for name in ("one", "two", "three")]
    kept_one = reference(two, controller=True, blockOwnerDeletion=False)
    await api.made(CM, owned("child", reference(one), kept_one, blocking(three)))
    await api.delete(f"{CM}/one")
    await api.run_until_idle()
    assert metadata(api, "child")["ownerReferences"] == [kept_one, blocking(three)]
    await api.delete(f"{CM}/three", propagationPolicy="Foreground")
    await api.run_until_idle()
    assert metadata(api, "child")["ownerReferences"] == [kept_one]
    await api.delete(f"{CM}/two")
    await api.run_until_idle()
    assert names(api) == set()


@pytest.mark.parametrize(
    ("case", "change"),
    [
        ("another uid", {"uid": NO_UID}),
        ("another name", {"name": "another"}),
        ("another kind", {"kind": "Secret"}),
        ("another group", {"apiVersion": "apps/v1", "kind": "ReplicaSet"}),
    ],
)
def test_an_owner_must_match_the_whole_reference(case, change):
    @with_controllers(add_garbage_collector)
    async def check(api):
        owner = await api.made(CM, cm("owner"))
        await api.made(CM, owned("wrong", reference(owner) | change))
        await api.made(CM, owned("right", reference(owner)))
        await api.run_until_idle()
        assert names(api) == {"owner", "right"}

    check()


@with_controllers(add_garbage_collector)
async def test_an_object_created_after_its_owner_was_deleted_is_deleted(api):
    (owner,) = await chain(api, "owner")
    await api.delete(f"{CM}/owner")
    await api.made(CM, owned("late", reference(owner)))
    await api.run_until_idle()
    assert names(api) == set()


@with_controllers(add_garbage_collector)
async def test_a_recreated_owner_is_another_object(api):
    _, child = await chain(api, "owner", "child")
    await api.patch(f"{CM}/child", {"metadata": {"finalizers": [HOLD]}})
    await api.delete(f"{CM}/owner")
    await api.made(CM, cm("owner"))
    await api.run_until_idle()
    assert "deletionTimestamp" in metadata(api, "child")
    await free(api, f"{CM}/child")
    assert names(api) == {"owner"}
    await api.made(CM, owned("cousin", *child["metadata"]["ownerReferences"]))
    await api.run_until_idle()
    assert names(api) == {"owner"}


@with_controllers(add_garbage_collector)
async def test_an_object_that_gets_a_reference_to_a_deleted_owner_is_deleted(api):
    (owner,) = await chain(api, "owner")
    await api.delete(f"{CM}/owner")
    await api.made(CM, cm("free"))
    await api.patch(f"{CM}/free", {"metadata": {"ownerReferences": [reference(owner)]}})
    await api.run_until_idle()
    assert names(api) == set()


@with_controllers(add_garbage_collector)
async def test_a_changed_reference_is_classified_again(api):
    """The uid is the same, so the owner index does not change."""
    owner, child = await chain(api, "owner", "child")
    astray = [blocking(owner) | {"name": "another"}]
    await api.patch(f"{CM}/child", {"metadata": {"ownerReferences": astray}})
    await api.run_until_idle()
    assert names(api) == {"owner"}
    assert child["metadata"]["ownerReferences"] != astray


@with_controllers(add_garbage_collector)
async def test_objects_that_own_themselves_or_each_other_are_kept(api):
    one = await api.made(CM, cm("one"))
    two = await api.made(CM, owned("two", reference(one)))
    await api.patch(f"{CM}/one", {"metadata": {"ownerReferences": [reference(one), reference(two)]}})
    await api.run_until_idle()
    assert names(api) == {"one", "two"}
    await api.delete(f"{CM}/one")
    await api.run_until_idle()
    assert names(api) == set()


@with_controllers(add_garbage_collector)
async def test_objects_that_are_being_deleted_are_not_deleted_again(api):
    owner = await api.made(CM, cm("owner"))
    await api.made(CM, owned("child", reference(owner), finalizers=[HOLD]))
    await api.delete(f"{CM}/child")
    before = metadata(api, "child")["resourceVersion"]
    await api.delete(f"{CM}/owner")
    await api.run_until_idle()
    assert metadata(api, "child")["resourceVersion"] == before
    await free(api, f"{CM}/child")
    assert names(api) == set()


@pytest.mark.parametrize(
    ("finalizer", "left", "releasing"),
    [("orphan", {"grandchild"}, []), ("foregroundDeletion", set(), ["grandchild", "child"])],
)
def test_a_dependent_is_deleted_with_the_propagation_of_its_finalizers(finalizer, left, releasing):
    @with_controllers(add_garbage_collector)
    async def check(api):
        owner = await api.made(CM, cm("owner"))
        child = await api.made(CM, owned("child", reference(owner), finalizers=[finalizer]))
        await api.made(CM, owned("grandchild", blocking(child)))
        watch = await api.watch(CM, resourceVersion=str(api.revision))
        await api.delete(f"{CM}/owner", propagationPolicy="Background")
        await api.run_until_idle()
        assert names(api) == left
        if releasing:
            gone = []
            while len(gone) < 3:
                event = await watch.next()
                if event["type"] == "DELETED":
                    gone.append(event["object"]["metadata"]["name"])
            assert gone[1:] == releasing
        else:
            assert owners(api, "grandchild") == []

    check()


@with_controllers(add_garbage_collector)
async def test_events_are_not_collected(api):
    owner = await api.made(CM, cm("owner"))
    about = {"kind": "ConfigMap", "namespace": "default", "name": "owner"}
    event = {"metadata": {"name": "e", "ownerReferences": [blocking(owner)]}, "involvedObject": about, "reason": "R"}
    await api.made(f"{NS}/default/events", event)
    await api.delete(f"{CM}/owner", propagationPolicy="Foreground")
    await api.run_until_idle()
    assert names(api) == set()
    assert api.there("events") == {("default", "e")}
    assert owners(api, "e", resource="events") == ["owner"]


@with_controllers(add_garbage_collector)
async def test_many_dependents_are_deleted_and_no_other_objects(api):
    owner, other = await api.made(CM, cm("owner")), await api.made(CM, cm("other"))
    for number in range(150):
        await api.made(CM, owned(f"owned-{number}", blocking(owner)))
        await api.made(CM, owned(f"others-{number}", blocking(other)))
    await api.delete(f"{CM}/owner")
    await api.run_until_idle()
    assert names(api) == {"other", *(f"others-{number}" for number in range(150))}


# -- nothing to do ------------------------------------------------------------------------------------------------------


@with_controllers(add_garbage_collector)
async def test_nothing_is_written_while_all_owners_exist(api):
    await chain(api, "a", "b", "c")
    await api.run_until_idle()
    before = api.revision
    for number in range(5):
        await api.patch(f"{CM}/b", {"data": {"n": str(number)}})
    await api.delete(f"{CM}/c")
    await api.run_until_idle(7200)
    assert api.revision == before + 6
    assert reconciles(api) == 0


# -- changes during a reconcile -----------------------------------------------------------------------------------------


def between(monkeypatch, act, times=1):
    """Run a function after an object was classified and before it is deleted."""
    delete = Operations.delete

    async def late(self, item, metadata, policy):
        nonlocal times
        if times:
            times -= 1
            await act(item)
        await delete(self, item, metadata, policy)

    monkeypatch.setattr(Operations, "delete", late)


def test_an_object_that_gets_an_existing_owner_before_the_deletion_is_kept(monkeypatch):
    @with_controllers(add_garbage_collector)
    async def check(api):
        saviour = await api.made(CM, cm("saviour"))

        async def adopt(item):
            assert (
                await api.patch(f"{CM}/child", {"metadata": {"ownerReferences": [reference(saviour)]}})
            ).status == 200

        between(monkeypatch, adopt)
        await chain(api, "owner", "child")
        await api.delete(f"{CM}/owner")
        await api.run_until_idle()
        assert names(api) == {"saviour", "child"}

    check()


def test_an_object_recreated_before_the_deletion_is_kept(monkeypatch):
    @with_controllers(add_garbage_collector)
    async def check(api):
        async def replace(item):
            await api.delete(f"{CM}/child")
            await api.made(CM, cm("child"))

        between(monkeypatch, replace)
        await chain(api, "owner", "child")
        await api.delete(f"{CM}/owner")
        await api.run_until_idle()
        assert names(api) == {"child"}

    check()


def test_an_object_that_changes_continuously_is_deleted(monkeypatch):
    @with_controllers(add_garbage_collector)
    async def check(api):
        numbers = iter(range(100))

        async def touch(item):
            await api.patch(f"{CM}/child", {"data": {"n": str(next(numbers))}})

        between(monkeypatch, touch, times=12)
        await chain(api, "owner", "child")
        await api.delete(f"{CM}/owner")
        await api.run_until_idle()
        assert names(api) == set()

    check()


# -- restarts -----------------------------------------------------------------------------------------------------------


async def _owner_gone(api):
    await chain(api, "owner", "child", "grandchild")
    await api.delete(f"{CM}/owner")
    return set()


async def _one_owner_gone(api):
    one, two = await api.made(CM, cm("one")), await api.made(CM, cm("two"))
    await api.made(CM, owned("child", reference(one), reference(two)))
    await api.delete(f"{CM}/one")
    return {"two", "child"}


async def _foreground(api):
    await chain(api, "owner", "child", "grandchild")
    await api.delete(f"{CM}/owner", propagationPolicy="Foreground")
    return set()


async def _childless_foreground(api):
    await chain(api, "owner")
    await api.delete(f"{CM}/owner", propagationPolicy="Foreground")
    return set()


async def _orphaning(api):
    await chain(api, "owner", "child", "grandchild")
    await api.delete(f"{CM}/owner", propagationPolicy="Orphan")
    return {"child", "grandchild"}


@pytest.mark.parametrize("leave", [_owner_gone, _one_owner_gone, _foreground, _childless_foreground, _orphaning])
def test_unfinished_collections_are_continued_at_the_start(leave):
    async def main():
        storage = MemoryStorage()
        async with running_controllers(storage=storage) as api:
            left = await leave(api)
            before = names(api)
        async with running_controllers(add_garbage_collector, storage=storage) as api:
            await api.run_until_idle()
            assert before - names(api) == before - left
            assert names(api) == left
            if "child" in left:
                assert owners(api, "child") in ([], ["two"])

    run(main())


class SluggishStorage(MemoryStorage):
    """Removing something takes a moment."""

    async def delete(self, key, expected, note=None):
        await asyncio.sleep(0.01)
        return await super().delete(key, expected, note)


def test_a_collection_that_was_stopped_in_the_middle_is_continued_by_the_next_server():
    async def main():
        storage = SluggishStorage()
        async with running_controllers(add_garbage_collector, storage=storage) as api:
            owner = await api.made(CM, cm("owner"))
            for number in range(200):
                await api.made(CM, owned(f"child-{number}", blocking(owner)))
            await api.delete(f"{CM}/owner")
        async with running_controllers(storage=storage) as api:
            assert names(api), "it was meant to be stopped before the end"
        async with running_controllers(add_garbage_collector, storage=storage) as api:
            await api.run_until_idle()
            assert names(api) == set()

    run(main())
