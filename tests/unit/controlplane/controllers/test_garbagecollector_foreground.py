"""Deletions that concern dependents: owners that wait for them, and owners that let them go."""

import pytest

from api_client import CM, cm
from controller_api import with_controllers
from kapi.controlplane.controllers.garbagecollector.collector import add_garbage_collector
from kapi.controlplane.controllers.garbagecollector.operations import Operations
from owned_objects import blocking, chain, metadata, names, owned, owners, reference

HOLD = "test.dev/hold"
WAITING = ["foregroundDeletion"]


async def delete(api, name, policy="Foreground"):
    assert (await api.delete(f"{CM}/{name}", propagationPolicy=policy)).status == 200
    await api.run_until_idle()


async def patch(api, name, **fields):
    assert (await api.patch(f"{CM}/{name}", {"metadata": fields})).status == 200
    await api.run_until_idle()


async def gone_in_order(watch, number):
    """The names of deleted objects, in order."""
    gone = []
    while len(gone) < number:
        event = await watch.next()
        if event["type"] == "DELETED":
            gone.append(event["object"]["metadata"]["name"])
    return gone


# -- waiting ------------------------------------------------------------------------------------------------------------


@with_controllers(add_garbage_collector)
async def test_a_chain_is_deleted_from_its_last_dependent_on(api):
    await chain(api, "a", "b", "c", "d")
    watch = await api.watch(CM, resourceVersion=str(api.revision))
    await delete(api, "a")
    assert names(api) == set()
    assert await gone_in_order(watch, 4) == ["d", "c", "b", "a"]


@pytest.mark.parametrize(
    ("blocks", "left"),
    [(True, {"owner", "child"}), (False, {"child"}), (None, {"child"})],
)
def test_an_owner_waits_for_blocking_dependents_only(blocks, left):
    @with_controllers(add_garbage_collector)
    async def check(api):
        owner = await api.made(CM, cm("owner"))
        more = {} if blocks is None else {"blockOwnerDeletion": blocks}
        await api.made(CM, owned("child", reference(owner, **more), finalizers=[HOLD]))
        await delete(api, "owner")
        assert names(api) == left
        assert "deletionTimestamp" in metadata(api, "child")
        await patch(api, "child", finalizers=None)
        assert names(api) == set()

    check()


@pytest.mark.parametrize(
    "release",
    [
        lambda owner: {"finalizers": None},
        lambda owner: {"ownerReferences": None},
        lambda owner: {"ownerReferences": [reference(owner)]},
        lambda owner: {"ownerReferences": [reference(owner, blockOwnerDeletion=False)]},
        lambda owner: {"ownerReferences": [blocking(owner) | {"uid": "another"}]},
    ],
    ids=["deleted", "no references", "unset", "false", "another owner"],
)
def test_an_owner_is_released_when_its_last_blocker_stops_blocking(release):
    @with_controllers(add_garbage_collector)
    async def check(api):
        (owner,) = await chain(api, "owner")
        for name in ("a", "b"):
            await api.made(CM, owned(name, blocking(owner), finalizers=[HOLD]))
        await delete(api, "owner")
        for name in ("a", "b"):
            assert metadata(api, "owner")["finalizers"] == WAITING
            await patch(api, name, **release(owner))
        assert "owner" not in names(api)

    check()


@with_controllers(add_garbage_collector)
async def test_a_dependent_with_another_owner_is_kept_and_not_waited_for(api):
    one, two = await api.made(CM, cm("one")), await api.made(CM, cm("two"))
    await api.made(CM, owned("child", blocking(one), blocking(two)))
    await delete(api, "one")
    assert names(api) == {"two", "child"}
    assert owners(api, "child") == ["two"]


@with_controllers(add_garbage_collector)
async def test_dependents_that_are_being_deleted_are_waited_for(api):
    (owner,) = await chain(api, "owner")
    await api.made(CM, owned("child", blocking(owner), finalizers=[HOLD]))
    await delete(api, "child", "Background")
    before = metadata(api, "child")["resourceVersion"]
    await delete(api, "owner")
    assert metadata(api, "child")["resourceVersion"] == before
    assert metadata(api, "owner")["finalizers"] == WAITING
    await patch(api, "child", finalizers=None)
    assert names(api) == set()


@with_controllers(add_garbage_collector)
async def test_dependents_created_while_their_owner_waits_are_deleted(api):
    (owner,) = await chain(api, "owner")
    await api.made(CM, owned("first", blocking(owner), finalizers=[HOLD]))
    await delete(api, "owner")
    await api.made(CM, owned("second", blocking(owner), finalizers=[HOLD]))
    await api.run_until_idle()
    assert "deletionTimestamp" in metadata(api, "second")
    await patch(api, "first", finalizers=None)
    assert names(api) == {"owner", "second"}
    await patch(api, "second", finalizers=None)
    assert names(api) == set()


@with_controllers(add_garbage_collector)
async def test_an_owner_without_dependents_is_deleted_at_once(api):
    await chain(api, "owner")
    await delete(api, "owner")
    assert names(api) == set()


