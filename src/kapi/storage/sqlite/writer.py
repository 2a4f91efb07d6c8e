"""The writer thread of the SQLite store: the one owner of the revision counter.

It takes all commits that are waiting, compares their keys with the current state (a dictionary from key to
revision), writes them in one transaction with one fsync (group commit), and hands results and changes to the event loop
in one call. Under load batches grow by themselves, so an fsync is paid per batch and not per commit.

A batch is **one SQL statement**. Python's sqlite3 releases the interpreter lock at every step of a statement and has to
acquire it again; with a busy event loop that may take 5 ms each time. 64 rows as 64 steps reached 180 writes/s with an
event loop that was never idle, as one step 8,000.

Compaction and the other maintenance of the file are done here too, in small steps between batches, so that they never
compete with a write for the database and a write waits for one step at most. When history takes more than its bytes
(`ledger`) the writer compacts without being asked, and as long as it does steps grow with the batches: a client that
writes faster than rows can be removed is slowed down, and the file stays as it is.

After a failure nothing is retried: what a failed fsync left on the disk is unknown, and a second one may succeed
without having written anything.

Runs on its own thread and touches the loop only through `Owner`, whose methods are called there.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kapi.base.failpoint import failpoint, is_armed
from kapi.storage.interface import MAX_OPERATIONS, Change, Check, Put, RevisionMismatch
from kapi.storage.ledger import Ledger, cost
from kapi.storage.sqlite.checksum import row_checksum
from kapi.storage.sqlite.file import DirectoryLock, explained, prepare_directory
from kapi.storage.sqlite.maintenance import CHECKPOINT_PAGES, Maintenance
from kapi.storage.sqlite.mark import BLOCK
from kapi.storage.sqlite.openfiles import FilesReplaced, OpenFiles
from kapi.storage.sqlite.opening import open_store
from kapi.storage.sqlite.reader import ReadGate
from kapi.storage.sqlite.schema import position_of, revision_at

if TYPE_CHECKING:
    import asyncio
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kapi.storage.interface import Operation
    from kapi.storage.sqlite.mark import MarkFile

BATCH_OPERATIONS = 256
BATCH_BYTES = 1 << 20
"""Bounds of a batch; the last commit of a batch may pass them."""

# While writes keep coming, one compaction step is made every so many batches.
_BATCHES_PER_STEP = 4
_PAGE = 4096
_ABSENT = (0, 0)
# The files are compared with those at their paths at most so often while writes come.
_VERIFY_SECONDS = 1.0
# The mark is synced when no write has come for so long.
_IDLE_SECONDS = 0.05


class Commit(NamedTuple):
    """A commit that waits for the writer."""

    operations: Sequence[Operation]
    size: int
    """About how many bytes it holds."""
    answer: asyncio.Future[int]


class Compact(NamedTuple):
    """A request to compact to a revision."""

    revision: int
    answer: asyncio.Future[None]


class Quiet(NamedTuple):
    """No reader is running, and none will until the gate is opened."""


class Fail(NamedTuple):
    """The store must not be written to any more."""

    error: Exception


class Stop(NamedTuple):
    """The last message in the queue."""


class Batch(NamedTuple):
    """Commits that were decided together, their changes, and the answer to each."""

    commits: list[Commit]
    changes: list[Change]
    answers: list[int | RevisionMismatch]
    seconds: float = 0.0


class Opened(NamedTuple):
    """The state of a store that has just been opened."""

    revision: int
    compacted: int


class Owner(Protocol):
    """The event loop's side of the store, as the writer calls it; every method is called on the loop."""

    @property
    def revision(self) -> int:
        """The published revision; this alone may be read from the writer thread."""

    def opened(self, state: Opened) -> None:
        """The store can be used."""

    def committed(self, batch: Batch) -> None:
        """A batch is on disk: publish its changes, then answer its callers."""

    def compaction_scheduled(self, revision: int) -> None:
        """Earlier revisions cannot be read any more."""

    def compaction_finished(self, answers: list[asyncio.Future[None]]) -> None:
        """All rows of a compaction have been removed, or are left to the next start."""

    def failed(self, error: BaseException, unanswered: list[Commit | Compact]) -> None:
        """Nothing will be written any more."""

    def ended(self, error: BaseException | None) -> None:
        """The thread has ended; `error` is why the store could not be opened, if it could not."""


