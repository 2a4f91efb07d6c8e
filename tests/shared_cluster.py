"""A store that several servers share, as several kube-apiservers share one etcd: a double for the contract suite.

`Cluster` is the store: it allocates revisions, and tells every server of its commits later. `SharedStorage` is
one server's connection to it. It keeps the contract the way an etcd backend would have to: a value is stored without its
revision, a commit is answered apart from its own watch event, progress is delivered without changes.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from kapi.storage.feed import Feed
from kapi.storage.interface import (
    Compacted,
    Delete,
    Draft,
    Entry,
    FutureRevision,
    Page,
    Put,
    RevisionMismatch,
    StorageFailed,
)
from kapi.storage.memory import MemoryStorage
from kapi.storage.operations import validate_operations
from kapi.storage.revisionslot import fill, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kapi.storage.interface import Change, Follower, GapHandler, Operation, Subscription

ELSEWHERE = "elsewhere"
"""A key that is not below `/`, hence in no feed: another program's data in the same cluster."""


class _Unfilled(Draft):
    """A draft that is stored without its revision."""

    def render(self, revision: int) -> bytes:
        return pack(self)


def _unfilled(operation: Operation) -> Operation:
    if isinstance(operation, Put):
        return operation._replace(draft=_Unfilled(*operation.draft), note=None)
    return operation._replace(note=None) if isinstance(operation, Delete) else operation


class Cluster:
    """The shared store, and the servers connected to it."""

    def __init__(self, memory: MemoryStorage | None = None) -> None:
        self.memory = memory or MemoryStorage()

    async def connect(self) -> SharedStorage:
        server = SharedStorage(self)
        await server.connect()
        return server

    async def write_elsewhere(self) -> int:
        """A commit that no server's feed contains."""
        entry = await self.memory.get(ELSEWHERE)
        return await self.memory.put(ELSEWHERE, Draft(b"", b""), entry.revision if entry else 0)


