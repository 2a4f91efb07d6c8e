"""Deadlines of requests on an event loop whose clock the test moves."""

import asyncio

import pytest

from kapi.server.requestdeadlines import RequestDeadlines


class Loop(asyncio.SelectorEventLoop):
    """An event loop that goes on to the next timer when it has nothing else to do."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.timers = 0

    def time(self):
        return self.now

    def call_at(self, when, callback, *args, context=None):
        self.timers += 1
        return super().call_at(when, callback, *args, context=context)

    def _run_once(self):
        if not self._ready and self._scheduled:
            self.now = max(self.now, self._scheduled[0].when())
        super()._run_once()


def run(coroutine):
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(coroutine)


async def _sleep(deadlines, seconds):
    loop = asyncio.get_running_loop()
    try:
        with deadlines.begin():
            await asyncio.sleep(seconds)
    except TimeoutError:
        return ("late", loop.time())
    return ("done", loop.time())


def test_requests_end_in_time_or_are_cancelled_at_their_deadline():
    async def main():
        deadlines = RequestDeadlines(60)
        first = asyncio.ensure_future(_sleep(deadlines, 100))
        await asyncio.sleep(10)
        others = [asyncio.ensure_future(_sleep(deadlines, seconds)) for seconds in (59, 61, 5)]
        return await asyncio.gather(first, *others)

    assert run(main()) == [("late", 60), ("done", 69), ("late", 70), ("done", 15)]


def test_one_timer_serves_many_requests():
    async def main():
        deadlines = RequestDeadlines(60)
        for _ in range(100):
            with deadlines.begin():
                await asyncio.sleep(0)
        before = asyncio.get_running_loop().timers
        await asyncio.sleep(120)
        with deadlines.begin():
            await asyncio.sleep(0)
        return before, await _sleep(deadlines, 61)

    timers, after = run(main())
    assert timers == 1
    assert after == ("late", 180)


def test_deadline_holds_while_the_timer_of_an_earlier_request_is_set():
    async def main():
        deadlines = RequestDeadlines(60)
        await _sleep(deadlines, 1)
        return await _sleep(deadlines, 100)

    assert run(main()) == ("late", 61)


def test_cancellation_from_outside_is_no_timeout():
    async def main():
        deadlines = RequestDeadlines(60)
        task = asyncio.ensure_future(_sleep(deadlines, 100))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await _sleep(deadlines, 59)

    assert run(main()) == ("done", 60)


def test_cancellation_from_outside_at_the_deadline_is_no_timeout():
    async def main():
        deadlines = RequestDeadlines(60)
        task = asyncio.ensure_future(_sleep(deadlines, 100))
        asyncio.get_running_loop().call_at(60, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())


def test_work_that_fails_at_the_deadline_fails_with_its_own_error():
    async def fail(deadlines):
        with deadlines.begin():
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                raise KeyError("x") from None

    async def main():
        with pytest.raises(KeyError):
            await fail(RequestDeadlines(60))
        assert asyncio.current_task().cancelling() == 0

    run(main())
