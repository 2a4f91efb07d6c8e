"""Values of expressions: equality, order, types, times and texts."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.go.text import parse_bool, parse_float, parse_int, parse_uint, plain_float, quote, short_float
from kapi.schema.cel.run.operations import add_lists
from kapi.schema.cel.run.patterns import compile_pattern
from kapi.schema.cel.times import clock_in, clock_of, format_timestamp, parse_duration, parse_timestamp
from kapi.schema.cel.types import Type
from kapi.schema.cel.values import (
    NONE,
    Concat,
    Duration,
    EvaluationError,
    MapList,
    Optional,
    SetList,
    Timestamp,
    Uint,
    compare,
    equal,
    find,
    is_zero,
    show,
    size_of,
    type_of,
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(0, 2**64 - 1).map(Uint)
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | st.integers(-5, 5).map(Duration)
    | st.integers(-5, 5).map(Timestamp)
)
SMALL = st.sampled_from([0, 1, Uint(1), 1.0, True, False, None, "", "1", b"1", Duration(1), Timestamp(1)])
VALUES = st.recursive(
    SCALARS | SMALL,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | inner.map(Optional)
        | st.just(NONE)
    ),
    max_leaves=6,
)

# -- equality ---------------------------------------------------------------------------------------------------------


@given(VALUES)
def test_a_value_equals_itself(value: Any) -> None:
    assert equal(value, value)


@given(VALUES, VALUES)
def test_equality_is_symmetric(left: Any, right: Any) -> None:
    assert equal(left, right) == equal(right, left)


# Not for whole numbers that a float cannot tell apart: those equal the same float and not each other.
CLOSE = SMALL | st.recursive(SMALL, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("a"), inner))


@given(CLOSE, CLOSE, CLOSE)
def test_equality_is_transitive(one: Any, two: Any, three: Any) -> None:
    if equal(one, two) and equal(two, three):
        assert equal(one, three)


def test_numbers_are_equal_by_amount_and_booleans_are_not_numbers() -> None:
    assert equal(1, 1.0)
    assert equal(1.0, Uint(1))
    assert equal(Uint(1), 1)
    for other in (1, Uint(1), 1.0, "true"):
        assert not equal(True, other)
        assert not equal(other, True)
    assert not equal([1], [True])
    assert not equal({"a": 0}, {"a": False})
    assert not equal({1: "a"}, {True: "a"})


def test_nan_equals_nothing_and_has_no_order() -> None:
    for other in (math.nan, 1, Uint(1), 1.0):
        assert not equal(math.nan, other)
        assert not equal(other, math.nan)
        with pytest.raises(EvaluationError, match="NaN values cannot be ordered"):
            compare(math.nan, other)
        with pytest.raises(EvaluationError, match="NaN values cannot be ordered"):
            compare(other, math.nan)


def test_whole_numbers_become_floats_before_they_are_compared_with_floats() -> None:
    assert equal(2**53 + 1, 2.0**53)
    assert not equal(2**53 + 1, 2**53)
    assert compare(2**63 - 1, 1e300) < 0
    assert compare(-1e300, Uint(0)) < 0
    assert compare(-1.0, Uint(0)) < 0


def test_sets_and_keyed_lists_on_the_left_ignore_order() -> None:
    assert equal(SetList("ab"), SetList("ba"))
    assert equal(SetList("ab"), ["b", "a"])
    assert not equal(["b", "a"], SetList("ab"))
    assert not equal(SetList("ab"), ["a"])
    assert not equal(SetList([1]), [True])
    left = MapList([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}], ("k",))
    assert equal(left, [*reversed(left)])
    assert not equal(left, [{"k": 1, "v": "a"}, {"k": 2, "v": "c"}])
    assert not equal(left, [{"k": 1, "v": "a"}, {"k": 3, "v": "b"}])


@given(st.lists(st.integers(0, 5), unique=True), st.lists(st.integers(0, 5)))
def test_adding_to_a_set_appends_what_is_missing(items: list[int], more: list[int]) -> None:
    result = add_lists(SetList(items), more)
    assert result == [*dict.fromkeys(items + more)]
    assert isinstance(result, SetList)


def test_adding_to_a_keyed_list_replaces_in_place_and_appends_the_rest() -> None:
    left = MapList([{"k": 1, "v": 1}, {"k": 2, "v": 2}], ("k",))
    assert add_lists(left, [{"k": 2, "v": 9}, {"k": 3, "v": 3}]) == [
        {"k": 1, "v": 1},
        {"k": 2, "v": 9},
        {"k": 3, "v": 3},
    ]
    assert left == [{"k": 1, "v": 1}, {"k": 2, "v": 2}]


@given(
    st.recursive(
        st.lists(st.integers(), max_size=4), lambda inner: st.tuples(inner, inner).map(lambda two: Concat(*two))
    )
)
def test_lists_one_after_the_other_are_one_list(items: Any) -> None:
    flat = [*items]
    assert len(items) == len(flat)
    assert [items[place] for place in range(len(flat))] == flat
    assert equal(items, flat)
    assert type_of(items).name == "list"


def test_a_boolean_key_is_not_a_number() -> None:
    assert find({True: "a"}, True) == (True, "a")
    assert find({True: "a"}, 1) == (False, None)
    assert find({1: "a"}, True) == (False, None)
    assert find({1: "a"}, 1.0) == (True, "a")
    assert find({}, 1) == (False, None)
    assert find({"a": 1}, []) == (False, None)


@given(SCALARS, SCALARS)
def test_order_is_antisymmetric_where_there_is_one(left: Any, right: Any) -> None:
    try:
        order = compare(left, right)
    except EvaluationError:
        with pytest.raises(EvaluationError):
            compare(right, left)
    else:
        assert (order > 0) == (compare(right, left) < 0)
        assert (order == 0) == equal(left, right)


@pytest.mark.parametrize(
    ("value", "name", "size", "zero", "text"),
    [
        (None, "null_type", 1, True, "null"),
        (False, "bool", 1, True, "false"),
        (3, "int", 1, False, "3"),
        (Uint(0), "uint", 1, True, "0"),
        (1e6, "double", 1, False, "1e+06"),
        ("h\u00e9", "string", 2, False, "h\u00e9"),
        (b"", "bytes", 0, True, "b''"),
        ([1, "a"], "list", 2, False, "[1, a]"),
        ({"a": 1}, "map", 1, False, "{a: 1}"),
        (Duration(0), "google.protobuf.Duration", 1, True, "0s"),
        (Optional([1, 2]), "optional_type", 2, False, "optional([1, 2])"),
        (NONE, "optional_type", 1, False, "optional.none()"),
        (Type("int"), "type", 1, False, "int"),
    ],
)
def test_type_size_zero_and_text(value: Any, name: str, size: int, zero: bool, text: str) -> None:
    assert (type_of(value).name, size_of(value), is_zero(value), show(value)) == (name, size, zero, text)


# -- times ------------------------------------------------------------------------------------------------------------

FIRST, LAST, EPOCH = (dt.datetime.fromisoformat(day) for day in ("0001-01-02", "9999-12-30", "1970-01-01"))
MOMENTS = st.datetimes(min_value=FIRST, max_value=LAST)


def stamp(moment: dt.datetime) -> Timestamp:
    return Timestamp((moment - EPOCH) // dt.timedelta(microseconds=1) * 1000)


@given(MOMENTS)
def test_a_clock_shows_what_the_calendar_says(moment: dt.datetime) -> None:
    clock = clock_of(stamp(moment))
    assert clock[:6] == moment.timetuple()[:6]
    assert clock.nanos == moment.microsecond * 1000
    assert clock.weekday == moment.isoweekday() % 7
    assert clock.day_of_year == moment.timetuple().tm_yday - 1


@given(MOMENTS, st.integers(-12 * 60, 12 * 60))
def test_a_time_survives_being_written_and_read(moment: dt.datetime, minutes: int) -> None:
    written = format_timestamp(Timestamp(stamp(moment).nanos, minutes * 60))
    read = parse_timestamp(written)
    assert read is not None
    assert (read, read.offset) == (stamp(moment), minutes * 60)


@given(MOMENTS, st.integers(-12, 12), st.integers(0, 59))
def test_a_zone_by_number_shifts_the_clock(moment: dt.datetime, hours: int, minutes: int) -> None:
    zone = f"{'-' if hours < 0 else '+'}{abs(hours):02d}:{minutes:02d}"
    shift = dt.timedelta(hours=abs(hours), minutes=minutes) * (-1 if hours < 0 else 1)
    assert clock_in(stamp(moment), zone)[:6] == (moment + shift).timetuple()[:6]


def test_the_first_and_the_last_day_have_neighbours_in_other_zones() -> None:
    first, last = parse_timestamp("0001-01-01T00:00:00Z"), parse_timestamp("9999-12-31T23:59:59Z")
    assert first is not None
    assert last is not None
    assert clock_in(first, "-01:00")[:4] == (0, 12, 31, 23)
    assert clock_in(last, "+01:00")[:4] == (10000, 1, 1, 0)
    assert clock_in(first, "America/New_York").year in {0, 1}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024-01-01",
        "2024-01-01 00:00:00Z",
        "2024-1-01T00:00:00Z",
        "2024-01-01T00:00:00",
        "2023-02-29T00:00:00Z",
        "2024-01-01T00:00:00+25:00",
    ],
)
def test_what_is_not_a_time_is_not_read(text: str) -> None:
    assert parse_timestamp(text) is None


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_span_survives_being_written_in_nanoseconds(nanos: int) -> None:
    assert parse_duration(f"{nanos}ns") == Duration(nanos)
    assert parse_duration(f"{nanos}ns0h") == Duration(nanos)


@pytest.mark.parametrize(
    "text", ["", "1", "s", ".s", "1x", "1h ", "--1s", "9223372036854775808ns", "3000000h", "9" * 5000 + "s"]
)
def test_what_is_not_a_span_is_not_read(text: str) -> None:
    assert parse_duration(text) is None


# -- texts ------------------------------------------------------------------------------------------------------------


@given(st.integers())
def test_integers_are_read_within_64_bits(value: int) -> None:
    assert parse_int(str(value)) == (value if -(2**63) <= value < 2**63 else None)
    assert parse_uint(str(value)) == (value if 0 <= value < 2**64 else None)


@given(st.floats(allow_nan=False))
def test_floats_survive_being_written(value: float) -> None:
    assert parse_float(short_float(value)) == value
    assert parse_float(plain_float(value)) == value
    assert "e" not in plain_float(value)


@pytest.mark.parametrize("text", ["", "1 ", "0x1", "1e", "_1", "1_", "1__0", "e5", "1e400", "\u0663"])
def test_what_is_not_a_number_is_not_read(text: str) -> None:
    assert parse_float(text) is None
    assert parse_int(text) is None


def test_truth_is_read_in_the_few_ways_it_is_written() -> None:
    assert [parse_bool(text) for text in ("1", "T", "true", "0", "False", "yes", "tRUE")] == [
        True,
        True,
        True,
        False,
        False,
        None,
        None,
    ]


def test_strings_are_quoted_with_escapes() -> None:
    assert quote('a"\\\n\x00\u00a0\u00e9\U0001f600') == '"a\\"\\\\\\n\\x00\\u00a0\u00e9\U0001f600"'


def test_patterns_are_compiled_once_and_refused_in_words() -> None:
    assert compile_pattern("a+") is compile_pattern("a+")
    with pytest.raises(EvaluationError, match=r"^error parsing regexp: missing closing \): `a\(`$"):
        compile_pattern("a(")