class SharedStorage:
    """One server's connection to a cluster.

    With a `lag` every message takes up to so many seconds. `hold` keeps what the cluster sends from arriving until
    `release`.
    """

    def __init__(self, cluster: Cluster, *, lag: float = 0.0, seed: int = 0) -> None:
        self.on_failure: Callable[[BaseException], None] | None = None
        self.on_gap: GapHandler | None = None
        self._cluster = cluster
        self._memory = cluster.memory
        self._lag = lag
        self._random = random.Random(seed)
        self._is_connected = False
        self.lost = 0
        """Commits that were refused because another one came first."""
        self._feed = Feed()
        self._revision = cluster.memory.revision
        self._received: list[tuple[int, Sequence[Change]]] = []
        self._delivered = asyncio.Condition()
        self._deliveries: set[asyncio.Future[None]] = set()
        self._is_held = False
        self._in_flight: set[asyncio.Future[int]] = set()
        self._failure: Exception | None = None
        self._is_closed = False

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def compacted(self) -> int:
        return self._memory.compacted

    async def latest(self) -> int:
        await asyncio.sleep(0)
        return self._memory.revision

    async def connect(self) -> None:
        """Begin to receive what is committed."""
        if not self._is_connected:
            self._is_connected = True
            self._revision = self._memory.revision
            await self._memory.follow(self._revision, self.receive)

    async def _travel(self) -> None:
        """The time that a message takes."""
        await asyncio.sleep(self._random.uniform(0, self._lag) if self._lag else 0)

    # -- writes

    async def put(self, key: str, draft: Draft, expected: int, note: object = None) -> int:
        return await self.commit((Put(key, draft, expected, note),))

    async def delete(self, key: str, expected: int, note: object = None) -> int:
        return await self.commit((Delete(key, expected, note),))

    async def commit(self, operations: Sequence[Operation]) -> int:
        self._check_open()
        self._check_failure()
        validate_operations(operations)
        answer = asyncio.ensure_future(self._send([_unfilled(operation) for operation in operations]))
        self._in_flight.add(answer)
        answer.add_done_callback(self._in_flight.discard)
        return await asyncio.shield(answer)

    async def _send(self, operations: Sequence[Operation]) -> int:
        await self.connect()
        await self._travel()
        try:
            revision = await self._memory.commit(operations)
        except RevisionMismatch:
            self.lost += 1
            raise
        await self._acknowledge(revision)
        return revision

    async def _acknowledge(self, revision: int) -> None:
        """Wait until the followers of this server have been called with its own commit."""
        await self.delivered(revision)

    async def delivered(self, revision: int) -> None:
        """Wait until the followers of this server have been given a revision."""
        async with self._delivered:
            await self._delivered.wait_for(lambda: self._revision >= revision or self._failure is not None)
        self._check_failure()

    # -- the feed

    def hold(self) -> None:
        self._is_held = True

    def release(self) -> None:
        self._is_held = False
        self._schedule_delivery()

    async def lose(self) -> None:
        """Drop what was held, and what is compacted with it, as after a cut longer than history is kept."""
        self._received.clear()
        revision = self._memory.revision
        await self._memory.compact(revision)
        assert self.on_gap is not None
        await self.on_gap(revision)
        async with self._delivered:
            self._publish(revision, ())
            self._is_held = False
            self._delivered.notify_all()

    def receive(self, revision: int, changes: Sequence[Change]) -> None:
        """What the cluster sends; it arrives some time later."""
        self._received.append((revision, [self._filled(change) for change in changes if change.key.startswith("/")]))
        self._schedule_delivery()

    def _schedule_delivery(self) -> None:
        delivery = asyncio.ensure_future(self._deliver())
        self._deliveries.add(delivery)
        delivery.add_done_callback(self._deliveries.discard)

    def _filled(self, change: Change) -> Change:
        return change if change.value is None else change._replace(value=fill(change.value, change.revision))

    async def _deliver(self) -> None:
        for _ in range(3):  # Later than the answer to the commit, which is a message of its own.
            await self._travel()
        async with self._delivered:
            while self._received and not self._is_held and self._failure is None:
                self._publish(*self._received.pop(0))
            self._delivered.notify_all()

    def _publish(self, revision: int, changes: Sequence[Change]) -> None:
        self._revision = revision
        failure = self._feed.publish(revision, changes)
        if failure is not None:
            self._failure = failure
            if self.on_failure is not None:
                self.on_failure(failure)

    async def follow(self, since: int, follower: Follower) -> Subscription:
        self._check_open()
        await self.connect()
        await asyncio.sleep(0)
        if since > self._memory.revision:
            raise FutureRevision(since, self._memory.revision)
        if since < self.compacted:
            raise Compacted(since, self.compacted)
        await self.delivered(since)
        return await self._feed.attach(since, follower, history=self._history, published=lambda: self._revision)

    async def _history(self, after: int) -> tuple[int, Sequence[Change]]:
        revision, changes = await self._memory._history(after)
        reached = min(revision, self._revision)
        visible = [change for change in changes if change.revision <= reached and change.key.startswith("/")]
        return reached, [self._filled(change) for change in visible]

    # -- reads

    async def get(self, key: str, revision: int = 0) -> Entry | None:
        self._check_open()
        await asyncio.sleep(0)
        entry = await self._memory.get(key, revision)
        return None if entry is None else entry._replace(value=fill(entry.value, entry.revision))

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0, counted: bool = True
    ) -> Page:
        self._check_open()
        await asyncio.sleep(0)
        page = await self._memory.range(prefix, start=start, limit=limit, revision=revision)
        return page._replace(entries=[e._replace(value=fill(e.value, e.revision)) for e in page.entries])

    waiting = 0

    def is_stale(self, key):
        """No."""
        return False

    async def compact(self, revision: int) -> None:
        self._check_open()
        await self._memory.compact(revision)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StorageFailed("the store has been closed")

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise StorageFailed(f"a follower of the change feed failed: {self._failure}") from self._failure

    async def close(self) -> None:
        self._is_closed = True
        await asyncio.gather(*self._in_flight, return_exceptions=True)


async def released(server: Any, request: Any) -> Any:
    """The answer to a request that must wait until the server's feed is released."""
    task = asyncio.ensure_future(request)
    await asyncio.sleep(1)
    assert not task.done()
    server.storage.release()
    return await task
