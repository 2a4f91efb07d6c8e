"""Upkeep of the SQLite file between batches: forgotten rows, free pages, the write-ahead log. It keeps the file flat.

* **Rows.** A compaction first puts history out of reach (`aim`) and then removes its rows in steps (`sweep`), each one
  transaction. A crash in between leaves rows, never a gap.
* **Pages.** What is freed is used again by later writes, so a steady load needs no more than it did. After a burst the
  file holds more free pages than that: those beyond a third of what is used are handed back to the file system
  (`trim`), a few milliseconds at a time, only while nobody writes. A third, because a compaction in its usual course
  frees a quarter at most: space that the next minute takes again is not moved about. A file that an earlier version
  made (its `auto_vacuum` is off) uses its free pages again but keeps them.
* **The log.** It is copied into the database (`checkpoint`) and begun anew, if no reader is in it at that instant.
  Where reads overlap without end that instant never comes and the log grows; then the turnstile makes one: new reads
  wait until the running ones have ended and the log is copied. Writes go on meanwhile.

Everything blocks and runs on the writer thread, whose connection this uses.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kapi.base.failpoint import failpoint
from kapi.storage.sqlite.file import pragma

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from kapi.storage.ledger import Ledger
    from kapi.storage.sqlite.reader import Turnstile

SWEEP_ROWS = 250
"""Revisions per compaction step; each removes at most two rows: what it replaced and, if a removal, itself."""

CHECKPOINT_PAGES = 1000
"""SQLite's own default for the length of the log at which it is copied into the database."""

LOG_PAGES = 4000
"""A log of this length (16 MB) has been kept from its beginning by readers."""

SPARE_PAGES = 4096
SPARE_SHARE = 3
"""Free pages that are kept: so many, or one for so many that are used, whichever is more."""

_STEP_SECONDS = 0.005
_INCREMENTAL = 2

# The rows a compaction step removes: in a range of revisions, what those replaced, and the removals among them.
# Walking revisions upwards leaves one version of a key below the step at most, so what a revision replaced is the one
# right before it. A maximum finds that in one step; a join would visit all the earlier versions of a busy key.
_SWEEP = (
    "DELETE FROM history WHERE revision IN ("
    "SELECT (SELECT max(old.revision) FROM history AS old WHERE old.key = new.key AND old.revision < new.revision)"
    " FROM history AS new WHERE new.revision > :after AND new.revision <= :upto"
    " UNION ALL SELECT revision FROM history WHERE revision > :after AND revision <= :upto AND gone)"
)


class Upkeep:
    """The state of the file. `compacted` is where history begins, `swept` how far rows have been removed."""

    def __init__(self, connection: sqlite3.Connection, ledger: Ledger, turnstile: Turnstile) -> None:
        self._connection = connection
        self._ledger = ledger
        self._turnstile = turnstile
        meta = dict(connection.execute("SELECT name, value FROM meta"))
        self.compacted: int = meta["compacted"]
        self.swept: int = meta["swept"]
        self.pages = 0
        """About how many pages have been added to the log since it was copied."""
        self._step_rows = SWEEP_ROWS
        self._can_trim = pragma(connection, "auto_vacuum") == _INCREMENTAL
        self.has_spare = False
        """Whether there are more free pages than a steady load needs."""
        self.measure()

    # -- rows

    @property
    def has_rows(self) -> bool:
        """Whether there are rows to remove."""
        return self.swept < self.compacted

    def aim(self, revision: int) -> None:
        """Put history up to a revision out of reach; the rows go later."""
        self._connection.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (revision,))
        self.compacted = revision
        self._ledger.aim(revision)
        self.pages += 1

    def sweep(self, least: int = 0) -> None:
        """One step, of at least so many revisions.

        Its length follows the clock: large values make rows slow to free, and a write may be waiting.
        """
        failpoint("storage.before_compact_step")
        upto = min(self.compacted, self.swept + max(self._step_rows, least))
        started = time.perf_counter()
        self._connection.execute("BEGIN IMMEDIATE")
        removed = self._connection.execute(_SWEEP, {"after": self.swept, "upto": upto}).rowcount
        self._connection.execute("UPDATE meta SET value = ? WHERE name = 'swept'", (upto,))
        self._connection.execute("COMMIT")
        failpoint("storage.after_compact_step")
        is_slow = time.perf_counter() - started > _STEP_SECONDS
        self._step_rows = max(1, self._step_rows // 2) if is_slow else min(SWEEP_ROWS, self._step_rows * 2)
        self.swept = upto
        self._ledger.sweep(upto)
        self.pages += removed
        if not self.has_rows:
            self.measure()

    # -- pages

    def measure(self) -> None:
        """See whether there are pages to hand back."""
        if self._can_trim:
            free = pragma(self._connection, "freelist_count")
            used = pragma(self._connection, "page_count") - free
            self.has_spare = free > max(SPARE_PAGES, used // SPARE_SHARE)

    def trim(self, is_wanted: Callable[[], bool]) -> None:
        """Hand pages at the end of the file back, for a moment, or until the thread is wanted elsewhere."""
        failpoint("storage.before_trim_step")
        deadline = time.perf_counter() + _STEP_SECONDS
        self._connection.execute("BEGIN IMMEDIATE")
        while self.has_spare and time.perf_counter() < deadline and not is_wanted():
            # One at a time: the module makes one step of this statement, which is one page whatever the number says.
            self._connection.execute("PRAGMA incremental_vacuum(1)")
            self.pages += 2
            self.measure()
        self._connection.execute("COMMIT")
        failpoint("storage.after_trim_step")
        if not self.has_spare:
            # The file gets shorter when the log is copied.
            self.pages += CHECKPOINT_PAGES

    # -- the log

    def checkpoint(self) -> None:
        """Copy the log into the database, as far as no reader needs it; see to it that this is all of it in the end."""
        failpoint("storage.checkpoint")
        if self._copy_log() > LOG_PAGES and self._turnstile.shut():
            self.cut_log()

    def cut_log(self) -> None:
        """Copy the log while nobody reads: the next write begins it anew."""
        self._copy_log()
        self._turnstile.open()

    def _copy_log(self) -> int:
        """The length of the log in pages."""
        self.pages = 0
        (_, length, _) = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return int(length)
