"""The storage contract: a multi-version key-value store with one revision counter, and what every backend promises.

`tests/contract` is this page as code; a backend is a backend when it passes. Several servers may share one store (as
several kube-apiservers share one etcd); what a promise says of "this server" holds for the object it was called on.

1.  **Revisions.** Every commit gets a revision larger than every one before it, allocated inside the commit. A revision
    is never given out twice, not after a restart, a kill, or a compaction that emptied the store. SQLite and memory
    count without gaps, and in the order in which commits were started, except that SQLite goes on after the reserved
    revisions when a power cut or a repair leaves open which were given out; it is compacted to there. A store that is
    shared may have gaps, and makes commits that are under way together in any order, unless they write one key.
2.  **Durable before visible.** `commit` returns, and followers are called, only after the write is on disk.
3.  **Compare and swap.** Every operation of a commit names the revision it expects its key to be at (0: absent). All of
    them are compared with the latest state inside the commit; if one differs, `RevisionMismatch` names its key and
    nothing is written.
4.  **All or nothing.** What a commit writes has one revision: a read at that revision sees all of it, a read before
    it none of it, and the feed delivers it in one call. `Check` compares a key and does not write it; an unchanged key
    keeps its revision and is not in the feed. A key occurs once in a commit, a commit writes at least one key and has
    at most `MAX_OPERATIONS` operations; anything else is a ValueError. `put` and `delete` are commits of one operation.
5.  **Reads.** `get` and `range` without a revision see every commit that this server acknowledged before the call.
    With a revision they see the store as it was then, or raise `Compacted`, or `FutureRevision`; never a mixture.
    `latest` returns a revision that is not older than any commit any server had acknowledged when it was called: a
    reader that waits until its follower has been given that revision reads what every server has written.
6.  **The feed.** `follow(since)` calls the follower with `(revision, changes)`: every change after `since`, once, in
    revision order, history first and then live, with no gap between the two; or raises `Compacted`. Every change up to
    `revision` has then been delivered. `changes` may be empty: the store has moved on without a change to deliver
    (progress). When `follow` returns, the follower has been given the revision that the store was at when it was
    called. Followers are called on the event loop, and those of the server that wrote before its `commit` returns;
    the followers of another server are called later. A store whose feed was interrupted for so long that what it
    missed has been compacted calls `on_gap` with a later revision R, and nothing else; its owner reads the store as it
    was at R. When that has returned, the feed goes on after R; `latest` and commits return no earlier. Without an
    `on_gap` such a store fails (9).
7.  **Compaction** removes old versions up to a revision. The latest version of every key stays. It never makes writers
    wait for more than one small step of it.
8.  **History is bounded in bytes.** Replaced and deleted versions take no more than `ledger.HISTORY_BYTES`, or than
    the latest versions take, whichever is more. A store that would hold more compacts by itself, the oldest first and
    no further than needed; `compacted` moves then without a call. However long one key is written to, the store does
    not grow. (A store that is shared has a quota of its own.)
9.  **Failure is final.** When the disk fails, or the files of the store are deleted or replaced, every pending and
    later write raises `StorageFailed`, `on_failure` is called once, and nothing is retried. Reads may go on. A cluster
    that does not answer for a while has not failed: what was asked of it raises `StorageUnreachable` within its
    deadline, or `OutcomeUnknown` for a commit that may have been made, and the store is usable again when it answers.
10. **Damage is noticed.** A store that is not what was acknowledged is not opened (`StorageUnavailable`); a value that
    is not what was written is not returned (`StorageDamaged`).

What else every backend does alike: a `Delete` that expects the key to be absent is a ValueError; compacting or
following in the future raises `FutureRevision`, compacting to an earlier revision than before does nothing; a closed
store raises `StorageFailed`; a follower that raises stops the store, because a feed with a gap would be a lie.

Values are bytes with a slot for their own revision: the caller gives the bytes before and after it (`Draft`). What
`get`, `range` and the feed return has the revision filled in. A store that allocates the revision itself fills it in at
commit, so that an object is encoded once, with its resourceVersion in it; one that learns the revision from the answer
(etcd) stores the value without it and fills it in on every read, see `revisionslot`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol


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


class StorageDamaged(StorageError):
    """What is stored under a key is not what was written. The text says where; nothing of it is returned."""


class StorageBusy(StorageError):
    """Too many writes are waiting; nothing was written, try again."""


class StorageUnreachable(StorageError):
    """The cluster behind the store does not answer or refuses, for now; nothing was written. The text says why."""


class OutcomeUnknown(StorageError):
    """The cluster behind the store did not answer a commit in time: it may have been made, or be made yet."""


class ValueTooLarge(StorageError):
    """The store does not take values of this size; nothing was written."""


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
    """One key as a commit left it; `value` is None for a deletion.

    `note` is what the operation carried, for the followers of the server that wrote; it spares them decoding the value.
    It is not stored, other servers never see it, and a store may drop it.
    """

    revision: int
    key: str
    value: bytes | None
    note: object = None


class Put(NamedTuple):
    """Write a value to a key that is at `expected` (0: absent). `note`: see `Change`."""

    key: str
    draft: Draft
    expected: int
    note: object = None


class Delete(NamedTuple):
    """Remove a key that is at `expected`. `note`: see `Change`."""

    key: str
    expected: int
    note: object = None


class Check(NamedTuple):
    """Compare a key with `expected` (0: absent) and leave it as it is."""

    key: str
    expected: int


Operation = Put | Delete | Check

MAX_OPERATIONS = 128
"""Operations of one commit: etcd's own limit (`--max-txn-ops`)."""

