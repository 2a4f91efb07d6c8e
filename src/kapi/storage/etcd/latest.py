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
    from collections.abc import Callable


class SharedRead:
    """Calls a function for all that wait for its result, at most once at a time.

    The function is called with another one, to which it gives the result, or the exception, when it has it: nothing but
    those who ask waits for a task or a future.
    """

    def __init__(self, begin: Callable[[Callable[[int | Exception], None]], None]) -> None:
        self._begin = begin
        self._loop = asyncio.get_running_loop()
        self._served: list[asyncio.Future[int]] = []
        """Those whom the call in flight serves."""
        self._waiting: list[asyncio.Future[int]] = []
        """Those whom the next call serves."""
        self._is_closed = False
        self.calls = 0
        """How many times the function was called."""

    def get(self) -> asyncio.Future[int]:
        """The result of a call that begins after this one."""
        future: asyncio.Future[int] = self._loop.create_future()
        self._waiting.append(future)
        if not self._served:
            self._call()
        return future

    def _call(self) -> None:
        if self._is_closed:
            self._refuse_all()
            return
        self._served, self._waiting = self._waiting, []
        self.calls += 1
        self._begin(self._finish)

    def _finish(self, result: int | Exception) -> None:
        served, self._served = self._served, []
        for future in served:
            if future.done():
                continue  # The reader has given up.
            if isinstance(result, int):
                future.set_result(result)
            else:
                future.set_exception(result)
        if self._waiting:
            self._call()

    def close(self) -> None:
        """Refuse those who wait, and those who will."""
        self._is_closed = True
        self._refuse_all()

    def _refuse_all(self) -> None:
        refused, self._served, self._waiting = [*self._served, *self._waiting], [], []
        for future in refused:
            if not future.done():
                future.set_exception(StorageFailed("the store has been closed"))
