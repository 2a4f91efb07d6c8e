"""Byte accounting of history: how much replaced and deleted versions take, and up to which revision to compact.

Time alone does not bound history. A client that updates one object of a megabyte in a loop makes gigabytes of old
versions within the 75 seconds that clients are promised, and a full disk stops the server: what a store cannot write it
cannot acknowledge. So bytes win over seconds. A store whose old versions take more than `HISTORY_BYTES`, or than its
latest versions if that is more, compacts the oldest of them by itself, whatever their age.

That costs few clients anything. Open watches are fed live and never read history; watches that reconnect are served
from the watch cache, which has a bound of its own. What is lost are the later pages of lists that were begun before,
and after a restart the watches from before: they are answered 410 Expired and list again, which is correct. History may
be as large as the latest versions because a client that must list again reads those, and because a start, which reads
both, then takes at most twice as long.

A backend records each change in its `Ledger`; a version counts as old from the revision that replaced it, which is
when a compaction to that revision would free it. The running total is sampled every 64th of the bound, so the ledger is
small and knows a revision for every amount. Plain arithmetic, no I/O; one thread uses it.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

HISTORY_BYTES = 256 << 20
"""Bytes of history a store keeps in any case; as much as the watch caches keep together."""

# Row and index cells, or the tuples and slots that hold a version in memory; a round number between the two.
_OVERHEAD = 128
_SAMPLES = 64
# An eighth is compacted at a time, so that a store at its bound does not compact with every write.
_SHARE = 8


def cost(key: str, length: int) -> int:
    """The approximate bytes of a version of a key whose value has `length` bytes."""
    return length + 2 * len(key) + _OVERHEAD


class _Sample(NamedTuple):
    """Up to `revision`, `total` bytes have been replaced or deleted."""

    revision: int
    total: int


class Ledger:
    """Counts the bytes of latest and of old versions.

    A compaction is first scheduled (old versions can no longer be read), later finished (they have been removed).
    """

    def __init__(self, least: int = HISTORY_BYTES) -> None:
        self._least = least
        self.present = 0
        """Bytes of the latest versions."""
        self._total = 0
        self._scheduled = 0
        self._finished = 0
        # In order, none that has been removed; and the total at which the next one is taken.
        self._samples: deque[_Sample] = deque()
        self._next = least // _SAMPLES

    @property
    def bound(self) -> int:
        """The bytes that history may take."""
        return max(self._least, self.present)

    @property
    def past(self) -> int:
        """Bytes of replaced and deleted versions that are still held; too many by one sample at most."""
        return self._total - self._finished

    @property
    def is_behind(self) -> bool:
        """True if compaction should be faster: versions that wait to be removed keep history above its bound."""
        return self.past > self.bound + self.bound // _SHARE

    def put(self, revision: int, before: int, after: int) -> None:
        """Record that a version that costs `before` (0: none) was replaced by one that costs `after`."""
        self.present += after - before
        self._add(revision, before)

    def remove(self, revision: int, before: int, mark: int) -> None:
        """Record that a version was deleted; the mark that says so is history as soon as it is written."""
        self.present -= before
        self._add(revision, before + mark)

    def _add(self, revision: int, size: int) -> None:
        self._total = total = self._total + size
        if total >= self._next:
            self._samples.append(_Sample(revision, total))
            self._next = total + self.bound // _SAMPLES

    def due(self, published: int) -> int:
        """The revision to compact to so that history fits again, not beyond `published`; 0 for none."""
        bound = self.bound
        if self._total - self._scheduled <= bound:
            return 0
        wanted = self._total - bound + bound // _SHARE
        found = _Sample(0, self._scheduled)
        for sample in self._samples:
            if sample.revision > published or found.total >= wanted:
                break
            found = sample
        return found.revision if found.total > self._scheduled else 0

    def schedule(self, revision: int) -> None:
        """Record that old versions up to a revision can no longer be read."""
        for sample in self._samples:
            if sample.revision > revision:
                break
            self._scheduled = max(self._scheduled, sample.total)

    def finish(self, revision: int) -> None:
        """Record that old versions up to a revision have been removed."""
        while self._samples and self._samples[0].revision <= revision:
            self._finished = self._samples.popleft().total
        self._scheduled = max(self._scheduled, self._finished)
