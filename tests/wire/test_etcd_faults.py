"""A store on etcd while members die, stop, lose their quorum and come back, and when answers are lost."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import re
import urllib.request
from typing import TYPE_CHECKING, Self

import pytest
from storage_backends import Recorder, value

from etcd_cluster import PROGRAM, EtcdCluster, EtcdMember
from kapi.base.failpoint import armed
from kapi.storage.etcd import messages
from kapi.storage.etcd.address import parse_address
from kapi.storage.etcd.cluster import STATUS, EtcdError
from kapi.storage.etcd.monitor import EtcdMonitor
from kapi.storage.etcd.storage import EtcdStorage
from kapi.storage.etcd.streams import Code
from kapi.storage.interface import (
    Compacted,
    Draft,
    OutcomeUnknown,
    Put,
    RevisionMismatch,
    StorageError,
    StorageFailed,
    StorageUnreachable,
)
from peers import disks_can_be_slow, peer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

pytestmark = pytest.mark.peers

PATIENT = 60
_numbers = itertools.count()


@pytest.fixture(scope="module")
def three() -> Iterator[EtcdCluster]:
    """Three members, all of them running when a test begins."""
    peer(PROGRAM, "etcd")
    cluster = EtcdCluster(3).start()
    yield cluster
    cluster.close()


@pytest.fixture
def members(three: EtcdCluster) -> Iterator[EtcdCluster]:
    yield three
    for member in three.members:
        if member.is_running:
            three.resume(member)
        else:
            three.start_member(member)
    three.wait_ready()


def run(cluster: EtcdCluster, scenario: Callable[[EtcdStorage], Awaitable[None]]) -> None:
    async def scene() -> None:
        async with asyncio.timeout(100):
            store = await opened(cluster)
            try:
                await scenario(store)
            finally:
                await store.close()

    asyncio.run(scene())


async def opened(cluster: EtcdCluster, prefix: str = "") -> EtcdStorage:
    prefix = prefix or f"/faults/{next(_numbers)}"
    return await EtcdStorage.open(parse_address(f"etcd://{cluster.endpoints}{prefix}?timeout={PATIENT}"))


@contextlib.contextmanager
def impatient(store: EtcdStorage) -> Iterator[None]:
    """Let calls fail soon, where they are expected to: on a slow machine others take long."""
    patient = store.cluster.address
    store.cluster.address = dataclasses.replace(patient, timeout=1.0)
    yield
    store.cluster.address = patient


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 (what is waited for has no event)
        await asyncio.sleep(0.01)


async def leader_of(store: EtcdStorage, cluster: EtcdCluster) -> EtcdMember:
    while True:
        for place, member in enumerate(cluster.members):
            try:
                data = await store.cluster.attempt(store.cluster.members[place], STATUS, b"", 2)
            except EtcdError:
                continue
            status = messages.read_status(data)
            if status.leader == status.member:
                return member
        await asyncio.sleep(0.05)


class Load:
    """Writers that count up, each on a key of its own, and a follower that sees what they write."""

    def __init__(self, store: EtcdStorage) -> None:
        self.store = store
        self.acknowledged: dict[str, list[int]] = {}
        self.unknown = 0
        self.recorder = Recorder()
        self.is_ended = False

    async def write(self, key: str) -> None:
        done = self.acknowledged[key] = []
        expected = 0
        while not self.is_ended:
            try:
                expected = await self.store.put(key, value(f"{len(done)}"), expected)
            except OutcomeUnknown:
                self.unknown += 1
                expected = await self.revision_of(key)
            except RevisionMismatch:
                # Only this task writes the key: a write whose outcome was unknown has been made since.
                if not self.unknown:
                    raise
                expected = await self.revision_of(key)
            else:
                done.append(expected)

    async def revision_of(self, key: str) -> int:
        entry = await self.store.get(key)
        return entry.revision if entry else 0

    async def __aenter__(self) -> Self:
        await self.store.follow(self.store.revision, self.recorder)
        self.writers = [asyncio.ensure_future(self.write(f"/{number}")) for number in range(4)]
        await self.progress()
        return self

    async def progress(self) -> None:
        """Wait until every writer has written a few times more."""
        wanted = {key: len(done) + 5 for key, done in self.acknowledged.items()}
        while any(len(self.acknowledged.get(key, ())) < count for key, count in wanted.items()) or not wanted:
            for writer in self.writers:
                if writer.done():
                    writer.result()
            await asyncio.sleep(0.01)
            wanted = wanted or {key: len(done) + 5 for key, done in self.acknowledged.items()}

    async def __aexit__(self, *_: object) -> None:
        self.is_ended = True
        await asyncio.gather(*self.writers)

    def check(self) -> None:
        """Every acknowledged write was seen once and in order; nothing else was, but for those that are unknown."""
        seen: dict[str, list[int]] = {}
        for change in self.recorder.changes:
            seen.setdefault(change.key, []).append(change.revision)
        assert self.recorder.revisions == sorted(set(self.recorder.revisions))
        extra = 0
        for key, done in self.acknowledged.items():
            assert set(done) <= set(seen[key])
            extra += len(seen[key]) - len(done)
        assert extra <= self.unknown


def test_writes_go_on_when_a_follower_or_the_leader_is_killed(members: EtcdCluster) -> None:
    async def scenario(store: EtcdStorage) -> None:
        async with Load(store) as load:
            leader = await leader_of(store, members)
            follower = next(member for member in members.members if member is not leader)
            for victim in (follower, leader):
                members.kill(victim)
                await load.progress()
                members.start_member(victim)
                await load.progress()
        load.check()

    run(members, scenario)


def test_writes_go_on_when_the_member_in_use_is_stopped(members: EtcdCluster) -> None:
    async def scenario(store: EtcdStorage) -> None:
        async with Load(store) as load:
            used = next(member for member in members.members if member.endpoint == store.cluster.member.endpoint)
            members.pause(used)
            await load.progress()
            members.resume(used)
            await load.progress()
        assert store.cluster.member.endpoint != used.endpoint
        load.check()

    run(members, scenario)


def slow_syncs(member: EtcdMember) -> int:
    """How many syncs of its log have taken longer than 64 ms, by the word of a member."""
    with urllib.request.urlopen(f"http://{member.endpoint}/metrics", timeout=PATIENT) as page:
        text = page.read().decode()
    quick, every = (
        int(re.search(rf"^etcd_disk_wal_fsync_duration_seconds_{name} (\d+)$", text, re.MULTILINE)[1])  # type: ignore[index]
        for name in (r'bucket\{le="0.064"\}', "count")
    )
    return every - quick


def test_writes_go_on_on_slow_disks_and_none_is_lost_or_made_twice() -> None:
    if not disks_can_be_slow():
        pytest.skip("the etcd of the tests has no disk that can be made slow")
    cluster = EtcdCluster(3, syncs=True).start()

    async def scenario(store: EtcdStorage) -> None:
        async with Load(store) as load:
            for member in cluster.members:
                member.slow_down(0.1)
            await load.progress()
            assert all([await asyncio.to_thread(slow_syncs, member) for member in cluster.members])
            # For longer than a leader may be silent: the others elect another one, or wait for this one.
            leader = await leader_of(store, cluster)
            leader.slow_down(2.0)
            await load.progress()
            for member in cluster.members:
                member.slow_down(0.0)
            await load.progress()
        load.check()

    try:
        run(cluster, scenario)
    finally:
        cluster.close()


def test_without_a_quorum_calls_fail_in_time_and_everything_resumes_by_itself(members: EtcdCluster) -> None:
    async def scenario(store: EtcdStorage) -> None:
        monitor = EtcdMonitor(store)
        recorder = Recorder()
        await store.follow(store.revision, recorder)
        first = await store.put("/a", value("one"), 0)
        while monitor.check() is not None or not monitor.reachable:
            await monitor.step()
        for member in members.members[1:]:
            members.kill(member)
        with impatient(store):
            for attempt in (store.latest(), store.get("/a"), store.range("/")):
                with pytest.raises(StorageUnreachable):
                    await attempt
            with pytest.raises((StorageUnreachable, OutcomeUnknown)):
                await store.put("/a", value("two"), first)
        await monitor.step()
        assert monitor.check() is not None
        for member in members.members[1:]:
            members.start_member(member)
        while monitor.check() is not None:
            await monitor.step()
        await asyncio.wait_for(store.put("/b", value(), 0), 60)
        assert (await store.range("/b")).entries
        entry = await store.get("/a")
        assert entry is not None
        # The write that failed may have been carried out since; if so, followers know.
        seen = [change.revision for change in recorder.changes if change.key == "/a"]
        assert seen == sorted({first, entry.revision})

    run(members, scenario)


def test_a_store_opens_on_the_members_that_are_left(members: EtcdCluster) -> None:
    members.kill(members.members[0])

    async def scenario(store: EtcdStorage) -> None:
        assert await store.put("/a", value(), 0) == store.revision

    run(members, scenario)


# -- one member is enough for what follows


class LostAnswer:
    """Loses the answer of one transaction that etcd has carried out; `meanwhile` happens before it is sent again."""

    def __init__(self, store: EtcdStorage) -> None:
        self._store = store
        self._count = 0

    def __call__(self) -> None:
        self._count += 1
        if self._count == 1:
            endpoint = self._store.cluster.member.endpoint
            raise EtcdError(Code.DEADLINE_EXCEEDED, "the answer is lost", endpoint)


def test_a_commit_whose_answer_was_lost_is_found_to_have_happened(etcd: EtcdCluster) -> None:
    async def scenario(store: EtcdStorage) -> None:
        recorder = Recorder()
        await store.follow(0, recorder)
        note = object()
        with armed("etcd.after_commit", LostAnswer(store)):
            created = await store.put("/a", value("one"), 0, note)
        with armed("etcd.after_commit", LostAnswer(store)):
            updated = await store.commit([Put("/a", value("two"), created), Put("/b", value(), 0)])
        assert (created, updated) == (1, 2)
        assert recorder.revisions == [1, 2, 2]
        assert await store.get("/a") == ("/a", value("two").render(2), 2)

    run(etcd, scenario)


def test_a_lost_commit_is_found_though_another_server_has_written_over_it(etcd: EtcdCluster) -> None:
    async def scenario(store: EtcdStorage) -> None:
        other = await opened(etcd, prefix=store.cluster.address.prefix)
        with armed("etcd.after_commit", LostAnswer(store)):
            lost = asyncio.ensure_future(store.put("/a", value("one"), 0))
            # The answer is lost while this waits for the commit; it is written over before it is sent again, or after.
            await until(lambda: other.revision == 1)
            entry = await other.get("/a")
            assert entry is not None
            await other.put("/a", value("two"), entry.revision)
            assert await lost == entry.revision
        await other.close()

    run(etcd, scenario)


def test_a_lost_update_that_another_server_forestalled_is_refused(etcd: EtcdCluster) -> None:
    async def scenario(store: EtcdStorage) -> None:
        other = await opened(etcd, prefix=store.cluster.address.prefix)
        first = await other.put("/a", value("first"), 0)
        second = await other.put("/a", value("same"), first)
        with armed("etcd.before_commit", LostAnswer(store)), pytest.raises(RevisionMismatch) as caught:
            await store.put("/a", value("same"), first)
        assert caught.value.actual == second
        await other.close()

    run(etcd, scenario)


def test_a_lost_creation_of_a_key_that_another_server_created_is_not_guessed(etcd: EtcdCluster) -> None:
    """The attempt that was lost may still arrive, when the key has been deleted again."""

    async def scenario(store: EtcdStorage) -> None:
        other = await opened(etcd, prefix=store.cluster.address.prefix)
        await other.put("/a", value("same"), 0)
        with armed("etcd.before_commit", LostAnswer(store)), pytest.raises(OutcomeUnknown):
            await store.put("/a", value("same"), 0)
        await other.close()

    run(etcd, scenario)


def test_a_deletion_whose_answer_was_lost_is_not_guessed(etcd: EtcdCluster) -> None:
    async def scenario(store: EtcdStorage) -> None:
        revision = await store.put("/a", value(), 0)
        with armed("etcd.after_commit", LostAnswer(store)), pytest.raises(OutcomeUnknown):
            await store.delete("/a", revision)
        assert await store.get("/a") is None

    run(etcd, scenario)


def test_revisions_of_other_programs_are_reached_by_the_feed(etcd: EtcdCluster) -> None:
    async def scenario(store: EtcdStorage) -> None:
        other = await opened(etcd)
        recorder = Recorder()
        await store.follow(store.revision, recorder)
        for number in range(5):
            await other.put(f"/{number}", value(), 0)
            latest = await store.latest()
            await until(lambda wanted=latest: recorder.reached >= wanted)
        assert recorder.changes == []
        await other.close()

    run(etcd, scenario)


def test_another_servers_compaction_is_tolerated(etcd: EtcdCluster) -> None:
    async def scenario(store: EtcdStorage) -> None:
        other = await opened(etcd, prefix=store.cluster.address.prefix)
        revision = 0
        for _ in range(10):
            revision = await store.put("/a", value(), revision)
        await other.compact(8)
        for attempt in (store.get("/a", 3), store.range("/", revision=3), store.follow(3, Recorder())):
            with pytest.raises(Compacted):
                await attempt
        await store.compact(5)
        entry = await store.get("/a", 8)
        assert entry is not None
        assert entry.revision == 8
        with pytest.raises(Compacted):
            await store.follow(7, Recorder())
        assert store.compacted == 8
        await other.close()

    run(etcd, scenario)


def test_large_ranges_and_a_large_history_arrive_whole(etcd: EtcdCluster) -> None:
    async def scenario(store: EtcdStorage) -> None:
        large = Draft(b"x" * 1_000_000, b"")
        await asyncio.gather(*(store.put(f"/large/{number:02}", large, 0) for number in range(40)))
        await asyncio.gather(
            *(
                store.commit([Put(f"/small/{part:02}/{number:03}", value(), 0) for number in range(100)])
                for part in range(13)
            )
        )
        page = await store.range("/")
        assert len(page.entries) == 1340
        assert [entry.key for entry in page.entries] == sorted(entry.key for entry in page.entries)
        assert sum(len(entry.value) for entry in page.entries) > 40_000_000
        some = await store.range("/small/", limit=1200)
        assert (len(some.entries), some.more) == (1200, 100)
        recorder = Recorder()
        await store.follow(0, recorder)
        assert sorted(change.key for change in recorder.changes) == [entry.key for entry in page.entries]
        values = {entry.key: entry.value for entry in page.entries}
        assert all(change.value == values[change.key] for change in recorder.changes)

    run(etcd, scenario)


def test_an_object_larger_than_etcd_takes_is_refused_and_nothing_else(etcd: EtcdCluster) -> None:
    async def scenario(store: EtcdStorage) -> None:
        results = await asyncio.gather(
            store.put("/large", Draft(b"x" * 40_000_000, b""), 0), store.put("/b", value(), 0), return_exceptions=True
        )
        assert type(results[0]).__name__ == "ValueTooLarge"
        assert isinstance(results[0], StorageError)
        assert results[1] == store.revision

    run(etcd, scenario)


def test_closing_does_not_wait_for_a_watch_that_delivers_nothing(etcd: EtcdCluster) -> None:
    async def scenario(store: EtcdStorage) -> None:
        store.live._publish = lambda revision, events: None
        write = asyncio.ensure_future(store.put("/a", value(), 0))
        other = await opened(etcd, prefix=store.cluster.address.prefix)
        while await other.get("/a") is None:  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0.01)
        await other.close()
        with impatient(store):
            await store.close()
        with pytest.raises(StorageFailed):
            await write

    run(etcd, scenario)


def test_closing_that_is_cancelled_when_the_last_commit_ends_is_cancelled(etcd: EtcdCluster) -> None:
    """Before Python 3.12, `asyncio.wait_for` returns then, as if there had been no cancellation."""

    async def scenario(store: EtcdStorage) -> None:
        store._idle.clear()
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        store._idle.set()
        asyncio.get_running_loop().call_soon(closing.cancel)
        with pytest.raises(asyncio.CancelledError):
            await closing
        store._is_closing = False

    run(etcd, scenario)
