"""Reads of the SQLite store: what a key, a prefix or the log was at a revision.

Each read is one transaction, so it sees one state of the file. It always asks for a revision, the latest published one
when the caller did not name any: what has been committed but not yet been published stays unseen, and the page of a
list says exactly which changes come after it. Blocks; runs on the reader threads.

Reads go through a `Turnstile`, because the write-ahead log can only begin anew while nobody reads from it.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from kapi.storage.interface import Change, Compacted, Entry, Page
from kapi.storage.keys import prefix_end

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence

SLICE_CHANGES = 500
SLICE_BYTES = 4 << 20
"""Bounds of one slice of history; the second may be passed by one value."""

COMPACTED = "SELECT value FROM meta WHERE name = 'compacted'"

_GET = "SELECT value, revision FROM history WHERE key = ? AND revision <= ? ORDER BY revision DESC LIMIT 1"

# The live versions of a range, answered from the index alone and in key order, so that a page ends when it is full. The
# flag rides in the lowest bit, which makes "the latest, unless it is a removal" one maximum.
_LIVE = (
    "SELECT max(2 * revision + gone) >> 1 FROM history WHERE key >= ? AND key < ? AND revision <= ?"
    " GROUP BY key HAVING NOT (max(2 * revision + gone) & 1)"
)
# SQLite visits the values in revision order, that is as they lie on disk: three times as fast for a large range as in
# key order. The caller sorts.
_RANGE = f"SELECT key, value, revision FROM history WHERE revision IN ({_LIVE} ORDER BY key LIMIT ?)"  # noqa: S608
_COUNT = f"SELECT count(*) FROM ({_LIVE})"  # noqa: S608
_LOG = "SELECT revision, key, value FROM history WHERE revision > ? AND revision <= ? ORDER BY revision LIMIT ?"

# SQLite orders every blob after every text: the bound of a range that has none.
_NO_END = b""


class Turnstile:
    """Lets any number of readers through, until the writer wants a moment without them.

    `shut` keeps new readers waiting; when the last of the others has left `on_quiet` is called, on its thread, unless
    nobody was there to begin with. `open` must follow.
    """

    def __init__(self, on_quiet: Callable[[], None]) -> None:
        self._on_quiet = on_quiet
        self._changed = threading.Condition()
        self._inside = 0
        self._is_shut = False

    @contextlib.contextmanager
    def passage(self) -> Iterator[None]:
        """Wait to be let in; the block is one read."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_shut)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                is_quiet = self._is_shut and self._inside == 0
            if is_quiet:
                self._on_quiet()

    def shut(self) -> bool:
        """Let nobody in any more; whether nobody is inside now. If already shut, the answer is on its way."""
        with self._changed:
            is_news = not self._is_shut
            self._is_shut = True
            return is_news and self._inside == 0

    def open(self) -> None:
        """Let readers in again."""
        with self._changed:
            self._is_shut = False
            self._changed.notify_all()


@contextlib.contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[int]:
    """One state of the file for all reads of a block; gives the revision it is compacted to."""
    connection.execute("BEGIN")
    try:
        (compacted,) = connection.execute(COMPACTED).fetchone()
        yield compacted
    finally:
        connection.execute("COMMIT")


def _resolve(revision: int, published: int, compacted: int) -> int:
    """The revision to read at.

    A compaction may pass the published revision between the call and the read; then the oldest kept revision is read.
    It was published when the compaction began, so nobody sees the future.
    """
    if not revision:
        return max(published, compacted)
    if revision < compacted:
        raise Compacted(revision, compacted)
    return revision


def read_key(connection: sqlite3.Connection, key: str, revision: int, published: int) -> Entry | None:
    """The value of a key at a revision (0: the published one)."""
    with _snapshot(connection) as compacted:
        found = connection.execute(_GET, (key, _resolve(revision, published, compacted))).fetchone()
    if found is None or found[0] is None:
        return None
    return Entry(key, *found)


def read_range(
    connection: sqlite3.Connection, prefix: str, start: str, limit: int, revision: int, published: int
) -> Page:
    """The keys that begin with `prefix`, from `start` on, at a revision (0: the published one)."""
    end = prefix_end(prefix)
    bound = _NO_END if end is None else end
    with _snapshot(connection) as compacted:
        at = _resolve(revision, published, compacted)
        # One more than asked for tells whether there is a rest to count.
        rows = sorted(connection.execute(_RANGE, (max(prefix, start), bound, at, limit + 1 if limit else -1)))
        more = 0
        if limit and len(rows) > limit:
            (more,) = connection.execute(_COUNT, (rows.pop()[0], bound, at)).fetchone()
    return Page([Entry(*row) for row in rows], at, more)


def read_log(connection: sqlite3.Connection, after: int, published: int) -> Sequence[Change]:
    """The next slice of changes after a revision, none that is not published."""
    changes: list[Change] = []
    size = 0
    with _snapshot(connection) as compacted:
        if after < compacted:
            raise Compacted(after, compacted)
        for revision, key, value in connection.execute(_LOG, (after, published, SLICE_CHANGES)):
            changes.append(Change(revision, key, value))
            size += len(value or b"")
            if size >= SLICE_BYTES:
                break
    return changes
