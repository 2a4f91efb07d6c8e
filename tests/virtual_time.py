"""An event loop whose time is its own: when nothing is left to do, it moves on to the next timer at once.

Tests of timeouts, bookmarks and deadlines run in no time on it and always in the same order, and "nothing happens for
an hour" is a thing they can say. Work in threads stops the clock until it is done, so a slow machine cannot make a
timer fire early.
"""

import asyncio
import datetime as dt
import selectors

PATIENCE = 10.0
EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class _Selector(selectors.DefaultSelector):
    """A selector that never blocks: a wait that would take time moves the loop's clock instead."""

    loop = None

    def select(self, timeout=None):
        if self.loop.threads:
            # A timer must not overtake a thread that is at work; the thread wakes us when it is done.
            return super().select(0 if timeout is not None and timeout <= 0 else None)
        if timeout is None:
            # Only the end of the loop waits like this, for its threads to go.
            return super().select(PATIENCE)
        ready = super().select(0)
        if not ready:
            self.loop.now += max(timeout, 0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop. `now` is its time in seconds."""

    def __init__(self):
        selector = _Selector()
        selector.loop = self
        self.now = 1000.0
        self.threads = 0
        super().__init__(selector)

    def time(self):
        return self.now

    def run_in_executor(self, executor, func, *args):
        self.threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_done)
        return future

    async def shutdown_default_executor(self, timeout=None):  # noqa: ASYNC109 (the signature of asyncio)
        # Without its time-out, which from Python 3.12 on is a timer: it would fire before the threads have ended.
        await super().shutdown_default_executor()

    def _thread_done(self, _):
        self.threads -= 1


class LoopClock:
    """The clock of the control plane under test: the running loop's."""

    def now(self):
        return EPOCH + dt.timedelta(seconds=self.monotonic() - 1000.0)

    def monotonic(self):
        return asyncio.get_running_loop().time()


def run(main):
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
