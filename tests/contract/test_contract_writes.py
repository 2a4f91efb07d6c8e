"""Promises 1 to 3 of `storage.interface`: revisions, durability, compare and swap."""

from __future__ import annotations

import asyncio

import pytest
from storage_backends import Recorder, Subject, put_many, value

from kapi.storage.interface import Draft, RevisionMismatch, Storage, StorageFailed


def test_a_new_store_is_at_revision_zero_and_empty(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        assert store.revision == 0
        assert store.compacted == 0
        assert await store.get("/a") is None
        assert await store.range("/") == ([], 0, 0)

    subject.run(scenario)


def test_create_writes_a_key_that_is_absent(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        revision = await store.put("/a", value("one"), 0)
        assert revision > 0
        assert store.revision == revision
        assert await store.get("/a") == ("/a", value("one").render(revision), revision)

    subject.run(scenario)


def test_create_of_an_existing_key_is_refused_with_its_revision(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        first = await store.put("/a", value("one"), 0)
        with pytest.raises(RevisionMismatch) as caught:
            await store.put("/a", value("two"), 0)
        assert (caught.value.key, caught.value.expected, caught.value.actual) == ("/a", 0, first)
        assert await store.get("/a") == ("/a", value("one").render(first), first)
        assert store.revision == first

    subject.run(scenario)


def test_update_needs_the_latest_revision_of_the_key(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        first = await store.put("/a", value("one"), 0)
        second = await store.put("/a", value("two"), first)
        with pytest.raises(RevisionMismatch) as caught:
            await store.put("/a", value("three"), first)
        assert caught.value.actual == second
        assert await store.get("/a") == ("/a", value("two").render(second), second)

    subject.run(scenario)


def test_update_of_an_absent_key_is_refused(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        other = await store.put("/b", value(), 0)
        with pytest.raises(RevisionMismatch) as caught:
            await store.put("/a", value(), other)
        assert caught.value.actual == 0
        assert await store.get("/a") is None

    subject.run(scenario)


def test_delete_removes_a_key_at_its_revision(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        first = await store.put("/a", value(), 0)
        removal = await store.delete("/a", first)
        assert removal > first
        assert store.revision == removal
        assert await store.get("/a") is None
        assert (await store.range("/")).entries == []

    subject.run(scenario)


def test_delete_at_another_revision_is_refused(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        first = await store.put("/a", value(), 0)
        second = await store.put("/a", value(), first)
        with pytest.raises(RevisionMismatch) as caught:
            await store.delete("/a", first)
        assert caught.value.actual == second
        with pytest.raises(RevisionMismatch) as caught:
            await store.delete("/absent", second)
        assert caught.value.actual == 0
        assert await store.get("/a") is not None

    subject.run(scenario)


def test_delete_without_a_revision_is_a_value_error(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        with pytest.raises(ValueError, match="needs the revision"):
            await store.delete("/absent", 0)
        assert store.revision == 0

    subject.run(scenario)


def test_a_removed_key_can_be_created_again(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        first = await store.put("/a", value("one"), 0)
        removal = await store.delete("/a", first)
        with pytest.raises(RevisionMismatch):
            await store.put("/a", value("two"), removal)
        second = await store.put("/a", value("two"), 0)
        assert second > removal
        assert await store.get("/a") == ("/a", value("two").render(second), second)

    subject.run(scenario)


def test_the_revision_is_rendered_into_its_slot(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        first = await store.put("/a", Draft(b'{"metadata":{"resourceVersion":"', b'"}}'), 0)
        entry = await store.get("/a")
        assert entry is not None
        assert entry.value == b'{"metadata":{"resourceVersion":"%d"}}' % first
        second = await store.put("/a", Draft(b"", b""), first)
        assert await store.get("/a") == ("/a", b"%d" % second, second)

    subject.run(scenario)


def test_values_are_any_bytes_up_to_megabytes(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        every_byte = bytes(range(256))
        for number, body in enumerate((every_byte, b"\0" * 10, b"x" * 3_000_000)):
            revision = await store.put(f"/{number}", Draft(body, body), 0)
            entry = await store.get(f"/{number}")
            assert entry is not None
            assert entry.value == body + str(revision).encode() + body

    subject.run(scenario)


ODD_KEYS = [
    "/x/a b",
    "/x/system:node:*",
    "/x/ünïcode",
    "/x/日本語",
    "/x/\U0001f600",
    "/x/e\u0301",
    "/x/é",
    "/x/'; DROP TABLE history; --",
    "/x/%_",
    "/x/\x7f",
    "/x/\uffff",
    "/x/\U0010ffff",
]


def test_keys_are_any_text_and_kept_apart(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        revisions = dict(zip(ODD_KEYS, await put_many(store, ODD_KEYS), strict=True))
        for key, revision in revisions.items():
            assert await store.get(key) == (key, value(key).render(revision), revision)
        page = await store.range("/x/")
        assert [entry.key for entry in page.entries] == sorted(ODD_KEYS)

    subject.run(scenario)


def test_a_key_that_is_not_text_fails_only_its_own_write(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        bad, good = await asyncio.gather(
            store.put("/\ud800", value(), 0), store.put("/good", value(), 0), return_exceptions=True
        )
        assert isinstance(bad, UnicodeEncodeError)
        assert good == store.revision
        assert [entry.key for entry in (await store.range("")).entries] == ["/good"]

    subject.run(scenario)


def test_revisions_grow_with_every_write_and_only_with_writes(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        seen = [0, *[await store.put(f"/{number}", value(), 0) for number in range(5)]]
        with pytest.raises(RevisionMismatch):
            await store.put("/0", value(), 0)
        assert store.revision == seen[-1]
        seen.append(await store.delete("/0", seen[1]))
        assert seen == sorted(set(seen))

    subject.run(scenario)


def test_of_concurrent_writers_with_one_expectation_exactly_one_wins(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        first = await store.put("/a", value(), 0)
        results = await asyncio.gather(
            *(store.put("/a", value(f"writer {n}"), first) for n in range(20)), return_exceptions=True
        )
        winners = [result for result in results if isinstance(result, int)]
        losers = [result for result in results if isinstance(result, RevisionMismatch)]
        assert len(winners) == 1
        assert {loser.actual for loser in losers} == {winners[0]}
        assert len(losers) == 19

    subject.run(scenario)


def test_no_update_is_lost_among_writers_that_retry(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await store.put("/counter", Draft(b"0 ", b""), 0)

        async def increment() -> None:
            while True:
                entry = await store.get("/counter")
                assert entry is not None
                count = int(entry.value.split()[0]) + 1
                try:
                    await store.put("/counter", Draft(b"%d " % count, b""), entry.revision)
                except RevisionMismatch:
                    continue
                return

        await asyncio.gather(*(increment() for _ in range(25)))
        entry = await store.get("/counter")
        assert entry is not None
        assert entry.value.startswith(b"25 ")

    subject.run(scenario)


def test_refused_writes_do_not_affect_the_others_of_their_batch(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        taken = await store.put("/taken", value(), 0)
        results = await asyncio.gather(
            store.put("/1", value(), 0),
            store.put("/taken", value(), 0),
            store.put("/2", value(), 0),
            store.delete("/1", taken + 1000),
            store.put("/3", value(), 0),
            return_exceptions=True,
        )
        assert [isinstance(result, RevisionMismatch) for result in results] == [False, True, False, True, False]
        page = await store.range("/")
        assert [entry.key for entry in page.entries] == ["/1", "/2", "/3", "/taken"]

    subject.run(scenario)


def test_writes_of_one_key_in_one_batch_build_on_each_other(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        # Started together, hence likely committed together; revisions of a new store are known beforehand.
        created = store.put("/a", value("one"), 0)
        updated = store.put("/a", value("two"), 1)
        removed = store.delete("/a", 2)
        again = store.put("/a", value("three"), 0)
        assert await asyncio.gather(created, updated, removed, again) == [1, 2, 3, 4]
        assert await store.get("/a") == ("/a", value("three").render(4), 4)
        assert await store.get("/a", 2) == ("/a", value("two").render(2), 2)
        assert await store.get("/a", 3) is None

    subject.run(scenario)


def test_many_more_writes_than_fit_a_batch_are_all_written_once(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        recorder = Recorder()
        await store.follow(0, recorder)
        keys = [f"/{number:04}" for number in range(1500)]
        revisions = await put_many(store, keys)
        assert len(set(revisions)) == 1500
        assert sorted(revisions) == recorder.revisions
        page = await store.range("/")
        assert {entry.key: entry.revision for entry in page.entries} == dict(zip(keys, revisions, strict=True))

    subject.run(scenario)


def test_a_cancelled_caller_does_not_disturb_the_others(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        tasks = [asyncio.create_task(store.put(f"/{number}", value(), 0)) for number in range(10)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, int) for n, result in enumerate(results) if n != 3)
        assert await store.put("/after", value(), 0) == store.revision

    subject.run(scenario)


def test_a_closed_store_refuses_writes(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        revision = await store.put("/a", value(), 0)
        await store.close()
        for attempt in (
            store.put("/a", value(), revision),
            store.delete("/a", revision),
            store.get("/a"),
            store.range("/"),
            store.follow(0, Recorder()),
            store.compact(revision),
        ):
            with pytest.raises(StorageFailed):
                await attempt

    subject.run(scenario)


def test_close_commits_accepted_writes(durable: Subject) -> None:
    async def write_and_close(store: Storage) -> None:
        tasks = [asyncio.create_task(store.put(f"/{number}", value(), 0)) for number in range(50)]
        await asyncio.sleep(0)
        await store.close()
        assert len(set(await asyncio.gather(*tasks))) == 50

    async def look(store: Storage) -> None:
        assert len((await store.range("/")).entries) == 50

    durable.run(write_and_close, look)


def test_all_values_are_there_after_reopening(durable: Subject) -> None:
    before: list[object] = []

    async def write(store: Storage) -> None:
        first = await store.put("/a", value("one"), 0)
        await store.put("/a", value("two"), first)
        gone = await store.put("/b", value(), 0)
        await store.delete("/b", gone)
        await store.put("/c", value(), 0)
        recorder = Recorder()
        await store.follow(0, recorder)
        before.extend(
            (store.revision, await store.range("/"), await store.range("/", revision=first), recorder.changes)
        )

    async def look(store: Storage) -> None:
        recorder = Recorder()
        await store.follow(0, recorder)
        assert [store.revision, await store.range("/"), await store.range("/", revision=1), recorder.changes] == before

    durable.run(write, look)


def test_preconditions_hold_across_reopening(durable: Subject) -> None:
    async def write(store: Storage) -> None:
        await store.put("/a", value(), 0)
        await store.delete("/b", await store.put("/b", value(), 0))

    async def check(store: Storage) -> None:
        with pytest.raises(RevisionMismatch) as caught:
            await store.put("/a", value(), 0)
        assert caught.value.actual == 1
        assert await store.put("/a", value(), 1) == 4
        assert await store.put("/b", value(), 0) == 5

    durable.run(write, check)


def test_no_revision_is_reused_even_in_an_emptied_store(durable: Subject) -> None:
    given: list[int] = []

    async def write_delete_forget(store: Storage) -> None:
        given.append(await store.put("/a", value(), 0))
        given.append(await store.delete("/a", given[-1]))
        await store.compact(given[-1])
        assert store.revision == given[-1]

    durable.run(*[write_delete_forget] * 4)
    assert given == sorted(set(given))
