"""Requests with a large body: how many are handled at a time, and where their bodies are decoded.

Decoded, a body takes ten times its bytes, and its validation many milliseconds. So few are handled at a time and the
others wait, as bytes, which the memory account bounds. Users take turns: one that sends a hundred large requests delays
another by as many as are being handled. One body is decoded at a time: between two the loop serves everything else.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from kapi.api.limits import LARGE_REQUESTS
from kapi.base.offloop import off_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

P = ParamSpec("P")
T = TypeVar("T")


class FairSlots:
    """So many holders at a time. The users that wait take turns, and of one user the first is served first."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """The requests that wait, by user; the user whose turn it is next comes first."""

    @asynccontextmanager
    async def hold(self, user: str) -> AsyncIterator[None]:
        """Hold a slot, when it is the user's turn."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(user)
        try:
            yield
        finally:
            self._release()

    async def _wait(self, user: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        """Give a slot that is no longer used to the next user."""
        while self._waiting:
            user, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[user] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class LargeRequests:
    """The large requests of one server."""

    def __init__(self) -> None:
        self._slots = FairSlots(LARGE_REQUESTS)
        self._webhook_slots = FairSlots(LARGE_REQUESTS)
        self._decoding = asyncio.Lock()

    def slots(self, *, waits_for_webhook: bool) -> FairSlots:
        """Return the slots of which a large request holds one while it is handled.

        Requests that wait for a conversion webhook have slots of their own, so that a slow one delays no others.
        """
        return self._webhook_slots if waits_for_webhook else self._slots

    async def decode(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `function` returns, called off the event loop, one at a time."""
        async with self._decoding:
            return await off_loop(function, *args, **kwargs)
