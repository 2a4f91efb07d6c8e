"""Requests with a large body: how many are handled at a time, and where their bodies are decoded.

Decoded, a body takes ten times its bytes, and its validation many milliseconds. So few are handled at a time and the
others wait, as bytes, which the memory account bounds. Decoding a body holds the interpreter's lock, in a thread as
well as on the event loop, so one is decoded at a time: between two the loop serves everything else.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from kapi.api.limits import LARGE_REQUESTS

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class LargeRequests:
    """The large requests of one server; first come, first served."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(LARGE_REQUESTS)
        self._webhook_slots = asyncio.Semaphore(LARGE_REQUESTS)
        self._decoding = asyncio.Lock()

    def slot(self, *, waits_for_webhook: bool) -> asyncio.Semaphore:
        """Return what a large request holds while it is handled.

        Requests that wait for a conversion webhook have slots of their own, so that a slow one delays no others.
        """
        return self._webhook_slots if waits_for_webhook else self._slots

    async def decode(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `function` returns, called in a thread, one at a time."""
        async with self._decoding:
            return await asyncio.to_thread(function, *args, **kwargs)
