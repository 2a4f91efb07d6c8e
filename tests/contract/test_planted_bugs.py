"""Backends with one bug each: the contract suite must catch every one of them, or its promises are not tested.

A bug is caught when the named contract test fails on the broken backend. The same test passes on the backends as they
are, in the suite itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import pytest
import test_contract_commits as commits
import test_contract_feed as feed
import test_contract_shared as shared
import test_contract_writes as writes
from storage_backends import Backend, Subject

from kapi.storage.interface import Change, Check, Put, RevisionMismatch
from kapi.storage.memory import MemoryStorage
from shared_cluster import SharedStorage

if TYPE_CHECKING:
    from pathlib import Path

    from kapi.storage.interface import Operation, Storage


class TwoRevisions(MemoryStorage):
    """Writes each key of a commit in a revision of its own."""

    async def commit(self, operations: Sequence[Operation]) -> int:
        return [self._commit([one]) for one in operations if not isinstance(one, Check)][-1]


class PartialCommit(MemoryStorage):
    """Writes what comes before the operation that differs."""

    async def commit(self, operations: Sequence[Operation]) -> int:
        try:
            return self._commit(operations)
        except RevisionMismatch as error:
            for one in operations:
                if one.key == error.key:
                    raise
                if not isinstance(one, Check):
                    self._commit([one])
            raise


class UncheckedCheck(MemoryStorage):
    """Compares only the keys that it writes."""

    async def commit(self, operations: Sequence[Operation]) -> int:
        return self._commit([one for one in operations if not isinstance(one, Check)])


class WrittenCheck(MemoryStorage):
    """Moves the revision of a key that is only checked."""

    async def commit(self, operations: Sequence[Operation]) -> int:
        revision = self._commit(operations)
        for one in operations:
            if isinstance(one, Check) and one.expected:
                self._versions[one.key].append(self._versions[one.key][-1]._replace(revision=revision))
        return revision


class WrongKeyNamed(MemoryStorage):
    """Names the first key of a commit whichever differs."""

    async def commit(self, operations: Sequence[Operation]) -> int:
        try:
            return self._commit(operations)
        except RevisionMismatch as error:
            raise RevisionMismatch(operations[0].key, error.expected, error.actual) from None


class DividedFeed(MemoryStorage):
    """Calls followers once per change."""

    def _publish(self, changes: Sequence[Change]) -> None:
        for change in changes:
            super()._publish([change])


class DividedHistory(MemoryStorage):
    """Cuts history in the middle of a commit."""

    async def _history(self, after: int) -> tuple[int, Sequence[Change]]:
        reached, changes = await super()._history(after)
        rest = self.__dict__.setdefault("rest", [])
        if rest:
            done, rest[:] = rest[:], []
            return done[-1].revision, done
        if len(changes) > 1 and changes[-1].revision == changes[-2].revision:
            rest[:] = changes[-1:]
            return reached - 1, changes[:-1]
        return reached, changes


class FollowersFirst(MemoryStorage):
    """Calls followers before the comparison has decided whether there is a commit."""

    def _commit(self, operations: Sequence[Operation]) -> int:
        revision = self._revision + 1
        changes = [
            Change(revision, one.key, one.draft.render(revision) if isinstance(one, Put) else None)
            for one in operations
            if not isinstance(one, Check)
        ]
        self._feed.publish(revision, changes)
        return super()._commit(operations)


class SameRevision(MemoryStorage):
    """Gives commits that are made at once one revision."""

    def _commit(self, operations: Sequence[Operation]) -> int:
        revision = super()._commit(operations)
        return revision - revision % 2


class EarlyRead(MemoryStorage):
    """Shows a part of the next commit to a read at a revision."""

    def _snapshot(self, revision: int) -> int:
        found = super()._snapshot(revision)
        return min(found + 1, self._revision) if revision else found


class KeyTwice(MemoryStorage):
    """Takes a key twice, and any number of operations."""

    async def commit(self, operations: Sequence[Operation]) -> int:
        if not operations:
            raise ValueError("nothing to commit")
        return [self._commit([one]) for one in operations if not isinstance(one, Check)][-1]


async def _connected(server: SharedStorage) -> SharedStorage:
    await server.connect()
    return server


class StaleLatest(SharedStorage):
    """Answers `latest` from the commits this server has received."""

    async def latest(self) -> int:
        return self._revision


class NoProgress(SharedStorage):
    """Drops what the cluster sends without a change."""

    def receive(self, revision: int, changes: Sequence[Change]) -> None:
        if any(change.key.startswith("/") for change in changes):
            super().receive(revision, changes)
        else:
            self._revision = revision


class EarlyAnswer(SharedStorage):
    """Answers a commit before its own followers have been called."""

    async def _acknowledge(self, revision: int) -> None:
        return


class Unfilled(SharedStorage):
    """Delivers values as they are stored, without their revision."""

    def _filled(self, change: Change) -> Change:
        return change


class LastWriterWins(SharedStorage):
    """Reads the revisions again before it writes, as a server does that decides uniqueness in its own memory."""

    async def _send(self, operations: Sequence[Operation]) -> int:
        await asyncio.sleep(0)
        current = [await self._memory.get(one.key) for one in operations]
        return await self._memory.commit(
            [
                one._replace(expected=entry.revision if entry else 0)
                for one, entry in zip(operations, current, strict=True)
            ]
        )


Test = Callable[..., None]

LOCAL_BUGS: list[tuple[type[MemoryStorage], Test, dict[str, object]]] = [
    (TwoRevisions, commits.test_all_keys_of_a_commit_are_written_at_the_next_revision, {}),
    (TwoRevisions, commits.test_concurrent_readers_never_see_half_a_commit, {}),
    (TwoRevisions, commits.test_the_feed_delivers_the_changes_of_a_commit_in_one_call_in_their_order, {}),
    (PartialCommit, commits.test_one_failed_comparison_leaves_everything_unchanged, {"kind": "put", "place": 2}),
    (
        UncheckedCheck,
        commits.test_one_failed_comparison_leaves_everything_unchanged,
        {"kind": "check", "place": 1},
    ),
    (UncheckedCheck, commits.test_a_check_is_compared_with_the_commits_before_it, {}),
    (WrittenCheck, commits.test_a_commit_creates_updates_deletes_and_checks_at_once, {}),
    (WrongKeyNamed, commits.test_one_failed_comparison_leaves_everything_unchanged, {"kind": "put", "place": 1}),
    (DividedFeed, commits.test_the_feed_delivers_the_changes_of_a_commit_in_one_call_in_their_order, {}),
    (DividedHistory, commits.test_history_never_divides_a_commit_between_two_calls, {}),
    (FollowersFirst, commits.test_one_failed_comparison_leaves_everything_unchanged, {"kind": "put", "place": 0}),
    (FollowersFirst, feed.test_the_stores_revision_has_moved_when_followers_are_called, {}),
    (SameRevision, commits.test_commits_started_together_have_distinct_revisions, {}),
    (SameRevision, writes.test_revisions_grow_with_every_write_and_only_with_writes, {}),
    (EarlyRead, commits.test_a_read_at_a_commits_revision_sees_all_of_it_and_one_before_it_none, {}),
    (KeyTwice, commits.test_an_invalid_commit_is_a_value_error_and_writes_nothing, {"name": "a key twice"}),
    (KeyTwice, commits.test_an_invalid_commit_is_a_value_error_and_writes_nothing, {"name": "too many"}),
]

SHARED_BUGS: list[tuple[type[SharedStorage], Test]] = [
    (StaleLatest, shared.test_latest_is_not_older_than_what_another_server_has_acknowledged),
    (StaleLatest, shared.test_a_follower_that_has_been_given_the_latest_revision_has_seen_every_servers_commits),
    (NoProgress, shared.test_progress_moves_the_revision_without_a_change),
    (EarlyAnswer, shared.test_followers_of_the_writing_server_are_called_before_the_write_is_acknowledged),
    (Unfilled, shared.test_each_server_reads_values_with_their_revision_filled_in),
    (LastWriterWins, shared.test_one_of_several_servers_wins_a_key),
]


def _is_caught(run: Callable[[], None]) -> bool:
    try:
        run()
    except (AssertionError, pytest.fail.Exception, RevisionMismatch):
        return True
    return False


def _name(bug: type, test: Test) -> str:
    return f"{bug.__name__}-{test.__name__.removeprefix('test_')}"


@pytest.mark.parametrize(("bug", "test", "arguments"), LOCAL_BUGS, ids=[_name(*planted[:2]) for planted in LOCAL_BUGS])
def test_a_bug_of_one_server_is_caught(
    tmp_path: Path, bug: type[MemoryStorage], test: Test, arguments: dict[str, object]
) -> None:
    async def open_broken(path: Path) -> Storage:
        return bug()

    def run(opened: Callable[[Path], Awaitable[Storage]]) -> None:
        test(Subject(Backend("broken", opened), tmp_path), **arguments)

    async def open_sound(path: Path) -> Storage:
        return MemoryStorage()

    run(open_sound)
    assert _is_caught(lambda: run(open_broken))


@pytest.mark.parametrize(("bug", "test"), SHARED_BUGS, ids=[_name(*planted) for planted in SHARED_BUGS])
def test_a_bug_between_servers_is_caught(bug: type[SharedStorage], test: Test) -> None:
    test(shared.Pair())
    assert _is_caught(lambda: test(shared.Pair(lambda cluster: _connected(bug(cluster)))))
