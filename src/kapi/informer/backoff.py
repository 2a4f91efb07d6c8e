"""The back-off of a reflector after failed requests.

Exponential with jitter, so that many clients do not retry at the same instant, and with the figures of client-go's
reflector: 0.8 s at first, doubling to 30 s, each plus up to as much again at random. After two minutes without a
failure the server counts as healthy, and the next delay is the first one again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from random import Random

    from kapi.base.clock import Clock

MAX_ASKED: Final = 120.0
"""The longest Retry-After that is respected, in seconds."""


@dataclass(frozen=True, slots=True)
class Delays:
    """The figures of a back-off, in seconds."""

    first: float = 0.8
    longest: float = 30.0
    factor: float = 2.0
    jitter: float = 1.0
    reset_after: float = 120.0


class Backoff:
    """Computes the delay before each retry.

    A delay is never shorter than `first` and, until it is reset, never shorter than the base of the one before; with
    the default figures a server that stays down gets at most two requests a minute.
    """

    def __init__(self, delays: Delays, clock: Clock, random: Random) -> None:
        self._delays = delays
        self._clock = clock
        self._random = random
        self._base = 0.0
        self._asked_at = 0.0

    def next(self, asked: float = 0.0) -> float:
        """Return the seconds to wait now; at least those that the server `asked` for, up to `MAX_ASKED`."""
        delays, now = self._delays, self._clock.monotonic()
        if self._base == 0.0 or now - self._asked_at > delays.reset_after:
            self._base = delays.first
        else:
            self._base = min(self._base * delays.factor, delays.longest)
        delay = max(self._base * (1 + delays.jitter * self._random.random()), min(asked, MAX_ASKED))
        # The two minutes of good health begin when the wait is over.
        self._asked_at = now + delay
        return delay
