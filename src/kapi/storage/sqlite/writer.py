"""The writer thread of the SQLite store: the one owner of the revision counter.

It takes whatever writes are waiting, checks every precondition against the current state (which it keeps in a
dictionary, key to revision), commits them in one transaction with one fsync, and hands results and changes to the
event loop in one call. Under load batches grow by themselves, so an fsync is paid per batch and not per write.

A batch is **one SQL statement**. Python's sqlite3 gives up the interpreter lock at every step of a statement and has
to win it back; with a busy event loop that may take 5 ms each time. 64 rows as 64 steps reached 180 writes/s beside a
loop that never rests, as one step 8,000.

Compaction and what else keeps the file in shape (`sqlite_upkeep`) is done here too, in small steps between batches, so
that it never competes with a write for the database and a write waits for one step at most. When the past takes more
than its bytes (`ledger`) the writer compacts without being asked, and as long as it does steps grow with the batches:
who writes faster than rows can be removed is slowed down, and the file stays as it is.

After a failure nothing is retried: what a failed fsync left on the disk is unknown, and a second one may succeed
without having written anything.

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
from kapi.storage.ledger import Ledger, cost
from kapi.storage.sqlite.file import DirectoryLock, explained, open_database, prepare_directory
from kapi.storage.sqlite.maintenance import CHECKPOINT_PAGES, Upkeep
from kapi.storage.sqlite.reader import Turnstile

if TYPE_CHECKING:
    import asyncio
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

    from kapi.storage.interface import Draft

BATCH_WRITES = 256
BATCH_BYTES = 1 << 20
"""Bounds of a batch; the second may be passed by one value."""

# While writes keep coming, one compaction step is made every so many batches.
_BATCHES_PER_SWEEP = 4
_PAGE = 4096
_ABSENT = (0, 0)

# Everything that happened, without the values: their length stands in front of them.
_LOG = "SELECT revision, key, length(value) FROM history ORDER BY revision"


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


class Quiet(NamedTuple):
    """Nobody reads, and nobody will until the turnstile is opened."""


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

    @property
    def revision(self) -> int:
        """What has been published; this alone may be asked from the writer thread."""

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

    def __init__(self, directory: Path, owner: Owner, loop: asyncio.AbstractEventLoop, history_bytes: int) -> None:
        self.inbox: SimpleQueue[Write | Compact | Quiet | Stop] = SimpleQueue()
        self.turnstile = Turnstile(lambda: self.inbox.put(Quiet()))
        self._directory = directory
        self._owner = owner
        self._loop = loop
        self._connection: sqlite3.Connection
        # The latest version of every key: its revision and what it costs. Plain pairs, there is one for every object.
        self._current: dict[str, tuple[int, int]] = {}
        self._revision = 0
        self._ledger = Ledger(history_bytes)
        self._upkeep: Upkeep
        self._sweepers: list[asyncio.Future[None]] = []
        # Batches and revisions since the last compaction step.
        self._batches = 0
        self._unpaid = 0
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
        self._tell(self._owner.opened, Opened(self._revision, self._upkeep.compacted))
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
        self._upkeep = upkeep = Upkeep(self._connection, self._ledger, self.turnstile)
        for revision, key, length in self._connection.execute(_LOG):
            self._note(revision, key, length)
        self._revision = max(self._revision, upkeep.compacted)
        self._ledger.aim(upkeep.compacted)
        self._ledger.sweep(upkeep.swept)
        # A smaller bound than last time, or a crash in time: what is opened is within it.
        if due := self._ledger.due(self._revision):
            upkeep.aim(due)

    def _close(self, lock: DirectoryLock) -> None:
        self.turnstile.open()
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
        while True:
            writes = self._collect()
            if writes:
                self._attempt(partial(self._commit, writes), writes)
                self._batches += 1
            elif self._is_stopping:
                break
            # After the answers: this is about the size of the file, not about the safety of what is in it.
            if self._failure is None:
                self._attempt(self._tend, [])
        self._tell(self._owner.swept, self._sweepers)

    def _tend(self) -> None:
        """Upkeep between two batches, one step of each kind at most."""
        upkeep = self._upkeep
        if due := self._ledger.due(self._owner.revision):
            self._aim(due)
        if self._has_chores():
            is_idle = self.inbox.empty()
            if upkeep.has_rows and (is_idle or self._batches >= _BATCHES_PER_SWEEP or self._ledger.is_behind):
                self._sweep()
            elif upkeep.has_spare and is_idle:
                upkeep.trim(lambda: not self.inbox.empty())
        if upkeep.pages >= CHECKPOINT_PAGES:
            upkeep.checkpoint()

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
        sweepers = [Compact(self._upkeep.compacted, answer) for answer in self._sweepers]
        self._sweepers = []
        # Reads go on.
        self.turnstile.open()
        self._tell(self._owner.failed, error, [*writes, *sweepers])

    def _has_chores(self) -> bool:
        """Whether there is something to do while nothing comes in."""
        is_in_service = self._failure is None and not self._is_stopping
        return is_in_service and (self._upkeep.has_rows or self._upkeep.has_spare)

    def _collect(self) -> list[Write]:
        """The writes that wait, within the bounds of a batch; sleeps until there is something to do."""
        writes: list[Write] = []
        size = 0
        while len(writes) < BATCH_WRITES and size < BATCH_BYTES and not self._is_stopping:
            is_idle = not writes and not self._has_chores()
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
            elif isinstance(item, Quiet):
                self._attempt(self._upkeep.cut_log, [])
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
            self._take(batch.changes)
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
            actual = ahead[key] if key in ahead else self._current.get(key, _ABSENT)[0]
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

    def _take(self, changes: list[Change]) -> None:
        """What is on disk now is the state that later writes are checked against."""
        for change in changes:
            length = None if change.value is None else len(change.value)
            self._note(change.revision, change.key, length)
            # A guess: a leaf of the log and one of the index each. The checkpoint knows the truth.
            self._upkeep.pages += 2 + (length or 0) // _PAGE
        self._unpaid += len(changes)

    def _note(self, revision: int, key: str, length: int | None) -> None:
        """One change; `length` is that of its value, None for a removal."""
        self._revision = revision
        _, before = self._current.get(key, _ABSENT)
        if length is None:
            self._current.pop(key, None)
            self._ledger.remove(revision, before, cost(key, 0))
        else:
            after = cost(key, length)
            self._current[key] = (revision, after)
            self._ledger.put(revision, before, after)

    # -- forgetting

    def _aim(self, revision: int) -> None:
        """Put history out of reach; no revision that is not published, because reads may be made at this one."""
        upkeep = self._upkeep
        if revision > upkeep.compacted:
            upkeep.aim(revision)
            self._tell(self._owner.compacting, revision)
        if not upkeep.has_rows:
            self._finish_sweep()

    def _sweep(self) -> None:
        """Remove some rows; twice as many as have come, when they come faster than they go."""
        self._upkeep.sweep(2 * self._unpaid if self._ledger.is_behind else 0)
        self._batches = self._unpaid = 0
        if not self._upkeep.has_rows:
            self._finish_sweep()

    def _finish_sweep(self) -> None:
        self._tell(self._owner.swept, self._sweepers)
        self._sweepers = []
