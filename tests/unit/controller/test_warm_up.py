"""A process that does not lead yet but is ready to: caches full, queues full, and nothing reconciled."""

import asyncio

import pytest
from controller_rig import A, B, Rig
from shelf import Shelf

from kapi import Client, Leadership, Manager, ObjectMeta
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.controller.controller import SyncTimeout
from kapi.controller.enqueue import for_object
from kapi.controller.source import Kind
from kapi.informer.cached import decoder_of
from kapi.informer.informer import SharedInformer
from live_plane import live_plane
from virtual_time import LoopClock, run


class Source:
    """A source that notes what is asked of it, and takes its time; or waits for `go`."""

    def __init__(self, seconds=0.0):
        self.seconds, self.events = seconds, []
        self.go = asyncio.Event()
        self.go.set()

    def __str__(self):
        return "kind Slow"

    async def start(self, queue):
        self.events.append("start")
        queue.add(A)

    async def wait_for_sync(self):
        await asyncio.sleep(self.seconds)
        await self.go.wait()
        self.events.append("synced")

    def stop(self):
        self.events.append("stop")


class Log:
    """A reconciler that notes what it is asked."""

    def __init__(self):
        self.requests = []

    async def reconcile(self, request):
        self.requests.append(request)


# -- the controller -----------------------------------------------------------------------------------------------------


def test_a_warm_controller_has_its_keys_and_reconciles_nothing_until_it_runs():
    async def main():
        log, source = Log(), Source(5)
        rig = Rig(log, sources=[source])
        await rig.controller.warm_up()
        assert source.events == ["start", "synced"]
        rig.trigger.fire(B)
        await asyncio.sleep(3600)
        assert log.requests == []
        assert len(rig.controller.queue) == 2
        assert not rig.controller.is_started
        task = asyncio.create_task(rig.controller.run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # Without a second start, and without waiting for anything.
        assert sorted(log.requests) == [A, B]
        assert source.events == ["start", "synced"]
        rig.controller.stop()
        await task
        assert source.events == ["start", "synced", "stop"]

    run(main())


def test_a_warm_controller_that_never_runs_stops_its_sources():
    async def main():
        source = Source()
        rig = Rig(Log(), sources=[source])
        await rig.controller.warm_up()
        rig.controller.stop()
        assert source.events == ["start", "synced", "stop"]

    run(main())


def test_a_source_that_does_not_become_ready_is_named():
    async def main():
        rig = Rig(Log(), sources=[Source(1000)], sync_timeout=10)
        with pytest.raises(SyncTimeout, match="kind Slow did not sync within 10 s"):
            await rig.controller.warm_up()
        rig.controller.stop()

    run(main())


def test_warming_up_is_done_once_and_before_running():
    async def main():
        rig = Rig(Log())
        await rig.controller.warm_up()
        with pytest.raises(RuntimeError, match="was warmed up or run before"):
            await rig.controller.warm_up()
        async with rig.running():
            with pytest.raises(RuntimeError, match="was warmed up or run before"):
                await rig.controller.warm_up()

    run(main())


def test_a_source_that_is_added_to_a_warm_controller_is_started():
    async def main():
        source = Source()
        rig = Rig(Log())
        await rig.controller.warm_up()
        await rig.controller.watch(source)
        assert source.events == ["start", "synced"]
        rig.controller.stop()

    run(main())


def test_a_warm_queue_follows_the_cache():
    async def main():
        shelf = Shelf()
        shelf.put("a")
        informer = SharedInformer(shelf, decoder_of(dict), name="things", clock=LoopClock())
        log = Log()
        rig = Rig(log, sources=[Kind(informer, for_object)])
        async with informer:
            await rig.controller.warm_up()
            shelf.put("b")
            await asyncio.sleep(1)
            assert len(rig.controller.queue) == 2
            async with rig.running():
                await asyncio.sleep(1)
            assert sorted(log.requests) == [A, B]

    run(main())


# -- the manager --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with live_plane(tmp_path_factory.mktemp("plane")) as path:
        yield path


class Candidate:
    """A manager with one controller that has a source of its own, beside a kind that it may watch."""

    def __init__(self, client, name, *, lease="warm", seconds=0.0, **options):
        times = {"lease_seconds": 3, "renew_seconds": 2, "retry_seconds": 0.1}
        self.log, self.source = Log(), Source(seconds)
        self.manager = Manager(
            client, namespace="default", leadership=Leadership(lease, "default", name, **times), **options
        )
        self.builder = self.manager.builder().named(f"maps-{name}").watches_source(self.source)

    def start(self, *kinds, **options):
        for kind in kinds:
            self.builder.for_(kind)
        self.controller = self.builder.with_options(**options).complete(self.log)
        self.task = asyncio.ensure_future(self.manager.run(signals=False))

    async def stop(self):
        self.manager.stop()
        await self.task


async def until(condition):
    while not condition():  # noqa: ASYNC110 - many things at once are waited for
        await asyncio.sleep(0.005)


def on_plane(kubeconfig, test):
    async def main():
        async with Client.connect(kubeconfig=kubeconfig) as client, asyncio.timeout(60):
            await test(client)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("manager", "controller", "is_warm"),
    [
        ({}, {}, False),
        ({"warm_up": True}, {}, True),
        ({}, {"warm_up": True}, True),
        ({"warm_up": True}, {"warm_up": False}, False),
    ],
    ids=["as usual", "by the manager", "by the controller", "the controller knows better"],
)
def test_a_standby_warms_up_if_configured_and_takes_over(kubeconfig, manager, controller, is_warm):
    async def test(client):
        await client.delete_all(ConfigMap, namespace="default")
        await client.create(ConfigMap(metadata=ObjectMeta(name="there", namespace="default")))
        leader, standby = Candidate(client, "a"), Candidate(client, "b", **manager)
        leader.start(ConfigMap)
        await until(lambda: leader.manager.elector.is_leading and leader.log.requests)
        standby.start(ConfigMap, **controller)
        # It is a candidate, and its caches are full, whether it is warm or not.
        await until(lambda: standby.manager.elector.leader == "a" and standby.manager._caches_check() is None)
        assert bool(standby.source.events) is is_warm
        assert bool(len(standby.controller.queue)) is is_warm
        await client.create(ConfigMap(metadata=ObjectMeta(name="new", namespace="default")))
        await until(lambda: any(request.name == "new" for request in leader.log.requests))
        assert standby.log.requests == []
        await leader.stop()
        await until(lambda: {"there", "new", "a"} <= {request.name for request in standby.log.requests})
        assert standby.source.events == ["start", "synced"]
        await standby.stop()
        assert standby.source.events == ["start", "synced", "stop"]

    on_plane(kubeconfig, test)


