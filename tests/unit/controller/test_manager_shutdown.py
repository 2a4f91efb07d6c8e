"""How a manager ends, in virtual time: gracefully with one deadline, and at once when the lease is lost."""

import asyncio
import contextlib

import pytest

from kapi import Client, Manager
from kapi.api.errors import NotFound
from kapi.client import ClientConfig
from kapi.controller.controller import Controller, ControllerOptions
from kapi.controller.manager import LeadershipLost
from kapi.controller.manager.leaderelection import Election, LeaderElector
from kapi.controller.reconcile import Request
from virtual_time import LoopClock, run


class Leases:
    """One Lease in memory, which a test may take away."""

    def __init__(self):
        self.lease = None

    async def get(self, name):
        if self.lease is None:
            raise NotFound("no lease")
        return self.lease

    async def create(self, obj):
        self.lease = obj
        return obj

    async def replace(self, obj):
        self.lease = obj
        return obj

    def take_over(self, holder):
        self.lease = {**self.lease, "spec": {**self.lease["spec"], "holderIdentity": holder}}


class Runner:
    """A runnable that is slow to end after it was told to stop."""

    needs_leader_election = False

    def __init__(self, name, seconds):
        self.name = name
        self.seconds = seconds
        self.stopped_at = None
        self.ended_at = None
        self._stopping = asyncio.Event()

    async def run(self):
        try:
            await self._stopping.wait()
            await asyncio.sleep(self.seconds)
        finally:
            self.ended_at = now()

    def stop(self):
        if self.stopped_at is None:
            self.stopped_at = now()
        self._stopping.set()


def now():
    return asyncio.get_running_loop().time()


def manager_of(**options):
    return Manager(Client(ClientConfig("http://127.0.0.1:9")), clock=LoopClock(), **options)


def elected(manager):
    """Let a manager stand for election with a Lease in memory."""
    leases = Leases()
    manager.elector = LeaderElector(leases, Election("lease", "me"), clock=LoopClock())
    return leases


def controller(name, reconcile, **options):
    """A controller with one key after the other to reconcile."""
    made = Controller(name, reconcile, clock=LoopClock(), options=ControllerOptions(**options))
    for number in range(100):
        made.queue.add(Request("default", f"{name}-{number}"))
    return made


def test_work_of_a_process_that_lost_its_lease_is_cancelled_at_once():
    async def main():
        manager = manager_of()
        leases = elected(manager)
        acts, finished = [], []

        async def reconcile(request):
            try:
                while True:
                    acts.append(now())
                    await asyncio.sleep(0.1)
            finally:
                finished.append(now())

        async def wait_long(request):
            try:
                await asyncio.sleep(1000)
            finally:
                finished.append(now())

        manager.add(controller("a", reconcile, workers=3))
        manager.add(controller("b", wait_long))
        bystander, leading = Runner("webhooks", seconds=25), Runner("exporter", seconds=25)
        leading.needs_leader_election = True
        manager.add(bystander)
        manager.add(leading)
        running = asyncio.ensure_future(manager.run(signals=False))
        await asyncio.sleep(20)
        leases.take_over("another")
        taken_over = now()
        with pytest.raises(LeadershipLost, match="another leads now"):
            await running
        # The loss is seen by the next renewal, two seconds later at most; nothing is done after that.
        assert len(finished) == 4
        assert max(acts) <= max(finished) <= taken_over + 2.5
        assert now() <= taken_over + 2.5
        assert bystander.ended_at <= taken_over + 2.5
        assert leading.ended_at <= taken_over + 2.5
        await manager.live.close()

    run(main())


def test_work_that_ignores_its_cancellation_does_not_keep_the_manager_from_ending():
    async def main():
        manager = manager_of()
        leases = elected(manager)
        release = asyncio.Event()

        async def reconcile(request):
            while not release.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await release.wait()

        manager.add(controller("a", reconcile))
        running = asyncio.ensure_future(manager.run(signals=False))
        await asyncio.sleep(20)
        leases.take_over("another")
        taken_over = now()
        with pytest.raises(LeadershipLost):
            await running
        # The renewal sees it within two seconds, and a cancelled reconcile has what is left of the lease: five.
        assert now() <= taken_over + 7.5
        release.set()
        await asyncio.sleep(1)
        await manager.live.close()

    run(main())


def test_all_runnables_are_told_to_stop_in_the_same_instant():
    async def main():
        manager = manager_of()
        runners = [Runner(f"runner-{number}", seconds=number) for number in range(5)]
        for runner in runners:
            manager.add(runner)
        running = asyncio.ensure_future(manager.run(signals=False))
        await asyncio.sleep(1)
        manager.stop()
        began = now()
        await running
        assert {runner.stopped_at for runner in runners} == {began}
        assert [runner.ended_at - began for runner in runners] == [0, 1, 2, 3, 4]
        await manager.live.close()

    run(main())


def test_no_reconcile_begins_after_stop_while_others_are_waited_for():
    async def main():
        manager = manager_of(shutdown_timeout=10)
        begun = []

        async def stuck(request):
            await asyncio.sleep(10_000)

        async def busy(request):
            begun.append(now())
            await asyncio.sleep(1)

        manager.add(controller("busy", busy, needs_leader_election=False))
        manager.add(controller("first", stuck, needs_leader_election=False))
        manager.add(controller("second", stuck))
        running = asyncio.ensure_future(manager.run(signals=False))
        await asyncio.sleep(3.5)
        manager.stop()
        stopped = now()
        await running
        assert max(begun) < stopped
        # Two that are stuck, with and without leader election: one deadline for both.
        assert now() == stopped + 10
        await manager.live.close()

    run(main())


def test_a_lease_is_held_until_the_last_reconcile_has_ended():
    async def main():
        manager = manager_of()
        leases = elected(manager)
        holders = []

        async def reconcile(request):
            await asyncio.sleep(20)
            holders.append(leases.lease["spec"]["holderIdentity"])

        manager.add(controller("a", reconcile))
        running = asyncio.ensure_future(manager.run(signals=False))
        await asyncio.sleep(5)
        manager.stop()
        await running
        assert holders == ["me"]
        assert leases.lease["spec"]["holderIdentity"] == ""
        await manager.live.close()

    run(main())


def test_a_manager_can_be_stopped_before_it_runs():
    manager = manager_of()
    manager.stop()
    run(manager.run(signals=False))