def _never_close(connection: sqlite3.Connection) -> None:
    """Keep a connection open until the process ends.

    SQLite deletes the log by its name when the last connection is closed: that may by now be the log of another
    database, such as a backup that was put in the place of the deleted directory. A thread that never ends keeps it.
    """
    threading.Thread(target=lambda _: threading.Event().wait(), args=(connection,), daemon=True).start()


def _insert(rows: int) -> str:
    """The statement that stores up to `rows` rows; those whose position is NULL are padding."""
    return f"INSERT INTO history SELECT * FROM (VALUES {','.join(['(?,?,?,?,?)'] * rows)}) WHERE column1 IS NOT NULL"  # noqa: S608


# One statement for each power of two, up to the largest batch there can be.
_INSERTS = {
    1 << power: _insert(1 << power) for power in range((BATCH_OPERATIONS + MAX_OPERATIONS - 2).bit_length() + 1)
}


class Writer:
    """The state of the writer thread; `run` is its body."""

    def __init__(self, directory: Path, owner: Owner, loop: asyncio.AbstractEventLoop, history_bytes: int) -> None:
        self.inbox: SimpleQueue[Commit | Compact | Quiet | Fail | Stop] = SimpleQueue()
        self.gate = ReadGate(lambda: self.inbox.put(Quiet()))
        self._directory = directory
        self._owner = owner
        self._loop = loop
        self._connection: sqlite3.Connection
        self._mark: MarkFile
        self.files: OpenFiles
        self._verify_at = 0.0
        # The latest version of every key: its revision and what it costs. Plain pairs, there is one for every object.
        self._current: dict[str, tuple[int, int]] = {}
        self._revision = 0
        self._ledger = Ledger(history_bytes)
        self._maintenance: Maintenance
        self._compactions: list[asyncio.Future[None]] = []
        # Batches and changes since the last compaction step.
        self._batches = 0
        self._changes = 0
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
        self._tell(self._owner.opened, Opened(self._revision, self._maintenance.compacted))
        try:
            self._serve()
        except Exception as error:
            # Not an error of the disk, which `_attempt` handles, but a bug. Nothing can be committed any more either.
            self._fail(error, [])
        self._close(lock)
        self._tell(self._owner.ended, None)

    def _tell(self, method: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(method, *arguments)
        except RuntimeError:
            # The loop is closed: no caller is left, and nothing more can come in.
            self._is_stopping = True

    # -- opening and closing

    def _open(self) -> DirectoryLock:
        prepare_directory(self._directory)
        with ExitStack() as undo:
            lock = DirectoryLock(self._directory)
            undo.callback(lock.release)
            self._connection, self._mark = open_store(self._directory, self._take_row)
            undo.callback(self._connection.close)
            self.files = OpenFiles(self._directory)
            self._load()
            undo.pop_all()
        return lock

    def _take_row(self, position: int, key: str, length: int | None) -> None:
        self._record(revision_at(position), key, length)

    def _load(self) -> None:
        self._maintenance = maintenance = Maintenance(self._connection, self._ledger, self.gate)
        self._revision = max(self._revision, maintenance.compacted)
        self._ledger.schedule(maintenance.compacted)
        self._ledger.finish(maintenance.finished)
        # After a crash, or with a smaller bound than before, history may be over its bound.
        if due := self._ledger.due(self._revision):
            maintenance.schedule(due)

    def _close(self, lock: DirectoryLock) -> None:
        self.gate.open()
        try:
            if self._failure is None:
                self._mark.sync()
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if isinstance(self._failure, FilesReplaced):
                _never_close(self._connection)
            else:
                self._connection.close()
            self._mark.close()
        except Exception as error:
            self._fail(error, [])
        finally:
            lock.release()

    # -- the loop of the thread

    def _serve(self) -> None:
        while True:
            commits = self._collect()
            if commits:
                self._attempt(partial(self._commit, commits), commits)
                self._batches += 1
            elif self._is_stopping:
                break
            # After the answers: this is about the size of the file, not about the safety of what is in it.
            if self._failure is None:
                self._attempt(self._maintain, [])
        self._tell(self._owner.compaction_finished, self._compactions)

    def _maintain(self) -> None:
        """Maintenance between two batches, one step of each kind at most."""
        maintenance = self._maintenance
        if due := self._ledger.due(self._owner.revision):
            self._schedule_compaction(due)
        if self._has_maintenance():
            is_idle = self.inbox.empty()
            if maintenance.has_old_rows and (is_idle or self._batches >= _BATCHES_PER_STEP or self._ledger.is_behind):
                self._compact_step()
            elif maintenance.has_free_pages and is_idle:
                maintenance.vacuum(lambda: not self.inbox.empty())
        if self._mark.mark.reserved < self._revision + BLOCK // 2:
            self._mark.reserve(self._revision + BLOCK)
        if maintenance.pages >= CHECKPOINT_PAGES:
            self.files.verify()
            self._mark.sync()
            maintenance.checkpoint()

    def _attempt(self, work: Callable[[], None], commits: list[Commit]) -> None:
        """Do some work on the disk; after any error nothing is written any more."""
        if self._failure is not None:
            self._fail(self._failure, commits)
            return
        try:
            work()
        except Exception as error:
            self._fail(error, commits)

    def _fail(self, error: BaseException, commits: list[Commit]) -> None:
        self._failure = error
        compactions = [Compact(self._maintenance.compacted, answer) for answer in self._compactions]
        self._compactions = []
        # Reads go on.
        self.gate.open()
        self._tell(self._owner.failed, error, [*commits, *compactions])

    def _has_maintenance(self) -> bool:
        """True if there is something to do while nothing comes in."""
        is_in_service = self._failure is None and not self._is_stopping
        return is_in_service and (self._maintenance.has_old_rows or self._maintenance.has_free_pages)

    def _collect(self) -> list[Commit]:
        """The commits that wait, within the bounds of a batch; sleeps until there is something to do."""
        commits: list[Commit] = []
        count = size = 0
        while count < BATCH_OPERATIONS and size < BATCH_BYTES and not self._is_stopping:
            is_idle = not commits and not self._has_maintenance()
            is_mark_due = is_idle and not self._mark.is_synced and self._failure is None
            try:
                item = self.inbox.get(block=is_idle, timeout=_IDLE_SECONDS if is_mark_due else None)
            except Empty:
                if is_mark_due:
                    self._attempt(self._mark.sync, [])
                    continue
                break
            if isinstance(item, Commit):
                commits.append(item)
                count += len(item.operations)
                size += item.size
            elif isinstance(item, Compact):
                self._compactions.append(item.answer)
                self._attempt(partial(self._schedule_compaction, item.revision), [])
            elif isinstance(item, Quiet):
                self._attempt(self._maintenance.restart_log, [])
            elif isinstance(item, Fail):
                self._fail(item.error, commits)
                commits.clear()
            else:
                self._is_stopping = True
        return commits

    # -- writing

    def _commit(self, commits: list[Commit]) -> None:
        started = time.perf_counter()
        batch = self._decide(commits)
        # A planted bug for the crash tests: with it they must find lost writes, or they prove nothing. Off unless
        # armed.
        is_early = is_armed("storage.ack_before_commit")
        if is_early:
            self._tell(self._owner.committed, batch)
        if batch.changes:
            failpoint("storage.before_commit")
            last = batch.changes[-1].revision
            if last > self._mark.mark.reserved:
                self._mark.reserve(last + BLOCK)
            self._store(batch.changes)
            failpoint("storage.after_commit")
            self._apply(batch.changes)
            if started >= self._verify_at:
                self.files.verify()
                self._verify_at = started + _VERIFY_SECONDS
            self._mark.confirm(last)
        if not is_early:
            self._tell(self._owner.committed, batch._replace(seconds=time.perf_counter() - started))

    def _decide(self, commits: list[Commit]) -> Batch:
        """Compare each commit with the state as the ones before it leave it; a refused one changes nothing."""
        revision = self._revision
        changes: list[Change] = []
        answers: list[int | RevisionMismatch] = []
        # The keys that earlier commits of this batch wrote, with their revisions.
        written: dict[str, int] = {}
        for commit in commits:
            mismatch = self._compare(commit.operations, written)
            if mismatch is not None:
                answers.append(mismatch)
                continue
            revision += 1
            answers.append(revision)
            for operation in commit.operations:
                if isinstance(operation, Put):
                    value = operation.draft.render(revision)
                    written[operation.key] = revision
                    changes.append(Change(revision, operation.key, value, operation.note))
                elif not isinstance(operation, Check):
                    written[operation.key] = 0
                    changes.append(Change(revision, operation.key, None, operation.note))
        return Batch(commits, changes, answers)

    def _compare(self, operations: Sequence[Operation], written: dict[str, int]) -> RevisionMismatch | None:
        for operation in operations:
            key = operation.key
            actual = written[key] if key in written else self._current.get(key, _ABSENT)[0]
            if actual != operation.expected:
                return RevisionMismatch(key, operation.expected, actual)
        return None

    def _store(self, changes: list[Change]) -> None:
        """Write the rows in one statement, hence one transaction and one fsync; returns when they are on disk."""
        row: list[object] = []
        revision = place = 0
        for change in changes:
            place = place + 1 if change.revision == revision else 0
            revision = change.revision
            position = position_of(revision, place)
            value = change.value
            row += (position, change.key, value is None, value, row_checksum(position, change.key, value))
        rows = 1 << (len(changes) - 1).bit_length()
        row += [None] * (5 * (rows - len(changes)))
        self._connection.execute(_INSERTS[rows], row)

    def _apply(self, changes: list[Change]) -> None:
        """Make what is on disk now the state that later commits are compared with."""
        for change in changes:
            length = None if change.value is None else len(change.value)
            self._record(change.revision, change.key, length)
            # An estimate: a leaf of the log and one of the index each. The checkpoint knows the truth.
            self._maintenance.pages += 2 + (length or 0) // _PAGE
        self._changes += len(changes)

    def _record(self, revision: int, key: str, length: int | None) -> None:
        """Take one change into the state; `length` is that of its value, None for a deletion."""
        self._revision = revision
        _, before = self._current.get(key, _ABSENT)
        if length is None:
            self._current.pop(key, None)
            self._ledger.remove(revision, before, cost(key, 0))
        else:
            after = cost(key, length)
            self._current[key] = (revision, after)
            self._ledger.put(revision, before, after)

    # -- compaction

    def _schedule_compaction(self, revision: int) -> None:
        """Make old versions unreadable; to no revision that is not published, because reads may be made at this one."""
        maintenance = self._maintenance
        if revision > maintenance.compacted:
            maintenance.schedule(revision)
            self._tell(self._owner.compaction_scheduled, revision)
        if not maintenance.has_old_rows:
            self._finish_compaction()

    def _compact_step(self) -> None:
        """Remove some rows; twice as many as have come, when they come faster than they are removed."""
        self._maintenance.compact_step(2 * self._changes if self._ledger.is_behind else 0)
        self._batches = self._changes = 0
        if not self._maintenance.has_old_rows:
            self._finish_compaction()

    def _finish_compaction(self) -> None:
        self._tell(self._owner.compaction_finished, self._compactions)
        self._compactions = []
