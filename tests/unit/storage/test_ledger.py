from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.storage.ledger import Ledger, cost


class Books:
    """A ledger, and every version there ever was to compare it with."""

    def __init__(self, least: int) -> None:
        self.least = least
        self.ledger = Ledger(least)
        self.revision = 0
        self.live: dict[str, int] = {}
        # What each revision made past.
        self.lost: dict[int, int] = {}

    def put(self, key: str, size: int) -> None:
        self.revision += 1
        before = self.live.get(key, 0)
        self.ledger.put(self.revision, before, size)
        self.lost[self.revision] = before
        self.live[key] = size

    def remove(self, key: str) -> None:
        self.revision += 1
        before = self.live.pop(key)
        self.ledger.remove(self.revision, before, cost(key, 0))
        self.lost[self.revision] = before + cost(key, 0)

    def past_after(self, revision: int) -> int:
        return sum(size for at, size in self.lost.items() if at > revision)

    @property
    def bound(self) -> int:
        return max(self.least, sum(self.live.values()))

    def forget(self, revision: int) -> None:
        self.ledger.schedule(revision)
        self.ledger.finish(revision)


actions = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.one_of(st.none(), st.integers(1, 300), st.integers(1, 20_000))),
    max_size=120,
)


@given(actions, st.integers(1, 20_000))
def test_history_fits_after_a_compaction_and_little_more_is_removed_than_needed(changes, least):
    books, forgotten = Books(least), 0
    for key, size in changes:
        if size is not None:
            books.put(key, size)
        elif key in books.live:
            books.remove(key)
        assert books.ledger.present == sum(books.live.values())
        due = books.ledger.due(books.revision)
        if due:
            assert due > forgotten
            # One note further back would have been too little.
            largest = max(books.lost.values())
            assert books.past_after(due) + books.bound // 8 + books.bound // 64 + largest >= books.bound
            books.forget(due)
            forgotten = due
        assert books.past_after(forgotten) <= books.bound
        # What is counted is what is there, but for less than the distance of two notes.
        assert books.past_after(forgotten) <= books.ledger.past


@given(actions)
def test_within_the_bound_nothing_is_due(changes):
    books = Books(10_000_000)
    for key, size in changes:
        if size is not None:
            books.put(key, size)
        assert books.ledger.due(books.revision) == 0


def test_what_is_not_published_is_not_due():
    books = Books(1000)
    for _ in range(20):
        books.put("a", 500)
    assert books.ledger.due(20) > 15
    assert books.ledger.due(7) == 7
    assert books.ledger.due(1) == 0


def test_what_is_scheduled_is_not_due_again_but_is_counted_until_it_is_removed():
    books = Books(1000)
    for _ in range(20):
        books.put("a", 500)
    due = books.ledger.due(20)
    books.ledger.schedule(due)
    assert books.ledger.due(20) == 0
    assert books.ledger.past == 19 * 500
    assert books.ledger.is_behind
    books.ledger.finish(due)
    assert books.ledger.past == books.past_after(due)
    assert not books.ledger.is_behind


def test_a_compaction_for_another_reason_counts():
    books = Books(1000)
    for _ in range(3):
        books.put("a", 400)
    books.forget(3)
    assert books.ledger.past == 0
    books.put("a", 400)
    books.put("a", 400)
    assert books.ledger.due(5) == 0


@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_samples_are_few_however_much_is_written(size):
    books = Books(10_000)
    most = 0
    for _ in range(3000):
        books.put("a", size)
        if due := books.ledger.due(books.revision):
            books.forget(due)
        most = max(most, len(books.ledger._samples))
    assert most <= 2 * 64


def test_history_may_be_as_large_as_the_latest_versions():
    books = Books(1000)
    for name in "abcdefghij":
        books.put(name, 1000)
    assert books.ledger.bound == 10_000
    for name in "abcdefghij":
        books.put(name, 1000)
    assert books.ledger.due(20) == 0
    books.put("a", 1000)
    assert books.ledger.due(21) > 0


def test_deleted_versions_become_history_and_are_removed():
    books = Books(1000)
    for name in "abcdefghij":
        books.put(name, 1000)
    for name in "abcdefghij":
        books.remove(name)
    due = books.ledger.due(20)
    books.forget(due)
    assert books.past_after(due) <= 1000
