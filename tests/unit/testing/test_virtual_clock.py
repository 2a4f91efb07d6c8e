"""Virtual time: hours pass in no time, in the same order each run, and for everything that asks the time."""

import asyncio
import contextlib
import datetime as dt
import random
import threading
import time

import pytest
from sample_operator import Site, site, sites

from kapi import Leadership, NotFound
from kapi.base.clock import SystemClock
from kapi.base.loop import loop_factory
from kapi.testing import Environment, Unsupported, VirtualTime

CONFIG_MAP = ("v1", "ConfigMap")


def test_the_time_of_everything_moves_on_when_nothing_is_left_to_do():
    async def main():
        async with Environment(time="virtual", controllers=()) as env:
            begin, stamp = env.clock.monotonic(), env.clock.now()
            await env.advance(hours=1)
            assert env.clock.monotonic() - begin == 3600
            assert env.clock.now() - stamp == dt.timedelta(hours=1)
            assert SystemClock().now() == env.clock.now()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 86400)
            await env.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}})
            created = (await env.client.get("namespaces", "later"))["metadata"]["creationTimestamp"]
            assert created == "2026-01-02T01:00:00Z"

    before = time.monotonic()
    asyncio.run(main())
    assert SystemClock().monotonic() >= before
    assert abs(SystemClock().monotonic() - time.monotonic()) < 3600


def test_the_loop_has_its_own_time_again_afterwards():
    async def main():
        loop = asyncio.get_running_loop()
        state = random.getstate()
        async with Environment(time="virtual", controllers=()) as env:
            assert loop.time() == env.clock.monotonic()
            await env.advance(days=1)
        assert abs(loop.time() - time.monotonic()) < 3600
        assert random.getstate() == state
        await asyncio.wait_for(asyncio.to_thread(int), 30)

    asyncio.run(main())


def test_an_hours_requeue_comes_after_an_hour():
    async def main():
        async with Environment(crds=[Site], time="virtual") as env:
            manager = env.manager()
            sites(manager)
            async with env.run(manager):
                await env.client.create(site("a", refresh_seconds=3600))
                await env.settled()
                env.history.clear()
                await env.advance(minutes=59)
                assert env.history.reconciles == []
                await env.advance(minutes=2)
                assert len(env.history.reconciles) == 1
                await env.advance(hours=10)
                assert len(env.history.reconciles) == 11

    asyncio.run(main())


def test_a_job_is_deleted_when_its_time_to_live_is_up():
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {
            "ttlSecondsAfterFinished": 3600,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        },
    }

    async def main():
        async with Environment(time="virtual") as env:
            await env.client.create(job)
            now = env.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            conditions = [
                {"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now}
                for kind in ("SuccessCriteriaMet", "Complete")
            ]
            status = {"conditions": conditions, "startTime": now, "completionTime": now, "succeeded": 1}
            await env.client.patch_status(job, {"status": status})
            await env.advance(minutes=59)
            assert await env.client.get(("batch/v1", "Job"), "a", namespace="default")
            await env.advance(minutes=2)
            with pytest.raises(NotFound):
                await env.client.get(("batch/v1", "Job"), "a", namespace="default")

    asyncio.run(main())


def test_a_lease_ends_and_another_manager_takes_over():
    async def main():
        async with Environment(crds=[Site], time="virtual") as env:
            first = env.manager(leadership=Leadership("sites", "default", identity="first"))
            second = env.manager(leadership=Leadership("sites", "default", identity="second"))
            sites(first), sites(second)
            async with env.run(second):
                await env.eventually(lambda: second.elector.is_leading)
                running = asyncio.ensure_future(first.run(signals=False))
                await env.advance(minutes=5)
                assert (second.elector.is_leading, first.elector.is_leading) == (True, False)
            await env.eventually(lambda: first.elector.is_leading, timeout=60)
            first.stop()
            await running

    asyncio.run(main())


def test_a_thread_is_waited_for_before_time_moves_on():
    async def main():
        async with Environment(time="virtual", controllers=()) as env:
            begin = env.clock.monotonic()
            release = threading.Event()
            waiting = asyncio.ensure_future(asyncio.to_thread(release.wait))
            timer = asyncio.get_running_loop().call_later(5, release.set)
            # The thread that ends it is not one that virtual time knows: the timer above must not fire before it.
            threading.Timer(0.2, release.set).start()
            await waiting
            assert env.clock.monotonic() == begin
            timer.cancel()

    asyncio.run(main())


def test_reconciles_and_writes_happen_in_the_same_order_each_run():
    async def story(seed):
        async with Environment(crds=[Site], time="virtual", seed=seed) as env:
            manager = env.manager()
            sites(manager, workers=4)
            async with env.run(manager):
                for number in range(6):
                    await env.client.create(site(f"s{number}", refresh_seconds=60 * number))
                await env.advance(minutes=5)
            return [
                (entry.time, entry.what, entry.user, entry.target)
                for entry in env.history.entries
                if entry.what == "reconcile" or entry.is_write
            ]

    asyncio.run(story(None))  # the first environment of a process creates objects that later ones copy
    plain = asyncio.run(story(None))
    assert len(plain) > 40
    assert asyncio.run(story(None)) == plain
    assert any(asyncio.run(story(seed)) != plain for seed in range(5))


def test_a_seed_changes_the_order_of_tasks_and_of_nothing_else():
    async def order(seed):
        clock = VirtualTime.install(seed=seed)
        try:
            seen = []

            async def step(name):
                for number in range(3):
                    seen.append((name, number))
                    await asyncio.sleep(0)

            async with asyncio.TaskGroup() as group:
                for name in "abcd":
                    group.create_task(step(name))
            callbacks = []
            for number in range(10):
                asyncio.get_running_loop().call_soon(callbacks.append, number)
            await clock.idle()
            assert callbacks == list(range(10))
            return seen
        finally:
            clock.uninstall()

    orders = [asyncio.run(order(seed)) for seed in (None, 1, 1, 2)]
    assert orders[0] == [(name, number) for number in range(3) for name in "abcd"]
    assert orders[1] == orders[2] != orders[3]
    for seen in orders:
        assert sorted(seen) == sorted(orders[0])
        for name in "abcd":
            assert [number for other, number in seen if other == name] == [0, 1, 2]


def test_a_loop_that_sleeps_until_its_deadline_reaches_it():
    async def main():
        clock = VirtualTime.install()
        try:
            deadline = clock.monotonic() + 10.1
            while (left := deadline - clock.monotonic()) > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.Event().wait(), min(0.05, left))
            assert clock.monotonic() == deadline
        finally:
            clock.uninstall()

    asyncio.run(main())


