"""Keys that come later: at the time asked for, once, and with one timer for all."""

import asyncio

import pytest

from kapi.controller.queue import LOW_PRIORITY, DelayingQueue, RateLimitingQueue
from kapi.controller.queue.ratelimit import ItemExponential
from virtual_time import LoopClock, run


def now():
    return asyncio.get_running_loop().time() - 1000.0


async def arrivals(queue, count):
    """The next so many keys, with the times at which they came."""
    seen = []
    for _ in range(count):
        key = await queue.get()
        seen.append((key, round(now(), 6)))
        queue.done(key)
    return seen


def test_keys_come_at_their_times_whatever_the_order_they_were_asked_for():
    async def main():
        queue = DelayingQueue(clock=LoopClock())
        queue.add_after("c", 30)
        queue.add_after("a", 10)
        queue.add_after("b", 20)
        assert await arrivals(queue, 3) == [("a", 10), ("b", 20), ("c", 30)]

    run(main())


@pytest.mark.parametrize("delay", [0, -1, float("nan")])
def test_no_delay_means_at_once(delay):
    async def main():
        queue = DelayingQueue(clock=LoopClock())
        queue.add_after("a", delay)
        assert len(queue) == 1

    run(main())


def test_asked_for_twice_a_key_comes_once_at_the_earlier_time():
    async def main():
        queue = DelayingQueue(clock=LoopClock())
        queue.add_after("a", 20)
        queue.add_after("a", 5)
        queue.add_after("a", 60)
        assert await arrivals(queue, 1) == [("a", 5)]
        await asyncio.sleep(100)
        assert len(queue) == 0

    run(main())


def test_an_add_in_between_does_not_cancel_the_later_one():
    async def main():
        queue = DelayingQueue(clock=LoopClock())
        queue.add_after("a", 20)
        queue.add("a")
        assert await arrivals(queue, 2) == [("a", 0), ("a", 20)]

    run(main())


def test_a_key_that_is_due_while_it_is_worked_on_comes_after_that_work():
    async def main():
        queue = DelayingQueue(clock=LoopClock())
        queue.add("a")
        await queue.get()
        queue.add_after("a", 5)
        await asyncio.sleep(8)
        assert len(queue) == 0
        queue.done("a")
        assert await arrivals(queue, 1) == [("a", 8)]

    run(main())


def test_a_delayed_key_keeps_the_highest_priority_asked_for():
    async def main():
        queue = DelayingQueue(clock=LoopClock())
        queue.add_after("low", 5, priority=LOW_PRIORITY)
        queue.add_after("raised", 6, priority=LOW_PRIORITY)
        queue.add_after("raised", 7, priority=3)
        queue.add_after("live", 5)
        await asyncio.sleep(10)
        assert [await queue.get_with_priority() for _ in range(3)] == [
            ("raised", 3),
            ("live", 0),
            ("low", LOW_PRIORITY),
        ]

    run(main())


def test_shutting_down_forgets_what_was_to_come_and_stops_the_timer():
    async def main():
        queue = DelayingQueue(clock=LoopClock())
        queue.add_after("a", 5)
        queue.shut_down()
        queue.add_after("b", 1)
        assert queue._timer is None
        await asyncio.sleep(10)
        assert len(queue) == 0

    run(main())


def test_there_is_one_timer_for_all_keys(monkeypatch):
    async def main():
        loop = asyncio.get_running_loop()
        queue = DelayingQueue(clock=LoopClock())
        before = len(loop._scheduled)
        for number in range(1000):
            queue.add_after(number, 2000 - number)
        live = [timer for timer in loop._scheduled if not timer.cancelled()]
        assert len(live) == before + 1

    run(main())


def test_moving_one_key_forward_again_and_again_takes_no_memory():
    async def main():
        queue = DelayingQueue(clock=LoopClock())
        for number in range(10_000):
            queue.add_after("a", 20_000 - number)
        assert len(queue._later._heap) < 200

    run(main())


def test_a_timer_that_rings_a_little_early_does_not_make_a_busy_loop():
    class EarlyClock(LoopClock):
        asked = 0

        def monotonic(self):
            self.asked += 1
            return super().monotonic() * (1 - 1e-13)

    async def main():
        clock = EarlyClock()
        queue = DelayingQueue(clock=clock)
        for number in range(100):
            queue.add_after(number, 1 + number / 7)
        await arrivals(queue, 100)
        assert clock.asked < 500

    run(main())


def test_rate_limited_keys_come_back_later_each_time_until_they_are_forgotten():
    async def main():
        queue = RateLimitingQueue(limiter=ItemExponential(1, 4), clock=LoopClock())
        times = []
        for _ in range(4):
            queue.add_rate_limited("a")
            times += [time for _, time in await arrivals(queue, 1)]
        assert times == [1, 3, 7, 11]
        assert queue.num_requeues("a") == 4
        queue.forget("a")
        assert queue.num_requeues("a") == 0
        queue.add_rate_limited("a", priority=5)
        assert await queue.get_with_priority() == ("a", 5)
        assert round(now(), 6) == 12

    run(main())


def test_by_default_a_key_starts_with_five_milliseconds_and_many_keys_share_ten_tries_per_second():
    async def main():
        queue = RateLimitingQueue(clock=LoopClock())
        for number in range(120):
            queue.add_rate_limited(number)
        seen = await arrivals(queue, 120)
        assert {time for _, time in seen[:100]} == {0.005}
        assert [time for _, time in seen[100:103]] == [0.1, 0.2, 0.3]
        assert seen[-1] == (119, 2.0)

    run(main())


def test_forgetting_a_key_does_not_take_it_out_of_the_queue():
    async def main():
        queue = RateLimitingQueue(limiter=ItemExponential(1, 4), clock=LoopClock())
        queue.add_rate_limited("a")
        queue.forget("a")
        assert await arrivals(queue, 1) == [("a", 1)]

    run(main())
