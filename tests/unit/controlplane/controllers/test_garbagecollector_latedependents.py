"""Dependents of an owner that was deleted before: a controller with a stale cache creates them again and again."""

import asyncio
import contextlib

from api_client import CM
from controller_api import with_controllers
from kapi.base.clock import ManualClock
from kapi.controlplane.controllers.garbagecollector import latedependents
from kapi.controlplane.controllers.garbagecollector.collector import add_garbage_collector
from kapi.controlplane.controllers.garbagecollector.latedependents import LateDependents
from owned_objects import chain, names, owned, reference

STALE_SECONDS = 30.0


@contextlib.asynccontextmanager
async def stale_controller(api, make):
    """A controller that creates an object as soon as the one before it is deleted; gives the list of those created."""
    created = []
    watch = await api.watch(CM, resourceVersion=str(api.revision))

    async def reconcile():
        while True:
            created.append((await api.made(CM, make(len(created))))["metadata"]["name"])
            while (event := await watch.next())["type"] != "DELETED":
                pass
            assert event["object"]["metadata"]["name"] == created[-1]

    task = asyncio.ensure_future(reconcile())
    try:
        yield created
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@with_controllers(add_garbage_collector)
async def test_a_controller_with_a_stale_cache_does_not_write_without_bounds(api):
    (owner,) = await chain(api, "owner")
    await api.delete(f"{CM}/owner")
    async with stale_controller(api, lambda _: owned("child", reference(owner))) as created:
        await asyncio.sleep(STALE_SECONDS)
    assert 10 < len(created) < 30
    await api.run_until_idle()
    assert names(api) == set()


@with_controllers(add_garbage_collector)
async def test_other_names_do_not_help_it(api):
    (owner,) = await chain(api, "owner")
    await api.delete(f"{CM}/owner")
    async with stale_controller(api, lambda number: owned(f"child-{number}", reference(owner))) as created:
        await asyncio.sleep(STALE_SECONDS)
    assert 10 < len(created) < 30
    await api.run_until_idle()
    assert names(api) == set()


@with_controllers(add_garbage_collector)
async def test_dependents_that_an_owner_had_are_deleted_at_once(api):
    owner, _ = await chain(api, "owner", "first")
    for number in range(50):
        await api.made(CM, owned(f"child-{number}", reference(owner)))
    await api.delete(f"{CM}/owner")
    await asyncio.sleep(latedependents.FIRST_SECONDS / 2)
    assert names(api) == set()


@with_controllers(add_garbage_collector)
async def test_each_owner_is_counted_for_itself(api):
    for number in range(10):
        (owner,) = await chain(api, "owner")
        await api.delete(f"{CM}/owner")
        await api.made(CM, owned(f"late-{number}", reference(owner)))
        await asyncio.sleep(latedependents.FIRST_SECONDS / 2)
        assert names(api) == set()


def test_delays_double_and_are_forgotten_after_a_while():
    clock = ManualClock()
    late = LateDependents(clock)
    assert [late.delay("a") for _ in range(5)] == [0, 0.005, 0.01, 0.02, 0.04]
    assert max(late.delay("a") for _ in range(100)) == latedependents.MAX_SECONDS
    clock.advance(latedependents.FORGET_SECONDS + 1)
    assert [late.delay("a") for _ in range(2)] == [0, 0.005]


def test_the_number_of_owners_is_bounded(monkeypatch):
    monkeypatch.setattr(latedependents, "MAX_OWNERS", 2)
    late = LateDependents(ManualClock())
    for uid in ("a", "b", "a", "c"):
        late.delay(uid)
    # The one that was counted least recently is dropped.
    assert [late.delay(uid) for uid in ("a", "b")] == [0.01, 0]
