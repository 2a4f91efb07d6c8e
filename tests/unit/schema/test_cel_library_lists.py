"""Lists and sets: against what Python makes of the same lists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.cel.libraries import extlists
from kapi.schema.cel.libraries import lists as list_library
from kapi.schema.cel.libraries.extlists import GENERAL
from kapi.schema.cel.libraries.sets import IMPLEMENTATIONS as SETS
from kapi.schema.cel.run.code import BudgetExceeded
from kapi.schema.cel.values import Concat, Duration, EvaluationError, Uint

NUMBERS = st.lists(st.integers(-5, 5), max_size=8)

LISTS = {**list_library.IMPLEMENTATIONS, **extlists.IMPLEMENTATIONS}


@given(NUMBERS)
def test_lists_are_summed_ordered_and_turned_as_python_does(items: list[int]) -> None:
    assert LISTS["list_int_sum_int"](items) == sum(items)
    assert LISTS["list_int_is_sorted_bool"](items) == (items == sorted(items))
    assert LISTS["list_int_sort"](items) == sorted(items)
    assert LISTS["list_reverse"](items) == items[::-1]
    assert LISTS["list_distinct"](items) == [*dict.fromkeys(items)]
    if items:
        assert LISTS["list_int_max_int"](items) == max(items)
        assert LISTS["list_int_min_int"](items) == min(items)


@given(NUMBERS, st.integers(-5, 5))
def test_places_are_found_from_both_ends(items: list[int], wanted: int) -> None:
    first = items.index(wanted) if wanted in items else -1
    last = len(items) - 1 - items[::-1].index(wanted) if wanted in items else -1
    assert LISTS["list_a_index_of_int"](items, wanted) == first
    assert LISTS["list_a_last_index_of_int"](items, wanted) == last


@given(NUMBERS, st.integers(-1, 9), st.integers(-1, 9))
def test_slices_are_those_of_python_or_errors(items: list[int], start: int, end: int) -> None:
    if 0 <= start <= end <= len(items):
        assert LISTS["list_slice"](items, start, end) == items[start:end]
    else:
        with pytest.raises(EvaluationError, match=rf"cannot slice\({start}, {end}\)"):
            LISTS["list_slice"](items, start, end)


@given(NUMBERS, st.randoms())
def test_sorting_by_keys_is_stable(items: list[int], random: Any) -> None:
    keys = [random.randint(0, 2) for _ in items]
    assert LISTS["list_int_sortByAssociatedKeys"](items, keys) == [
        item for _, item in sorted(zip(keys, items, strict=True), key=lambda pair: pair[0])
    ]


@given(NUMBERS, NUMBERS)
def test_sets_are_those_of_python(left: list[int], right: list[int]) -> None:
    one, two = set(left), set(right)
    for first, second in ((left, right), ([*map(str, left)], [*map(str, right)])):
        assert SETS["list_sets_contains_list"](first, second) == (one >= two)
        assert SETS["list_sets_equivalent_list"](first, second) == (one == two)
        assert SETS["list_sets_intersects_list"](first, second) == bool(one & two)


def test_members_of_a_set_are_equal_by_amount_and_not_by_truth() -> None:
    assert SETS["list_sets_contains_list"]([1, 2.0], [1.0, Uint(2)])
    assert not SETS["list_sets_contains_list"]([1], [True])
    assert not SETS["list_sets_contains_list"](["1"], [1])


def test_spans_and_unsigned_numbers_are_summed() -> None:
    assert LISTS["list_duration_sum_duration"]([Duration(1), Duration(2)]) == Duration(3)
    total = LISTS["list_uint_sum_uint"]([Uint(1), Uint(2)])
    assert (total, type(total)) == (3, Uint)
    with pytest.raises(EvaluationError, match="integer overflow"):
        LISTS["list_int_sum_int"]([2**63 - 1, 1])


def test_empty_lists_have_no_extremes() -> None:
    with pytest.raises(EvaluationError, match=r"^max called on empty list$"):
        LISTS["list_int_max_int"]([])


def test_lists_inside_lists_are_flattened_to_a_depth() -> None:
    nested = [1, [2, [3, [4]]]]
    assert LISTS["list_flatten"](nested) == [1, 2, [3, [4]]]
    assert LISTS["list_flatten_int"](nested, 0) == nested
    assert LISTS["list_flatten_int"](nested, 9) == [1, 2, 3, 4]
    assert LISTS["list_flatten"]([Concat([1], [2])]) == [1, 2]
    with pytest.raises(EvaluationError, match="level must be non-negative"):
        LISTS["list_flatten_int"](nested, -1)


def test_long_results_are_refused_before_they_are_made() -> None:
    with pytest.raises(BudgetExceeded):
        LISTS["lists_range"](10**12)
    with pytest.raises(BudgetExceeded):
        LISTS["list_flatten"]([[0] * 100_000] * 200)


@pytest.mark.parametrize(
    ("function", "items", "complaint"),
    [
        ("sort", [[1], [2]], "list elements must be comparable"),
        ("sort", [1, "a"], "list elements must have the same type"),
        ("sort", 5, "no such overload: sort"),
        ("flatten", 5, r"no such overload: int.flatten\(\)"),
    ],
)
def test_other_values_are_refused(function: str, items: Any, complaint: str) -> None:
    with pytest.raises(EvaluationError, match=complaint):
        GENERAL[function](items)


def test_lists_of_other_lengths_cannot_be_keys() -> None:
    with pytest.raises(EvaluationError, match="but got 2 and 1 elements respectively"):
        GENERAL["@sortByAssociatedKeys"]([1, 2], [1])
