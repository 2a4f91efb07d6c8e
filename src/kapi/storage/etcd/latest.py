"""The latest revision, read once for all readers that wait for it at a moment.

A linearizable read makes the leader confirm with a quorum that it still is the leader: a round trip that costs the
same for one reader and for a thousand. A reader may share only a call that began after it asked: one that is in flight
may have read the revision before. So there are at most two calls: the one in flight, and the next, which serves
everyone who asks meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kapi.storage.interface import StorageFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class SharedRead:
    """Calls a function for all that wait for its result, at most once at a time."""

    def __init__(self, read: Callable[[], Awaitable[int]]) -> None:
        self._read = read
        self._next: asyncio.Future[int] | None = None
        self._task: asyncio.Task[None] | None = None
        self.calls = 0
        """How many times the function was called."""

    async def get(self) -> int:
        """The result of a call that begins after this one."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            if self._task is None:
                self._task = asyncio.ensure_future(self._run())
        return await asyncio.shield(self._next)

    async def _run(self) -> None:
        try:
            while (result := self._next) is not None:
                self._next = None
                self.calls += 1
                try:
                    result.set_result(await self._read())
                except asyncio.CancelledError:
                    _refuse(result, StorageFailed("the store has been closed"))
                    raise
                except Exception as error:
                    _refuse(result, error)
        finally:
            self._task = None

    async def close(self) -> None:
        """Stop reading, and refuse those who wait."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._next is not None:
            _refuse(self._next, StorageFailed("the store has been closed"))


def _refuse(result: asyncio.Future[int], error: Exception) -> None:
    result.set_exception(error)
    # Marks it as seen: all who waited may have given up.
    result.exception()
