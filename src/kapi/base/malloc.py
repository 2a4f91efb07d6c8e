"""Freed memory back to the system.

glibc keeps what a program frees for its next allocation, and after a burst of large buffers that can be all of them:
the process stays as large as it ever was. Mapping large buffers one by one (`M_MMAP_THRESHOLD`) would give them back at
once, but makes each ten times slower to allocate, and lists are large buffers. So it is asked for, after a burst.

How much could be given back is not known to the C library either: it counts what it has given back as free. But it
knows what is in use. What the process has grown by since the last time, and is not in use, is worth asking for.

Small objects have an allocator of Python's own, which gives memory back by itself unless something is left in it: see
`drop_free_lists`.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

INTERVAL: Final = 5.0
EXCESS: Final = 16 * 1024 * 1024
"""Bytes to be given back for which it is worth milliseconds of the C library."""
KEPT: Final = 256
"""Objects of a type that asyncio (255) and uvloop (250) keep for their next use at most."""
COLLECTED_OBJECTS: Final = 300_000
"""The garbage collector is run after a burst if there are no more objects than this: a pass over them takes 20 ms."""

_FIELDS: Final = (
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
)


class _MallInfo(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in _FIELDS)


class Memory(NamedTuple):
    """The memory of this process, in bytes."""

    resident: int
    """What it takes of the machine."""
    used: int
    """What the C library has given out and was not freed; 0 where that is not known."""

    def excess(self, since: Memory) -> int:
        """Return what the process has grown by since then beyond what it uses."""
        return (self.resident - since.resident) - (self.used - since.used)


def measure() -> Memory:
    """Measure this process; it is zero where the system or the C library does not tell."""
    resident = 0
    with suppress(OSError, ValueError, IndexError):
        resident = int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    function = _function("mallinfo2")
    if function is None:
        return Memory(resident, 0)
    info = function()
    return Memory(resident, info.uordblks + info.hblkhd)


def trim() -> bool:
    """Return freed memory to the system; False where the C library has no such function. It may take milliseconds."""
    function = _function("malloc_trim")
    if function is None:
        return False
    function(0)
    return True


async def drop_free_lists() -> None:
    """Free the objects that the interpreter and the event loop keep for their next use; it takes milliseconds.

    Python returns an arena of small objects, which is a mebibyte, when no object is left in it. What is kept of the
    last objects of a burst lies in all of its arenas. A full pass of the garbage collector empties the free lists of
    the interpreter. Those of asyncio and uvloop can only be filled with other objects: of twice as many as are kept the
    older ones come from the list; the newer ones are freed first and fill it, so that the older ones are freed.
    """
    if len(gc.get_objects()) <= COLLECTED_OBJECTS:
        gc.collect()
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    iterators = [future.__await__() for _ in range(2 * KEPT)]
    timers = [loop.call_later(INTERVAL, _do_nothing) for _ in range(2 * KEPT)]
    handles = [loop.call_soon(_do_nothing) for _ in range(2 * KEPT)]
    for timer in timers:
        timer.cancel()
    del timer
    await asyncio.sleep(0)  # The handles are called.
    for objects in (iterators, timers, handles):
        while objects:
            objects.pop()


def _do_nothing() -> None:
    """Be called by the event loop."""


async def keep_trimmed(
    measure: Callable[[], Memory] = measure,
    trim: Callable[[], bool] = trim,
    drop_free_lists: Callable[[], Awaitable[None]] = drop_free_lists,
) -> None:
    """Give freed memory back to the system after each burst, until cancelled."""
    before = measure()
    is_burst = False
    while True:
        await asyncio.sleep(INTERVAL)
        # In a thread: a call to the C library lets go of the interpreter's lock.
        has_excess = (await asyncio.to_thread(measure)).excess(before) >= EXCESS
        if not (has_excess or is_burst):
            continue
        if not has_excess:
            # The burst is over: what is in free lists now stays there.
            await drop_free_lists()
        await asyncio.to_thread(trim)
        before = await asyncio.to_thread(measure)
        is_burst = has_excess


@cache
def _function(name: str) -> Callable[..., _MallInfo] | None:
    """A function of the C library; None if it has no such function."""
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    if name == "mallinfo2":
        function.restype = _MallInfo
    else:
        function.argtypes, function.restype = [ctypes.c_size_t], ctypes.c_int
    found: Callable[..., _MallInfo] = function
    return found
