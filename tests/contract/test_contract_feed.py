"""Promise 6 of `storage.interface`: the change feed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from storage_backends import Recorder, Subject, put_many, value

from kapi.storage.interface import Change, FutureRevision, Storage, StorageFailed

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_history_is_delivered_from_any_revision(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await store.put("/a", value("one"), 0)
        await store.put("/a", value("two"), 1)
        await store.delete("/a", 2)
        await store.put("/b", value(), 0)
        expected = [
            Change(1, "/a", value("one").render(1)),
            Change(2, "/a", value("two").render(2)),
            Change(3, "/a", None),
            Change(4, "/b", value().render(4)),
        ]
        for since in range(5):
            recorder = Recorder()
            await store.follow(since, recorder)
            assert recorder.changes == expected[since:]

    subject.run(scenario)


def test_live_changes_follow_history(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await store.put("/a", value(), 0)
        recorder = Recorder()
        await store.follow(0, recorder)
        await store.put("/a", value("two"), 1)
        await store.delete("/a", 2)
        assert [(c.revision, c.key, c.value) for c in recorder.changes[1:]] == [
            (2, "/a", value("two").render(2)),
            (3, "/a", None),
        ]

    subject.run(scenario)


def test_a_long_history_arrives_whole_and_in_order(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        await put_many(store, [f"/{number}" for number in range(1700)])
        recorder = Recorder()
        await store.follow(100, recorder)
        assert recorder.revisions == list(range(101, 1701))

    subject.run(scenario)


def test_followers_that_join_during_writes_see_every_change_once(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        recorders: list[tuple[int, Recorder]] = []

        async def write(name: int) -> None:
            revision = 0
            for _ in range(60):
                revision = await store.put(f"/{name}", value(), revision)

        async def join() -> None:
            for _ in range(10):
                since = store.revision // 2
                recorder = Recorder()
                await store.follow(since, recorder)
                recorders.append((since, recorder))
                await asyncio.sleep(0)

        await asyncio.gather(*(write(name) for name in range(8)), join(), join())
        assert store.revision == 480
        for since, recorder in recorders:
            assert recorder.revisions == list(range(since + 1, 481))

    subject.run(scenario)


def test_followers_have_seen_a_write_before_it_is_acknowledged(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        recorder = Recorder()
        await store.follow(0, recorder)

        async def write(name: int) -> None:
            revision = 0
            for _ in range(20):
                revision = await store.put(f"/{name}", value(), revision)
                assert recorder.revisions[-1] >= revision
                assert store.revision >= revision

        await asyncio.gather(*(write(name) for name in range(10)))

    subject.run(scenario)


def test_the_stores_revision_has_moved_when_followers_are_called(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        seen: list[tuple[int, int]] = []
        await store.follow(0, lambda revision, changes: seen.append((revision, store.revision)))
        await put_many(store, [f"/{number}" for number in range(20)])
        assert all(last == revision for last, revision in seen)

    subject.run(scenario)


def test_followers_are_called_on_the_event_loop(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        loops: set[object] = set()
        await store.put("/a", value(), 0)
        await store.follow(0, lambda revision, changes: loops.add(asyncio.get_running_loop()))
        await store.put("/a", value(), 1)
        assert loops == {asyncio.get_running_loop()}

    subject.run(scenario)


def test_a_note_reaches_live_followers_and_is_not_stored(local: Subject) -> None:
    async def scenario(store: Storage) -> None:
        live = Recorder()
        await store.follow(0, live)
        note = object()
        await store.put("/a", value(), 0, note)
        await store.delete("/a", 1, note)
        await store.put("/b", value(), 0)
        assert [change.note for change in live.changes] == [note, note, None]
        late = Recorder()
        await store.follow(0, late)
        assert [change.note for change in late.changes] == [None, None, None]

    local.run(scenario)


def test_refused_writes_are_not_in_the_feed(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        recorder = Recorder()
        await store.follow(0, recorder)
        await asyncio.gather(*(store.put("/a", value(), 0) for _ in range(5)), return_exceptions=True)
        assert len(recorder.changes) == 1

    subject.run(scenario)


def test_a_closed_subscription_is_not_called_again(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        recorder, other = Recorder(), Recorder()
        subscription = await store.follow(0, recorder)
        await store.follow(0, other)
        await store.put("/a", value(), 0)
        subscription.close()
        subscription.close()
        await store.put("/b", value(), 0)
        assert recorder.revisions == [1]
        assert other.revisions == [1, 2]

    subject.run(scenario)


def test_a_follower_may_close_another_from_inside_its_call(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        second = Recorder()

        def first(revision: int, changes: Sequence[Change]) -> None:
            subscription.close()

        await store.follow(0, first)
        subscription = await store.follow(0, second)
        await store.put("/a", value(), 0)
        assert second.changes == []

    subject.run(scenario)


def test_the_feed_cannot_start_in_the_future(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        with pytest.raises(FutureRevision):
            await store.follow(1, Recorder())

    subject.run(scenario)


def test_a_failing_follower_stops_the_store_rather_than_leave_a_gap(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        failures: list[BaseException] = []
        store.on_failure = failures.append
        boom = RuntimeError("boom")

        def follower(revision: int, changes: Sequence[Change]) -> None:
            raise boom

        await store.follow(0, follower)
        for _ in range(2):
            with pytest.raises(StorageFailed, match="boom"):
                await store.put("/a", value(), 0)
        assert failures == [boom]

    subject.run(scenario)
