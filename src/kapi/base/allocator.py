"""The C allocator: memory that was freed is given back to the system.

glibc keeps freed memory for later, and returns only what is at the end of its heap. After a thousand clients have been
disconnected that is next to nothing, so the peak of a server would be its size for ever. `Trimmer` returns the pages of
freed blocks wherever they are, when there are many. Where the C library is another one, nothing is done.
"""

from __future__ import annotations

import asyncio
import ctypes
from typing import Final

INTERVAL: Final = 5.0
"""Seconds between two looks at the heap, which take some microseconds."""
ENOUGH: Final = 16 * 1024 * 1024
"""Bytes that must have been freed to be worth returning."""


class _Info(ctypes.Structure):
    """The `struct mallinfo2` of glibc: ten numbers, of which `fordblks` is the bytes in free blocks."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in (*"abcdefgh", "free", "i"))


class Trimmer:
    """Returns freed memory to the system."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._info = getattr(library, "mallinfo2", None)
        self._trim = getattr(library, "malloc_trim", None)
        if self._info is not None:
            self._info.restype = _Info
        self._known = 0
        """Free bytes of the heap that were returned already; the allocator goes on counting them as free."""

    async def run(self) -> None:
        """Look after freed memory until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            if self._info is None or self._trim is None:
                continue
            if self.free_bytes() > self._known + ENOUGH:
                # In a thread: it takes some milliseconds, and the loop needs the allocator only now and then.
                await asyncio.to_thread(self._trim, 0)
            self._known = self.free_bytes()

    def free_bytes(self) -> int:
        """The bytes that were freed and are kept by the allocator."""
        return int(self._info().free) if self._info is not None else 0
