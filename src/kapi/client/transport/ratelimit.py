"""A rate limit on the requests of a client, so that one program cannot crowd out the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kapi.base.clock import SystemClock

if TYPE_CHECKING:
    from kapi.base.clock import Clock


class TokenBucket:
    """At most `burst` requests at once and `qps` a second over time.

    First come, first served. A caller that is cancelled while it waits has used up a token all the same: that keeps the
    order simple and the limit exact.
    """

    def __init__(self, qps: float, burst: int = 0, *, clock: Clock | None = None) -> None:
        if qps <= 0:
            raise ValueError("qps must be more than 0; without a limit use no bucket")
        self._qps = qps
        self._burst = max(burst, 1)
        self._clock = clock or SystemClock()
        self._tokens = float(self._burst)
        self._counted_at = self._clock.monotonic()

    async def wait(self) -> None:
        """Wait for a turn."""
        delay = self.reserve()
        if delay > 0:
            await asyncio.sleep(delay)

    def reserve(self) -> float:
        """Take the next turn; how many seconds it is away."""
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._counted_at) * self._qps)
        self._counted_at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._qps)
