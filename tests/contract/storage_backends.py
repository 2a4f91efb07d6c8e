"""The backends the contract suite runs against. A new one joins with one line in `BACKENDS`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path  # noqa: TC003
from typing import NamedTuple

from kapi.storage.encryption.providers import AesGcm
from kapi.storage.encryption.storage import EncryptedStorage, ResourceProviders
from kapi.storage.interface import Change, Draft, Storage
from kapi.storage.memory import MemoryStorage
from kapi.storage.sqlite.storage import SqliteStorage
from shared_cluster import Cluster

Scenario = Callable[[Storage], Awaitable[None]]


class Backend(NamedTuple):
    """How to open a store, and what is particular to it."""

    name: str
    open: Callable[..., Awaitable[Storage]]
    is_durable: bool = False
    """Its data is still there when it is opened again."""
    is_shared: bool = False
    """Other servers write to it too: it bounds its own history, and does not hand notes to followers."""
    examples: int = 100
    """Random histories that it is compared with the model on."""


async def open_memory(path: Path, **options: int) -> Storage:
    return MemoryStorage(**options)


async def open_shared(path: Path) -> Storage:
    return await Cluster().connect()


async def open_encrypted(path: Path, **options: int) -> Storage:
    providers = ResourceProviders([(["*.*"], [AesGcm("k", bytes(32))])])
    return EncryptedStorage(MemoryStorage(**options), providers)


BACKENDS = [
    Backend("encrypted", open_encrypted),
    Backend("memory", open_memory),
    Backend("sqlite", SqliteStorage.open, is_durable=True),
    Backend("shared", open_shared, is_shared=True),
]


class Subject:
    """A backend with a place to keep its data."""

    def __init__(self, backend: Backend, path: Path, **options: int) -> None:
        self.backend = backend
        self.path = path
        self.options = options

    def bounded(self, history_bytes: int) -> Subject:
        """The same, keeping at most so many bytes of history."""
        return Subject(self.backend, self.path, history_bytes=history_bytes)

    async def open(self) -> Storage:
        return await self.backend.open(self.path, **self.options)

    def run(self, *scenarios: Scenario) -> None:
        """Run each scenario on a freshly opened store; the later ones find what the earlier ones left."""
        for scenario in scenarios:
            asyncio.run(self._run(scenario))

    async def _run(self, scenario: Scenario) -> None:
        store = await self.open()
        try:
            await scenario(store)
        finally:
            await store.close()


class Recorder:
    """A follower that remembers what it was given."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.calls: list[tuple[int, list[int]]] = []

    def __call__(self, revision: int, changes: Sequence[Change]) -> None:
        self.calls.append((revision, [change.revision for change in changes]))
        self.changes.extend(changes)

    @property
    def reached(self) -> int:
        """The last revision it was given."""
        return self.calls[-1][0] if self.calls else 0

    @property
    def revisions(self) -> list[int]:
        return [change.revision for change in self.changes]


def value(text: str = "value") -> Draft:
    return Draft(b'{"rv":"', f'","text":"{text}"}}'.encode())


async def put_in_order(store: Storage, keys: Sequence[str]) -> None:
    """Create keys one after the other: in a new store, at the revisions from 1 on."""
    for key in keys:
        await store.put(key, value(key), 0)


async def put_many(store: Storage, keys: Sequence[str]) -> list[int]:
    """Create keys at the same time; a shared store may do so in any order."""
    return list(await asyncio.gather(*(store.put(key, value(key), 0) for key in keys)))
