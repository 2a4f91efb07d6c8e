"""Promises 5 and 6 of `storage.interface` as several servers see them: `latest`, progress, and acknowledgement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from storage_backends import Recorder, Subject, value

from kapi.storage.interface import Check, Put, RevisionMismatch, Storage
from shared_cluster import Cluster, SharedStorage

Servers = Callable[[Cluster, SharedStorage, SharedStorage], Awaitable[None]]


class Pair:
    """Two servers on one store. `make` opens a server; the planted bugs put theirs in its place."""

    def __init__(self, make: Callable[[Cluster], Awaitable[SharedStorage]] = Cluster.connect) -> None:
        self._make = make

    def run(self, scenario: Servers) -> None:
        asyncio.run(self._run(scenario))

    async def _run(self, scenario: Servers) -> None:
        cluster = Cluster()
        one, two = await self._make(cluster), await self._make(cluster)
        await asyncio.wait_for(scenario(cluster, one, two), 30)
        await one.close()
        await two.close()


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_latest_is_the_revision_of_the_last_acknowledged_commit(subject: Subject) -> None:
    async def scenario(store: Storage) -> None:
        assert await store.latest() == 0
        for number in range(5):
            revision = await store.put(f"/{number}", value(), 0)
            assert await store.latest() == revision == store.revision

    subject.run(scenario)


def test_latest_is_not_older_than_what_another_server_has_acknowledged(pair: Pair) -> None:
    async def scenario(cluster: Cluster, one: SharedStorage, two: SharedStorage) -> None:
        two.hold()
        revision = await one.put("/a", value(), 0)
        assert two.revision < revision
        assert await two.latest() >= revision

    pair.run(scenario)


def test_a_follower_that_has_been_given_the_latest_revision_has_seen_every_servers_commits(pair: Pair) -> None:
    async def scenario(cluster: Cluster, one: SharedStorage, two: SharedStorage) -> None:
        recorder = Recorder()
        await two.follow(0, recorder)
        written: set[str] = set()
        for number in range(20):
            two.hold()
            await one.put(f"/{number}", value(), 0)
            written.add(f"/{number}")
            latest = await two.latest()
            asyncio.get_running_loop().call_soon(two.release)
            await two.delivered(latest)
            assert {change.key for change in recorder.changes} == written

    pair.run(scenario)


def test_followers_of_the_writing_server_are_called_before_the_write_is_acknowledged(pair: Pair) -> None:
    async def scenario(cluster: Cluster, one: SharedStorage, two: SharedStorage) -> None:
        recorder = Recorder()
        await one.follow(0, recorder)

        async def write(server: SharedStorage, key: str) -> None:
            revision = 0
            for _ in range(20):
                revision = await server.put(key, value(), revision)
                assert server.revision >= revision
                assert server is two or recorder.reached >= revision

        await asyncio.gather(write(one, "/one"), write(two, "/two"))

    pair.run(scenario)


def test_followers_of_every_server_are_given_the_same_changes(pair: Pair) -> None:
    async def scenario(cluster: Cluster, one: SharedStorage, two: SharedStorage) -> None:
        first, second = Recorder(), Recorder()
        await one.follow(0, first)
        await two.follow(0, second)
        two.hold()
        created = await one.commit([Put("/a", value("one"), 0), Put("/b", value("one"), 0)])
        assert second.changes == []
        two.release()
        await two.put("/a", value("two"), created)
        assert [change.revision for change in second.changes] == [created, created, created + 1]
        assert second.changes == first.changes

    pair.run(scenario)


def test_one_of_several_servers_wins_a_key(pair: Pair) -> None:
    async def scenario(cluster: Cluster, one: SharedStorage, two: SharedStorage) -> None:
        results = await asyncio.gather(
            *(
                server.commit([Put(f"/objects/{n}", value(), 0), Put("/names/taken", value(), 0)])
                for n, server in enumerate([one, two] * 10)
            ),
            return_exceptions=True,
        )
        assert sorted(type(result).__name__ for result in results) == ["RevisionMismatch"] * 19 + ["int"]
        with pytest.raises(RevisionMismatch):
            await two.commit([Check("/names/taken", 0), Put("/objects/late", value(), 0)])

    pair.run(scenario)


def test_progress_moves_the_revision_without_a_change(pair: Pair) -> None:
    async def scenario(cluster: Cluster, one: SharedStorage, two: SharedStorage) -> None:
        recorder = Recorder()
        await one.follow(0, recorder)
        first = await one.put("/a", value(), 0)
        elsewhere = await cluster.write_elsewhere()
        await one.delivered(elsewhere)
        assert recorder.calls == [(first, [first]), (elsewhere, [])]

    pair.run(scenario)


def test_a_feed_that_starts_late_reaches_the_present_though_history_ends_before_it(pair: Pair) -> None:
    async def scenario(cluster: Cluster, one: SharedStorage, two: SharedStorage) -> None:
        await one.put("/a", value(), 0)
        elsewhere = await cluster.write_elsewhere()
        await one.put("/b", value(), 0)
        elsewhere = await cluster.write_elsewhere()
        await one.delivered(elsewhere)
        recorder = Recorder()
        await one.follow(0, recorder)
        assert recorder.reached == elsewhere
        assert [change.key for change in recorder.changes] == ["/a", "/b"]

    pair.run(scenario)


def test_each_server_reads_values_with_their_revision_filled_in(pair: Pair) -> None:
    async def scenario(cluster: Cluster, one: SharedStorage, two: SharedStorage) -> None:
        revision = await one.put("/a", value("text"), 0)
        recorder = Recorder()
        await two.follow(0, recorder)
        expected = value("text").render(revision)
        entry = await two.get("/a")
        assert entry is not None
        assert entry.value == expected
        assert [found.value for found in (await two.range("/")).entries] == [expected]
        assert [change.value for change in recorder.changes] == [expected]

    pair.run(scenario)
