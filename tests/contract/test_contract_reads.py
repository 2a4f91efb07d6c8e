"""Promise 4 of `storage.interface`: reads now and at a revision, and paging."""

from __future__ import annotations

import asyncio

import pytest
from storage_backends import Subject, put_many, value

from kapi.storage.interface import Compacted, FutureRevision, Storage


def test_a_key_can_be_read_at_every_revision_it_had(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await store.put("/other", value(), 0)
        first = await store.put("/a", value("one"), 0)
        second = await store.put("/a", value("two"), first)
        removal = await store.delete("/a", second)
        third = await store.put("/a", value("three"), 0)
        assert await store.get("/a", 1) is None
        assert await store.get("/a", first) == ("/a", value("one").render(first), first)
        assert await store.get("/a", second) == ("/a", value("two").render(second), second)
        assert await store.get("/a", removal) is None
        assert await store.get("/a", third) == await store.get("/a")
        assert await store.get("/other", third) == ("/other", value().render(1), 1)

    subject.run(scenario)


def test_a_range_can_be_read_at_every_revision(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await store.put("/a", value(), 0)
        await store.put("/b", value(), 0)
        await store.put("/a", value(), 1)
        await store.delete("/b", 2)
        await store.put("/c", value(), 0)
        seen = [[(e.key, e.revision) for e in (await store.range("/", revision=r)).entries] for r in range(1, 6)]
        assert seen == [
            [("/a", 1)],
            [("/a", 1), ("/b", 2)],
            [("/a", 3), ("/b", 2)],
            [("/a", 3)],
            [("/a", 3), ("/c", 5)],
        ]
        assert [(await store.range("/", revision=r)).revision for r in range(1, 6)] == [1, 2, 3, 4, 5]

    subject.run(scenario)


def test_the_future_cannot_be_read(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        current = await store.put("/a", value(), 0)
        for attempt in (store.get("/a", current + 1), store.range("/", revision=current + 1)):
            with pytest.raises(FutureRevision) as caught:
                await attempt
            assert (caught.value.revision, caught.value.current) == (current + 1, current)

    subject.run(scenario)


def test_a_range_holds_the_keys_of_its_prefix_and_no_others(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        inside = ["/pods/", "/pods/a", "/pods/a/b", "/pods/\U0010ffff"]
        outside = ["/pod", "/pods", "/pods.apps/a", "/pods0", "/podt", "/", "/Pods/a"]
        await put_many(store, inside + outside)
        assert [entry.key for entry in (await store.range("/pods/")).entries] == sorted(inside)
        assert [entry.key for entry in (await store.range("")).entries] == sorted(inside + outside)
        assert (await store.range("/none/")).entries == []

    subject.run(scenario)


def test_a_range_is_in_key_order_whatever_the_order_of_writes(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        keys = [f"/{(number * 7919) % 1000:03}" for number in range(200)]
        await put_many(store, keys)
        assert [entry.key for entry in (await store.range("/")).entries] == sorted(keys)

    subject.run(scenario)


def test_start_is_included_and_never_leaves_the_prefix(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await put_many(store, ["/a/1", "/b/1", "/b/2", "/b/3", "/c/1"])

        async def keys(start: str) -> list[str]:
            return [entry.key for entry in (await store.range("/b/", start=start)).entries]

        assert await keys("/b/2") == ["/b/2", "/b/3"]
        assert await keys("/b/2\0") == ["/b/3"]
        assert await keys("/a/1") == ["/b/1", "/b/2", "/b/3"]
        assert await keys("/c/1") == []

    subject.run(scenario)


@pytest.mark.parametrize(("limit", "found", "more"), [(0, 5, 0), (1, 1, 4), (4, 4, 1), (5, 5, 0), (6, 5, 0)], ids=str)
def test_a_page_counts_the_remaining_keys(subject: Subject, limit: int, found: int, more: int) -> None:
    async def scenario(store: Storage) -> None:
        await put_many(store, ["/a/0", *(f"/b/{number}" for number in range(7)), "/c/0"])
        # Removed keys are neither entries nor counted.
        await store.delete("/b/1", (await store.get("/b/1") or pytest.fail("missing")).revision)
        await store.delete("/b/5", (await store.get("/b/5") or pytest.fail("missing")).revision)
        page = await store.range("/b/", limit=limit)
        assert (len(page.entries), page.more) == (found, more)
        rough = await store.range("/b/", limit=limit, counted=False)
        assert (rough.entries, bool(rough.more)) == (page.entries, bool(more))

    subject.run(scenario)


def test_pages_are_consistent_at_the_revision_of_the_first_during_writes(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await put_many(store, [f"/{number:03}" for number in range(100)])
        expected = (await store.range("/")).entries
        collected: list[object] = []
        page = await store.range("/", limit=7)
        at = page.revision
        while True:
            collected.extend(page.entries)
            assert page.more == 100 - len(collected)
            assert page.revision == at
            if not page.more:
                break
            # Change what is behind, what is ahead, and add between.
            last = page.entries[-1].key
            for key in ("/000", "/099", last):
                entry = await store.get(key)
                if entry is not None:
                    await store.delete(key, entry.revision)
            await store.put(last + "-new", value(), 0)
            page = await store.range("/", start=last + "\0", limit=7, revision=at)
        assert collected == expected

    subject.run(scenario)


def test_reads_see_every_acknowledged_write(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        async def write_then_read(name: str) -> None:
            revision = 0
            for _ in range(10):
                revision = await store.put(f"/{name}", value(), revision)
                entry = await store.get(f"/{name}")
                assert entry is not None
                assert entry.revision == revision
                page = await store.range(f"/{name}")
                assert page.entries == [entry]
                assert page.revision >= revision

        await asyncio.gather(*(write_then_read(f"{n:02}") for n in range(8)))

    subject.run(scenario)


def test_a_page_is_one_state_of_the_store_during_writes(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        # Two keys, always written one after the other: no state ever has the second ahead of the first by more than one.
        first, second = await put_many(store, ["/1", "/2"])
        done = False

        async def write() -> None:
            nonlocal first, second, done
            for _ in range(50):
                first = await store.put("/1", value(), first)
                second = await store.put("/2", value(), second)
            done = True

        async def read() -> None:
            while not done:
                page = await store.range("/")
                one, two = page.entries
                assert page.revision >= max(one.revision, two.revision)
                # "/2" at r was written right after "/1" at r - 1.
                assert one.revision in {two.revision - 1, two.revision + 1}

        await asyncio.gather(write(), read(), read())

    subject.run(scenario)


def test_reading_before_the_compacted_revision_is_a_compacted_error(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        revision = 0
        for _ in range(5):
            revision = await store.put("/a", value(), revision)
        await store.compact(3)
        for attempt in (store.get("/a", 2), store.range("/", revision=1)):
            with pytest.raises(Compacted) as caught:
                await attempt
            assert caught.value.oldest == 3
        entry = await store.get("/a", 3)
        assert entry is not None
        assert entry.revision == 3

    subject.run(scenario)
