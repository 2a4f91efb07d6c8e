"""Four bugs that reconcilers have, planted: each is found in a moment, and the failure tells what happened."""

import asyncio
import logging
from types import MappingProxyType

import pytest
import structlog
from hypothesis import strategies as st
from sample_operator import FINALIZER, Site, SiteReconciler, SiteStatus, site, sites

from kapi import Conflict, Result, is_deleting, set_controller_reference
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.testing import Environment, HistoryError
from kapi.testing.stateful import Delete, Exploration, Inject, Restart, Wait, Write, explore, replay


class StaleCache(SiteReconciler):
    """Counts children in a cache that does not have those it has just created."""

    def __init__(self, client, informers):
        super().__init__(client)
        self.children = informers.informer(ConfigMap)

    async def reconcile(self, request):
        found = await self.client.find(Site, request)
        if found is None or is_deleting(found):
            return
        owned = [one for one in self.children.lister.list() if one.metadata.labels == {"site": request.name}]
        if not owned:
            page = ConfigMap(
                metadata=ObjectMeta(
                    generate_name=f"{request.name}-", namespace=request.namespace, labels={"site": request.name}
                )
            )
            set_controller_reference(found, page)
            await self.client.create(page)
        await self.client.patch_status(found, {"status": {"updates": len(owned)}})


class NoFinalizer(SiteReconciler):
    """Cleans up when the object is gone, which it only notices while it runs."""

    async def reconcile(self, request):
        found = await self.client.find(Site, request)
        if found is None:
            self.pages.pop(request, None)
        else:
            self.pages[request] = found.spec.title


class HotLoop(SiteReconciler):
    """Writes a status that differs each time, which is a reason to reconcile again."""

    async def reconcile(self, request):
        found = await self.client.find(Site, request)
        if found is not None:
            updates = 0 if found.status is None else found.status.updates
            await self.client.patch_status(found, {"status": {"updates": updates + 1}})


class LostUpdate(SiteReconciler):
    """Takes a conflict for the success of another writer, and does not try again."""

    async def reconcile(self, request):
        found = await self.client.find(Site, request)
        if found is None or (found.status is not None and found.status.title == found.spec.title):
            return
        found.status = SiteStatus(title=found.spec.title)
        try:
            await self.client.update_status(found)
        except Conflict:
            return


def words(failure):
    """The text of a failure, whatever the widths of its columns are."""
    return " ".join(str(failure.value).split())


def planted(bug):
    """Run a test in an environment whose manager has a reconciler with a bug."""

    def decorate(test):
        def wrapped():
            async def main():
                async with Environment(crds=[Site], time="virtual") as env:
                    manager = env.manager()
                    if bug is StaleCache:
                        reconciler = sites(manager, reconciler=lambda client: StaleCache(client, manager.informers))
                    else:
                        reconciler = sites(manager, reconciler=bug)
                    await test(env, manager, reconciler)

            asyncio.run(main())

        wrapped.__name__ = test.__name__
        return wrapped

    return decorate


@planted(StaleCache)
async def test_acting_on_a_stale_cache_is_found_by_a_slow_watch(env, manager, reconciler):
    async with env.run(manager):
        env.faults.add(resource="configmaps", then="slow_watch", seconds=5)
        await env.client.create(site("a"))
        await env.settled(quiet=60)
        with pytest.raises(HistoryError) as failure:
            env.history.at_most(1, verb="create", resource="configmaps")
    text = words(failure)
    assert "times create configmaps, expected at most 1" in text
    assert text.count("create configmaps default/a- 201") >= 2
    assert "5 s late (injected)" in env.history.story()


@planted(NoFinalizer)
async def test_a_forgotten_finalizer_is_found_by_a_deletion_while_nothing_runs(env, manager, reconciler):
    async with env.run(manager):
        await env.client.create(site("a"))
        await env.eventually(lambda: reconciler.pages)
    await env.client.delete(Site, "a", namespace="default")
    again = env.manager()
    second = sites(again, reconciler=NoFinalizer)
    second.pages = reconciler.pages
    async with env.run(again):
        with pytest.raises(HistoryError) as failure:
            await env.eventually(lambda: not reconciler.pages, message="the page of a deleted Site is deleted")
    text = words(failure)
    assert "the page of a deleted Site is deleted was not true within 10 s" in text
    assert "admin delete sites default/a 200" in text
    assert FINALIZER not in text


@planted(HotLoop)
async def test_a_hot_loop_is_found_by_waiting_for_quiet_and_by_counting(env, manager, reconciler):
    async with env.run(manager):
        await env.client.create(site("a"))
        with pytest.raises(HistoryError, match=r"still writing after [\d.]+ s: 1\d\d\d writes"):
            await env.settled()
        with pytest.raises(HistoryError) as failure:
            env.history.at_most(10, resource="sites/status", user="manager", within=60)
    text = words(failure)
    assert "11 times write sites/status by manager within" in text
    assert text.count("event MODIFIED sites default/a") >= 10


@planted(LostUpdate)
async def test_an_update_that_is_lost_on_a_conflict_is_found_by_a_conflict(env, manager, reconciler):
    async with env.run(manager):
        env.faults.add(verb="update", resource="sites/status", then="conflict", times=1)
        await env.client.create(site("a"))

        async def has_status():
            found = await env.client.get(Site, "a", namespace="default")
            return found.status is not None and found.status.title == "hello"

        with pytest.raises(HistoryError) as failure:
            await env.eventually(has_status, timeout=60)
    text = words(failure)
    assert "has_status was not true within 60 s" in text
    assert "update sites/status default/a 409 conflict (injected)" in text
    assert "reconcile ends default/a ok" in text


