"""Promise 8 of `storage.interface`: history is bounded in bytes, whatever is written and for how long."""

from __future__ import annotations

import asyncio

import pytest
from storage_backends import Recorder, Subject, put_many

from kapi.storage.interface import Compacted, Draft, Storage

BOUND = 64_000


async def update(store: Storage, key: str, times: int, size: int, revision: int = 0) -> int:
    for _ in range(times):
        revision = await store.put(key, Draft(b"x" * size, b""), revision)
    return revision


async def compacted(store: Storage) -> int:
    """How far the store has compacted when it has done all that it wants to."""
    # A store may compact after it has answered. The first call makes it look again, the second waits for the result.
    await store.compact(store.compacted)
    await store.compact(store.compacted)
    return store.compacted


async def past(store: Storage) -> int:
    """How many bytes of values a feed of all that is kept would deliver."""
    await compacted(store)
    recorder = Recorder()
    (await store.follow(store.compacted, recorder)).close()
    return sum(len(change.value or b"") for change in recorder.changes)


@pytest.mark.parametrize(("size", "times"), [(10, 3000), (1000, 1000), (30_000, 60)], ids=["small", "usual", "large"])
def test_history_of_one_key_is_bounded_under_continuous_updates(local: Subject, size: int, times: int) -> None:
    async def scenario(store: Storage) -> None:
        revision, kept = 0, []
        for _ in range(5):
            revision = await update(store, "/a", times // 5, size, revision)
            kept.append(await past(store))
        # The last change is the latest version; the rest is history.
        assert max(kept) <= BOUND + size
        assert await compacted(store) > times // 2
        assert await store.get("/a") == ("/a", b"x" * size + b"%d" % revision, revision)

    local.bounded(BOUND).run(scenario)


def test_no_more_is_compacted_than_needed(local: Subject) -> None:
    async def scenario(store: Storage) -> None:
        revision = await update(store, "/a", 50, 1000)
        assert await compacted(store) == 0
        for _ in range(100):
            revision = await update(store, "/a", 1, 1000, revision)
            assert await past(store) >= BOUND * 0.75 * 1000 / 1132 or await compacted(store) == 0
        assert await compacted(store) > 0

    local.bounded(BOUND).run(scenario)


def test_latest_versions_do_not_count_as_history(local: Subject) -> None:
    async def scenario(store: Storage) -> None:
        for number in range(200):
            await store.put(f"/{number}", Draft(b"x" * 1000, b""), 0)
        assert await compacted(store) == 0

    local.bounded(BOUND).run(scenario)


def test_history_as_large_as_the_latest_versions_is_kept(local: Subject) -> None:
    async def scenario(store: Storage) -> None:
        for number in range(200):
            await store.put(f"/{number}", Draft(b"x" * 1000, b""), 0)
        revision = await update(store, "/a", 190, 1000)
        assert await compacted(store) == 0
        await update(store, "/a", 20, 1000, revision)
        assert await compacted(store) > 0

    local.bounded(BOUND).run(scenario)


def test_history_is_bounded_under_continuous_creates_and_deletes(local: Subject) -> None:
    async def scenario(store: Storage) -> None:
        for number in range(1000):
            revision = await store.put(f"/{number}", Draft(b"x" * 100, b""), 0)
            await store.delete(f"/{number}", revision)
        assert store.revision - await compacted(store) < 2 * BOUND / 300
        assert (await store.range("/")).entries == []

    local.bounded(BOUND).run(scenario)


def test_many_keys_written_together_share_the_bound(local: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await asyncio.gather(*(update(store, f"/{number}", 40, 1000) for number in range(40)))
        assert await past(store) <= BOUND + 40 * 1000
        page = await store.range("/")
        assert len(page.entries) == 40
        assert all(entry.value == b"x" * 1000 + b"%d" % entry.revision for entry in page.entries)

    local.bounded(BOUND).run(scenario)


def test_a_live_follower_misses_nothing_of_what_is_compacted(local: Subject) -> None:
    async def scenario(store: Storage) -> None:
        live = Recorder()
        await store.follow(0, live)
        await asyncio.gather(*(update(store, f"/{number}", 30, 2000) for number in range(10)))
        assert await compacted(store) > 0
        assert live.revisions == list(range(1, 301))

    local.bounded(BOUND).run(scenario)


def test_a_follower_from_a_compacted_revision_is_refused(local: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await update(store, "/a", 100, 2000)
        await compacted(store)
        with pytest.raises(Compacted):
            await store.follow(1, Recorder())
        with pytest.raises(Compacted):
            await store.range("/", revision=1)

    local.bounded(BOUND).run(scenario)


def test_no_read_is_ahead_of_the_feed_when_next_to_nothing_is_kept(local: Subject) -> None:
    async def scenario(store: Storage) -> None:
        live = Recorder()
        await store.follow(0, live)
        writers = [asyncio.create_task(update(store, f"/{number}", 60, 10)) for number in range(8)]
        while not all(writer.done() for writer in writers):
            page = await store.range("/")
            assert not live.changes or page.revision <= live.changes[-1].revision
            await asyncio.sleep(0)
        assert await compacted(store) > 8 * 60 - 100

    local.bounded(1).run(scenario)


def test_the_bound_holds_across_restarts(durable: Subject) -> None:
    async def fill(store: Storage) -> None:
        await update(store, "/a", 50, 1000)
        assert await compacted(store) == 0

    async def add(store: Storage) -> None:
        assert await compacted(store) == 0
        await update(store, "/a", 20, 1000, store.revision)
        # The oldest of what was there before is gone, and no more.
        assert 0 < await compacted(store) < 30

    async def look(store: Storage) -> None:
        assert await past(store) <= BOUND + 1000

    durable.bounded(BOUND).run(fill, add, look)


def test_a_smaller_bound_takes_effect_when_a_store_is_opened(durable: Subject) -> None:
    async def fill(store: Storage) -> None:
        await put_many(store, ["/other"])
        await update(store, "/a", 50, 1000)

    async def look(store: Storage) -> None:
        assert 30 < store.compacted < 51
        assert [entry.key for entry in (await store.range("/")).entries] == ["/a", "/other"]

    durable.bounded(BOUND).run(fill)
    durable.bounded(10_000).run(look)
