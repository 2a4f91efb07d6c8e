"""The etcd store: the `Storage` contract on a cluster that several servers share.

    commit ── transaction ──▶ etcd ──▶ answer: the revision
                               └─────▶ the one watch of the prefix ──▶ followers, then the commit returns

A value is stored as the identity of its commit (12 bytes) and the value without its revision (`revisionslot`). The
identity tells this server's own commits in the watch. That spares decoding what it wrote, and it answers the question
that a lost answer leaves: a transaction that timed out may have been carried out, and is sent again. Its comparisons
let one of the two through at most; if the second is refused, the watch has shown by then whether the first was not.

Commits that write one key are sent one after the other, in the order in which they were started; all others run at the
same time. Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from kapi.base.failpoint import failpoint
from kapi.storage import revisionslot
from kapi.storage.etcd import messages
from kapi.storage.etcd.cluster import ATTEMPT_SECONDS, COMPACT, RANGE, TXN, Cluster, EtcdError, Unanswered
from kapi.storage.etcd.latest import SharedRead
from kapi.storage.etcd.livefeed import CompactedWatch, History, LiveFeed
from kapi.storage.etcd.opening import format_key, open_store
from kapi.storage.etcd.streams import Code
from kapi.storage.feed import Feed
from kapi.storage.interface import (
    Change,
    Check,
    Compacted,
    Delete,
    Entry,
    FutureRevision,
    OutcomeUnknown,
    Page,
    Put,
    RevisionMismatch,
    StorageBusy,
    StorageFailed,
    StorageUnreachable,
    ValueTooLarge,
)
from kapi.storage.keys import prefix_end
from kapi.storage.operations import validate_operations

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kapi.storage.etcd.address import Address
    from kapi.storage.etcd.messages import Event, RangeResponse
    from kapi.storage.etcd.opening import Opened
    from kapi.storage.interface import Draft, Follower, GapHandler, Operation, Subscription

_WRITER_BYTES: Final = 8
_IDENTITY_BYTES: Final = 12
_PAUSE: Final = 0.1
_GAP_PAUSE: Final = 1.0
_PAGE: Final = 500
"""Keys that one call reads; a page may be megabytes."""

_log = structlog.get_logger("kapi.storage.etcd")


class _Commit:
    """A commit that is being made."""

    __slots__ = ("ended", "identity", "is_hidden", "operations", "revision")

    def __init__(self, identity: bytes, operations: Sequence[Operation]) -> None:
        self.identity = identity
        self.operations = operations
        self.revision = 0
        """Where the feed has delivered it; 0 while it has not."""
        self.is_hidden = False
        """True if it may have been made in a gap of the feed, which then says nothing about it."""
        self.ended: asyncio.Future[None] | None = None
        """Resolved when it has ended either way; there is one if another commit waits for it."""


class EtcdStorage:
    """The `Storage` contract on etcd; opened by `open`, used on one event loop."""

    def __init__(self, cluster: Cluster, opened: Opened) -> None:
        self.on_failure: Callable[[BaseException], None] | None = None
        self.on_gap: GapHandler | None = None
        self.gaps = 0
        """How many times the feed had a gap, and the store was read anew."""
        self.cluster = cluster
        prefix = cluster.address.prefix
        self._prefix = prefix
        self._prefix_bytes = len(prefix.encode())
        self._root, self._end = f"{prefix}/".encode(), f"{prefix}0".encode()
        self._origin = opened.origin
        self._revision = opened.revision
        self._compacted = opened.compacted
        self._last_event = opened.revision
        self._feed = Feed()
        self._writer = os.urandom(_WRITER_BYTES)
        self._numbers = itertools.count(1)
        self._commits: dict[bytes, _Commit] = {}
        self._writing: dict[str, _Commit] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        # Those who wait for the feed to reach a revision, the smallest first.
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._gap: asyncio.Future[None] | None = None
        """While the store is read anew: done when that has ended."""
        self._shared_read = SharedRead(self._read_latest)
        self._retries: set[asyncio.Task[None]] = set()
        self._latest_request = messages.range_request(format_key(prefix), count_only=True)
        self._failure: BaseException | None = None
        self._is_closing = False
        self._loop = asyncio.get_running_loop()
        self.live = LiveFeed(cluster, self._root, self._end, self._origin + self._revision, self._deliver)
        self._task = asyncio.ensure_future(self._run())

    @classmethod
    async def open(cls, address: Address, *, shift: int = 0, creates: bool = True) -> EtcdStorage:
        """Open the store at an address, creating it if it is absent; `StorageUnavailable` says why not.

        `shift` is the revision at which a new store begins; none is created if it does not say `creates`.
        """
        cluster = Cluster(address)
        try:
            return cls(cluster, await open_store(cluster, shift=shift, creates=creates))
        except BaseException:
            await cluster.close()
            raise

    @property
    def revision(self) -> int:
        """The latest revision that has been published."""
        return self._revision

    @property
    def waiting(self) -> int:
        """The commits that have begun and were not answered."""
        return len(self._commits)

    @property
    def compacted(self) -> int:
        """The oldest revision that can be read, as far as this server knows; another one may have compacted further."""
        return self._compacted

    @property
    def latest_reads(self) -> int:
        """How many times the latest revision was read; many readers share one."""
        return self._shared_read.calls

    # -- writes

    async def put(self, key: str, draft: Draft, expected: int, note: object = None) -> int:
        """Commit one `Put`."""
        return await self.commit((Put(key, draft, expected, note),))

    async def delete(self, key: str, expected: int, note: object = None) -> int:
        """Commit one `Delete`."""
        return await self.commit((Delete(key, expected, note),))

    async def commit(self, operations: Sequence[Operation]) -> int:
        """Compare all keys and write all values in one revision; returns when the followers of this server know."""
        self._check_usable()
        validate_operations(operations)
        commit = _Commit(self._writer + (next(self._numbers) & 0xFFFFFFFF).to_bytes(4), operations)
        earlier = self._begin(commit)
        try:
            for one in earlier:
                if one.ended is None:
                    one.ended = self._loop.create_future()
                await asyncio.shield(one.ended)
            return await self._commit(commit)
        finally:
            self._finish(commit)

    def _begin(self, commit: _Commit) -> list[_Commit]:
        """Register a commit; returns those under way that write one of its keys."""
        writing, earlier = self._writing, []
        for operation in commit.operations:
            other = writing.get(operation.key)
            if other is not None and other not in earlier:
                earlier.append(other)
            if not isinstance(operation, Check):
                writing[operation.key] = commit
        self._commits[commit.identity] = commit
        self._idle.clear()
        return earlier

    def _finish(self, commit: _Commit) -> None:
        del self._commits[commit.identity]
        for operation in commit.operations:
            if self._writing.get(operation.key) is commit:
                del self._writing[operation.key]
        if commit.ended is not None:
            commit.ended.set_result(None)
        if not self._commits:
            self._idle.set()

    async def _commit(self, commit: _Commit) -> int:
        request = self._transaction(commit)
        is_repeated = False
        timeout = self.cluster.address.timeout
        deadline = self._loop.time() + timeout
        try:
            try:
                failpoint("etcd.before_commit")
                data = await self.cluster.attempt(self.cluster.member, TXN, request, min(ATTEMPT_SECONDS, timeout))
                failpoint("etcd.after_commit")
            except EtcdError as error:
                is_repeated = True
                data = await self.cluster.retry(TXN, request, error, deadline)
        except Unanswered as error:
            if commit.revision:
                return commit.revision
            raise self._unanswered(error) from None
        except EtcdError as error:
            raise self._refused(error) from None
        answer = messages.read_txn(data)
        revision = answer.revision - self._origin
        if answer.succeeded:
            await self._delivered(revision, has_events=True)
            return revision
        if is_repeated:
            # An attempt that was not answered may have been carried out. All that happened before this answer is in
            # the feed up to its revision.
            await self._delivered(revision)
            if commit.revision:
                return commit.revision
            if commit.is_hidden:
                raise OutcomeUnknown("etcd did not answer in time, and the changes meanwhile have been compacted")
        raise self._mismatch(commit, answer.ranges, is_repeated=is_repeated)

    def _transaction(self, commit: _Commit) -> bytes:
        compares, success, failure = [], [], []
        origin = self._origin
        for operation in commit.operations:
            key = self._key(operation.key)
            compares.append(messages.compare_revision(key, operation.expected + origin if operation.expected else 0))
            failure.append(messages.range_operation(messages.range_request(key, keys_only=True)))
            if isinstance(operation, Put):
                value = commit.identity + revisionslot.pack(operation.draft)
                success.append(messages.put_operation(key, value))
            elif isinstance(operation, Delete):
                success.append(messages.delete_operation(key))
        return messages.txn_request(compares, success, failure)

    def _mismatch(self, commit: _Commit, ranges: Sequence[RangeResponse], *, is_repeated: bool) -> Exception:
        """Why a commit was refused: the first of its keys that is not where it was expected."""
        revisions = [found.kvs[0].mod_revision - self._origin if found.kvs else 0 for found in ranges]
        wrong = [pair for pair in zip(commit.operations, revisions, strict=True) if pair[0].expected != pair[1]]
        if not wrong:
            return StorageUnreachable("etcd refused a commit whose comparisons hold")
        if is_repeated and not any(isinstance(one, Put) for one in commit.operations):
            # A deletion leaves no value that would say who deleted the key.
            return OutcomeUnknown("etcd did not answer in time; the object may have been deleted by this request")
        if is_repeated and not any(operation.expected for operation, _ in wrong):
            # The attempt that was not answered may still be on its way, and a key that exists now may be deleted before
            # it arrives. A key that was at a revision is never there again, so any other refusal is final.
            return OutcomeUnknown("etcd did not answer in time; the object may yet be created by this request")
        operation, actual = wrong[0]
        return RevisionMismatch(operation.key, operation.expected, actual)

    def _key(self, key: str) -> bytes:
        if not key.startswith("/"):
            raise ValueError(f"the key {key!r} does not begin with /")
        return (self._prefix + key).encode()

    # -- the feed

    async def _run(self) -> None:
        """Keep the live feed running; its end is the end of the store."""
        try:
            while True:
                try:
                    await self.live.run()
                except CompactedWatch as error:
                    await self._cross_gap(error.revision - self._origin)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._fail(error)

    async def _cross_gap(self, compacted: int) -> None:
        """Have the store read anew, and go on from there: what the feed has missed is compacted."""
        self.gaps += 1
        self._compacted = max(self._compacted, compacted)
        why = f"the changes after revision {self._revision} have been compacted up to {compacted}"
        if self.on_gap is None:
            raise StorageFailed(f"etcd could not be reached for so long that {why}")
        _log.warning("the store is read anew", reason=why)
        self.live.interruption = f"the store is being read anew: {why}"
        self._gap = self._loop.create_future()
        try:
            revision = await self._read_anew(self.on_gap)
            for commit in self._commits.values():
                commit.is_hidden = True
            self._last_event = revision
            self.live.revision = revision + self._origin
            self._deliver(self.live.revision, ())
        finally:
            self._gap.set_result(None)
            self._gap = None

    async def _read_anew(self, read: GapHandler) -> int:
        """Call a function with the latest revision until it has been able to read the store; returns the revision."""
        while True:
            try:
                revision = await self._shared_read.get()
                await read(revision)
            except (StorageUnreachable, Compacted) as error:
                # It is cut off again; or reading took longer than history is kept, and a later revision may do.
                _log.warning("the store could not be read anew", error=str(error))
                await asyncio.sleep(_GAP_PAUSE)
            else:
                return revision

    def _deliver(self, etcd_revision: int, events: Sequence[Event]) -> None:
        """Publish what the watch has delivered, then wake up the commits and readers that wait for it."""
        origin, size = self._origin, self._prefix_bytes
        changes: list[Change] = []
        for key, value, modified in events:
            revision = modified - origin
            name = key[size:].decode()
            if value is None:
                changes.append(Change(revision, name, None))
            elif value.startswith(self._writer) and (own := self._commits.get(value[:_IDENTITY_BYTES])) is not None:
                changes.append(_own_change(own, revision, name, value))
            else:
                changes.append(Change(revision, name, revisionslot.fill(value[_IDENTITY_BYTES:], revision)))
        self._revision = revision = etcd_revision - origin
        if changes:
            self._last_event = revision
        failpoint("storage.before_publish")
        failure = self._feed.publish(revision, changes)
        failpoint("storage.after_publish")
        if failure is not None:
            self._fail(failure)
            raise failure
        waiting = self._waiting
        while waiting and waiting[0][0] <= revision:
            future = heapq.heappop(waiting)[2]
            if not future.done():
                future.set_result(None)

    async def _delivered(self, revision: int, *, has_events: bool = False) -> None:
        """Wait until the followers have been given a revision that the cluster has.

        If it `has_events`, they come by themselves; otherwise etcd has to be asked how far it is.
        """
        self._check_failure()
        if revision <= self._revision:
            return
        future = self._loop.create_future()
        heapq.heappush(self._waiting, (revision, next(self._numbers), future))
        if not has_events:
            self.live.want(revision + self._origin)
        await future

    async def follow(self, since: int, follower: Follower) -> Subscription:
        """Feed every change after `since` to the follower; returns when history has been delivered."""
        self._check_open()
        await self._check_reached(since)
        await self._delivered(since)
        if since < self._compacted:
            raise Compacted(since, self._compacted)
        history = _FollowerHistory(self)
        try:
            return await self._feed.attach(since, follower, history=history.read, published=lambda: self._revision)
        finally:
            await history.close()

    def history(self, after: int) -> History:
        """A watch of the changes after a revision."""
        return History(self.cluster, self._root, self._end, after + self._origin)

    async def read_history(self, history: History, after: int) -> tuple[int, list[Change]]:
        """The next changes of a history, none that has not been published."""
        if after >= self._last_event:
            return self._revision, []
        try:
            async with asyncio.timeout(self.cluster.address.timeout):
                reached, events = await history.until(self._revision + self._origin)
        except CompactedWatch as error:
            self._compacted = max(self._compacted, error.revision - self._origin)
            raise Compacted(after, self._compacted) from None
        except TimeoutError:
            raise StorageUnreachable(f"no answer to a watch within {self.cluster.address.timeout:g} s") from None
        except EtcdError as error:
            self.cluster.leave(error.endpoint)
            raise StorageUnreachable(f"etcd: {error}") from None
        changes = [
            Change(
                at := event.mod_revision - self._origin,
                event.key[self._prefix_bytes :].decode(),
                None if event.value is None else revisionslot.fill(event.value[_IDENTITY_BYTES:], at),
            )
            for event in events
        ]
        return reached - self._origin, changes

    # -- reads

    async def latest(self) -> int:
        """The latest revision of the cluster; see `etcd.latest`. The feed is made to reach it."""
        revision = await self._shared_read.get()
        if revision > self._revision:
            self.live.want(revision + self._origin)
            if self._gap is not None:
                await self._wait_for_gap(self._gap)
        return revision

    async def _wait_for_gap(self, gap: asyncio.Future[None]) -> None:
        try:
            async with asyncio.timeout(self.cluster.address.timeout):
                await asyncio.shield(gap)
        except TimeoutError:
            raise StorageUnreachable(f"etcd: {self.live.interruption}") from None

    def _read_latest(self, done: Callable[[int | Exception], None]) -> None:
        """Read the latest revision of the cluster and give it to a function, or why it cannot be read."""
        cluster, request = self.cluster, self._latest_request
        deadline = self._loop.time() + cluster.address.timeout

        def answered(answer: bytes | EtcdError) -> None:
            if isinstance(answer, EtcdError):
                self._read_latest_again(partial(cluster.retry, RANGE, request, answer, deadline), done)
            else:
                done(self._latest_of(answer))

        if not cluster.begin(RANGE, request, answered):
            self._read_latest_again(partial(cluster.call, RANGE, request), done)

    def _latest_of(self, answer: bytes) -> int | Exception:
        try:
            return messages.read_revision(answer) - self._origin
        except (IndexError, ValueError) as error:
            return StorageUnreachable(f"etcd sent an answer that cannot be read: {error}")

    def _read_latest_again(self, call: Callable[[], Awaitable[bytes]], done: Callable[[int | Exception], None]) -> None:
        """Do what a call does when a member is not connected or has failed: connect, authenticate, try another."""
        task = asyncio.ensure_future(self._call_latest(call, done))
        self._retries.add(task)
        task.add_done_callback(self._retries.discard)

    async def _call_latest(self, call: Callable[[], Awaitable[bytes]], done: Callable[[int | Exception], None]) -> None:
        try:
            answer = await call()
        except Unanswered as unanswered:
            done(StorageUnreachable(f"etcd: {unanswered}"))
        except EtcdError as error:
            done(self._refused(error))
        else:
            done(self._latest_of(answer))

    async def get(self, key: str, revision: int = 0) -> Entry | None:
        """The value of a key, now or at a revision."""
        self._check_open()
        found = await self._range(messages.range_request(self._key(key), revision=self._at(revision)), revision)
        return self._entry(found.kvs[0]) if found.kvs else None

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0, counted: bool = True
    ) -> Page:
        """The keys that begin with `prefix`, from `start` on, at most `limit` (0: all), now or at a revision."""
        self._check_open()
        first = max(prefix, start) or "/"
        key, end = (self._prefix + first).encode(), self._end
        if prefix and (after := prefix_end(prefix)) is not None and after.startswith("/"):
            end = (self._prefix + after).encode()
        entries: list[Entry] = []
        at = revision
        while True:
            # A range that ends before it begins would be all keys from its beginning on.
            if key >= end:
                self._at(at)
                await self._check_reached(at)
                return Page(entries, at or await self._shared_read.get(), 0)
            size = min(limit - len(entries), _PAGE) if limit else _PAGE
            request = messages.range_request(key, end, limit=size, revision=self._at(at))
            found = await self._range(request, at)
            at = at or found.revision - self._origin
            entries += map(self._entry, found.kvs)
            more = found.total - len(found.kvs)
            if not more or not found.kvs or len(entries) == limit:
                return Page(entries, at, more)
            key = found.kvs[-1].key + b"\0"

    def _at(self, revision: int) -> int:
        if revision and revision < self._compacted:
            raise Compacted(revision, self._compacted)
        return revision + self._origin if revision else 0

    async def _range(self, request: bytes, revision: int) -> RangeResponse:
        try:
            return messages.read_range(await self.cluster.call(RANGE, request))
        except Unanswered as error:
            raise StorageUnreachable(f"etcd: {error}") from None
        except EtcdError as error:
            if error.is_future:
                raise FutureRevision(revision, await self._shared_read.get()) from None
            if error.is_compacted:
                # By another server. What is certain is that this revision is gone.
                self._compacted = max(self._compacted, revision + 1)
                raise Compacted(revision, self._compacted) from None
            raise self._refused(error) from None

    def _entry(self, kv: messages.KeyValue) -> Entry:
        revision = kv.mod_revision - self._origin
        value = revisionslot.fill(kv.value[_IDENTITY_BYTES:], revision)
        return Entry(kv.key[self._prefix_bytes :].decode(), value, revision)

    def is_stale(self, key: str) -> bool:
        """Return False: there is one way to store a value."""
        return False

    async def _check_reached(self, revision: int) -> None:
        """Raise for a revision that the cluster has not reached."""
        if revision > self._revision and revision > (current := await self._shared_read.get()):
            raise FutureRevision(revision, current)

    # -- compaction

    async def compact(self, revision: int) -> None:
        """Remove old versions up to a revision. Any server may; the furthest is what counts."""
        self._check_usable()
        await self._check_reached(revision)
        if revision <= self._compacted:
            return
        try:
            await self.cluster.call(COMPACT, messages.compaction_request(revision + self._origin))
        except Unanswered as error:
            raise StorageUnreachable(f"etcd: {error}") from None
        except EtcdError as error:
            if not error.is_compacted:
                raise self._refused(error) from None
        self._compacted = max(self._compacted, revision)

    # -- failures

    def _unanswered(self, error: Unanswered) -> Exception:
        if error.may_have_happened:
            return OutcomeUnknown(f"etcd: {error}; the write may have been carried out")
        return StorageUnreachable(f"etcd: {error}")

    def _refused(self, error: EtcdError) -> Exception:
        """The error of the contract for an answer of etcd: nothing was written."""
        if "request is too large" in error.details or "larger than max" in error.details:
            return ValueTooLarge(f"etcd: {error}; its option --max-request-bytes is the limit")
        if "too many requests" in error.details:
            return StorageBusy(f"etcd: {error}")
        if error.code is Code.RESOURCE_EXHAUSTED:
            return StorageUnreachable(f"etcd is full: {error}; compact, defragment, then disarm the alarm NOSPACE")
        return StorageUnreachable(f"etcd: {error}")

    def _fail(self, error: BaseException) -> None:
        """Accept no more writes: a follower failed, or the feed has a gap that cannot be filled."""
        if self._failure is not None:
            return
        self._failure = error
        _log.error("the feed of the store has failed", error=str(error))
        self._refuse_waiting(self._refusal())
        if self.on_failure is not None:
            self.on_failure(error)

    def _refuse_waiting(self, error: StorageFailed) -> None:
        for _, _, future in self._waiting:
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()

    def _refusal(self) -> StorageFailed:
        refusal = StorageFailed(f"the store has failed and takes no more writes: {self._failure}")
        refusal.__cause__ = self._failure
        return refusal

    def _check_open(self) -> None:
        if self._is_closing:
            raise StorageFailed("the store has been closed")

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise self._refusal()

    def _check_usable(self) -> None:
        self._check_open()
        self._check_failure()

    async def close(self) -> None:
        """Finish the commits that were accepted, then close the connections."""
        if self._is_closing:
            return
        self._is_closing = True
        try:
            async with asyncio.timeout(self.cluster.address.timeout):
                await self._idle.wait()
        except TimeoutError:
            # Commits that are made, and that no watch delivers.
            self._refuse_waiting(StorageFailed("the store has been closed"))
        self._shared_read.close()
        self.live.close()
        ending = [self._task, *self._retries]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await self.cluster.close()


def _own_change(commit: _Commit, revision: int, key: str, value: bytes) -> Change:
    """The change of a commit that this server is making, with what it noted; the commit is known to have happened."""
    commit.revision = revision
    if len(commit.operations) == 1 and isinstance(operation := commit.operations[0], Put):
        return Change(revision, key, operation.draft.render(revision), operation.note)
    note = next((one.note for one in commit.operations if one.key == key and isinstance(one, Put)), None)
    return Change(revision, key, revisionslot.fill(value[_IDENTITY_BYTES:], revision), note)


class _FollowerHistory:
    """The history that one follower is given before it is live."""

    def __init__(self, storage: EtcdStorage) -> None:
        self._storage = storage
        self._history: History | None = None

    async def read(self, after: int) -> tuple[int, Sequence[Change]]:
        """The next changes; when the watch breaks off, it is opened again on another member, for a while."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._storage.cluster.address.timeout
        while True:
            if self._history is None:
                self._history = self._storage.history(after)
            try:
                return await self._storage.read_history(self._history, after)
            except StorageUnreachable:
                await self.close()
                self._history = None
                if loop.time() > deadline:
                    raise
                await asyncio.sleep(_PAUSE)

    async def close(self) -> None:
        if self._history is not None:
            await self._history.close()
