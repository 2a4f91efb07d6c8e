"""The compactor: keeps history for a time, and if asked for no more than a number of revisions.

A client that resumes a watch or a paged list needs history; one that is too late is answered 410 Gone and lists again.
Clients are promised 75 seconds; the default is 300. Revisions carry no time, so the compactor records at intervals
which revision the store is at, and compacts to the newest record that is old enough: everything after it is at most
that old. The bytes that history may take are not decided here: the stores have a bound of their own and compact
earlier when they must, see `ledger`.

`mark` and `due` are plain functions of the time given to them; only `run` waits. When nothing is written nothing is
recorded, nothing becomes due, and the disk is left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kapi.storage.interface import StorageFailed, StorageUnreachable

if TYPE_CHECKING:
    from kapi.base.clock import Clock
    from kapi.storage.interface import Storage

PROMISED_SECONDS = 75.0
"""Seconds of history that clients may rely on; no setting is below it."""


class _Mark(NamedTuple):
    """At `time` the store was at `revision`: later revisions are younger than that."""

    time: float
    revision: int


class Compactor:
    """Compacts a store so that `retention` seconds of history stay.

    `max_revisions` bounds the history of a busy store: beyond it older revisions are compacted early, but never those
    of the last `floor` seconds.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        *,
        retention: float = 300.0,
        interval: float = 15.0,
        max_revisions: int = 0,
        floor: float = PROMISED_SECONDS,
    ) -> None:
        if retention < floor:
            raise ValueError(
                f"retention of {retention} s is less than the {floor} s of history that clients are promised"
            )
        self._storage = storage
        self._clock = clock
        self._retention = retention
        self._interval = interval
        self._max_revisions = max_revisions
        self._floor = floor
        # In order of time and of revision; one per interval in which something was written.
        self._marks: deque[_Mark] = deque()

    async def run(self) -> None:
        """Compact until cancelled, or until the store takes no more writes."""
        try:
            while True:
                # A cluster that does not answer is compacted later.
                with contextlib.suppress(StorageUnreachable):
                    await self.step()
                await asyncio.sleep(self._interval)
        except StorageFailed:
            return  # The store has called `on_failure`; there is nothing to add.

    async def step(self) -> None:
        """Record the revision, and compact if something is due."""
        now = self._clock.monotonic()
        self.mark(now)
        revision = self.due(now)
        if revision:
            await self._storage.compact(revision)

    def mark(self, now: float) -> None:
        """Record the revision, if it has moved since the last record."""
        revision = self._storage.revision
        if not self._marks or self._marks[-1].revision < revision:
            self._marks.append(_Mark(now, revision))

    def due(self, now: float) -> int:
        """The revision to compact to, 0 for none; drops the records it has used."""
        reached = 0
        # The newest record stays: nothing was written since, and without it the revision would be recorded again.
        while len(self._marks) > 1 and self._is_expired(self._marks[0], now):
            reached = self._marks.popleft().revision
        if self._marks and self._is_expired(self._marks[0], now):
            reached = self._marks[0].revision
        return reached if reached > self._storage.compacted else 0

    def _is_expired(self, mark: _Mark, now: float) -> bool:
        age = now - mark.time
        is_crowded = 0 < self._max_revisions < self._storage.revision - mark.revision
        return age >= self._retention or (is_crowded and age >= self._floor)
