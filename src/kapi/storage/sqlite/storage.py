"""The SQLite store: durable, in one file, no other program. The default backend.

    loop: put, delete ── queue ──▶ writer thread: check, one transaction, one fsync ──▶ loop: followers, then answers
    loop: get, range, follow ────▶ reader threads: one snapshot each ─────────────────▶ loop: result

This module is the loop's side. The writer (`sqlite_writer`) owns the revision; this side learns of a commit in
`settle`, and `revision` moves there, together with the feed: whoever sees a revision here has a feed that has
delivered it. Reads are made at that revision. The event loop never waits for the disk.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

from kapi.base.failpoint import failpoint
from kapi.storage.feed import Feed
from kapi.storage.interface import Compacted, FutureRevision, StorageBusy, StorageFailed
from kapi.storage.ledger import HISTORY_BYTES
from kapi.storage.sqlite.file import open_reader
from kapi.storage.sqlite.reader import read_key, read_log, read_range
from kapi.storage.sqlite.writer import Compact, Stop, Write, Writer

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kapi.storage.interface import Change, Draft, Entry, Page, Subscription
    from kapi.storage.sqlite.writer import Batch, Opened

_Result = TypeVar("_Result")

_READERS = 2
_WAITING_WRITES = 8192
_WAITING_BYTES = 128 << 20


class Observer(Protocol):
    """Who wants to know how the disk is doing; called on the event loop."""

    def committed(self, batch_size: int, seconds: float) -> None:
        """A batch of writes is on disk."""
        ...


class SqliteStorage:
    """The `Storage` contract on one SQLite file; made by `open`, used on one event loop."""

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
        self._thread = threading.Thread(target=self._writer.run, name="kapi-storage-writer", daemon=True)
        self._readers = ThreadPoolExecutor(_READERS, "kapi-storage-reader")
        self._connections: list[sqlite3.Connection] = []
        self._local = threading.local()

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

        `history_bytes` is how much past it keeps at most, if its present is not larger; see `storage.ledger`.
        """
        store = cls(
            path,
            observer=observer,
            max_waiting=max_waiting,
            max_waiting_bytes=max_waiting_bytes,
            history_bytes=history_bytes,
        )
        store._thread.start()
        try:
            await store._opened
        except BaseException:
            store._writer.inbox.put(Stop())
            raise
        return store

    @property
    def revision(self) -> int:
        """The latest revision that has been published. The writer thread looks at it too."""
        return self._revision

    @property
    def compacted(self) -> int:
        """The revision up to which history is gone."""
        return self._compacted

    # -- writes

    async def put(self, key: str, draft: Draft, expected: int, note: object = None) -> int:
        """Write a value if the key is at `expected` (0: absent); returns the new revision once it is on disk."""
        return await self._submit(key, draft, expected, note)

    async def delete(self, key: str, expected: int, note: object = None) -> int:
        """Remove a key that is at `expected`; returns the revision of the removal once it is on disk."""
        if expected <= 0:
            raise ValueError("delete needs the revision the key is at; 0 means absent")
        return await self._submit(key, None, expected, note)

    def _submit(self, key: str, draft: Draft | None, expected: int, note: object) -> asyncio.Future[int]:
        self._check_usable()
        if not key.isascii():
            key.encode()  # Raises here, for this caller alone, what would break a whole batch.
        if self._waiting >= self._max_waiting or self._waiting_bytes >= self._max_waiting_bytes:
            raise StorageBusy(f"{self._waiting} writes are waiting for the disk; try again later")
        write = Write(key, draft, expected, note, self._loop.create_future())
        self._waiting += 1
        self._waiting_bytes += write.size
        self._writer.inbox.put(write)
        return write.answer

    async def compact(self, revision: int) -> None:
        """Forget versions that were replaced or removed at or before `revision`; returns when their space is free."""
        self._check_usable()
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        wish = Compact(revision, self._loop.create_future())
        self._writer.inbox.put(wish)
        await wish.answer

    # -- reads

    async def get(self, key: str, revision: int = 0) -> Entry | None:
        """The value of a key, now or at a revision."""
        published = self._readable(revision)
        return await self._read(lambda connection: read_key(connection, key, revision, published))

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Page:
        """The keys that begin with `prefix`, from `start` on, at most `limit` (0: all), now or at a revision."""
        published = self._readable(revision)
        return await self._read(lambda connection: read_range(connection, prefix, start, limit, revision, published))

    async def follow(self, since: int, follower: Callable[[Sequence[Change]], None]) -> Subscription:
        """Feed every change after `since` to the follower; returns when history has been delivered."""
        self._readable(since)
        if since < self._compacted:
            raise Compacted(since, self._compacted)
        return await self._feed.attach(since, follower, history=self._history, published=lambda: self._revision)

    async def _history(self, after: int) -> Sequence[Change]:
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
        return await self._loop.run_in_executor(self._readers, self._with_connection, read)

    def _with_connection(self, read: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """On a reader thread, with the connection of that thread."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = open_reader(self._directory)
            self._connections.append(connection)
        with self._writer.turnstile.passage():
            return read(connection)

    # -- what the writer tells (on the loop)

    def opened(self, state: Opened) -> None:
        """The store can be used."""
        self._revision, self._compacted = state
        if not self._opened.done():
            self._opened.set_result(None)

    def settle(self, batch: Batch) -> None:
        """A batch is on disk: publish its changes, then answer its writers."""
        try:
            if self._failure is not None:
                raise self._refusal()
            if batch.changes:
                self._publish(batch)
        except Exception as error:
            self.failed(error, [*batch.writes])
            return
        self._release(batch.writes)
        for write, answer in zip(batch.writes, batch.answers, strict=True):
            if write.answer.done():
                continue  # Cancelled: the caller is gone, the write is not.
            if isinstance(answer, int):
                write.answer.set_result(answer)
            else:
                write.answer.set_exception(answer)

    def _publish(self, batch: Batch) -> None:
        self._revision = batch.changes[-1].revision
        failpoint("storage.before_publish")
        trouble = self._feed.publish(batch.changes)
        failpoint("storage.after_publish")
        if trouble is not None:
            raise trouble
        if self._observer is not None:
            self._observer.committed(len(batch.changes), batch.seconds)

    def _release(self, writes: Sequence[Write]) -> None:
        self._waiting -= len(writes)
        self._waiting_bytes -= sum(write.size for write in writes)

    def compacting(self, revision: int) -> None:
        """History up to this revision is out of reach from now on."""
        self._compacted = revision

    def swept(self, answers: list[asyncio.Future[None]]) -> None:
        """A compaction is complete, or left to the next start."""
        for answer in answers:
            if not answer.done():
                answer.set_result(None)

    def failed(self, error: BaseException, unanswered: list[Write | Compact]) -> None:
        """Nothing will be written any more: refuse what waits and what comes, and say so once."""
        is_news = self._failure is None
        self._failure = self._failure or error
        self._release([item for item in unanswered if isinstance(item, Write)])
        for item in unanswered:
            if not item.answer.done():
                item.answer.set_exception(self._refusal())
        if is_news and self.on_failure is not None:
            self.on_failure(error)

    def ended(self, error: BaseException | None) -> None:
        """The writer thread is done; `error` is why the store could not be opened."""
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

    # -- the end

    async def close(self) -> None:
        """Finish what was accepted, then release the store."""
        if not self._is_closing:
            self._is_closing = True
            # Readers first: the writer's last checkpoint needs the log for itself.
            await asyncio.to_thread(self._readers.shutdown)
            for connection in self._connections:
                connection.close()
            self._writer.inbox.put(Stop())
        await asyncio.shield(self._ended)
        self._thread.join()
