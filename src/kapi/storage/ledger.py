"""What the past costs: how many bytes the replaced and removed versions take, and which of them are too much.

Time alone does not bound history. Whoever updates one object of a megabyte in a loop makes gigabytes of past within
the 75 seconds that clients are promised, and a full disk is the end of the server: what a store cannot write it cannot
acknowledge. So bytes win over seconds. A store that holds more past than `HISTORY_BYTES`, or than its present takes if
that is more, forgets the oldest of it by itself, whatever its age.

That is cheap for nearly everybody. Open watches are fed live and never read the past; watches that come back are
served from the watch cache, which has a bound of its own. What is lost are the later pages of lists that
were begun before, and after a restart the watches from before: they are told 410 Expired and list again, which is
correct. The past may be as large as the present because a client that must list again reads the present, and because a
start, which reads both, then takes at most twice as long.

A backend records each change in its `Ledger`; a version counts as past from the revision that replaced it, which is
when a compaction to that revision would free it. Notes of the running total are taken every 64th of the bound, so the
ledger is small and knows a revision for every amount. Plain arithmetic, no I/O; one thread uses it.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

HISTORY_BYTES = 256 << 20
"""How much past a store keeps in any case; as much as the watch caches keep together."""

# Row and index cells, or the tuples and slots that hold a version in memory; a round number between the two.
_OVERHEAD = 128
_NOTES = 64
# An eighth is forgotten at a time, so that a store at its bound does not move it with every write.
_SHARE = 8


def cost(key: str, length: int) -> int:
    """About how many bytes a version of a key takes; `length` is that of its value."""
    return length + 2 * len(key) + _OVERHEAD


class _Note(NamedTuple):
    """Up to `revision`, `total` bytes have become past."""

    revision: int
    total: int


class Ledger:
    """Counts present and past. `aim` says what is out of reach, `swept` what is gone."""

    def __init__(self, least: int = HISTORY_BYTES) -> None:
        self._least = least
        self.present = 0
        """Bytes of the latest versions."""
        self._total = 0
        self._aimed = 0
        self._swept = 0
        # In order, none that has been swept; and the total at which the next one is due.
        self._notes: deque[_Note] = deque()
        self._next = least // _NOTES

    @property
    def bound(self) -> int:
        """How much past may be kept."""
        return max(self._least, self.present)

    @property
    def past(self) -> int:
        """Bytes of replaced and removed versions that are still held; more by a note's worth at most."""
        return self._total - self._swept

    @property
    def is_behind(self) -> bool:
        """Whether what is out of reach should go faster: it keeps the past above its bound."""
        return self.past > self.bound + self.bound // _SHARE

    def put(self, revision: int, before: int, after: int) -> None:
        """A version that costs `before` (0: none) has been replaced by one that costs `after`."""
        self.present += after - before
        self._add(revision, before)

    def remove(self, revision: int, before: int, mark: int) -> None:
        """A version has been removed; the mark that says so is past as soon as it is written."""
        self.present -= before
        self._add(revision, before + mark)

    def _add(self, revision: int, size: int) -> None:
        self._total = total = self._total + size
        if total >= self._next:
            self._notes.append(_Note(revision, total))
            self._next = total + self.bound // _NOTES

    def due(self, published: int) -> int:
        """The revision to forget up to so that the past fits again, not beyond `published`; 0 for none."""
        bound = self.bound
        if self._total - self._aimed <= bound:
            return 0
        wanted = self._total - bound + bound // _SHARE
        found = _Note(0, self._aimed)
        for note in self._notes:
            if note.revision > published or found.total >= wanted:
                break
            found = note
        return found.revision if found.total > self._aimed else 0

    def aim(self, revision: int) -> None:
        """Everything up to a revision is out of reach."""
        for note in self._notes:
            if note.revision > revision:
                break
            self._aimed = max(self._aimed, note.total)

    def sweep(self, revision: int) -> None:
        """Everything up to a revision is gone."""
        while self._notes and self._notes[0].revision <= revision:
            self._swept = self._notes.popleft().total
        self._aimed = max(self._aimed, self._swept)
