"""Promise 7 of `storage.interface`: compaction removes old versions and nothing else."""

from __future__ import annotations

import asyncio

import pytest
from storage_backends import Recorder, Subject, put_in_order, put_many, value

from kapi.storage.interface import Compacted, FutureRevision, RevisionMismatch, Storage


def test_compaction_keeps_the_latest_version_of_every_key(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await put_in_order(store, ["/old", "/changed", "/removed"])
        await store.put("/changed", value("new"), 2)
        await store.delete("/removed", 3)
        before = await store.range("/")
        await store.compact(store.revision)
        assert store.compacted == store.revision == 5
        assert await store.range("/") == before
        assert await store.get("/old") == ("/old", value("/old").render(1), 1)
        assert await store.get("/removed") is None

    subject.run(scenario)


def test_the_state_at_the_compacted_revision_and_after_it_can_be_read(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        revision = 0
        for number in range(10):
            revision = await store.put("/a", value(str(number)), revision)
            await store.put(f"/b{number}", value(), 0)
        await store.delete("/b0", 2)
        before = {at: await store.range("/", revision=at) for at in range(8, 22)}
        await store.compact(8)
        assert {at: await store.range("/", revision=at) for at in range(8, 22)} == before
        with pytest.raises(Compacted):
            await store.range("/", revision=7)

    subject.run(scenario)


def test_the_feed_starts_at_the_compacted_revision_or_not_at_all(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await put_many(store, [f"/{number}" for number in range(6)])
        await store.compact(4)
        recorder = Recorder()
        await store.follow(4, recorder)
        assert recorder.revisions == [5, 6]
        with pytest.raises(Compacted) as caught:
            await store.follow(3, Recorder())
        assert (caught.value.revision, caught.value.oldest) == (3, 4)

    subject.run(scenario)


def test_compaction_does_not_affect_running_feeds(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        recorder = Recorder()
        await store.follow(0, recorder)
        await put_many(store, ["/a", "/b"])
        await store.compact(2)
        await store.put("/c", value(), 0)
        assert recorder.revisions == [1, 2, 3]

    subject.run(scenario)


def test_preconditions_hold_after_a_compaction(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await put_in_order(store, ["/kept", "/removed"])
        await store.delete("/removed", 2)
        await store.compact(3)
        with pytest.raises(RevisionMismatch) as caught:
            await store.put("/kept", value(), 0)
        assert caught.value.actual == 1
        assert await store.put("/kept", value(), 1) == 4
        assert await store.put("/removed", value(), 0) == 5

    subject.run(scenario)


def test_compacting_again_or_further_back_changes_nothing(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await put_many(store, ["/a", "/b", "/c"])
        await store.compact(2)
        await store.compact(2)
        await store.compact(1)
        assert store.compacted == 2

    subject.run(scenario)


def test_the_future_cannot_be_compacted(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await store.put("/a", value(), 0)
        with pytest.raises(FutureRevision):
            await store.compact(2)
        assert store.compacted == 0
        assert len((await store.range("/")).entries) == 1

    subject.run(scenario)


def test_compaction_of_a_long_history_keeps_the_latest_state(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        revisions = dict.fromkeys((f"/{number}" for number in range(40)), 0)
        for _ in range(40):
            done = await asyncio.gather(*(store.put(key, value(), at) for key, at in revisions.items()))
            revisions = dict(zip(revisions, done, strict=True))
        present = await store.range("/")
        await store.compact(store.revision - 10)
        assert await store.range("/") == present
        recorder = Recorder()
        await store.follow(store.compacted, recorder)
        assert recorder.revisions == list(range(1591, 1601))

    subject.run(scenario)


def test_writes_reads_and_feeds_continue_during_a_compaction(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await put_many(store, [f"/filler/{number}" for number in range(1200)])
        live = Recorder()
        await store.follow(store.revision, live)
        start = store.revision
        is_done = False

        async def compact() -> None:
            nonlocal is_done
            for target in (300, 800, 1200):
                await store.compact(target)
            is_done = True

        async def write() -> None:
            revision = 0
            while not is_done:
                revision = await store.put("/busy", value(), revision)
                entry = await store.get("/busy")
                assert entry is not None
                assert entry.revision == revision
                await asyncio.sleep(0)

        async def join() -> None:
            while not is_done:
                since = store.compacted
                recorder = Recorder()
                try:
                    subscription = await store.follow(since, recorder)
                except Compacted:
                    continue
                subscription.close()
                assert recorder.revisions == list(range(since + 1, since + 1 + len(recorder.revisions)))

        await asyncio.gather(compact(), write(), join())
        assert live.revisions == list(range(start + 1, store.revision + 1))
        assert len((await store.range("/filler/")).entries) == 1200

    subject.run(scenario)


def test_concurrent_compactions_end_at_the_furthest(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await put_many(store, [f"/{number}" for number in range(30)])
        await asyncio.gather(store.compact(10), store.compact(25), store.compact(5))
        assert store.compacted == 25
        assert len((await store.range("/")).entries) == 30

    subject.run(scenario)


def test_compacted_revisions_stay_compacted_after_reopening(durable: Subject) -> None:
    async def compact(store: Storage) -> None:
        await put_in_order(store, ["/a", "/b"])
        await store.put("/a", value(), 1)
        await store.compact(3)

    async def look(store: Storage) -> None:
        assert (store.compacted, store.revision) == (3, 3)
        with pytest.raises(Compacted):
            await store.get("/a", 2)
        with pytest.raises(Compacted):
            await store.follow(2, Recorder())
        assert [entry.key for entry in (await store.range("/")).entries] == ["/a", "/b"]

    durable.run(compact, look)
