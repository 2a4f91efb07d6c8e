"""The writer thread of the SQLite store: the one owner of the revision counter.

It takes whatever writes are waiting, checks every precondition against the current state (which it keeps in a
dictionary, key to revision), commits them in one transaction with one fsync, and hands results and changes to the
event loop in one call. Under load batches grow by themselves, so an fsync is paid per batch and not per write.

A batch is **one SQL statement**. Python's sqlite3 gives up the interpreter lock at every step of a statement and has
to win it back; with a busy event loop that may take 5 ms each time. 64 rows as 64 steps reached 180 writes/s beside a
loop that never rests, as one step 8,000.

Compaction is done here too, in small steps between batches, so that it never competes with a write for the database
and a write waits for one step at most. After a failure nothing is retried: what a failed fsync left on the disk is
unknown, and a second one may succeed without having written anything.

Runs on its own thread and touches the loop only through `Owner`, whose methods are called there.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kapi.base.failpoint import failpoint, is_armed
from kapi.storage.interface import Change, RevisionMismatch
from kapi.storage.sqlite_file import DirectoryLock, explained, open_database, prepare_directory
from kapi.storage.sqlite_reader import COMPACTED

if TYPE_CHECKING:
    import asyncio
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

    from kapi.storage.interface import Draft

BATCH_WRITES = 256
BATCH_BYTES = 1 << 20
"""Bounds of a batch; the second may be passed by one value."""

SWEEP_ROWS = 250
"""Revisions per compaction step; each removes at most two rows: what it replaced and, if a removal, itself."""

_SWEEP_SECONDS = 0.005
# While writes keep coming, one compaction step is made every so many batches.
_BATCHES_PER_SWEEP = 4
# SQLite's own default for the length of the log at which it is copied into the database.
_CHECKPOINT_PAGES = 1000
_PAGE = 4096

# Key and revision of what is there; the flag in the lowest bit as in `sqlite_reader`.
_LATEST = (
    "SELECT key, max(2 * revision + gone) >> 1 FROM history GROUP BY key HAVING NOT (max(2 * revision + gone) & 1)"
)

# The rows a compaction step removes: in each range of revisions, what those replaced, and the removals among them.
# Walking revisions upwards leaves at most one version of a key below the step, so the work is bounded by the length
# of the range.
_SWEEP = (
    "DELETE FROM history WHERE revision IN ("
    "SELECT old.revision FROM history AS new"
    " CROSS JOIN history AS old ON old.key = new.key AND old.revision < new.revision"
    " WHERE new.revision > :after AND new.revision <= :upto"
    " UNION ALL SELECT revision FROM history WHERE revision > :after AND revision <= :upto AND gone)"
)


class Write(NamedTuple):
    """A write that waits. `draft` is None for a removal."""

    key: str
    draft: Draft | None
    expected: int
    note: object
    answer: asyncio.Future[int]

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return len(self.key) + (len(self.draft.before) + len(self.draft.after) if self.draft else 0)


class Compact(NamedTuple):
    """A wish to forget history up to a revision."""

    revision: int
    answer: asyncio.Future[None]


class Stop(NamedTuple):
    """The last thing in the queue."""


class Batch(NamedTuple):
    """Writes that were decided together: what changed, and what to answer whom."""

    writes: list[Write]
    changes: list[Change]
    answers: list[int | RevisionMismatch]
    seconds: float = 0.0


class Opened(NamedTuple):
    """Where an opened store stands."""

    revision: int
    compacted: int


class Owner(Protocol):
    """What the loop's side of the store does for the writer; every method is called on the loop."""

    def opened(self, state: Opened) -> None:
        """The store can be used."""

    def settle(self, batch: Batch) -> None:
        """A batch is on disk: publish its changes, then answer its writers."""

    def compacting(self, revision: int) -> None:
        """History up to this revision is out of reach from now on."""

    def swept(self, answers: list[asyncio.Future[None]]) -> None:
        """A compaction is complete, or left to the next start."""

    def failed(self, error: BaseException, unanswered: list[Write | Compact]) -> None:
        """Nothing will be written any more."""

    def ended(self, error: BaseException | None) -> None:
        """The thread is done; `error` is why the store could not be opened, if it could not."""


