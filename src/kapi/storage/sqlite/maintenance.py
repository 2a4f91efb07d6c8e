"""Maintenance of the SQLite file between batches, so that it does not grow: compaction, vacuum, checkpoints.

* **Compaction** first makes old versions unreadable (`schedule`) and then removes their rows in steps (`compact_step`),
  each one transaction. A crash in between leaves rows, never a gap.
* **Vacuum.** Freed pages are used again by later writes, so a steady load needs no more than it did. After a burst the
  file holds more free pages than that: those beyond a third of the used ones are returned to the file system
  (`vacuum`), a few milliseconds at a time, only while there are no writes. A third, because a compaction in its usual
  course frees a quarter at most: space that the next minute takes again is not moved about. A file that an earlier
  version made (its `auto_vacuum` is off) uses its free pages again but keeps them.
* **Checkpoints.** The write-ahead log is copied into the database (`checkpoint`) and restarted, if no reader is in it
  at that instant. Where reads overlap without end that instant never comes and the log grows; then new reads are held
  back (`ReadGate`) until the running ones have ended and the log is copied. Writes go on meanwhile.

Everything blocks and runs on the writer thread, whose connection this uses.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kapi.base.failpoint import failpoint
from kapi.storage.sqlite.file import pragma
from kapi.storage.sqlite.schema import last_position, set_meta

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from kapi.storage.ledger import Ledger
    from kapi.storage.sqlite.reader import ReadGate

STEP_REVISIONS = 250
"""Revisions per compaction step; a change removes at most two rows: what it replaced and, if a deletion, itself."""

CHECKPOINT_PAGES = 1000
"""SQLite's own default for the length of the log at which it is copied into the database."""

LOG_PAGES = 4000
"""A log of this length (16 MB) has been kept from restarting by readers."""

FREE_PAGES = 4096
FREE_SHARE = 3
"""Free pages that are kept: so many, or one for so many that are used, whichever is more."""

_STEP_SECONDS = 0.005
_INCREMENTAL = 2

# The rows a compaction step removes: the versions that a range of positions replaced, and the deletions in that range.
# Walking positions upwards leaves one version of a key below the step at most, so the one that was replaced is right
# before it. A maximum finds that in one step; a join would visit all the earlier versions of a busy key.
_REMOVE = (
    "DELETE FROM history WHERE position IN ("
    "SELECT (SELECT max(old.position) FROM history AS old WHERE old.key = new.key AND old.position < new.position)"
    " FROM history AS new WHERE new.position > :after AND new.position <= :upto"
    " UNION ALL SELECT position FROM history WHERE position > :after AND position <= :upto AND gone)"
)


class Maintenance:
    """The state of the file. `compacted` is the oldest readable revision; rows have been removed up to `finished`."""

    def __init__(self, connection: sqlite3.Connection, ledger: Ledger, gate: ReadGate) -> None:
        self._connection = connection
        self._ledger = ledger
        self._gate = gate
        meta = dict(connection.execute("SELECT name, value FROM meta"))
        self.compacted: int = meta["compacted"]
        self.finished: int = meta["finished"]
        self.pages = 0
        """About how many pages have been added to the log since it was copied."""
        self._step_revisions = STEP_REVISIONS
        self._can_vacuum = pragma(connection, "auto_vacuum") == _INCREMENTAL
        self.has_free_pages = False
        """True if there are more free pages than a steady load needs."""
        self.measure()

    # -- rows

    @property
    def has_old_rows(self) -> bool:
        """True if there are rows to remove."""
        return self.finished < self.compacted

    def schedule(self, revision: int) -> None:
        """Make versions that were replaced up to a revision unreadable; their rows are removed later."""
        set_meta(self._connection, "compacted", revision)
        self.compacted = revision
        self._ledger.schedule(revision)
        self.pages += 1

    def compact_step(self, least: int = 0) -> None:
        """Remove the rows of one step, of at least so many revisions.

        The length of a step adapts to its duration: large values make rows slow to free, and a write may be waiting.
        """
        failpoint("storage.before_compact_step")
        upto = min(self.compacted, self.finished + max(self._step_revisions, least))
        span = {"after": last_position(self.finished), "upto": last_position(upto)}
        started = time.perf_counter()
        self._connection.execute("BEGIN IMMEDIATE")
        removed = self._connection.execute(_REMOVE, span).rowcount
        set_meta(self._connection, "finished", upto)
        self._connection.execute("COMMIT")
        failpoint("storage.after_compact_step")
        is_slow = time.perf_counter() - started > _STEP_SECONDS
        self._step_revisions = (
            max(1, self._step_revisions // 2) if is_slow else min(STEP_REVISIONS, self._step_revisions * 2)
        )
        self.finished = upto
        self._ledger.finish(upto)
        self.pages += removed
        if not self.has_old_rows:
            self.measure()
            # It went through most of what was written lately, which is now in the page cache and not needed again.
            self._connection.execute("PRAGMA shrink_memory")

    # -- pages

    def measure(self) -> None:
        """Update `has_free_pages`."""
        if self._can_vacuum:
            free = pragma(self._connection, "freelist_count")
            used = pragma(self._connection, "page_count") - free
            self.has_free_pages = free > max(FREE_PAGES, used // FREE_SHARE)

    def vacuum(self, is_wanted: Callable[[], bool]) -> None:
        """Return pages at the end of the file to the file system, for a few milliseconds or until `is_wanted`."""
        failpoint("storage.before_vacuum_step")
        deadline = time.perf_counter() + _STEP_SECONDS
        self._connection.execute("BEGIN IMMEDIATE")
        while self.has_free_pages and time.perf_counter() < deadline and not is_wanted():
            # One at a time: the module makes one step of this statement, which is one page whatever the number says.
            self._connection.execute("PRAGMA incremental_vacuum(1)")
            self.pages += 2
            self.measure()
        self._connection.execute("COMMIT")
        failpoint("storage.after_vacuum_step")
        if not self.has_free_pages:
            # The file gets shorter when the log is copied.
            self.pages += CHECKPOINT_PAGES

    # -- the log

    def checkpoint(self) -> None:
        """Copy the log into the database as far as no reader needs it; hold readers back if it does not restart."""
        failpoint("storage.checkpoint")
        if self._copy_log() > LOG_PAGES and self._gate.close():
            self.restart_log()

    def restart_log(self) -> None:
        """Copy the log while there is no reader: the next write starts it again from its beginning."""
        self._copy_log()
        self._gate.open()

    def _copy_log(self) -> int:
        """Copy the log; returns its length in pages."""
        self.pages = 0
        (_, length, _) = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return int(length)
