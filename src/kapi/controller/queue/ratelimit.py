"""Rate limiters of failed keys: exponential back-off per key, and a token bucket over all keys.

A rate limiter answers with a delay; the queue does the waiting. Pure arithmetic on a clock, so limiters can be combined
and tested without a loop. Names and defaults are the ones Kubernetes controllers have.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kapi.base.clock import SystemClock

if TYPE_CHECKING:
    from kapi.base.clock import Clock

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)

# 2**63 times any base is beyond any maximum worth having, and well inside a float.
_MAX_DOUBLINGS = 63


class RateLimiter(Protocol[K_contra]):
    """Decides how long a key has to wait before its next try."""

    def when(self, key: K_contra) -> float:
        """The delay in seconds for one more try of this key; counts the try."""
        ...

    def forget(self, key: K_contra) -> None:
        """The key needs no more tries: start from the beginning if it fails again."""
        ...

    def num_requeues(self, key: K_contra) -> int:
        """Return the number of retries since the key was last forgotten."""
        ...


class ItemExponential(Generic[K]):
    """Per key: `base` seconds, then twice that, and so on up to `maximum`. Remembers only keys that are failing."""

    def __init__(self, base: float = 0.005, maximum: float = 1000.0) -> None:
        if not 0 < base <= maximum:
            raise ValueError(f"base {base} and maximum {maximum}: expected 0 < base <= maximum")
        self._base = base
        self._maximum = maximum
        self._failures: dict[K, int] = {}

    def when(self, key: K) -> float:
        """The delay in seconds for one more try of this key."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(math.ldexp(self._base, min(failures, _MAX_DOUBLINGS)), self._maximum)

    def forget(self, key: K) -> None:
        """The next failure of this key waits `base` again."""
        self._failures.pop(key, None)

    def num_requeues(self, key: K) -> int:
        """Return the number of retries since the key was last forgotten."""
        return self._failures.get(key, 0)


class Bucket(Generic[K]):
    """Over all keys: `burst` tries at once, then `qps` per second. Tries are handed out in the order of asking."""

    def __init__(self, qps: float = 10.0, burst: int = 100, *, clock: Clock | None = None) -> None:
        if not qps > 0 or burst < 1:
            raise ValueError(f"qps {qps} and burst {burst}: expected qps > 0 and burst >= 1")
        self._qps = qps
        self._burst = burst
        self._clock = clock or SystemClock()
        # Negative when tries have been promised for later.
        self._tokens = float(burst)
        self._filled_at: float | None = None

    def when(self, key: K) -> float:
        """The delay in seconds until the next token."""
        # The clock is first asked here, not on construction: it may belong to a loop that is not running yet.
        now = self._clock.monotonic()
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + max(now - self._filled_at, 0.0) * self._qps)
        self._filled_at = now
        self._tokens -= 1
        return max(-self._tokens / self._qps, 0.0)

    def forget(self, key: K) -> None:
        """Nothing is remembered per key."""

    def num_requeues(self, key: K) -> int:
        """Nothing is remembered per key."""
        return 0


class MaxOf(Generic[K]):
    """The longest delay any of several limiters asks for."""

    def __init__(self, *limiters: RateLimiter[K]) -> None:
        self._limiters = limiters

    def when(self, key: K) -> float:
        """The longest delay. Every limiter is asked, because each of them counts."""
        return max([limiter.when(key) for limiter in self._limiters], default=0.0)

    def forget(self, key: K) -> None:
        """Every limiter forgets the key."""
        for limiter in self._limiters:
            limiter.forget(key)

    def num_requeues(self, key: K) -> int:
        """The highest count any limiter has."""
        return max([limiter.num_requeues(key) for limiter in self._limiters], default=0)


def default_rate_limiter(*, clock: Clock | None = None) -> MaxOf[Hashable]:
    """The default of controllers: 5 ms doubling to 1000 s per key, 10 per second in all after 100."""
    return MaxOf(ItemExponential(), Bucket(clock=clock))
