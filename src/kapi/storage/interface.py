"""The storage contract: one ordered log of writes to keys, and what every backend must promise.

A backend is a multi-version key-value store with a single revision counter. `tests/contract` is this page as code;
a backend is a backend when it passes.

1.  **Revisions.** Every successful write gets the next revision, larger than every one before it, allocated inside the
    commit. A revision is never given twice, not after a restart, a kill, or a compaction that emptied the store.
2.  **Durable before visible.** `put` and `delete` return, and followers are called, only after the write is on disk.
3.  **Compare and swap.** A write names the revision it expects the key to be at (0: absent). The check is made
    against the latest state inside the commit; a mismatch raises `RevisionMismatch` and writes nothing.
4.  **Reads.** `get` and `range` without a revision see every write that was acknowledged before the call. With a
    revision they see the store as it was then, or raise `Compacted`, or `FutureRevision`; never a mixture.
5.  **The feed.** `follow(since)` delivers every change after `since`, once, in revision order, history first and then
    live, with no gap between the two; or raises `Compacted`. Followers are called on the event loop, before the
    writer's own `put` returns: a write that was acknowledged has been seen by every follower.
6.  **Compaction** forgets old versions up to a revision. The latest version of every key stays. It never makes writers
    wait for more than one small step of it.
7.  **The past is bounded in bytes.** Replaced and removed versions take no more than `ledger.HISTORY_BYTES`, or than
    the latest versions take, whichever is more. A store that would hold more compacts by itself, the oldest first and
    no further than needed; `compacted` moves then without a call. However long one key is written to, the store does
    not grow.
8.  **Failure is final.** When the disk fails, every pending and later write raises `StorageFailed`, `on_failure` is
    called once, and nothing is retried. Reads may go on.

What else every backend does alike: removing an absent key on purpose (`delete` with `expected=0`) is a ValueError;
compacting or following in the future raises `FutureRevision`, compacting further back does nothing; a closed store
raises `StorageFailed`; a follower that raises stops the store, because a feed with a gap would be a lie.

Values are bytes with a slot for their own revision: the writer gives what stands before and after it (`Draft`), the
backend fills it in at commit. That is how an object is encoded once, with its resourceVersion in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class StorageError(Exception):
    """Base of what a backend raises."""


class RevisionMismatch(StorageError):
    """The key is not at the expected revision; `actual` is where it is (0: absent)."""

    def __init__(self, key: str, expected: int, actual: int) -> None:
        super().__init__(f"{key} is at revision {actual}, not {expected}")
        self.key = key
        self.expected = expected
        self.actual = actual


class Compacted(StorageError):
    """The asked-for revision is older than what is kept; `oldest` is the first that can still be read."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} has been compacted; the oldest kept is {oldest}")
        self.revision = revision
        self.oldest = oldest


class FutureRevision(StorageError):
    """The asked-for revision has not happened yet."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is in the future; the current one is {current}")
        self.revision = revision
        self.current = current


class StorageFailed(StorageError):
    """The disk (or the cluster behind the store) failed; no write will be accepted any more."""


class StorageBusy(StorageError):
    """Too many writes are waiting; nothing was written, try again."""


class StorageUnavailable(StorageError):
    """The store cannot be opened: locked by another server, read-only, full, or not ours. The text says which."""


class Draft(NamedTuple):
    """A value before its revision is known: stored as `before + str(revision) + after`."""

    before: bytes
    after: bytes

    def render(self, revision: int) -> bytes:
        """The value at a revision."""
        return b"%b%d%b" % (self.before, revision, self.after)


class Entry(NamedTuple):
    """One key at one revision."""

    key: str
    value: bytes
    revision: int


class Page(NamedTuple):
    """Part of a range, in key order. `more` counts the keys after the last one; `revision` is the snapshot read."""

    entries: Sequence[Entry]
    revision: int
    more: int


class Change(NamedTuple):
    """One committed write. `value` is None for a deletion. `note` is what the local writer attached, else None."""

    revision: int
    key: str
    value: bytes | None
    note: object = None


class Subscription(Protocol):
    """A running feed."""

    def close(self) -> None:
        """Stop calling the follower."""
        ...


class Storage(Protocol):
    """What the server needs of a store; see the module's text for the promises."""

    on_failure: Callable[[BaseException], None] | None

    @property
    def revision(self) -> int:
        """The latest committed revision this process knows of."""
        ...

    @property
    def compacted(self) -> int:
        """The revision up to which history is gone: reads and feeds from here on work."""
        ...

    async def put(self, key: str, draft: Draft, expected: int, note: object = None) -> int:
        """Write a value if the key is at `expected` (0: absent); returns the new revision."""
        ...

    async def delete(self, key: str, expected: int, note: object = None) -> int:
        """Remove a key that is at `expected`; returns the revision of the removal."""
        ...

    async def get(self, key: str, revision: int = 0) -> Entry | None:
        """The value of a key, now or at a revision."""
        ...

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Page:
        """The keys that begin with `prefix`, from `start` on, at most `limit` (0: all), now or at a revision."""
        ...

    async def follow(self, since: int, follower: Callable[[Sequence[Change]], None]) -> Subscription:
        """Feed every change after `since` to the follower; returns when history has been delivered."""
        ...

    async def compact(self, revision: int) -> None:
        """Forget versions that were replaced or removed at or before `revision`."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, then release the store."""
        ...