def test_a_process_stands_for_election_only_once_it_is_warm(kubeconfig):
    async def test(client):
        candidate = Candidate(client, "a", lease="late", warm_up=True)
        candidate.source.go.clear()
        candidate.start(ConfigMap)
        await until(lambda: candidate.source.events == ["start"] and candidate.manager._caches_check() is None)
        assert candidate.manager.elector.leader == ""
        candidate.source.go.set()
        await until(lambda: candidate.log.requests)
        assert candidate.source.events == ["start", "synced"]
        await candidate.stop()

    on_plane(kubeconfig, test)


def test_a_standby_that_is_stopped_stops_its_sources(kubeconfig):
    async def test(client):
        leader, standby = Candidate(client, "a", lease="stop"), Candidate(client, "b", lease="stop", warm_up=True)
        leader.start()
        await until(lambda: leader.manager.elector.is_leading)
        standby.start()
        await until(lambda: standby.manager.elector.leader == "a")
        await standby.stop()
        assert standby.source.events == ["start", "synced", "stop"]
        assert standby.log.requests == []
        await leader.stop()

    on_plane(kubeconfig, test)


def test_a_manager_can_be_stopped_while_it_warms_up(kubeconfig):
    async def test(client):
        candidate = Candidate(client, "a", lease="never", seconds=1000, warm_up=True)
        candidate.start()
        await until(lambda: candidate.source.events)
        await candidate.stop()
        assert candidate.source.events == ["start", "stop"]
        assert candidate.manager.elector.leader == ""

    on_plane(kubeconfig, test)


def test_a_source_that_does_not_become_ready_ends_a_manager_that_warms_up(kubeconfig):
    async def test(client):
        candidate = Candidate(client, "a", lease="never", seconds=1000, warm_up=True)
        candidate.start(sync_timeout=0.01)
        with pytest.raises(SyncTimeout, match="kind Slow"):
            await candidate.task
        assert candidate.source.events == ["start", "stop"]

    on_plane(kubeconfig, test)


def test_without_leadership_there_is_nothing_to_warm_up_for(kubeconfig):
    async def test(client):
        manager, log, source = Manager(client, namespace="default", warm_up=True), Log(), Source()
        manager.builder().named("alone").watches_source(source).complete(log)
        task = asyncio.ensure_future(manager.run(signals=False))
        await until(lambda: log.requests == [A])
        manager.stop()
        await task
        assert source.events == ["start", "synced", "stop"]

    on_plane(kubeconfig, test)
