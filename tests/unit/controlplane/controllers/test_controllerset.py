"""The controller set and its source: enqueueing from commits, restarts and stops."""

import asyncio
import itertools

from prometheus_client import CollectorRegistry

from api_client import CM, cm
from controller_api import running_controllers, with_controllers
from kapi.controller.reconcile import Request
from kapi.controlplane.controllers.context import enqueue_object
from kapi.controlplane.controllers.controllerset import STOP_SECONDS
from kapi.server.pages.health import Health
from kapi.server.supervisor import Supervisor
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
    """A runnable that fails in its first two runs."""

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


def test_supervised_controllers_that_failed_are_restarted_with_back_off():
    starts, seen = [], []

    async def main():
        async with running_controllers() as api:
            controllers = api.controller_set(lambda context: context.manager.add(Failing(starts)), recording(seen))
            supervisor = Supervisor(api.clock, Health(), CollectorRegistry())
            supervisor.run("controllers", controllers.run)
            await api.run_until_idle()
            assert [round(later - sooner) for sooner, later in itertools.pairwise(starts)] == [1, 2]
            await api.made(CM, cm("a"))
            await api.run_until_idle()
            assert seen == [Request("default", "a")]
            await supervisor.stop()

    run(main())


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
