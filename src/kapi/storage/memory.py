"""A store that lives in the process: for tests, and for control planes that need not outlive it.

Keeps every promise of `storage.interface` but durability. Everything happens on the event loop between two awaits, so a
write is a few dictionary operations and needs no lock. No I/O.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from kapi.storage.feed import Feed
from kapi.storage.interface import (
    Change,
    Compacted,
    Entry,
    FutureRevision,
    Page,
    RevisionMismatch,
    StorageFailed,
)
from kapi.storage.keys import prefix_end
from kapi.storage.ledger import HISTORY_BYTES, Ledger, cost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kapi.storage.interface import Draft, Subscription

_SLICE = 500
"""Changes per step of a catch-up or of a compaction; the loop breathes in between."""

# Changes that a write forgets when there is too much past: more than it adds, so that the past shrinks.
_SHED = 4

_of_revision = itemgetter(0)


class _Version(NamedTuple):
    revision: int
    value: bytes | None


# Stands in the log for what has been swept, until the log is cut.
_SWEPT = Change(0, "", None)


class MemoryStorage:
    """The `Storage` contract on dictionaries. Not durable; `close` forgets everything."""

    def __init__(self, *, history_bytes: int = HISTORY_BYTES) -> None:
        self.on_failure: Callable[[BaseException], None] | None = None
        self._revision = 0
        self._compacted = 0
        self._swept = 0
        # Versions of a key in revision order; a key leaves with its last version.
        self._versions: dict[str, list[_Version]] = {}
        # The same keys in order, for ranges.
        self._keys: list[str] = []
        # From `_start` on every change after `_swept`, in revision order, without notes: those are for the live feed.
        self._log: list[Change] = []
        self._start = 0
        self._ledger = Ledger(history_bytes)
        self._feed = Feed()
        self._failure: BaseException | None = None
        self._closed = False

    @property
    def revision(self) -> int:
        """The latest revision."""
        return self._revision

    @property
    def compacted(self) -> int:
        """The revision up to which history is gone."""
        return self._compacted

    async def put(self, key: str, draft: Draft, expected: int, note: object = None) -> int:
        """Write a value if the key is at `expected` (0: absent); returns the new revision."""
        return self._write(key, draft, expected, note)

    async def delete(self, key: str, expected: int, note: object = None) -> int:
        """Remove a key that is at `expected`; returns the revision of the removal."""
        if expected <= 0:
            raise ValueError("delete needs the revision the key is at; 0 means absent")
        return self._write(key, None, expected, note)

    def _write(self, key: str, draft: Draft | None, expected: int, note: object) -> int:
        self._check_usable()
        versions = self._versions.get(key)
        before = versions[-1].value if versions else None
        actual = versions[-1].revision if versions and before is not None else 0
        if actual != expected:
            raise RevisionMismatch(key, expected, actual)
        revision = self._revision + 1
        value = None if draft is None else draft.render(revision)
        if versions is None:
            key.encode()  # What cannot be written as UTF-8 no other backend could hold either.
            versions = self._versions[key] = []
            insort(self._keys, key)
        versions.append(_Version(revision, value))
        self._revision = revision
        self._log.append(Change(revision, key, value))
        self._shed(key, before, value)
        self._publish(Change(revision, key, value, note))
        return revision

    def _shed(self, key: str, before: bytes | None, after: bytes | None) -> None:
        """Note what a write made past; if that is too much, forget a few of the oldest changes."""
        ledger = self._ledger
        replaced = 0 if before is None else cost(key, len(before))
        if after is None:
            ledger.remove(self._revision, replaced, cost(key, 0))
        else:
            ledger.put(self._revision, replaced, cost(key, len(after)))
        self._compacted = max(self._compacted, ledger.due(self._revision))
        if self._swept < self._compacted:
            self._sweep(_SHED)

    def _publish(self, change: Change) -> None:
        trouble = self._feed.publish((change,))
        if trouble is None:
            return
        self._failure = trouble
        if self.on_failure is not None:
            self.on_failure(trouble)
        self._check_usable()

    async def get(self, key: str, revision: int = 0) -> Entry | None:
        """The value of a key, now or at a revision."""
        return self._at(key, self._snapshot(revision))

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Page:
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

    async def follow(self, since: int, follower: Callable[[Sequence[Change]], None]) -> Subscription:
        """Feed every change after `since` to the follower; returns when history has been delivered."""
        self._check_open()
        if since > self._revision:
            raise FutureRevision(since, self._revision)
        if since < self._compacted:
            raise Compacted(since, self._compacted)
        return await self._feed.attach(since, follower, history=self._history, published=lambda: self._revision)

    async def _history(self, after: int) -> Sequence[Change]:
        await asyncio.sleep(0)
        if after < self._compacted:
            raise Compacted(after, self._compacted)
        # Revisions are dense, so the place of a change in the log is known.
        first = self._start + after - self._swept
        return self._log[first : first + _SLICE]

    async def compact(self, revision: int) -> None:
        """Forget versions that were replaced or removed at or before `revision`."""
        self._check_usable()
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        self._compacted = max(self._compacted, revision)
        while self._swept < self._compacted:
            self._sweep(_SLICE)
            await asyncio.sleep(0)

    def _sweep(self, count: int) -> None:
        """Forget what some of the oldest changes replaced."""
        start = self._start
        self._start += min(count, self._compacted - self._swept)
        for index in range(start, self._start):
            self._forget(self._log[index])
            self._log[index] = _SWEPT
        self._swept += self._start - start
        self._ledger.aim(self._compacted)
        self._ledger.sweep(self._swept)
        # Cutting a list moves what remains; done rarely enough it costs nothing per change.
        if 2 * self._start >= len(self._log):
            del self._log[: self._start]
            self._start = 0

    def _forget(self, change: Change) -> None:
        """Forget what one change replaced, and the change itself if it was a removal."""
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
        """Forget everything."""
        self._closed = True
        self._versions.clear()
        self._keys.clear()
        self._log.clear()
