"""The two orders of a queue, as algebra."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.controller.queue.order import DelayedKeys, ReadyKeys


def drain(line):
    return [line.pop() for _ in range(len(line))]


@given(st.lists(st.integers(-3, 3), max_size=40))
def test_a_line_is_a_stable_sort_by_falling_priority(priorities):
    line = ReadyKeys()
    for number, priority in enumerate(priorities):
        line.push(number, priority)
    assert drain(line) == sorted(range(len(priorities)), key=lambda number: -priorities[number])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100)), max_size=60))
def test_raising_keys_leaves_no_empty_priorities_behind(raises):
    line, known = ReadyKeys(), {}
    for key, priority in raises:
        if key not in known:
            line.push(key, priority)
        else:
            line.move(key, known[key], priority)
        known[key] = priority
    assert len(line) == len(known)
    assert line._priorities == sorted(set(known.values()))
    drain(line)
    assert line._levels == {}
    with pytest.raises(IndexError):
        line.pop()


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 50), st.integers(-1, 1)), max_size=300), st.integers(0, 60))
def test_a_timetable_gives_each_key_once_at_its_earliest_time_with_its_highest_priority(puts, now):
    table = DelayedKeys()
    for key, due, priority in puts:
        table.put(key, float(due), priority)
    expected = {
        key: (min(d for k, d, _ in puts if k == key), max(p for k, _, p in puts if k == key)) for key, _, _ in puts
    }
    assert len(table) == len(expected)
    taken = list(table.pop_due(float(now)))
    assert {a.key: (a.due, a.priority) for a in taken} == {k: v for k, v in expected.items() if v[0] <= now}
    assert [a.due for a in taken] == sorted(a.due for a in taken)
    assert table.next_due() == min((due for due, _ in expected.values() if due > now), default=None)
    table.clear()
    assert (len(table), table.next_due()) == (0, None)


def test_keys_need_no_order_of_their_own():
    table = DelayedKeys()
    for key in (object(), 1, "a", None, (2, "b")):
        table.put(key, 1.0, 0)
    assert len(list(table.pop_due(1.0))) == 5


def test_a_timetable_does_not_grow_when_keys_are_moved_forward():
    table = DelayedKeys()
    for number in range(5000):
        table.put(number % 10, float(-number), 0)
    assert len(table._heap) <= 2 * 10 + 64