@with_controllers(add_garbage_collector)
async def test_other_finalizers_of_an_owner_are_kept(api):
    await api.made(CM, cm("owner", metadata={"finalizers": [HOLD, "test.dev/more"]}))
    await delete(api, "owner")
    assert metadata(api, "owner")["finalizers"] == [HOLD, "test.dev/more"]


@pytest.mark.parametrize(("policy", "left"), [("Background", {"child"}), ("Orphan", {"child"})])
def test_a_waiting_owner_may_be_orphaned_instead(policy, left):
    @with_controllers(add_garbage_collector)
    async def check(api):
        (owner,) = await chain(api, "owner")
        await api.made(CM, owned("child", blocking(owner), finalizers=[HOLD]))
        await delete(api, "owner")
        await delete(api, "owner", policy)
        assert names(api) == left
        assert owners(api, "child") == (["owner"] if policy == "Background" else [])

    check()


@with_controllers(add_garbage_collector)
async def test_an_object_that_blocks_itself_waits_for_ever(api):
    """As in Kubernetes: only the client that set the reference can remove it."""
    (one,) = await chain(api, "one")
    await patch(api, "one", ownerReferences=[blocking(one)])
    await delete(api, "one")
    assert metadata(api, "one")["finalizers"] == WAITING
    await patch(api, "one", ownerReferences=None)
    assert names(api) == set()


# -- cycles -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [2, 3, 4])
def test_a_cycle_is_deleted(length):
    @with_controllers(add_garbage_collector)
    async def check(api):
        made = await chain(api, *(f"n{number}" for number in range(length)))
        await patch(api, "n0", ownerReferences=[blocking(made[-1])])
        await delete(api, "n0")
        assert names(api) == set()

    check()


@with_controllers(add_garbage_collector)
async def test_a_cycle_of_which_two_are_deleted_is_deleted(api):
    *_, three = await chain(api, "one", "two", "three")
    await patch(api, "one", ownerReferences=[blocking(three)])
    await api.delete(f"{CM}/one", propagationPolicy="Foreground")
    await api.delete(f"{CM}/two", propagationPolicy="Foreground")
    await api.run_until_idle()
    assert names(api) == set()


@with_controllers(add_garbage_collector)
async def test_dependents_that_own_each_other_outlive_a_waiting_owner(api):
    """Each has an owner that is there, when it is asked."""
    (owner,) = await chain(api, "owner")
    one = await api.made(CM, owned("one", blocking(owner)))
    two = await api.made(CM, owned("two", blocking(owner), blocking(one)))
    await patch(api, "one", ownerReferences=[blocking(owner), blocking(two)])
    await delete(api, "owner")
    assert names(api) == {"one", "two"}
    assert (owners(api, "one"), owners(api, "two")) == (["two"], ["one"])


# -- letting go ---------------------------------------------------------------------------------------------------------


@with_controllers(add_garbage_collector)
async def test_orphans_are_kept_with_their_other_owners(api):
    one, two = await api.made(CM, cm("one")), await api.made(CM, cm("two"))
    kept_one = reference(two, controller=True)
    await api.made(CM, owned("both", blocking(one), kept_one))
    await api.made(CM, owned("deleting", blocking(one), finalizers=[HOLD]))
    for number in range(100):
        await api.made(CM, owned(f"child-{number}", blocking(one)))
    await api.delete(f"{CM}/deleting")
    await delete(api, "one", "Orphan")
    assert names(api) == {"two", "both", "deleting", *(f"child-{number}" for number in range(100))}
    assert metadata(api, "both")["ownerReferences"] == [kept_one]
    assert all(owners(api, f"child-{number}") == [] for number in range(100))
    assert owners(api, "deleting") == []


def test_dependents_created_or_changed_during_orphaning_are_orphaned(monkeypatch):
    @with_controllers(add_garbage_collector)
    async def check(api):
        (owner,) = await chain(api, "owner")
        await api.made(CM, owned("child", blocking(owner)))
        set_references = Operations.set_references
        rest = ["late", "later"]

        async def late(self, item, metadata, references):
            if rest:
                await api.patch(f"{CM}/child", {"data": {"n": rest[0]}})
                await api.made(CM, owned(rest.pop(), blocking(owner)))
            await set_references(self, item, metadata, references)

        monkeypatch.setattr(Operations, "set_references", late)
        await delete(api, "owner", "Orphan")
        assert names(api) == {"child", "late", "later"}
        assert owners(api, "child") == owners(api, "late") == owners(api, "later") == []

    check()


@with_controllers(add_garbage_collector)
async def test_an_owner_that_orphans_is_solid_until_it_is_deleted(api):
    await api.made(CM, cm("owner", metadata={"finalizers": [HOLD]}))
    await delete(api, "owner", "Orphan")
    assert metadata(api, "owner")["finalizers"] == [HOLD]
    (waiting,) = [api.find("configmaps", "default", "owner")]
    await api.made(CM, owned("late", reference({"apiVersion": "v1", "kind": "ConfigMap", **waiting})))
    await api.run_until_idle()
    assert names(api) == {"owner", "late"}
    await patch(api, "owner", finalizers=None)
    assert names(api) == set()
