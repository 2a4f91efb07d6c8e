"""How a controller starts, and how it comes to its end, in virtual time."""

import asyncio

import pytest
from controller_rig import A, B, C, Rig, now

from kapi.controller.controller import SyncTimeout
from virtual_time import run


def test_stop_lets_running_reconciles_finish_and_leaves_the_other_keys():
    async def main():
        done = []

        async def reconcile(request):
            await asyncio.sleep(30)
            done.append((request, now()))

        rig = Rig(reconcile, workers=2)
        async with rig.running() as task:
            start = now()
            for key in (A, B, C):
                rig.trigger.fire(key)
            await asyncio.sleep(10)
            rig.controller.stop()
            await task
            rig.trigger.fire(C)
        assert [request for request, _ in done] == [A, B]
        assert round(now() - start, 3) == 30

    run(main())


def test_cancelling_run_cancels_running_reconciles():
    async def main():
        ends = []

        async def reconcile(request):
            try:
                await asyncio.sleep(3600)
            finally:
                ends.append(request)

        rig = Rig(reconcile, workers=2)
        task = asyncio.create_task(rig.controller.run())
        rig.trigger.fire(A)
        rig.trigger.fire(B)
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sorted(ends) == [A, B]
        assert rig.controller.queue.is_shutting_down
        assert rig.read("reconcile_errors_total") == 0
        assert rig.read("active_workers") == 0

    run(main())


class Slow:
    """A source that takes its time, or fails."""

    def __init__(self, seconds, error=None):
        self.seconds, self.error, self.events = seconds, error, []

    def __str__(self):
        return "kind Slow"

    async def start(self, queue):
        self.events.append("start")
        queue.add(A)

    async def wait_for_sync(self):
        await asyncio.sleep(self.seconds)
        if self.error:
            raise self.error
        self.events.append("synced")

    def stop(self):
        self.events.append("stop")


def test_workers_wait_for_every_source():
    async def main():
        seen = []

        async def reconcile(request):
            seen.append(now())

        slow = Slow(60)
        rig = Rig(reconcile, sources=[slow, Slow(5)])
        start = now()
        async with rig.running():
            await asyncio.sleep(30)
            assert not rig.controller.is_started
            await asyncio.sleep(60)
            assert rig.controller.is_started
        assert [round(time - start, 3) for time in seen] == [60]
        assert slow.events == ["start", "synced", "stop"]

    run(main())


def test_a_source_that_never_gets_ready_ends_the_controller_and_is_named():
    async def main():
        slow = Slow(3600)
        rig = Rig(lambda request: None, sources=[slow])
        start = now()
        with pytest.raises(SyncTimeout, match=r"controller 'networks': kind Slow did not sync within 120 s"):
            await rig.controller.run()
        assert now() - start == 120
        assert slow.events == ["start", "stop"]

    run(main())


@pytest.mark.parametrize("error", [PermissionError("may not list"), TimeoutError("its own")])
def test_a_source_that_fails_ends_the_controller_with_its_error(error):
    async def main():
        other = Slow(3600)
        rig = Rig(lambda request: None, sources=[Slow(1, error), other])
        with pytest.raises(type(error), match=str(error)):
            await rig.controller.run()
        assert other.events == ["start", "stop"]

    run(main())


def test_stop_while_waiting_for_sources_returns_at_once():
    async def main():
        rig = Rig(lambda request: None, sources=[Slow(60)])
        start = now()
        async with rig.running():
            pass
        assert now() - start < 1
        assert not rig.controller.is_started

    run(main())


def test_cancelling_while_waiting_for_sources_leaves_no_task_behind():
    async def main():
        slow = Slow(60)
        rig = Rig(lambda request: None, sources=[slow])
        task = asyncio.create_task(rig.controller.run())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert slow.events == ["start", "stop"]

    run(main())


def test_a_source_can_be_added_while_the_controller_runs_but_not_after():
    async def main():
        seen = []

        async def reconcile(request):
            seen.append(request)

        rig, late = Rig(reconcile), Slow(5)
        async with rig.running():
            await rig.controller.watch(late)
            assert late.events == ["start", "synced"]
            await asyncio.sleep(1)
            assert seen == [A]
        assert late.events[-1] == "stop"
        with pytest.raises(RuntimeError, match="has been stopped"):
            await rig.controller.watch(late)

    run(main())


def test_a_controller_runs_once():
    async def main():
        rig = Rig(lambda request: None)
        async with rig.running():
            with pytest.raises(RuntimeError, match="a controller runs once"):
                await rig.controller.run()

    run(main())
