"""Virtual time: an event loop whose clock moves on to the next timer as soon as nothing is left to do.

An hour's requeue, the end of a lease or a TTL then take no time, "nothing happens for a day" is something a test can
assert, and what happens, when and in which order is the same in each run, in any process: see `determinism`.

The running loop is changed in place and changed back. A loop class of our own would be cleaner, but pytest-asyncio,
anyio and `asyncio.run` each create their loops in their own way, and a test should not have to know which of them runs
it. Three things of a loop depend on time, and all of asyncio's timers (`sleep`, `timeout`, `call_later`) rest on them:

* `loop.time()` returns virtual seconds;
* the selector never waits: a wait that would take time moves the clock instead;
* work in threads stops the clock until it is done, so that a timer cannot overtake a thread on a slow machine.

`SystemClock` is virtual too while code runs on such a loop: it is what the packages of Kapi stamp and measure with when
they are given no clock. Code that asks `time.time()` or `datetime.now()` gets the machine's time; use the clock of the
environment instead.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import datetime as dt
import math
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from kapi.base.clock import SystemClock
from kapi.testing.determinism import repeatable

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable
    from selectors import SelectorKey

EPOCH: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
"""The wall time at which virtual time begins."""

_PATIENCE: Final = 1.0
"""Real seconds that a thread may do nothing while the loop waits for its result."""
_MOST_WAITS: Final = 60
_WORKING: Final = 0.01
"""Seconds of CPU time in that time from which on the thread counts as working."""
_SOCKET_PATIENCE: Final = 0.01
"""Real seconds to wait for sockets, if there are any, before the clock is moved."""

_BUSY_TURNS: Final = 2000
"""Turns of the loop at one time after which it counts as busy for ever: two tasks that wake each other, a hot loop."""
_BUSY_STEP: Final = 100
_BUSY_SECONDS: Final = 0.01

_virtual: dict[asyncio.AbstractEventLoop, VirtualTime] = {}


def current() -> VirtualTime | None:
    """Return the virtual time of the running event loop; None if it has none, or if no loop runs here."""
    if not _virtual:
        return None
    with contextlib.suppress(RuntimeError):
        return _virtual.get(asyncio.get_running_loop())
    return None


class VirtualTime:
    """The virtual time of one event loop, from `install` to `uninstall`. It is a `Clock`.

    With a `seed` the steps of tasks that are ready at the same time are run in a random order, the same for the same
    seed. asyncio runs them in the order in which they became ready, but nothing may rely on it.
    """

    def __init__(self, *, seed: int | None = None, start: dt.datetime = EPOCH) -> None:
        self.seed = seed
        self._start = start
        self._users = 0
        self._loop: asyncio.AbstractEventLoop
        self._seconds = 0.0
        self._began = 0.0
        self._threads = 0
        self._wanted = threading.Event()
        """Set when a thread has done its work, or wants something to be done on the loop."""
        self._turns = 0
        """Turns of the loop since the time has moved."""
        self._idle: list[asyncio.Future[None]] = []
        self._stack = contextlib.ExitStack()
        self._random = random.Random(seed)  # noqa: S311 - an order of events, no secret
        self._steps: list[asyncio.Handle] = []

    @classmethod
    def install(cls, *, seed: int | None = None, start: dt.datetime = EPOCH) -> VirtualTime:
        """Make the time of the running loop virtual; of a loop whose time is, return that one."""
        loop = asyncio.get_running_loop()
        found = _virtual.get(loop)
        if found is None:
            found = _virtual[loop] = cls(seed=seed, start=start)
            try:
                found._take_over(loop)
            except BaseException:
                del _virtual[loop]
                raise
        elif seed is not None and seed != found.seed:
            raise RuntimeError(f"this event loop has been given seed={found.seed} already")
        found._users += 1
        return found

    def uninstall(self) -> None:
        """Give the loop its own time back, when no other environment uses it."""
        self._users -= 1
        if not self._users:
            del _virtual[self._loop]
            self._stack.close()

    # -- the clock ----------------------------------------------------------------------------------------------------

    def now(self) -> dt.datetime:
        """The wall time, in UTC."""
        return self._start + dt.timedelta(seconds=self._seconds - self._began)

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        return self._seconds

    async def idle(self) -> None:
        """Wait until nothing is left to do at the present time: all tasks wait for a later one.

        It ends, too, when the loop is busy for so long that this will not happen.
        """
        future = self._loop.create_future()
        self._idle.append(future)
        await future

    async def advance(self, seconds: float) -> None:
        """Let time pass, and everything happen that is due by then."""
        if seconds > 0:
            await asyncio.sleep(seconds)
        await self.idle()

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _take_over(self, loop: asyncio.AbstractEventLoop) -> None:
        selector = getattr(loop, "_selector", None)
        if selector is None:
            raise RuntimeError(
                f"virtual time needs an event loop of asyncio itself, not {type(loop).__module__}.{type(loop).__name__}"
            )
        self._loop = loop
        self._began = self._seconds = _begin(loop.time())
        self._select: Callable[[float | None], list[tuple[SelectorKey, int]]] = selector.select
        self._sockets: Callable[[], Any] = selector.get_map
        self._call_soon = loop.call_soon
        self._call_soon_threadsafe = loop.call_soon_threadsafe
        self._thread = threading.get_ident()
        pool = self._stack.enter_context(concurrent.futures.ThreadPoolExecutor(8, "kapi virtual time"))
        self._pool = pool
        patch = mock.patch.object
        for change in (
            patch(loop, "time", lambda: self._seconds),
            patch(loop, "_clock_resolution", _Exact()),
            patch(selector, "select", self._wait),
            patch(loop, "run_in_executor", self._run_in_thread),
            patch(loop, "call_soon_threadsafe", self._call_from_thread),
            _patched_clock(),
            repeatable(loop, self.seed or 0, self.monotonic),
        ):
            self._stack.enter_context(change)
        if self.seed is not None:
            self._stack.enter_context(patch(loop, "call_soon", self._call_in_random_order))

    def _wait(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        if self._threads:
            # The thread wakes the loop when it is done; a timer must not overtake it.
            return self._select(0 if timeout is not None and timeout <= 0 else None)
        self._turns += 1
        ready = self._select(0)
        if ready or (timeout is not None and timeout <= 0):
            if self._turns > _BUSY_TURNS:
                self._creep()
            return ready
        if len(self._sockets()) > 1:  # one is the loop's own, by which threads wake it
            ready = self._select(_SOCKET_PATIENCE)
        if ready:
            return ready
        if self._idle:
            self._tell_idle()
        elif timeout is None:
            # No timer at all: only another thread or a socket can end this.
            return self._select(None)
        else:
            self._seconds += timeout
            self._turns = 0
        return []

    def _tell_idle(self) -> None:
        for future in self._idle:
            if not future.done():
                future.set_result(None)
        self._idle.clear()

    def _creep(self) -> None:
        """Let time pass slowly while there is always something to do.

        Work takes no virtual time, so a program that never comes to rest would keep the clock from moving, and the
        test that waits for it from ending.
        """
        self._tell_idle()
        if self._turns % _BUSY_STEP == 0:
            self._seconds += _BUSY_SECONDS

    def _run_in_thread(self, executor: Any, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run a function in a thread, and wait for it: what it returns is then there at the same point in each run.

        The wait ends when the function calls the loop, or does nothing for so long that it must be waiting for it.
        """
        self._wanted.clear()
        work = (executor or self._pool).submit(function, *args)
        work.add_done_callback(lambda _: self._wanted.set())
        for _ in range(_MOST_WAITS):
            used = time.process_time()
            if self._wanted.wait(_PATIENCE) or time.process_time() - used < _WORKING:
                break
        future = asyncio.wrap_future(work, loop=self._loop)
        self._threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _call_from_thread(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = self._call_soon_threadsafe(callback, *args, context=context)
        if threading.get_ident() != self._thread:
            self._wanted.set()
        return handle

    def _thread_done(self, _: asyncio.Future[Any]) -> None:
        self._threads -= 1

    # -- the order of tasks -------------------------------------------------------------------------------------------

    def _call_in_random_order(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        # Other callbacks keep their order: asyncio promises it, and transports rely on it.
        if not isinstance(getattr(callback, "__self__", None), asyncio.Task):
            return self._call_soon(callback, *args, context=context)
        step = asyncio.Handle(callback, args, self._loop, context)
        self._steps.append(step)
        self._call_soon(self._take_a_step)
        return step

    def _take_a_step(self) -> None:
        step = self._steps.pop(self._random.randrange(len(self._steps)))
        if not step.cancelled():
            step._run()  # noqa: SLF001 - what the loop itself does with a handle


def _begin(now: float) -> float:
    """Return the time to begin with: later than the loop's, and the same in each run.

    Sums of seconds are rounded by the size of the number that they are added to. With another number to begin with,
    timers that are due at one time in one run would be due one after the other in the next.
    """
    return next(begin for power in range(24, 64, 2) if (begin := float(1 << power)) > now)


class _Exact(float):
    """The resolution of a clock that is exact: `time + resolution` is the next number after the time.

    asyncio runs timers that are due before that. With the resolution of a real clock they would run before their time,
    and a loop that sleeps until its deadline would never reach it: the time that is left stays below the resolution.
    """

    def __radd__(self, time: float) -> float:
        return math.nextafter(time, math.inf)


def _patched_clock() -> contextlib.AbstractContextManager[object]:
    """Make `SystemClock` virtual for code that runs on a virtual loop. Other threads keep the machine's time."""
    real = SystemClock.now, SystemClock.monotonic

    def now(clock: SystemClock) -> dt.datetime:
        virtual = current()
        return real[0](clock) if virtual is None else virtual.now()

    def monotonic(clock: SystemClock) -> float:
        virtual = current()
        return real[1](clock) if virtual is None else virtual.monotonic()

    return mock.patch.multiple(SystemClock, now=now, monotonic=monotonic)
