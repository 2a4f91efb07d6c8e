"""What a work queue promises to the workers of one loop."""

import asyncio

import pytest

from kapi.controller.queue import LOW_PRIORITY, QueueShutDown, WorkQueue
from virtual_time import run


async def run_pending():
    for _ in range(5):
        await asyncio.sleep(0)


async def take_all(queue):
    taken = []
    while len(queue):
        taken.append(await queue.get())
    return taken


def test_keys_come_out_in_the_order_they_went_in():
    async def main():
        queue = WorkQueue()
        for key in "cab":
            queue.add(key)
        assert await take_all(queue) == ["c", "a", "b"]

    run(main())


def test_a_key_added_many_times_is_handed_out_once_and_keeps_its_place():
    async def main():
        queue = WorkQueue()
        for key in "abaab":
            queue.add(key)
        assert len(queue) == 2
        assert await take_all(queue) == ["a", "b"]

    run(main())


def test_a_key_added_during_work_waits_until_that_work_is_done():
    async def main():
        queue = WorkQueue()
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        queue.add("a")
        second = asyncio.create_task(queue.get())
        await run_pending()
        assert not second.done()
        assert len(queue) == 0
        queue.done("a")
        assert await second == "a"
        queue.done("a")
        assert len(queue) == 0

    run(main())


def test_a_key_added_during_work_is_queued_behind_those_that_were_ready_before_done():
    async def main():
        queue = WorkQueue()
        queue.add("a")
        await queue.get()
        queue.add("a")
        queue.add("b")
        queue.done("a")
        assert await take_all(queue) == ["b", "a"]

    run(main())


def test_a_higher_priority_is_first_and_keys_of_one_priority_keep_their_order():
    async def main():
        queue = WorkQueue()
        queue.add("resync-1", priority=LOW_PRIORITY)
        queue.add("live-1")
        queue.add("urgent", priority=10)
        queue.add("resync-2", priority=LOW_PRIORITY)
        queue.add("live-2")
        assert await take_all(queue) == ["urgent", "live-1", "live-2", "resync-1", "resync-2"]

    run(main())


def test_adding_again_raises_a_key_behind_those_of_its_new_priority_and_never_lowers_it():
    async def main():
        queue = WorkQueue()
        queue.add("a", priority=LOW_PRIORITY)
        queue.add("b")
        queue.add("a")
        queue.add("b", priority=LOW_PRIORITY)
        queue.add("c", priority=LOW_PRIORITY)
        assert [await queue.get_with_priority() for _ in range(3)] == [("b", 0), ("a", 0), ("c", LOW_PRIORITY)]

    run(main())


def test_a_key_added_during_work_comes_back_with_the_highest_priority_asked_for():
    async def main():
        queue = WorkQueue()
        queue.add("a", priority=9)
        assert await queue.get_with_priority() == ("a", 9)
        queue.add("a", priority=LOW_PRIORITY)
        queue.add("a", priority=3)
        queue.add("a", priority=1)
        queue.done("a")
        assert await queue.get_with_priority() == ("a", 3)

    run(main())


def test_every_waiting_worker_gets_a_key_of_its_own():
    async def main():
        queue = WorkQueue()
        workers = [asyncio.create_task(queue.get()) for _ in range(3)]
        await run_pending()
        for key in "abc":
            queue.add(key)
        assert sorted(await asyncio.gather(*workers)) == ["a", "b", "c"]

    run(main())


def test_a_worker_cancelled_together_with_the_arrival_of_its_key_leaves_the_key_to_another():
    async def main():
        queue = WorkQueue()
        first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
        await run_pending()
        queue.add("a")
        first.cancel()
        assert await asyncio.wait_for(second, 1) == "a"
        assert first.cancelled()

    run(main())


def test_cancelled_workers_leave_nothing_behind():
    async def main():
        queue = WorkQueue()
        for _ in range(10):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(queue.get(), 1)
        assert len(queue._workers) == 0

    run(main())


def test_done_with_a_key_that_no_worker_has_is_an_error():
    async def main():
        queue = WorkQueue("mine")
        queue.add("a")
        with pytest.raises(ValueError, match=r"done\('a'\): no worker of queue 'mine' has this key"):
            queue.done("a")
        assert await queue.get() == "a"

    run(main())


def test_shutting_down_hands_out_what_is_left_and_ignores_the_rest():
    async def main():
        queue = WorkQueue()
        queue.add("a")
        queue.add("b")
        assert not queue.is_shutting_down
        queue.shut_down()
        assert queue.is_shutting_down
        queue.add("c")
        assert await take_all(queue) == ["a", "b"]
        with pytest.raises(QueueShutDown):
            await queue.get()

    run(main())


def test_shutting_down_ends_workers_that_wait():
    async def main():
        queue = WorkQueue()
        workers = [asyncio.create_task(queue.get()) for _ in range(3)]
        await run_pending()
        queue.shut_down()
        results = await asyncio.gather(*workers, return_exceptions=True)
        assert [type(result) for result in results] == [QueueShutDown] * 3

    run(main())


def test_a_key_added_during_work_before_the_shutdown_is_still_handed_out_after_it():
    async def main():
        queue = WorkQueue()
        queue.add("a")
        await queue.get()
        queue.add("a")
        queue.shut_down()
        queue.done("a")
        assert await queue.get() == "a"

    run(main())


def test_a_drain_waits_for_running_work_queued_work_and_work_added_during_work():
    async def main():
        queue = WorkQueue()
        worked = []

        async def worker():
            while True:
                try:
                    key = await queue.get()
                except QueueShutDown:
                    return
                await asyncio.sleep(10)
                worked.append(key)
                queue.done(key)

        task = asyncio.create_task(worker())
        queue.add("a")
        await asyncio.sleep(1)
        queue.add("a")
        queue.add("b")
        await queue.shut_down_with_drain()
        assert worked == ["a", "b", "a"]
        await task

    run(main())


def test_a_drain_of_an_idle_queue_returns_at_once():
    run(WorkQueue().shut_down_with_drain())


def test_a_drain_waits_for_keys_no_worker_has_taken_yet():
    async def main():
        queue = WorkQueue()
        queue.add("a")
        drain = asyncio.create_task(queue.shut_down_with_drain())
        await run_pending()
        assert not drain.done()
        queue.done(await queue.get())
        await drain

    run(main())


def test_shutting_down_ends_a_drain_that_waits():
    async def main():
        queue = WorkQueue()
        queue.add("a")
        await queue.get()
        drain = asyncio.create_task(queue.shut_down_with_drain())
        await run_pending()
        assert not drain.done()
        queue.shut_down()
        await drain

    run(main())


def test_many_workers_never_have_the_same_key_and_every_add_is_followed_by_work():
    async def main():
        queue, busy, worked, added = WorkQueue(), set(), {}, {}

        async def worker():
            while True:
                try:
                    key = await queue.get()
                except QueueShutDown:
                    return
                assert key not in busy
                busy.add(key)
                worked[key] = asyncio.get_running_loop().time()
                await asyncio.sleep(key % 3)
                busy.discard(key)
                queue.done(key)

        async with asyncio.TaskGroup() as group:
            for _ in range(7):
                group.create_task(worker())
            for number in range(2000):
                key = number * number % 41
                queue.add(key)
                added[key] = asyncio.get_running_loop().time()
                await asyncio.sleep(0.1)
            await queue.shut_down_with_drain()
        assert worked.keys() == added.keys()
        assert all(worked[key] >= added[key] for key in added)

    run(main())
