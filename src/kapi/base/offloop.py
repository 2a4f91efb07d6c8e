"""CPU work off the event loop: in few threads, which leave the loop its share of the interpreter.

Python runs one thread at a time. A thread that wants to run asks the running one to stop after the switch interval,
which is 5 ms by default, and the event loop has to ask several times for one request: after every system call. So there
are few such threads, whatever waits, and while they work the interval is shorter. It is not short all the time, because
then the writer of the store, which mostly waits for the disk, would interrupt the loop more often for nothing.

A call into C cannot be interrupted: what takes long there has to be cut into pieces, as `codec.pieces` does.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, Final, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

THREADS: Final = 2
"""Threads that do CPU work. More would not be faster, and each takes a share from the event loop."""
SWITCH_SECONDS: Final = 0.001
"""The switch interval while they work."""


async def off_loop(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function returns, called in one of the threads for CPU work; it must not wait for anything."""
    call = partial(contextvars.copy_context().run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_threads(), _working, call)


class Computed(Generic[T]):
    """A value that is computed when it is first wanted, once for all who want it, in a thread if that takes long.

    A function that raises is called again for the next who wants the value.
    """

    __slots__ = ("_compute", "_is_long", "_lock", "_values")

    def __init__(self, compute: Callable[[], T], *, is_long: bool) -> None:
        self._compute = compute
        self._is_long = is_long
        self._lock: asyncio.Lock | None = None
        self._values: list[T] = []

    @property
    def value(self) -> T | None:
        """The value; None until it was computed."""
        return self._values[0] if self._values else None

    async def get(self) -> T:
        """Return the value."""
        if not self._values:
            if not self._is_long:
                self._values.append(self._compute())
            else:
                await self._compute_off_loop()
        return self._values[0]

    async def _compute_off_loop(self) -> None:
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if not self._values:
                self._values.append(await off_loop(self._compute))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="kapi-cpu")


class _Interval:
    """The switch interval of the interpreter, shorter while threads are at work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._working = 0
        self._idle = sys.getswitchinterval()

    def __enter__(self) -> None:
        with self._lock:
            if not self._working:
                self._idle = sys.getswitchinterval()
                sys.setswitchinterval(min(self._idle, SWITCH_SECONDS))
            self._working += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._working -= 1
            if not self._working:
                sys.setswitchinterval(self._idle)


_interval: Final = _Interval()


def _working(call: Callable[[], T]) -> T:
    with _interval:
        return call()
