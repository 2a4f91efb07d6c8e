"""Small objects in the heap of the C library, for as long as there are very many.

Python puts small objects into arenas of a mebibyte, and returns an arena to the system when no object is left in it.
Thousands of connections fill tens of arenas. A few small objects that are made meanwhile and stay, such as a timer, the
value of a counter, or an object that was changed, end up in almost every one of them, and keep it when the
connections have gone. The C library returns single pages (`malloc.trim`), but allocates more slowly: requests take some
3 to 10 % more of the processor. So it is used while there are many connections, and not else.

How it is done: of the allocators of objects, two of the interpreter's three (`PyMem_SetAllocator`), the functions that
allocate are replaced with those of the third, which is the C library. The functions that free and resize stay. They
know by its address whether a block is in an arena, and if not, leave it to the C library: large objects have always
been allocated there. So every block can be freed at any time, wherever it is from.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

_RAW: Final = 0
_OF_OBJECTS: Final = (1, 2)
"""The allocators `PYMEM_DOMAIN_MEM` and `PYMEM_DOMAIN_OBJ`."""


class _Allocator(ctypes.Structure):
    """A `PyMemAllocatorEx`."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free"))

    def __bytes__(self) -> bytes:
        return bytes(memoryview(self))


class SmallObjects:
    """Where this process allocates small objects. One instance at a time may move them."""

    def __init__(self) -> None:
        self._usual: dict[int, bytes] = {}
        """The allocators as they were, while small objects are in the heap."""
        self._replaced: dict[int, bytes] = {}

    @property
    def in_heap(self) -> bool:
        """True if new objects are allocated by the C library because of this instance."""
        return bool(self._usual)

    def to_heap(self) -> bool:
        """Let the C library allocate; returns False where nothing was done.

        That is where the allocators are not known: those of another interpreter, of a Python without its lock, chosen
        by PYTHONMALLOC, or replaced by something else, such as tracemalloc.
        """
        if self.in_heap or not _is_supported():
            return False
        raw = _allocator(_RAW)
        usual = {domain: _allocator(domain) for domain in _OF_OBJECTS}
        if (
            any(one.context is not None or one.malloc == raw.malloc for one in usual.values())
            or raw.context is not None
        ):
            return False
        for domain, one in usual.items():
            mixed = _Allocator(None, raw.malloc, raw.calloc, one.realloc, one.free)
            self._usual[domain], self._replaced[domain] = bytes(one), bytes(mixed)
            _set_allocator(domain, mixed)
        return True

    def to_arenas(self) -> bool:
        """Let Python allocate again; returns False where nothing was done, or something else has replaced it since."""
        if not self.in_heap or any(bytes(_allocator(one)) != self._replaced[one] for one in _OF_OBJECTS):
            return False
        for domain, usual in self._usual.items():
            _set_allocator(domain, _Allocator.from_buffer_copy(usual))
        self._usual.clear()
        return True


def _is_supported() -> bool:
    import sysconfig

    return (
        sys.implementation.name == "cpython"
        and os.environ.get("PYTHONMALLOC", "") in ("", "default", "pymalloc")
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
    )


def _allocator(domain: int) -> _Allocator:
    allocator = _Allocator()
    ctypes.pythonapi.PyMem_GetAllocator(domain, ctypes.byref(allocator))
    return allocator


def _set_allocator(domain: int, allocator: _Allocator) -> None:
    # The interpreter copies the structure; the call keeps the interpreter's lock.
    ctypes.pythonapi.PyMem_SetAllocator(domain, ctypes.byref(allocator))
