"""Promises 3 and 4 of `storage.interface`: a commit compares and writes several keys in one revision, or none."""

from __future__ import annotations

import asyncio

import pytest
from storage_backends import Recorder, Subject, put_many, value

from kapi.storage.interface import (
    MAX_OPERATIONS,
    Change,
    Check,
    Delete,
    Operation,
    Put,
    RevisionMismatch,
    Storage,
    StorageFailed,
)


def test_all_keys_of_a_commit_are_written_at_the_next_revision(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        before = await store.put("/before", value(), 0)
        revision = await store.commit([Put("/a", value("a"), 0), Put("/b", value("b"), 0)])
        assert revision > before
        assert store.revision == revision
        assert await store.get("/a") == ("/a", value("a").render(revision), revision)
        assert await store.get("/b") == ("/b", value("b").render(revision), revision)

    subject.run(scenario)


def test_a_commit_creates_updates_deletes_and_checks_at_once(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        updated, deleted, checked = await put_many(store, ["/updated", "/deleted", "/checked"])
        revision = await store.commit(
            [
                Put("/created", value("created"), 0),
                Put("/updated", value("updated"), updated),
                Delete("/deleted", deleted),
                Check("/checked", checked),
                Check("/absent", 0),
            ]
        )
        page = await store.range("/")
        assert {entry.key: entry.revision for entry in page.entries} == {
            "/checked": checked,
            "/created": revision,
            "/updated": revision,
        }
        assert page.revision == revision

    subject.run(scenario)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("kind", ["put", "delete", "check"])
def test_one_failed_comparison_leaves_everything_unchanged(subject: Subject, kind: str, place: int) -> None:
    async def scenario(store: Storage) -> None:
        first, second, other = await put_many(store, ["/first", "/second", "/other"])
        recorder = Recorder()
        await store.follow(store.revision, recorder)
        before = await store.range("/")
        operations: list[Operation] = [Put("/first", value("new"), first), Delete("/second", second)]
        differing: dict[str, Operation] = {
            "put": Put("/other", value("new"), other + 1000),
            "delete": Delete("/other", other + 1000),
            "check": Check("/other", 0),
        }
        operations.insert(place, differing[kind])
        with pytest.raises(RevisionMismatch) as caught:
            await store.commit(operations)
        assert (caught.value.key, caught.value.actual) == ("/other", other)
        assert caught.value.expected == operations[place].expected
        assert await store.range("/") == before
        assert store.revision == before.revision
        assert recorder.calls == []

    subject.run(scenario)


def test_a_read_at_a_commits_revision_sees_all_of_it_and_one_before_it_none(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        first, second = await put_many(store, ["/a", "/b"])
        before = store.revision
        revision = await store.commit(
            [Put("/a", value("new"), first), Delete("/b", second), Put("/c", value("new"), 0)]
        )
        old = {entry.key: entry.revision for entry in (await store.range("/", revision=before)).entries}
        new = {entry.key: entry.revision for entry in (await store.range("/", revision=revision)).entries}
        assert old == {"/a": first, "/b": second}
        assert new == {"/a": revision, "/c": revision}
        assert await store.get("/b", before) is not None
        assert await store.get("/b", revision) is None

    subject.run(scenario)


def test_concurrent_readers_never_see_half_a_commit(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        revision = await store.commit([Put("/1", value(), 0), Put("/2", value(), 0)])
        is_done = False

        async def write() -> None:
            nonlocal revision, is_done
            for _ in range(100):
                revision = await store.commit([Put("/1", value(), revision), Put("/2", value(), revision)])
            is_done = True

        async def read() -> None:
            while not is_done:
                page = await store.range("/")
                assert len({entry.revision for entry in page.entries}) == 1
                await asyncio.sleep(0)

        await asyncio.gather(write(), read(), read())

    subject.run(scenario)


def test_the_feed_delivers_the_changes_of_a_commit_in_one_call_in_their_order(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        gone = await store.put("/gone", value(), 0)
        live = Recorder()
        await store.follow(store.revision, live)
        revision = await store.commit(
            [Put("/z", value("z"), 0), Check("/none", 0), Delete("/gone", gone), Put("/a", value("a"), 0)]
        )
        late = Recorder()
        await store.follow(gone, late)
        assert live.calls == late.calls == [(revision, [revision] * 3)]
        assert (
            live.changes
            == late.changes
            == [
                Change(revision, "/z", value("z").render(revision)),
                Change(revision, "/gone", None),
                Change(revision, "/a", value("a").render(revision)),
            ]
        )

    subject.run(scenario)


def test_each_change_of_a_commit_carries_its_own_note(local: Subject) -> None:
    async def scenario(store: Storage) -> None:
        gone = await store.put("/gone", value(), 0)
        live = Recorder()
        await store.follow(store.revision, live)
        one, two = object(), object()
        await store.commit([Put("/a", value(), 0, one), Delete("/gone", gone, two), Put("/b", value(), 0)])
        assert [change.note for change in live.changes] == [one, two, None]

    local.run(scenario)


def test_history_never_divides_a_commit_between_two_calls(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        sizes = [1 + number * 37 % MAX_OPERATIONS for number in range(40)]
        for number, size in enumerate(sizes):
            await store.commit([Put(f"/{number}/{place:03}", value(), 0) for place in range(size)])
        recorder = Recorder()
        await store.follow(0, recorder)
        ends = [(reached, revisions[-1]) for reached, revisions in recorder.calls if revisions]
        assert all(reached >= last for reached, last in ends)
        seen: set[int] = set()
        for _, revisions in recorder.calls:
            assert seen.isdisjoint(revisions)
            seen.update(revisions)
        assert len(recorder.changes) == sum(sizes)
        assert recorder.revisions == sorted(recorder.revisions)

    subject.run(scenario)


def test_of_concurrent_commits_that_share_a_key_one_wins(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        results = await asyncio.gather(
            *(store.commit([Put(f"/{n}", value(), 0), Put("/shared", value(), 0)]) for n in range(20)),
            return_exceptions=True,
        )
        winners = [n for n, result in enumerate(results) if isinstance(result, int)]
        assert len(winners) == 1
        page = await store.range("/")
        assert [entry.key for entry in page.entries] == [f"/{winners[0]}", "/shared"]

    subject.run(scenario)


def test_a_check_is_compared_with_the_commits_before_it(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        revision = await store.put("/checked", value(), 0)
        # Started together, hence likely decided together.
        deletion, dependent = await asyncio.gather(
            store.delete("/checked", revision),
            store.commit([Check("/checked", revision), Put("/dependent", value(), 0)]),
            return_exceptions=True,
        )
        assert isinstance(deletion, int)
        assert isinstance(dependent, RevisionMismatch)
        assert (dependent.key, dependent.actual) == ("/checked", 0)
        assert (await store.range("/")).entries == []

    subject.run(scenario)


def test_commits_started_together_have_distinct_revisions(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        revisions = await asyncio.gather(
            *(store.commit([Put(f"/{n}/a", value(), 0), Put(f"/{n}/b", value(), 0)]) for n in range(300))
        )
        assert sorted(set(revisions)) == sorted(revisions)
        page = await store.range("/")
        assert {entry.key: entry.revision for entry in page.entries} == {
            f"/{n}/{name}": revision for n, revision in enumerate(revisions) for name in "ab"
        }

    subject.run(scenario)


def test_commits_of_the_largest_size_fit_however_many_wait(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await asyncio.gather(
            *(store.commit([Put(f"/{n}/{k:03}", value(), 0) for k in range(MAX_OPERATIONS)]) for n in range(8))
        )
        page = await store.range("/")
        assert len(page.entries) == 8 * MAX_OPERATIONS

    subject.run(scenario)


INVALID: dict[str, list[Operation]] = {
    "a key twice": [Put("/a", value(), 0), Put("/a", value(), 0)],
    "a key written and checked": [Put("/a", value(), 0), Check("/a", 0)],
    "nothing": [],
    "nothing but checks": [Check("/a", 0)],
    "too many": [Put(f"/{number}", value(), 0) for number in range(MAX_OPERATIONS + 1)],
    "a deletion of an absent key": [Put("/a", value(), 0), Delete("/b", 0)],
    "a key that is not text": [Put("/a", value(), 0), Put("/\ud800", value(), 0)],
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_commit_is_a_value_error_and_writes_nothing(subject: Subject, name: str) -> None:
    async def scenario(store: Storage) -> None:
        with pytest.raises(ValueError, match=r"."):
            await store.commit(INVALID[name])
        assert store.revision == 0
        assert await store.put("/a", value(), 0) == store.revision

    subject.run(scenario)


def test_a_cancelled_commit_is_whole_or_absent(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        task = asyncio.create_task(store.commit([Put("/a", value(), 0), Put("/b", value(), 0)]))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.put("/after", value(), 0)
        entries = (await store.range("/")).entries
        assert [entry.key for entry in entries] in (["/a", "/after", "/b"], ["/after"])

    subject.run(scenario)


def test_a_closed_store_refuses_commits(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await store.close()
        with pytest.raises(StorageFailed):
            await store.commit([Put("/a", value(), 0), Put("/b", value(), 0)])

    subject.run(scenario)


def test_compaction_keeps_the_latest_version_of_every_key_of_a_commit(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        first = await store.commit([Put(f"/{name}", value("old"), 0) for name in "abc"])
        second = await store.commit([Put("/a", value("new"), first), Delete("/b", first)])
        at_first = await store.range("/", revision=first)
        await store.compact(first)
        assert await store.range("/", revision=first) == at_first
        await store.compact(second)
        page = await store.range("/")
        assert [(entry.key, entry.revision) for entry in page.entries] == [("/a", second), ("/c", first)]
        assert await store.put("/b", value(), 0) > second

    subject.run(scenario)


def test_commits_are_whole_after_reopening(durable: Subject) -> None:
    written: list[object] = []

    async def write(store: Storage) -> None:
        first = await store.commit([Put("/a", value(), 0), Put("/b", value(), 0), Put("/c", value(), 0)])
        await store.commit([Put("/a", value("new"), first), Delete("/b", first), Check("/c", first)])
        recorder = Recorder()
        await store.follow(0, recorder)
        written.extend((store.revision, await store.range("/"), recorder.changes))

    async def look(store: Storage) -> None:
        recorder = Recorder()
        await store.follow(0, recorder)
        assert [store.revision, await store.range("/"), recorder.changes] == written
        with pytest.raises(RevisionMismatch):
            await store.commit([Put("/new", value(), 0), Check("/b", 1)])

    durable.run(write, look)
