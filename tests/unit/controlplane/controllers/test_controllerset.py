"""The controller set, its source and view, and `--controllers`."""

import asyncio
import itertools

import pytest

from api_client import CM, NS, Api, cm
from controller_api import running_controllers, with_controllers
from kapi.api.errors import GroupResource, NotFound
from kapi.client.errors import ConnectionLost
from kapi.controller.reconcile import Request
from kapi.controlplane.controllers.context import enqueue_object
from kapi.controlplane.controllers.controllerset import STOP_SECONDS
from kapi.controlplane.controllers.names import NAMES, enabled_controllers
from kapi.controlplane.controllers.view import CacheView
from kapi.controlplane.loopback import loopback_client
from kapi.controlplane.options import OptionError
from kapi.storage.interface import Change
from kapi.storage.memory import MemoryStorage
from virtual_time import run


def recording(seen):
    """A controller that records the requests for ConfigMaps."""

    def add(context):
        async def reconcile(request):
            seen.append(request)

        context.add(
            "recording", reconcile, enqueue={"configmaps": enqueue_object}, initial=context.all_of("configmaps")
        )

    return add


def test_existing_and_new_objects_are_reconciled():
    seen, storage = [], MemoryStorage()

    async def main():
        async with running_controllers(storage=storage) as api:
            await api.made(CM, cm("before"))
        async with running_controllers(recording(seen), storage=storage) as api:
            await api.run_until_idle()
            assert seen == [Request("default", "before")]
            await api.made(CM, cm("after"))
            await api.run_until_idle()
            await api.delete(f"{CM}/after")
            await api.run_until_idle()
            assert seen[1:] == [Request("default", "after"), Request("default", "after")]

    run(main())


def test_a_write_succeeds_though_enqueueing_fails():
    def add(context):
        def fails(event):
            raise ValueError("no")

        async def reconcile(request):
            pass

        context.add("failing", reconcile, enqueue={"configmaps": fails}, initial=lambda: ())

    @with_controllers(add)
    async def check(api):
        await api.made(CM, cm("a"))
        assert (await api.get(f"{CM}/a")).status == 200

    check()


def test_a_stopped_controller_enqueues_nothing():
    async def main():
        storage = MemoryStorage()
        seen = []
        async with running_controllers(recording(seen), storage=storage) as api:
            await api.made(CM, cm("a"))
            await api.run_until_idle()
            stored, before = api.catalog.store("configmaps"), list(seen)
        assert before == [Request("default", "a")]
        # The server is stopped, but a change can still be applied to its cache.
        item = stored.find("default", "a")
        stored.cache.apply([Change(item.revision + 1, item.key, None)])
        await asyncio.sleep(1)
        assert seen == before

    run(main())


class Failing:
    """A runnable that fails twice."""

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


def test_controllers_that_failed_are_restarted_with_back_off():
    starts, seen = [], []

    @with_controllers(lambda context: context.manager.add(Failing(starts)), recording(seen))
    async def check(api):
        await api.run_until_idle()
        assert [round(later - sooner) for sooner, later in itertools.pairwise(starts)] == [1, 2]
        await api.made(CM, cm("a"))
        await api.run_until_idle()
        assert seen == [Request("default", "a")]

    check()


def test_a_reconcile_that_hangs_does_not_keep_the_server_from_stopping():
    started = []

    def add(context):
        async def reconcile(request):
            started.append(request)
            await asyncio.Event().wait()

        for name in ("one", "two"):
            context.add(name, reconcile, enqueue={"configmaps": enqueue_object}, initial=lambda: ())

    async def main():
        loop = asyncio.get_running_loop()
        async with running_controllers(add) as api:
            await api.made(CM, cm("a"))
            await api.run_until_idle()
            assert len(started) == 2
            before = loop.time()
        assert loop.time() - before <= 3 * STOP_SECONDS

    run(main())


def test_the_view_has_each_stored_resource_once():
    @with_controllers()
    async def check(api):
        view = CacheView(api.catalog)
        names = [resource.group_resource for resource in view.resources()]
        assert len(names) == len(set(names))
        assert GroupResource("", "events") in names
        assert GroupResource("events.k8s.io", "events") not in names
        assert GroupResource("authorization.k8s.io", "subjectaccessreviews") not in names
        assert view.of_kind("apps/v1", "Deployment").resource == "deployments"
        assert view.of_kind("apps/v1beta1", "Deployment") is None
        assert view.resource_at("/registry/core/pods/default/p").kind == "Pod"

    check()


def test_the_loopback_client_creates_reads_and_watches():
    @with_controllers()
    async def check(api):
        client = loopback_client(api.transport, agent="an-agent")
        await client.create(cm("a", data={"x": "1"}))
        made = await client.get(("v1", "ConfigMap"), "a")
        assert made["metadata"]["managedFields"][0]["manager"] == "an-agent"
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


def test_a_namespace_is_populated_before_its_creation_is_answered():
    @with_controllers()
    async def check(api):
        populated = []

        async def populate(name):
            await asyncio.sleep(1)
            populated.append(name)

        api.catalog.store("namespaces").populate = populate
        await api.made(NS, {"metadata": {"name": "a"}})
        assert populated == ["a"]
        await api.post(NS, {"metadata": {"name": "b"}}, dryRun="All")
        assert populated == ["a"]

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
def test_controllers_are_enabled_by_name(text, on, off):
    chosen = enabled_controllers(text)
    assert on <= chosen
    assert not off & chosen
    assert chosen == on


def test_an_unknown_controller_is_refused_with_the_known_names():
    known = "is not in the list of known controllers: disruption-controller, endpoints-controller, "
    with pytest.raises(OptionError, match=f'^--controllers: "gc" {known}'):
        enabled_controllers("*,-gc")
