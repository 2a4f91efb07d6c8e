"""A deadline that moves with every request and hardly ever touches the event loop's timers."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class Deadline:
    """Calls `expired` once `at` has passed; `at` is in the loop's time, and infinite for no deadline.

    Moving the deadline further away is an assignment: the timer that is set already wakes up, finds that it is early,
    and sets itself again. Only a deadline closer than that timer makes a new one.
    """

    __slots__ = ("_expired", "_loop", "_timer", "_timer_at", "at")

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self.at = inf

    def set(self, at: float) -> None:
        """Move the deadline."""
        self.at = at
        if at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = at
            self._timer = self._loop.call_at(at, self._ring)

    def cancel(self) -> None:
        """No deadline, and no timer either."""
        self.at = self._timer_at = inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Cancel the deadline for good, and drop the reference to what it would have called."""
        self.cancel()
        del self._expired

    def _ring(self) -> None:
        self._timer = None
        self._timer_at = inf
        if self._loop.time() < self.at:
            self.set(self.at)
        else:
            self.at = inf
            self._expired()
