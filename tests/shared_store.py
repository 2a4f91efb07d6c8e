"""One store that several servers share: each has a `SharedStorage` of its own, and hears late of what the others write."""

import asyncio
import random

from kapi.storage.interface import Delete, Put
from kapi.storage.memory import MemoryStorage


class SharedStorage:
    """The storage of one server on a store that others write to.

    As the contract has it: a commit takes its time and is compared when it arrives; what this server writes its own
    followers have been given when `commit` returns, what others write they are given later, in order. Notes reach only
    the server that wrote.
    """

    def __init__(self, store: MemoryStorage, *, lag: float = 1.0, seed: int = 0) -> None:
        self._store = store
        self._lag = lag
        self._random = random.Random(seed)
        self._waiting = []
        self._follower = None
        self._subscription = None
        self.on_failure = None
        self.lost = 0
        """Commits that were refused because another one came first."""

    @property
    def revision(self):
        return self._store.revision

    @property
    def compacted(self):
        return self._store.compacted

    async def latest(self):
        return await self._store.latest()

    async def get(self, key, revision=0):
        return await self._store.get(key, revision)

    async def range(self, prefix, **options):
        return await self._store.range(prefix, **options)

    async def put(self, key, draft, expected, note=None):
        return await self.commit([Put(key, draft, expected, note)])

    async def delete(self, key, expected, note=None):
        return await self.commit([Delete(key, expected, note)])

    async def commit(self, operations):
        await asyncio.sleep(self._random.uniform(0, self._lag))
        try:
            revision = await self._store.commit(operations)
        except Exception:
            self.lost += 1
            raise
        self._deliver(revision, own=revision)
        return revision

    async def follow(self, since, follower):
        self._follower = follower
        self._subscription = await self._store.follow(since, self._heard)
        self._deliver(self._store.revision)
        return self

    def _heard(self, revision, changes):
        self._waiting.append((revision, changes))
        loop = asyncio.get_running_loop()
        loop.call_later(self._random.uniform(0, self._lag), self._deliver, revision)

    def _deliver(self, revision, own=0):
        while self._waiting and self._waiting[0][0] <= revision:
            at, changes = self._waiting.pop(0)
            if at != own:
                changes = [change._replace(note=None) for change in changes]
            if self._follower is not None:
                self._follower(at, changes)

    def close(self):
        self._follower = None
        self._subscription.close()
