"""Back-off for dependents that are created after their owner was deleted. No I/O.

A controller whose cache is behind goes on creating dependents of an owner that is deleted already. Each of them is
deleted, which makes it create the next, until its cache has caught up. kube-controller-manager slows such a loop by
its client's rate limit; here deletions take next to no time, and nothing else would bound the number of writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kapi.base.clock import Clock

FIRST_SECONDS: Final = 0.005
MAX_SECONDS: Final = 2.0
FORGET_SECONDS: Final = 60.0
"""The time without another dependent after which the count of an owner begins anew."""
MAX_OWNERS: Final = 10_000
"""The number of owners that are counted; those without dependents for the longest time are dropped."""


class LateDependents:
    """Counts the dependents that were created too late, by the uid of the owner.

    The first one of an owner is deleted at once. Each further one waits twice as long as the one before it, up to two
    seconds. Dependents that an owner had when it was deleted are not counted.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._owners: dict[str, tuple[int, float]] = {}
        """How many there were, and when the last one came; in the order of that."""

    def delay(self, uid: str) -> float:
        """Return the seconds to wait before one more dependent of an owner is deleted."""
        now = self._clock.monotonic()
        count, last = self._owners.pop(uid, (0, now))
        if now - last > FORGET_SECONDS:
            count = 0
        self._owners[uid] = (count + 1, now)
        if len(self._owners) > MAX_OWNERS:
            del self._owners[next(iter(self._owners))]
        # The exponent is bounded, so that the power stays a float.
        return min(FIRST_SECONDS * 2.0 ** min(count - 1, 32), MAX_SECONDS) if count else 0.0
