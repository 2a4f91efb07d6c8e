"""Freed memory back to the system.

glibc keeps what a program frees for its next allocation, and after a burst of large buffers that can be all of them:
the process stays as large as it ever was. Mapping large buffers one by one (`M_MMAP_THRESHOLD`) would give them back at
once, but makes each ten times slower to allocate, and lists are large buffers. So it is asked for, after a burst.
"""

from __future__ import annotations

import ctypes


def trim() -> bool:
    """Return freed memory to the system; False where the C library has no such function. It may take milliseconds."""
    try:
        function = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return False
    function.argtypes, function.restype = [ctypes.c_size_t], ctypes.c_int
    function(0)
    return True
