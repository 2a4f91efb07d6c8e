"""CPU work off the event loop: in few threads, with a short switch interval while they work."""

import asyncio
import contextvars
import sys
import threading

from kapi.base.offloop import SWITCH_SECONDS, THREADS, off_loop

name = contextvars.ContextVar("name")


class Work:
    """Blocks until it is allowed to end, and counts how many do."""

    def __init__(self):
        self.allowed = threading.Event()
        self.active = self.most = 0
        self.threads = set()
        self.intervals = set()
        self._lock = threading.Lock()
        self.full = threading.Event()
        """Set when as many work as may."""

    def __call__(self):
        with self._lock:
            self.active += 1
            self.most = max(self.most, self.active)
            self.threads.add(threading.current_thread())
            self.intervals.add(sys.getswitchinterval())
            if self.active == THREADS:
                self.full.set()
        self.allowed.wait()
        with self._lock:
            self.active -= 1
        return name.get()


def test_few_work_at_a_time_and_the_loop_is_asked_for_more_often_meanwhile():
    before = sys.getswitchinterval()
    work = Work()

    async def main():
        name.set("caller")
        calls = [asyncio.ensure_future(off_loop(work)) for _ in range(4 * THREADS)]
        await asyncio.to_thread(work.full.wait)
        # The loop is free, however many wait.
        assert sys.getswitchinterval() <= 1.01 * SWITCH_SECONDS < before
        work.allowed.set()
        return await asyncio.gather(*calls)

    assert asyncio.run(main()) == ["caller"] * 4 * THREADS
    assert work.most == THREADS
    assert threading.main_thread() not in work.threads
    assert max(work.intervals) <= 1.01 * SWITCH_SECONDS
    assert sys.getswitchinterval() == before


def test_what_work_raises_is_raised_and_the_interval_restored():
    before = sys.getswitchinterval()

    async def main():
        try:
            await off_loop(int, "x")
        except ValueError as error:
            return str(error)

    assert "invalid literal" in asyncio.run(main())
    assert sys.getswitchinterval() == before