def test_a_program_that_never_rests_does_not_keep_time_from_passing():
    async def main():
        clock = VirtualTime.install()
        try:

            async def spin():
                while True:  # noqa: ASYNC110 - that is the point
                    await asyncio.sleep(0)

            spinning = asyncio.ensure_future(spin())
            begin = clock.monotonic()
            await clock.advance(1)
            assert clock.monotonic() - begin == pytest.approx(1, abs=0.02)
            spinning.cancel()
        finally:
            clock.uninstall()

    asyncio.run(main())


def test_environments_on_one_loop_share_its_time():
    async def main():
        async with Environment(time="virtual", controllers=()) as env:
            async with env.fork() as fork:
                await fork.advance(60)
                assert fork.clock is env.clock
            begin = env.clock.monotonic()
            await env.advance(60)
            assert env.clock.monotonic() - begin == 60
            with pytest.raises(RuntimeError, match="seed=None"):
                async with Environment(time="virtual", seed=3):
                    pass
            with pytest.raises(Unsupported):
                await env.listen()
        async with Environment(controllers=()) as env:
            with pytest.raises(Unsupported):
                await env.advance(1)

    asyncio.run(main())


def test_a_loop_that_is_not_of_asyncio_is_refused():
    async def main():
        with pytest.raises(RuntimeError, match=r"virtual time needs an event loop of asyncio itself, not uvloop\.Loop"):
            async with Environment(time="virtual"):
                pass

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main())


CRON_JOB = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {
        "schedule": "*/5 * * * *",
        "jobTemplate": {
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}}
        },
    },
}


def test_an_hour_of_a_cron_job_takes_no_time():
    async def main():
        async with Environment(time="virtual") as env:
            await env.client.create(CRON_JOB)
            await env.advance(hours=1)
            jobs = await env.client.list("jobs.batch", namespace="default")
            made = sorted((job["metadata"]["creationTimestamp"], job["metadata"]["name"]) for job in jobs)
            begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
            times = [begin + dt.timedelta(minutes=minute) for minute in range(5, 61, 5)]
            assert made == [(f"{at:%Y-%m-%dT%H:%M:%SZ}", f"c-{int(at.timestamp()) // 60}") for at in times]
            (cron_job,) = await env.client.list("cronjobs.batch", namespace="default")
            assert cron_job["status"]["lastScheduleTime"] == "2026-01-01T01:00:00Z"
            assert len(cron_job["status"]["active"]) == 12

    before = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - before < 60


@pytest.mark.parametrize(
    ("start", "times"),
    [
        # Clocks go from 02:00 to 03:00, and 02:30 does not exist; from 03:00 to 02:00, and it comes twice.
        ("2026-03-29T00:00:00+00:00", ["2026-03-29T02:30:00Z"]),
        ("2026-10-24T23:00:00+00:00", ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]),
    ],
)
def test_a_schedule_follows_the_clocks_of_its_time_zone(start, times):
    async def main():
        begin = dt.datetime.fromisoformat(start)
        async with Environment(time="virtual", start=begin, controllers="cronjob") as env:
            spec = {**CRON_JOB["spec"], "schedule": "30 2,4 * * *", "timeZone": "Europe/Berlin"}
            await env.client.create({**CRON_JOB, "spec": spec})
            await env.advance(hours=3)
            jobs = await env.client.list("jobs.batch", namespace="default")
            assert sorted(job["metadata"]["creationTimestamp"] for job in jobs) == times

    asyncio.run(main())