Follower = Callable[[int, Sequence[Change]], None]
"""Called with a revision and the changes up to it that were not delivered before."""


GapHandler = Callable[[int], Awaitable[None]]
"""Called with the revision after which the feed goes on; reads the store as it was then."""


class Subscription(Protocol):
    """A running feed."""

    def close(self) -> None:
        """Stop calling the follower."""
        ...


class Storage(Protocol):
    """The store as the server uses it; the module's text has the promises."""

    on_failure: Callable[[BaseException], None] | None
    on_gap: GapHandler | None

    @property
    def revision(self) -> int:
        """The latest committed revision this process knows of."""
        ...

    @property
    def compacted(self) -> int:
        """The oldest revision that can be read, and that a feed can start from."""
        ...

    @property
    def waiting(self) -> int:
        """A count of the writes of this process that have begun and were not answered yet; 0 if there are none."""
        ...

    async def commit(self, operations: Sequence[Operation]) -> int:
        """Compare all keys and write all values in one revision, or raise and write nothing; returns the revision."""
        ...

    async def put(self, key: str, draft: Draft, expected: int, note: object = None) -> int:
        """Commit one `Put`."""
        ...

    async def delete(self, key: str, expected: int, note: object = None) -> int:
        """Commit one `Delete`."""
        ...

    async def latest(self) -> int:
        """The revision that a linearizable read has to wait for."""
        ...

    async def get(self, key: str, revision: int = 0) -> Entry | None:
        """The value of a key, now or at a revision."""
        ...

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0, counted: bool = True
    ) -> Page:
        """The keys that begin with `prefix`, from `start` on, at most `limit` (0: all), now or at a revision.

        If they are not `counted`, the page's `more` may be any number above 0 where keys follow, which costs less.
        """
        ...

    async def follow(self, since: int, follower: Follower) -> Subscription:
        """Feed every change after `since` to the follower; returns when history has been delivered."""
        ...

    def is_stale(self, key: str) -> bool:
        """Return True if the value of a key is not stored as it would be now, and an update should write it again."""
        ...

    async def compact(self, revision: int) -> None:
        """Remove versions that were replaced or deleted at or before `revision`."""
        ...

    async def close(self) -> None:
        """Finish the commits that were accepted, then release the store."""
        ...
