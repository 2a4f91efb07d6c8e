"""Deadlines of one length for many requests, on one timer.

`asyncio.timeout` sets and cancels a timer for each request, which is 3 % of a create. Deadlines of the same length
expire in the order in which they began, so a timer for the oldest is enough. It stays set when that request ends, and
is set again for the next one when it fires.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


class RequestDeadlines:
    """Cancels requests that take longer than `seconds`."""

    __slots__ = ("_is_set", "_running", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        # The oldest first: dictionaries keep the order of insertion.
        self._running: dict[RequestDeadline, None] = {}
        self._is_set = False

    def begin(self) -> RequestDeadline:
        """Return a context manager around the work of the current task; it raises TimeoutError when time is up."""
        return RequestDeadline(self)

    def add(self, deadline: RequestDeadline) -> None:
        """Watch a request until `remove`."""
        self._running[deadline] = None
        if not self._is_set:
            self._set(deadline.at)

    def remove(self, deadline: RequestDeadline) -> None:
        """Watch a request no longer; one that has expired is not watched already."""
        self._running.pop(deadline, None)

    def _set(self, at: float) -> None:
        self._is_set = True
        asyncio.get_running_loop().call_at(at, self._expire)

    def _expire(self) -> None:
        self._is_set = False
        now = asyncio.get_running_loop().time()
        while self._running:
            oldest = next(iter(self._running))
            if oldest.at > now:
                self._set(oldest.at)
                return
            del self._running[oldest]
            oldest.expire()


class RequestDeadline:
    """The deadline of one request. It is `asyncio.timeout` but for where the timer comes from."""

    __slots__ = ("_cancellations", "_deadlines", "_is_expired", "_task", "at")

    def __init__(self, deadlines: RequestDeadlines) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._deadlines = deadlines
        self._task = task
        self._cancellations = task.cancelling()
        self._is_expired = False
        self.at = asyncio.get_running_loop().time() + deadlines.seconds

    def expire(self) -> None:
        """Cancel the task; `__exit__` turns that into a TimeoutError."""
        self._is_expired = True
        self._task.cancel()

    def __enter__(self) -> None:
        self._deadlines.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._deadlines.remove(self)
        # If the task was cancelled from outside as well, that is what it ends with.
        is_own = self._is_expired and self._task.uncancel() <= self._cancellations
        if is_own and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError from error