def _insert(rows: int) -> str:
    """The statement that stores up to `rows` rows; those whose revision is NULL are filling."""
    return f"INSERT INTO history SELECT * FROM (VALUES {','.join(['(?,?,?,?)'] * rows)}) WHERE column1 IS NOT NULL"  # noqa: S608


_INSERTS = {1 << power: _insert(1 << power) for power in range(BATCH_WRITES.bit_length())}


class Writer:
    """The state of the writer thread; `run` is its body."""

    def __init__(self, directory: Path, owner: Owner, loop: asyncio.AbstractEventLoop) -> None:
        self.inbox: SimpleQueue[Write | Compact | Stop] = SimpleQueue()
        self._directory = directory
        self._owner = owner
        self._loop = loop
        self._connection: sqlite3.Connection
        self._current: dict[str, int] = {}
        self._revision = 0
        self._compacted = 0
        self._swept = 0
        self._sweep_rows = SWEEP_ROWS
        self._sweepers: list[asyncio.Future[None]] = []
        self._pages = 0
        self._failure: BaseException | None = None
        self._is_stopping = False

    def run(self) -> None:
        """Open the store, serve until told to stop, close it."""
        try:
            with explained(self._directory):
                lock = self._open()
        except BaseException as error:
            self._tell(self._owner.ended, error)
            return
        self._tell(self._owner.opened, Opened(self._revision, self._compacted))
        self._serve()
        self._close(lock)
        self._tell(self._owner.ended, None)

    def _tell(self, method: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(method, *arguments)
        except RuntimeError:
            # The loop is closed: nobody is left to be told, and nothing more can come in.
            self._is_stopping = True

    # -- opening and closing

    def _open(self) -> DirectoryLock:
        prepare_directory(self._directory)
        with ExitStack() as undo:
            lock = DirectoryLock(self._directory)
            undo.callback(lock.release)
            self._connection = open_database(self._directory)
            undo.callback(self._connection.close)
            self._load()
            undo.pop_all()
        return lock

    def _load(self) -> None:
        read = self._connection.execute
        (self._compacted,) = read(COMPACTED).fetchone()
        (self._swept,) = read("SELECT value FROM meta WHERE name = 'swept'").fetchone()
        (last,) = read("SELECT max(revision) FROM history").fetchone()
        self._revision = max(last or 0, self._compacted)
        self._current = dict(read(_LATEST))

    def _close(self, lock: DirectoryLock) -> None:
        try:
            if self._failure is None:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.close()
        except Exception as error:
            self._fail(error, [])
        finally:
            lock.release()

    # -- the loop of the thread

    def _serve(self) -> None:
        batches = 0
        while True:
            writes = self._collect()
            if writes:
                self._attempt(partial(self._commit, writes), writes)
                batches += 1
            elif self._is_stopping:
                break
            if self._has_rows_to_sweep() and (batches >= _BATCHES_PER_SWEEP or self.inbox.empty()):
                self._attempt(self._sweep, [])
                batches = 0
            # After the answers: this is about the length of the log, not about the safety of what is in it.
            if self._pages >= _CHECKPOINT_PAGES:
                self._attempt(self._checkpoint, [])
        self._tell(self._owner.swept, self._sweepers)

    def _attempt(self, work: Callable[[], None], writes: list[Write]) -> None:
        """Do some work on the disk; any error is the end of writing."""
        if self._failure is not None:
            self._fail(self._failure, writes)
            return
        try:
            work()
        except Exception as error:
            self._fail(error, writes)

    def _fail(self, error: BaseException, writes: list[Write]) -> None:
        self._failure = error
        sweepers = [Compact(self._compacted, answer) for answer in self._sweepers]
        self._sweepers = []
        self._swept = self._compacted
        self._tell(self._owner.failed, error, [*writes, *sweepers])

    def _has_rows_to_sweep(self) -> bool:
        return self._swept < self._compacted and not self._is_stopping

    def _collect(self) -> list[Write]:
        """The writes that wait, within the bounds of a batch; sleeps until there is something to do."""
        writes: list[Write] = []
        size = 0
        while len(writes) < BATCH_WRITES and size < BATCH_BYTES and not self._is_stopping:
            is_idle = not writes and not self._has_rows_to_sweep()
            try:
                item = self.inbox.get(block=is_idle)
            except Empty:
                break
            if isinstance(item, Write):
                writes.append(item)
                size += item.size
            elif isinstance(item, Compact):
                self._sweepers.append(item.answer)
                self._attempt(partial(self._aim, item.revision), [])
            else:
                self._is_stopping = True
        return writes

    # -- writing

    def _commit(self, writes: list[Write]) -> None:
        started = time.perf_counter()
        batch = self._decide(writes)
        # A planted bug for the crash tests: with it they must find lost writes, or they prove nothing. Off unless
        # armed.
        is_hasty = is_armed("storage.ack_before_commit")
        if is_hasty:
            self._tell(self._owner.settle, batch)
        if batch.changes:
            failpoint("storage.before_commit")
            self._store(batch.changes)
            failpoint("storage.after_commit")
            self._apply(batch.changes)
        if not is_hasty:
            self._tell(self._owner.settle, batch._replace(seconds=time.perf_counter() - started))

    def _decide(self, writes: list[Write]) -> Batch:
        """Check each write against the state as the writes before it leave it; a refused one changes nothing."""
        revision = self._revision
        changes: list[Change] = []
        answers: list[int | RevisionMismatch] = []
        ahead: dict[str, int] = {}
        for write in writes:
            key = write.key
            actual = ahead[key] if key in ahead else self._current.get(key, 0)
            if actual != write.expected:
                answers.append(RevisionMismatch(key, write.expected, actual))
                continue
            revision += 1
            value = None if write.draft is None else write.draft.render(revision)
            ahead[key] = 0 if value is None else revision
            changes.append(Change(revision, key, value, write.note))
            answers.append(revision)
        return Batch(writes, changes, answers)

    def _store(self, changes: list[Change]) -> None:
        """One statement, hence one transaction and one fsync; returns when it is on disk."""
        row: list[object] = []
        for change in changes:
            row += (change.revision, change.key, change.value is None, change.value)
        rows = 1 << (len(changes) - 1).bit_length()
        row += [None] * (4 * (rows - len(changes)))
        self._connection.execute(_INSERTS[rows], row)

    def _apply(self, changes: list[Change]) -> None:
        for change in changes:
            if change.value is None:
                del self._current[change.key]
            else:
                self._current[change.key] = change.revision
                self._pages += len(change.value) // _PAGE
        self._revision = changes[-1].revision
        # A guess: a leaf of the log and one of the index each. The checkpoint knows the truth.
        self._pages += 2 * len(changes)

    def _checkpoint(self) -> None:
        """Copy the write-ahead log into the database, as far as no reader needs it."""
        self._pages = 0
        failpoint("storage.checkpoint")
        self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    # -- forgetting

    def _aim(self, revision: int) -> None:
        """Put history out of reach first; the rows go later, in steps. A crash in between leaves rows, never a gap."""
        if revision > self._compacted:
            self._connection.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (revision,))
            self._compacted = revision
            self._tell(self._owner.compacting, revision)
        if self._swept >= self._compacted:
            self._finish_sweep()

    def _sweep(self) -> None:
        """One step. Its length follows the clock: large values make rows slow to free, and a write may be waiting."""
        failpoint("storage.before_compact_step")
        upto = min(self._compacted, self._swept + self._sweep_rows)
        started = time.perf_counter()
        self._connection.execute("BEGIN IMMEDIATE")
        removed = self._connection.execute(_SWEEP, {"after": self._swept, "upto": upto}).rowcount
        self._connection.execute("UPDATE meta SET value = ? WHERE name = 'swept'", (upto,))
        self._connection.execute("COMMIT")
        failpoint("storage.after_compact_step")
        slow = time.perf_counter() - started > _SWEEP_SECONDS
        self._sweep_rows = max(1, self._sweep_rows // 2) if slow else min(SWEEP_ROWS, self._sweep_rows * 2)
        self._swept = upto
        self._pages += removed
        if self._swept >= self._compacted:
            self._finish_sweep()

    def _finish_sweep(self) -> None:
        self._tell(self._owner.swept, self._sweepers)
        self._sweepers = []
