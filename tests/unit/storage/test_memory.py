"""What is particular to the memory store; the rest is in tests/contract."""

from __future__ import annotations

import asyncio

import pytest

from kapi.storage.interface import Compacted, Draft, Entry
from kapi.storage.memory import MemoryStorage


def test_compaction_frees_the_memory_of_removed_keys():
    async def scenario():
        store = MemoryStorage()
        for number in range(100):
            key = f"/{number}"
            await store.delete(key, await store.put(key, Draft(b"", b""), 0))
        await store.put("/kept", Draft(b"", b""), 0)
        await store.compact(store.revision)
        assert list(store._versions) == store._keys == ["/kept"]
        assert store._log == []

    asyncio.run(scenario())


def test_a_write_completes_without_yielding_to_the_loop():
    async def scenario():
        store = MemoryStorage()
        turns = []
        asyncio.get_running_loop().call_soon(turns.append, 1)
        await store.put("/a", Draft(b"", b""), 0)
        assert turns == []

    asyncio.run(scenario())


def test_a_compaction_lets_others_run_between_its_steps():
    async def scenario():
        store = MemoryStorage()
        for number in range(3000):
            await store.put(f"/{number}", Draft(b"", b""), 0)
        compaction = asyncio.create_task(store.compact(3000))
        turns = 0
        while not compaction.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 3

    asyncio.run(scenario())


def test_a_store_of_a_snapshot_has_its_keys_and_goes_on_with_its_revisions():
    async def main():
        storage = MemoryStorage()
        first = await storage.put("/a", Draft(b"a", b""), 0)
        await storage.put("/b", Draft(b"b", b""), 0)
        await storage.delete("/b", 2)
        snapshot = storage.snapshot()
        await storage.put("/a", Draft(b"changed", b""), first)
        copy = MemoryStorage.from_snapshot(snapshot)
        assert (await copy.range("/")).entries == [Entry("/a", b"a1", 1)]
        assert (copy.revision, copy.compacted) == (3, 3)
        assert copy._ledger.present == storage._ledger.present - len("changed4") + len("a1")
        assert await copy.put("/a", Draft(b"copy", b""), first) == 4
        assert snapshot.entries == (Entry("/a", b"a1", 1),)
        with pytest.raises(Compacted):
            await copy.get("/a", 2)
        await copy.compact(4)
        assert (await copy.get("/a")).value == b"copy4"

    asyncio.run(main())
