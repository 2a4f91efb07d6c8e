"""Keys in chunks are what a sorted list of them is, and adding one among many costs what adding one among few costs."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.cache import sortedkeys
from kapi.cache.sortedkeys import SortedKeys

names = st.text("abc/", min_size=1, max_size=4)


@given(st.lists(st.tuples(st.booleans(), names), max_size=80), names, names, st.integers(0, 12))
def test_chunks_are_read_like_one_sorted_list(steps, start, end, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sortedkeys, "CHUNK", 2)
        keys, model = SortedKeys(), []
        for is_added, key in steps:
            if is_added and key not in model:
                keys.add(key)
                model = sorted([*model, key])
            elif not is_added and key in model:
                keys.remove(key)
                model.remove(key)
        assert keys.between("", None) == (model, 0)
        for last in (None, end):
            wanted = [key for key in model if key >= start and (last is None or key < last)]
            assert keys.between(start, last) == (wanted, 0)
            assert keys.between(start, last, limit) == (wanted[:limit], max(len(wanted) - limit, 0))


def cost(keys, number):
    began = time.process_time()
    for index in range(300):
        keys.add(f"{index * number // 300:07}x")
    return time.process_time() - began


def test_adding_to_many_keys_costs_what_adding_to_few_costs():
    def added(number):
        keys = SortedKeys()
        for index in range(number):
            keys.add(f"{index:07}")
        return cost(keys, number)

    few, many = (min(added(number) for _ in range(3)) for number in (5_000, 200_000))
    assert many < 8 * few
