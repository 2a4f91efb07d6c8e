"""The SQLite store: durable, in one file, no other program. The default backend.

    loop: commit ── queue ────▶ writer thread: compare, one transaction, one fsync ──▶ loop: followers, then answers
    loop: get, range, follow ─▶ reader threads: one snapshot each ───────────────────▶ loop: result

This module is the loop's side. The writer thread (`writer`) owns the revision; this side learns of a commit in
`committed`, and `revision` moves there, together with the feed: a revision that can be seen here has been delivered.
Reads are made at that revision. The event loop never waits for the disk.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

import structlog

from kapi.base.failpoint import failpoint
from kapi.storage.feed import Feed
from kapi.storage.interface import Compacted, Delete, FutureRevision, Put, StorageBusy, StorageDamaged, StorageFailed
from kapi.storage.ledger import HISTORY_BYTES
from kapi.storage.operations import validate_operations
from kapi.storage.sqlite.damage import Damage, RowDamaged
from kapi.storage.sqlite.file import DATABASE, open_reader
from kapi.storage.sqlite.openfiles import FilesReplaced
from kapi.storage.sqlite.reader import read_key, read_log, read_range
from kapi.storage.sqlite.writer import Commit, Compact, Fail, Stop, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kapi.storage.interface import Change, Draft, Entry, Follower, GapHandler, Operation, Page, Subscription
    from kapi.storage.sqlite.writer import Batch, Opened

_Result = TypeVar("_Result")

_READERS = 2
_WAITING_WRITES = 8192
_WAITING_BYTES = 128 << 20

_log = structlog.get_logger("kapi.storage")


class Observer(Protocol):
    """Receives measurements of the disk; called on the event loop."""

    def committed(self, batch_size: int, seconds: float) -> None:
        """A batch of writes is on disk."""
        ...


class SqliteStorage:
    """The `Storage` contract on one SQLite file; opened by `open`, used on one event loop."""

    def __init__(
        self,
        directory: Path,
        *,
        observer: Observer | None,
        max_waiting: int,
        max_waiting_bytes: int,
        history_bytes: int,
    ) -> None:
        self.on_failure: Callable[[BaseException], None] | None = None
        self.on_gap: GapHandler | None = None
        self._directory = directory
        self._observer = observer
        self._max_waiting = max_waiting
        self._max_waiting_bytes = max_waiting_bytes
        self._loop = asyncio.get_running_loop()
        self._feed = Feed()
        self._revision = 0
        self._compacted = 0
        self._failure: BaseException | None = None
        self._is_closing = False
        self._waiting = 0
        self._waiting_bytes = 0
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._writer = Writer(directory, self, self._loop, history_bytes)
        # A daemon: a program that ends without `close` ends as if killed, which the store survives by design.
        self._writer_thread = threading.Thread(target=self._writer.run, name="kapi-storage-writer", daemon=True)
        self._readers = ThreadPoolExecutor(_READERS, "kapi-storage-reader")
        self._connections: list[sqlite3.Connection] = []
        self._local = threading.local()
        self.damages: dict[int, Damage] = {}
        """What was found damaged since the start, by position (0: not in a row)."""
        self._scrub_connection: sqlite3.Connection | None = None
        self._scrub_lock = threading.Lock()
        self._database = -1

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        observer: Observer | None = None,
        max_waiting: int = _WAITING_WRITES,
        max_waiting_bytes: int = _WAITING_BYTES,
        history_bytes: int = HISTORY_BYTES,
    ) -> SqliteStorage:
        """Open the store in the data directory `path`, making both if missing; `StorageUnavailable` says why not.

        `history_bytes` bounds the bytes of old versions, unless the latest versions take more; see `storage.ledger`.
        """
        store = cls(
            path,
            observer=observer,
            max_waiting=max_waiting,
            max_waiting_bytes=max_waiting_bytes,
            history_bytes=history_bytes,
        )
        store._writer_thread.start()
        try:
            await store._opened
        except BaseException:
            store._writer.inbox.put(Stop())
            raise
        return store

    @property
    def revision(self) -> int:
        """The latest revision that has been published. The writer thread reads it too."""
        return self._revision

    @property
    def waiting(self) -> int:
        """The operations of commits that were not answered yet."""
        return self._waiting

    @property
    def compacted(self) -> int:
        """The oldest revision that can be read."""
        return self._compacted

    # -- writes

    async def commit(self, operations: Sequence[Operation]) -> int:
        """Compare all keys and write all values in one revision, or raise and write nothing; returns when on disk."""
        return await self._submit(tuple(operations))

    async def put(self, key: str, draft: Draft, expected: int, note: object = None) -> int:
        """Commit one `Put`."""
        return await self._submit((Put(key, draft, expected, note),))

    async def delete(self, key: str, expected: int, note: object = None) -> int:
        """Commit one `Delete`."""
        return await self._submit((Delete(key, expected, note),))

    def _submit(self, operations: Sequence[Operation]) -> asyncio.Future[int]:
        self._check_usable()
        validate_operations(operations)
        if self._waiting >= self._max_waiting or self._waiting_bytes >= self._max_waiting_bytes:
            raise StorageBusy(f"{self._waiting} writes are waiting for the disk; try again later")
        size = 0
        for operation in operations:
            size += len(operation.key)
            if isinstance(operation, Put):
                size += len(operation.draft.before) + len(operation.draft.after)
        commit = Commit(operations, size, self._loop.create_future())
        self._waiting += len(operations)
        self._waiting_bytes += size
        self._writer.inbox.put(commit)
        return commit.answer

    def is_stale(self, key: str) -> bool:
        """Return False: there is one way to store a value."""
        return False

    async def compact(self, revision: int) -> None:
        """Remove versions that were replaced or deleted at or before `revision`; returns when their space is free."""
        self._check_usable()
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        request = Compact(revision, self._loop.create_future())
        self._writer.inbox.put(request)
        await request.answer

    # -- reads

    async def get(self, key: str, revision: int = 0) -> Entry | None:
        """The value of a key, now or at a revision."""
        published = self._readable(revision)
        return await self._read(lambda connection: read_key(connection, key, revision, published))

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0, counted: bool = True
    ) -> Page:
        """The keys that begin with `prefix`, from `start` on, at most `limit` (0: all), now or at a revision."""
        published = self._readable(revision)
        return await self._read(
            lambda connection: read_range(connection, prefix, start, limit, revision, published, counted=counted)
        )

    async def latest(self) -> int:
        """The published revision: the directory's lock keeps every other server out."""
        return self._revision

    async def follow(self, since: int, follower: Follower) -> Subscription:
        """Feed every change after `since` to the follower; returns when history has been delivered."""
        self._readable(since)
        if since < self._compacted:
            raise Compacted(since, self._compacted)
        return await self._feed.attach(since, follower, history=self._history, published=lambda: self._revision)

    async def _history(self, after: int) -> tuple[int, Sequence[Change]]:
        # Not beyond what is published: the rest is on its way to the live followers.
        published = self._readable(after)
        return await self._read(lambda connection: read_log(connection, after, published))

    def _readable(self, revision: int) -> int:
        """The published revision, if one may read at `revision`."""
        if self._is_closing:
            raise StorageFailed("the store has been closed")
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        return self._revision

    async def _read(self, read: Callable[[sqlite3.Connection], _Result]) -> _Result:
        try:
            return await self._loop.run_in_executor(self._readers, self._with_connection, read)
        except RowDamaged as error:
            self.record_damage(error.damage)
            raise
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            damage = Damage(DATABASE, f"SQLite cannot read it: {error}")
            self.record_damage(damage)
            raise StorageDamaged(str(damage)) from error

    def _with_connection(self, read: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """On a reader thread, with the connection of that thread."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = open_reader(self._directory)
            self._connections.append(connection)
        with self._writer.gate.reading():
            return read(connection)

    # -- integrity

    def record_damage(self, damage: Damage) -> None:
        """Remember and log damage that was found while the store is open."""
        if damage.position not in self.damages:
            self.damages[damage.position] = damage
            _log.error("the store is damaged", damage=str(damage))

    async def verify_files(self) -> None:
        """Fail the store if its files were deleted or replaced."""
        self._check_usable()
        try:
            await self._loop.run_in_executor(self._readers, self._writer.files.verify)
        except (FilesReplaced, OSError) as error:
            self._writer.inbox.put(Fail(error))
            self.failed(error, [])

    async def scrub(self, read: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Call a function off the event loop, with a connection that nothing else uses; one call waits for another."""
        self._check_usable()
        return await self._loop.run_in_executor(self._readers, self._with_scrub_connection, read)

    def _with_scrub_connection(self, read: Callable[[sqlite3.Connection], _Result]) -> _Result:
        # A lock of threads: a caller that is cancelled does not end the thread that reads for it.
        with self._scrub_lock:
            if self._scrub_connection is None:
                self._scrub_connection = open_reader(self._directory)
                self._connections.append(self._scrub_connection)
            with self._writer.gate.reading():
                return read(self._scrub_connection)

    def forget_cached_pages(self) -> None:
        """Tell the kernel to read the database from disk again; blocks."""
        if self._database < 0:
            # Stays open as long as the store: closing it would release the locks that SQLite has on the file.
            self._database = os.open(self._directory / DATABASE, os.O_RDONLY | os.O_CLOEXEC)
        if hasattr(os, "posix_fadvise"):  # Not on macOS.
            os.posix_fadvise(self._database, 0, 0, os.POSIX_FADV_DONTNEED)

    # -- called by the writer, on the loop

    def opened(self, state: Opened) -> None:
        """The store can be used."""
        self._revision, self._compacted = state
        if not self._opened.done():
            self._opened.set_result(None)

    def committed(self, batch: Batch) -> None:
        """A batch is on disk: publish its changes, then answer its callers."""
        try:
            if self._failure is not None:
                raise self._refusal()
            if batch.changes:
                self._publish(batch)
        except Exception as error:
            self.failed(error, [*batch.commits])
            return
        self._release(batch.commits)
        for commit, answer in zip(batch.commits, batch.answers, strict=True):
            if commit.answer.done():
                continue  # Cancelled: the caller has given up, the commit stands.
            if isinstance(answer, int):
                commit.answer.set_result(answer)
            else:
                commit.answer.set_exception(answer)

    def _publish(self, batch: Batch) -> None:
        self._revision = batch.changes[-1].revision
        failpoint("storage.before_publish")
        failure = self._feed.publish(self._revision, batch.changes)
        failpoint("storage.after_publish")
        if failure is not None:
            raise failure
        if self._observer is not None:
            self._observer.committed(len(batch.changes), batch.seconds)

    def _release(self, commits: Sequence[Commit]) -> None:
        self._waiting -= sum(len(commit.operations) for commit in commits)
        self._waiting_bytes -= sum(commit.size for commit in commits)

    def compaction_scheduled(self, revision: int) -> None:
        """Earlier revisions cannot be read any more."""
        self._compacted = revision

    def compaction_finished(self, answers: list[asyncio.Future[None]]) -> None:
        """All rows of a compaction have been removed, or are left to the next start."""
        for answer in answers:
            if not answer.done():
                answer.set_result(None)

    def failed(self, error: BaseException, unanswered: list[Commit | Compact]) -> None:
        """Nothing will be written any more: refuse what waits and what comes, and call `on_failure` once."""
        is_first = self._failure is None
        self._failure = self._failure or error
        self._release([item for item in unanswered if isinstance(item, Commit)])
        for item in unanswered:
            if not item.answer.done():
                item.answer.set_exception(self._refusal())
        if is_first and self.on_failure is not None:
            self.on_failure(error)

    def ended(self, error: BaseException | None) -> None:
        """The writer thread has ended; `error` is why the store could not be opened."""
        if error is not None and not self._opened.done():
            self._opened.set_exception(error)
        self._ended.set_result(None)

    def _refusal(self) -> StorageFailed:
        refusal = StorageFailed(f"the store has failed and takes no more writes: {self._failure}")
        refusal.__cause__ = self._failure
        return refusal

    def _check_usable(self) -> None:
        if self._is_closing:
            raise StorageFailed("the store has been closed")
        if self._failure is not None:
            raise self._refusal()

    # -- closing

    async def close(self) -> None:
        """Finish the commits that were accepted, then release the store."""
        if not self._is_closing:
            self._is_closing = True
            # Readers first: the writer's last checkpoint needs the log for itself.
            await asyncio.to_thread(self._readers.shutdown)
            for connection in self._connections:
                connection.close()
            self._writer.inbox.put(Stop())
        await asyncio.shield(self._ended)
        self._writer_thread.join()
        if self._database >= 0:
            os.close(self._database)
            self._database = -1
