"""Time as a dependency, so that tests own it.

Everything that waits or stamps takes a `Clock`. `SystemClock` is the real one; tests pass their own.
"""

from __future__ import annotations

import datetime as dt
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for stamps, monotonic time for ages and deadlines."""

    def now(self) -> dt.datetime:
        """The wall time, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> dt.datetime:
        """The wall time, in UTC."""
        return dt.datetime.now(dt.UTC)

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told to; for tests."""

    def __init__(self, start: dt.datetime | None = None) -> None:
        self._now = start or dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        self._monotonic = 1000.0

    def now(self) -> dt.datetime:
        """The wall time, in UTC."""
        return self._now

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += dt.timedelta(seconds=seconds)
        self._monotonic += seconds
