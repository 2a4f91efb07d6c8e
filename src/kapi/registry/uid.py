"""Random UUIDs for new objects, made from randomness taken in bulk.

Asking the system for 16 bytes lets go of the interpreter lock, and winning it back from the writer thread costs
more than all else about making an object; so it is asked for 4 KiB at a time.
"""

from __future__ import annotations

import os

_POOL_BYTES = 4096
_pool = b""
_used = 0


def new_uid() -> str:
    """A version 4 UUID. Called on the event loop only."""
    global _pool, _used  # noqa: PLW0603 (the pool is the module's one piece of state)
    if _used + 16 > len(_pool):
        _pool, _used = os.urandom(_POOL_BYTES), 0
    digits = _pool[_used : _used + 16].hex()
    _used += 16
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