@pytest.fixture(autouse=True)
def _few_logs():
    """Hundreds of examples log what goes wrong, as they should; nothing here reads it."""
    with structlog.testing.capture_logs():
        logging.getLogger("kapi").setLevel(logging.CRITICAL)
        yield
        logging.getLogger("kapi").setLevel(logging.NOTSET)


class Sites(Exploration):
    """The operator without bugs."""

    environment = MappingProxyType({"crds": (Site,), "controllers": ()})
    objects = st.builds(lambda title: site("x", title=title), st.sampled_from(["first", "second"]))
    reconciler = SiteReconciler

    def __init__(self):
        self.pages = {}

    def manager(self, env):
        manager = env.manager()
        sites(manager, reconciler=self.reconciler).pages = self.pages
        return manager

    async def invariant(self, env):
        found = await env.client.list(Site, namespace="default")
        wanted = {one.metadata.name: one.spec.title for one in found}
        assert {key.name: title for key, title in self.pages.items()} == wanted
        assert {one.metadata.name: one.status.title for one in found} == wanted


def test_exploring_finds_nothing_wrong_with_a_correct_operator():
    explore(Sites, examples=10)


class ForgetsPages(SiteReconciler):
    """The whole operator, but for its finalizer."""

    async def reconcile(self, request):
        found = await self.client.find(Site, request)
        if found is None:
            self.pages.pop(request, None)
            return None
        self.pages[request] = found.spec.title
        await self.client.patch_status(found, {"status": {"title": found.spec.title}})
        return Result()


class LeakingSites(Sites):
    reconciler = ForgetsPages
    faults = False
    shuffle = False
    max_steps = 6


def test_exploring_finds_a_forgotten_finalizer_and_shrinks_the_steps():
    with pytest.raises(AssertionError) as failure:
        explore(LeakingSites, examples=300)
    text = str(failure.value)
    steps = text.partition("\n\n")[0].splitlines()[1:]
    assert len(steps) <= 5, text
    assert "write a" in steps[0]
    assert any("delete a" in step for step in steps)
    assert "restart the manager" in steps[-1]
    assert "the invariant does not hold" in text
    assert "reconcile begins" in text


class SitesWithStatus(Sites):
    reconciler = LostUpdate

    async def invariant(self, env):
        for one in await env.client.list(Site, namespace="default"):
            assert one.status is not None, f"{one.metadata.name} has no status"


def test_steps_that_were_found_are_replayed():
    steps = [Inject("conflict", "write", 1), Write("a", site("x"))]
    with pytest.raises(AssertionError) as failure:
        replay(SitesWithStatus, steps)
    text = words(failure)
    assert text.startswith(
        "after these steps (seed None): 1. inject conflict into write of the manager, 1 times 2. write a"
    )
    assert "the invariant does not hold: AssertionError a has no status" in text
    replay(SitesWithStatus, [*steps, Wait(1), Write("a", site("x", title="again")), Delete("b"), Restart()])


class OwnedPages(SiteReconciler):
    """No finalizer is needed for an object inside of the cluster: the garbage collector deletes it."""

    async def reconcile(self, request):
        found = await self.client.find(Site, request)
        if found is not None:
            page = ConfigMap(metadata=ObjectMeta(name=request.name, namespace=request.namespace))
            page.data = {"title": found.spec.title}
            set_controller_reference(found, page)
            await self.client.apply(page, field_manager="sites", force=True)


class SitesWithOwnedPages(Sites):
    environment = MappingProxyType({"crds": (Site,)})
    reconciler = OwnedPages

    async def invariant(self, env):
        found = {one.metadata.name: one.spec.title for one in await env.client.list(Site, namespace="default")}
        pages = await env.client.list(ConfigMap, namespace="default")
        assert {one.metadata.name: one.data["title"] for one in pages if one.data.keys() == {"title"}} == found


@pytest.mark.parametrize(
    ("seed", "steps"),
    [
        (88226, [Inject("slow_watch", "watch", 2), Inject("cut_watch", "watch", 1), Delete("a")]),
        (10803, [Delete("a"), Inject("slow_watch", "watch", 3), Inject("cut_watch", "watch", 1)]),
        (75516, [Restart(), Inject("cut_watch", "watch", 3), Delete("a")]),
    ],
)
def test_a_reconciler_and_the_garbage_collector_come_to_rest_when_the_cache_has_caught_up(seed, steps):
    """A cache that is behind still has the deleted Site, whose page is written and deleted in turns."""
    replay(SitesWithOwnedPages, [Write("a", site("x")), *steps], seed=seed)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_stale_cache_leads_to_few_writes(seed):
    asyncio.run(delete_behind_the_cache(seed))


async def delete_behind_the_cache(seed):
    async with Environment(crds=[Site], time="virtual", seed=seed) as env:
        manager = env.manager()
        sites(manager, reconciler=OwnedPages)
        async with env.run(manager):
            await env.client.create(site("a"))
            await env.settled()
            env.history.clear()
            env.faults.add(resource=Site, user="manager", then="slow_watch", seconds=10, times=1)
            await env.client.delete(Site, "a", namespace="default")
            await env.settled(quiet=60)
            assert await env.client.find(ConfigMap, "a", namespace="default") is None
            assert len(env.history.requests(verb="write", resource="configmaps", user="manager")) > 1
            env.history.at_most(30, verb="write", resource="configmaps", user="manager")
