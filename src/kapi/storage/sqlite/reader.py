"""Reads of the SQLite store: a key, a range or the log, as of a revision.

Each read is one transaction, so it sees one state of the file. It always asks for a revision, the latest published one
when the caller named none: what has been committed but not yet published is not seen, and the page of a list says
exactly which changes come after it. Every row is compared with its checksum. Blocks; runs on the reader threads.

Reads pass a `ReadGate`, because the write-ahead log can only restart while no reader is in it.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from kapi.storage.interface import MAX_OPERATIONS, Change, Compacted, Entry, Page
from kapi.storage.keys import prefix_end
from kapi.storage.sqlite.damage import RowDamaged
from kapi.storage.sqlite.schema import last_position, revision_at
from kapi.storage.sqlite.verification import damage_of, is_whole

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence

    from kapi.storage.sqlite.verification import Row

SLICE_CHANGES = 500
SLICE_BYTES = 4 << 20
"""Bounds of one slice of history; the second may be passed by one value."""

COMPACTED = "SELECT value FROM meta WHERE name = 'compacted'"

_GET = (
    "SELECT position, key, gone, value, checksum FROM history"
    " WHERE key = ? AND position <= ? ORDER BY position DESC LIMIT 1"
)

# The live versions of a range, answered from the index alone and in key order, so that a page ends when it is full. The
# flag rides in the lowest bit, which makes "the latest, unless it is a deletion" one maximum.
_LIVE = (
    "SELECT max(2 * position + gone) >> 1 FROM history WHERE key >= ? AND key < ? AND position <= ?"
    " GROUP BY key HAVING NOT (max(2 * position + gone) & 1)"
)
# SQLite visits the values in the order of their positions, that is as they lie on disk: three times as fast for a large
# range as in key order. The caller sorts.
_RANGE = f"SELECT key, position, gone, value, checksum FROM history WHERE position IN ({_LIVE} ORDER BY key LIMIT ?)"  # noqa: S608
_COUNT = f"SELECT count(*) FROM ({_LIVE})"  # noqa: S608
_LOG = (
    "SELECT position, key, gone, value, checksum FROM history"
    " WHERE position > ? AND position <= ? ORDER BY position LIMIT ?"
)

# SQLite orders every blob after every text: the bound of a range that has none.
_NO_END = b""


class ReadGate:
    """Admits any number of readers, until the writer needs an instant without any.

    `close` makes new readers wait; when the last running one has finished `on_quiet` is called, on its thread, unless
    none was running to begin with. `open` must follow.
    """

    def __init__(self, on_quiet: Callable[[], None]) -> None:
        self._on_quiet = on_quiet
        self._changed = threading.Condition()
        self._running = 0
        self._is_closed = False

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Wait until the gate is open; the block is one read."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_closed)
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                is_quiet = self._is_closed and self._running == 0
            if is_quiet:
                self._on_quiet()

    def close(self) -> bool:
        """Admit no reader any more; True if none is running and `on_quiet` will not be called."""
        with self._changed:
            was_open = not self._is_closed
            self._is_closed = True
            return was_open and self._running == 0

    def open(self) -> None:
        """Admit readers again."""
        with self._changed:
            self._is_closed = False
            self._changed.notify_all()


@contextlib.contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[int]:
    """One read transaction for all statements of a block; yields the revision the file is compacted to."""
    connection.execute("BEGIN")
    try:
        (compacted,) = connection.execute(COMPACTED).fetchone()
        yield compacted
    finally:
        connection.execute("COMMIT")


def _resolve(revision: int, published: int, compacted: int) -> int:
    """The revision to read at.

    A compaction may pass the published revision between the call and the read; then the oldest kept revision is read.
    It was published when the compaction began, so no caller sees the future.
    """
    if not revision:
        return max(published, compacted)
    if revision < compacted:
        raise Compacted(revision, compacted)
    return revision


def _checked(row: Row) -> Row:
    """A row that matches its checksum; `StorageDamaged` for any other: what is damaged is not served."""
    if not is_whole(row):
        raise RowDamaged(damage_of(row))
    return row


def read_key(connection: sqlite3.Connection, key: str, revision: int, published: int) -> Entry | None:
    """The value of a key at a revision (0: the published one)."""
    with _snapshot(connection) as compacted:
        at = _resolve(revision, published, compacted)
        found = connection.execute(_GET, (key, last_position(at))).fetchone()
    if found is None:
        return None
    position, _, _, value, _ = _checked(found)
    return None if value is None else Entry(key, value, revision_at(position))


def read_range(
    connection: sqlite3.Connection, prefix: str, start: str, limit: int, revision: int, published: int, *, counted: bool
) -> Page:
    """The keys that begin with `prefix`, from `start` on, at a revision (0: the published one)."""
    end = prefix_end(prefix)
    bound = _NO_END if end is None else end
    with _snapshot(connection) as compacted:
        at = _resolve(revision, published, compacted)
        last = last_position(at)
        # One more than asked for tells whether there is a rest to count.
        rows = sorted(connection.execute(_RANGE, (max(prefix, start), bound, last, limit + 1 if limit else -1)))
        more = 0
        if limit and len(rows) > limit:
            (key, *_) = rows.pop()
            more = connection.execute(_COUNT, (key, bound, last)).fetchone()[0] if counted else 1
    entries = []
    for key, position, gone, value, checksum in rows:
        _checked((position, key, gone, value, checksum))
        entries.append(Entry(key, value, revision_at(position)))
    return Page(entries, at, more)


def read_log(connection: sqlite3.Connection, after: int, published: int) -> tuple[int, Sequence[Change]]:
    """The next slice of changes after a revision, whole commits, none that is not published; and how far it reaches."""
    changes: list[Change] = []
    size = 0
    with _snapshot(connection) as compacted:
        if after < compacted:
            raise Compacted(after, compacted)
        # As many more as a commit may have: one that has been begun is read to its end.
        limit = SLICE_CHANGES + MAX_OPERATIONS
        for row in connection.execute(_LOG, (last_position(after), last_position(published), limit)):
            position, key, _, value, _ = _checked(row)
            revision = revision_at(position)
            is_full = size >= SLICE_BYTES or len(changes) >= SLICE_CHANGES
            if is_full and revision != changes[-1].revision:
                return changes[-1].revision, changes
            changes.append(Change(revision, key, value))
            size += len(value or b"")
    return published, changes
