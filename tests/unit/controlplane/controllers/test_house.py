"""The ground housekeeping stands on: controllers that hear commits and act through the API."""

import asyncio
import itertools

import pytest

from api_client import CM, NS, Api, cm
from kapi.api.errors import GroupResource, NotFound
from kapi.client.errors import ConnectionLost
from kapi.controller.reconcile import Request
from kapi.controlplane.controllers.house import itself
from kapi.controlplane.controllers.inventory import Inventory, path_of
from kapi.controlplane.controllers.keeper import STOP_SECONDS
from kapi.controlplane.controllers.selection import NAMES, select
from kapi.controlplane.loopback import loopback_client
from kapi.controlplane.options import OptionError
from kapi.storage.interface import Change
from kapi.storage.memory import MemoryStorage
from kept_house import keeping, kept
from virtual_time import run


def seen_by(seen):
    """A part that notes the keys of ConfigMaps it is told of."""

    def part(house):
        async def reconcile(request):
            seen.append(request)

        house.add("noting", reconcile, hear={"configmaps": itself}, initial=house.every("configmaps"))

    return part


def test_what_was_there_and_what_comes_is_reconciled():
    seen, storage = [], MemoryStorage()

    async def main():
        async with keeping(storage=storage) as api:
            await api.made(CM, cm("before"))
        async with keeping(seen_by(seen), storage=storage) as api:
            await api.settled()
            assert seen == [Request("default", "before")]
            await api.made(CM, cm("after"))
            await api.settled()
            await api.delete(f"{CM}/after")
            await api.settled()
            assert seen[1:] == [Request("default", "after"), Request("default", "after")]

    run(main())


def test_hearing_that_fails_does_not_harm_the_write():
    def part(house):
        def fails(event):
            raise ValueError("no")

        async def reconcile(request):
            pass

        house.add("failing", reconcile, hear={"configmaps": fails}, initial=lambda: ())

    @kept(part)
    async def check(api):
        await api.made(CM, cm("a"))
        assert (await api.get(f"{CM}/a")).status == 200

    check()


def test_a_part_that_is_stopped_hears_nothing():
    async def main():
        storage = MemoryStorage()
        seen = []
        async with keeping(seen_by(seen), storage=storage) as api:
            await api.made(CM, cm("heard"))
            await api.settled()
            stored, heard = api.catalog.store("configmaps"), list(seen)
        assert heard == [Request("default", "heard")]
        # The server is gone, but its cache can still be told of a change.
        before = stored.find("default", "heard")
        stored.cache.apply([Change(before.revision + 1, before.key, None)])
        await asyncio.sleep(1)
        assert seen == heard

    run(main())


class Failing:
    """Something a manager runs, which fails twice."""

    name = "failing"
    needs_leader_election = True

    def __init__(self, starts):
        self._starts = starts

    async def run(self):
        self._starts.append(asyncio.get_running_loop().time())
        if len(self._starts) < 3:
            raise ZeroDivisionError
        await asyncio.Event().wait()

    def stop(self):
        pass


def test_a_house_that_fell_down_is_built_again():
    starts, seen = [], []

    @kept(lambda house: house.manager.add(Failing(starts)), seen_by(seen))
    async def check(api):
        await api.settled()
        assert [round(later - sooner) for sooner, later in itertools.pairwise(starts)] == [1, 2]
        await api.made(CM, cm("a"))
        await api.settled()
        assert seen == [Request("default", "a")]

    check()


def test_a_house_that_is_kept_waiting_does_not_keep_the_server_from_stopping():
    started = []

    def part(house):
        async def reconcile(request):
            started.append(request)
            await asyncio.Event().wait()

        for name in ("one", "two"):
            house.add(name, reconcile, hear={"configmaps": itself}, initial=lambda: ())

    async def main():
        loop = asyncio.get_running_loop()
        async with keeping(part) as api:
            await api.made(CM, cm("a"))
            await api.settled()
            assert len(started) == 2
            before = loop.time()
        assert loop.time() - before <= 3 * STOP_SECONDS

    run(main())


def test_the_inventory_knows_each_stored_resource_once():
    @kept()
    async def check(api):
        inventory = Inventory(api.catalog)
        names = [resource.group_resource for resource in inventory.resources()]
        assert len(names) == len(set(names))
        assert GroupResource("", "events") in names
        assert GroupResource("events.k8s.io", "events") not in names
        assert GroupResource("authorization.k8s.io", "subjectaccessreviews") not in names
        deployments = inventory.of_kind("apps/v1", "Deployment")
        assert path_of(deployments, "default", "web", "scale") == (
            "/apis/apps/v1/namespaces/default/deployments/web/scale"
        )
        assert path_of(inventory.of_kind("v1", "Node"), "default", "n") == "/api/v1/nodes/n"
        assert inventory.of_kind("apps/v1beta1", "Deployment") is None
        assert inventory.resource_at("/registry/core/pods/default/p").kind == "Pod"

    check()


def test_the_loopback_client_is_a_client_like_any_other():
    @kept()
    async def check(api):
        client = loopback_client(api.transport, agent="somebody")
        await client.create(cm("a", data={"x": "1"}))
        made = await client.get(("v1", "ConfigMap"), "a")
        assert made["metadata"]["managedFields"][0]["manager"] == "somebody"
        with pytest.raises(NotFound, match='configmaps "b" not found'):
            await client.get(("v1", "ConfigMap"), "b")
        async with client.watch(("v1", "ConfigMap"), resource_version=made["metadata"]["resourceVersion"]) as events:
            await client.delete(("v1", "ConfigMap"), "a")
            event = await anext(events)
            assert (event.type, event.object["metadata"]["name"]) == ("DELETED", "a")

    check()


async def _all(lines):
    return [line async for line in lines]


def test_a_dropped_stream_is_a_lost_connection():
    async def main():
        api = Api()
        await api.start()
        client = loopback_client(api.transport, agent="slow")
        async with client.rest.stream("/api/v1/configmaps", query={"watch": "true"}) as lines:
            for number in range(40):
                await api.made(CM, cm(f"big-{number}", data={"x": "y" * 1_000_000}))
            with pytest.raises(ConnectionLost):
                _ = [line async for line in lines]
        await api.stop()

    run(main())


def test_namespaces_are_furnished_before_their_creator_hears():
    @kept()
    async def check(api):
        furnished = []

        async def furnish(name):
            await asyncio.sleep(1)
            furnished.append(name)

        api.catalog.store("namespaces").furnish = furnish
        await api.made(NS, {"metadata": {"name": "a"}})
        assert furnished == ["a"]
        await api.post(NS, {"metadata": {"name": "b"}}, dryRun="All")
        assert furnished == ["a"]

    check()


@pytest.mark.parametrize(
    ("text", "on", "off"),
    [
        ("*", set(NAMES), set()),
        ("", set(NAMES), set()),
        ("-garbagecollector", set(NAMES) - {"garbage-collector-controller"}, {"garbage-collector-controller"}),
        ("*,-namespace-controller", set(NAMES) - {"namespace-controller"}, {"namespace-controller"}),
        ("namespace, podgc", {"namespace-controller", "pod-garbage-collector-controller"}, {"endpoints-controller"}),
        ("namespace,-namespace", {"namespace-controller"}, set()),
    ],
)
def test_controllers_are_chosen_by_name(text, on, off):
    chosen = select(text)
    assert on <= chosen
    assert not off & chosen
    assert chosen == on


def test_a_controller_that_does_not_exist_is_refused():
    with pytest.raises(OptionError, match="there is no controller 'gc'; there are disruption-controller, "):
        select("*,-gc")
