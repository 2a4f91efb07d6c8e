"""The memory backend: for tests, and for control planes that need not outlive their process.

Keeps every promise of `storage.interface` but durability. Everything happens on the event loop between two awaits, so a
write is a few dictionary operations and needs no lock. No I/O.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, Self

from kapi.storage.feed import Feed
from kapi.storage.interface import (
    Change,
    Check,
    Compacted,
    Delete,
    Entry,
    FutureRevision,
    Page,
    Put,
    RevisionMismatch,
    StorageFailed,
)
from kapi.storage.keys import prefix_end
from kapi.storage.ledger import HISTORY_BYTES, Ledger, cost
from kapi.storage.operations import validate_operations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kapi.storage.interface import Draft, Follower, GapHandler, Operation, Subscription

_SLICE = 500
"""Commits per step of a catch-up or of a compaction; other tasks run in between."""

# Commits that a write compacts when history takes too many bytes: more than it adds, so that history shrinks.
_COMPACT_PER_WRITE = 4

_of_revision = itemgetter(0)


class _Version(NamedTuple):
    revision: int
    value: bytes | None


class Snapshot(NamedTuple):
    """The latest version of every key, at one revision. Immutable: stores that were made of it do not change it."""

    revision: int
    entries: tuple[Entry, ...]
    """The keys in order."""


# Stands in the log for a compacted commit, until the log is cut.
_REMOVED: list[Change] = []


class MemoryStorage:
    """The `Storage` contract on dictionaries. Not durable; `close` drops everything."""

    def __init__(self, *, history_bytes: int = HISTORY_BYTES) -> None:
        self.on_failure: Callable[[BaseException], None] | None = None
        self.on_gap: GapHandler | None = None
        self._revision = 0
        self._compacted = 0
        self._finished = 0
        # Versions of a key in revision order; a key is removed with its last version.
        self._versions: dict[str, list[_Version]] = {}
        # The same keys in order, for ranges.
        self._keys: list[str] = []
        # From `_start` on the changes of every commit after `_finished`, up to which old versions have been removed.
        self._log: list[list[Change]] = []
        self._start = 0
        self._ledger = Ledger(history_bytes)
        self._feed = Feed()
        self._failure: BaseException | None = None
        self._closed = False

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, *, history_bytes: int = HISTORY_BYTES) -> Self:
        """Return a store that begins with the state of a snapshot: at its revision, compacted to it."""
        storage = cls(history_bytes=history_bytes)
        storage._revision = storage._compacted = storage._finished = snapshot.revision
        storage._keys = [entry.key for entry in snapshot.entries]
        storage._versions = {key: [_Version(revision, value)] for key, value, revision in snapshot.entries}
        storage._ledger.present = sum(cost(key, len(value)) for key, value, _ in snapshot.entries)
        return storage

    def snapshot(self) -> Snapshot:
        """Return the latest version of every key. Values are shared, so it costs a tuple for each key."""
        self._check_open()
        latest = ((key, self._versions[key][-1]) for key in self._keys)
        entries = tuple(Entry(key, value, revision) for key, (revision, value) in latest if value is not None)
        return Snapshot(self._revision, entries)

    @property
    def revision(self) -> int:
        """The latest revision."""
        return self._revision

    @property
    def waiting(self) -> int:
        """0: a write is complete when its call returns."""
        return 0

    @property
    def compacted(self) -> int:
        """The oldest revision that can be read."""
        return self._compacted

    async def latest(self) -> int:
        """The latest revision; there is no other server."""
        return self._revision

    async def commit(self, operations: Sequence[Operation]) -> int:
        """Compare all keys and write all values in one revision, or raise and write nothing; returns the revision."""
        return self._commit(operations)

    async def put(self, key: str, draft: Draft, expected: int, note: object = None) -> int:
        """Commit one `Put`."""
        return self._commit((Put(key, draft, expected, note),))

    async def delete(self, key: str, expected: int, note: object = None) -> int:
        """Commit one `Delete`."""
        return self._commit((Delete(key, expected, note),))

    def _commit(self, operations: Sequence[Operation]) -> int:
        self._check_usable()
        validate_operations(operations)
        for operation in operations:
            actual = self._revision_of(operation.key)
            if actual != operation.expected:
                raise RevisionMismatch(operation.key, operation.expected, actual)
        self._revision = revision = self._revision + 1
        changes: list[Change] = []
        for operation in operations:
            if isinstance(operation, Check):
                continue
            value = operation.draft.render(revision) if isinstance(operation, Put) else None
            changes.append(Change(revision, operation.key, value, operation.note))
            self._write(revision, operation.key, value)
        # Without the notes, which are for live followers.
        self._log.append([Change(revision, key, value) for _, key, value, _ in changes])
        self._limit_history()
        self._publish(changes)
        return revision

    def _revision_of(self, key: str) -> int:
        versions = self._versions.get(key)
        return versions[-1].revision if versions and versions[-1].value is not None else 0

    def _write(self, revision: int, key: str, value: bytes | None) -> None:
        versions = self._versions.get(key)
        if versions is None:
            versions = self._versions[key] = []
            insort(self._keys, key)
        before = versions[-1].value if versions else None
        versions.append(_Version(revision, value))
        replaced = 0 if before is None else cost(key, len(before))
        if value is None:
            self._ledger.remove(revision, replaced, cost(key, 0))
        else:
            self._ledger.put(revision, replaced, cost(key, len(value)))

    def _limit_history(self) -> None:
        """Remove a few of the oldest versions when history takes too many bytes."""
        self._compacted = max(self._compacted, self._ledger.due(self._revision))
        if self._finished < self._compacted:
            self._compact_step(_COMPACT_PER_WRITE)

    def _publish(self, changes: Sequence[Change]) -> None:
        failure = self._feed.publish(self._revision, changes)
        if failure is None:
            return
        self._failure = failure
        if self.on_failure is not None:
            self.on_failure(failure)
        self._check_usable()

    async def get(self, key: str, revision: int = 0) -> Entry | None:
        """The value of a key, now or at a revision."""
        return self._at(key, self._snapshot(revision))

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0, counted: bool = True
    ) -> Page:
        """The keys that begin with `prefix`, from `start` on, at most `limit` (0: all), now or at a revision."""
        snapshot = self._snapshot(revision)
        end = prefix_end(prefix)
        first = bisect_left(self._keys, max(prefix, start))
        last = len(self._keys) if end is None else bisect_left(self._keys, end)
        found = [entry for key in self._keys[first:last] if (entry := self._at(key, snapshot)) is not None]
        if limit and len(found) > limit:
            return Page(found[:limit], snapshot, len(found) - limit)
        return Page(found, snapshot, 0)

    def _snapshot(self, revision: int) -> int:
        self._check_open()
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        if revision and revision < self._compacted:
            raise Compacted(revision, self._compacted)
        return revision or self._revision

    def _at(self, key: str, revision: int) -> Entry | None:
        versions = self._versions.get(key, ())
        index = bisect_right(versions, revision, key=_of_revision)
        if index == 0:
            return None
        at, value = versions[index - 1]
        return None if value is None else Entry(key, value, at)

    async def follow(self, since: int, follower: Follower) -> Subscription:
        """Feed every change after `since` to the follower; returns when history has been delivered."""
        self._check_open()
        if since > self._revision:
            raise FutureRevision(since, self._revision)
        if since < self._compacted:
            raise Compacted(since, self._compacted)
        return await self._feed.attach(since, follower, history=self._history, published=lambda: self._revision)

    async def _history(self, after: int) -> tuple[int, Sequence[Change]]:
        await asyncio.sleep(0)
        if after < self._compacted:
            raise Compacted(after, self._compacted)
        # Revisions have no gaps, so the place of a commit in the log is known.
        first = self._start + after - self._finished
        commits = self._log[first : first + _SLICE]
        return after + len(commits), [change for commit in commits for change in commit]

    def is_stale(self, key: str) -> bool:
        """Return False: there is one way to store a value."""
        return False

    async def compact(self, revision: int) -> None:
        """Remove versions that were replaced or deleted at or before `revision`."""
        self._check_usable()
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        self._compacted = max(self._compacted, revision)
        while self._finished < self._compacted:
            self._compact_step(_SLICE)
            await asyncio.sleep(0)

    def _compact_step(self, count: int) -> None:
        """Remove what some of the oldest commits replaced."""
        start = self._start
        self._start += min(count, self._compacted - self._finished)
        for index in range(start, self._start):
            for change in self._log[index]:
                self._forget(change)
            self._log[index] = _REMOVED
        self._finished += self._start - start
        self._ledger.schedule(self._compacted)
        self._ledger.finish(self._finished)
        # Cutting a list moves what remains; done rarely enough it costs nothing per change.
        if 2 * self._start >= len(self._log):
            del self._log[: self._start]
            self._start = 0

    def _forget(self, change: Change) -> None:
        """Remove the version that a change replaced, and the mark of a deletion."""
        versions = self._versions[change.key]
        keep = bisect_left(versions, change.revision, key=_of_revision) + (change.value is None)
        del versions[:keep]
        if not versions:
            del self._versions[change.key]
            del self._keys[bisect_left(self._keys, change.key)]

    def _check_open(self) -> None:
        if self._closed:
            raise StorageFailed("the store has been closed")

    def _check_usable(self) -> None:
        self._check_open()
        if self._failure is not None:
            raise StorageFailed(f"a follower of the change feed failed: {self._failure}") from self._failure

    async def close(self) -> None:
        """Drop everything."""
        self._closed = True
        self._versions.clear()
        self._keys.clear()
        self._log.clear()
