"""Reading cron schedules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.registry.kinds.batch.cron import ScheduleError, parse_schedule, time_zone_sentences


@pytest.mark.parametrize(
    ("text", "field", "values"),
    [
        ("*/15 * * * *", "minute", {0, 15, 30, 45}),
        ("5/20 * * * *", "minute", {5, 25, 45}),
        ("1-10/3 * * * *", "minute", {1, 4, 7, 10}),
        ("1,2,,5 * * * *", "minute", {1, 2, 5}),
        ("0 9-11 * * *", "hour", {9, 10, 11}),
        ("0 0 1 jan,JUL *", "month", {1, 7}),
        ("0 0 * * mon-fri", "day_of_week", {1, 2, 3, 4, 5}),
        ("@weekly", "day_of_week", {0}),
        ("@yearly", "month", {1}),
        ("@monthly", "day_of_month", {1}),
        ("@hourly", "minute", {0}),
        ("  0   0 * *\t*  ", "hour", {0}),
    ],
)
def test_fields_are_read(text: str, field: str, values: set[int]):
    assert getattr(parse_schedule(text), field).values == values


@pytest.mark.parametrize(
    ("text", "star"),
    [("* * * * *", True), ("? * ? * *", True), ("*/2 * * * *", False), ("*/1 * * * *", True), ("0-59 * * * *", False)],
)
def test_a_field_left_open_is_known_as_such(text: str, star: bool):
    assert parse_schedule(text).minute.star is star


@pytest.mark.parametrize(("text", "seconds"), [("@every 1h30m", 5400), ("@every 1.9s", 1), ("@every 1ms", 1)])
def test_intervals(text: str, seconds: float):
    assert parse_schedule(text).every == seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("9-3 * * * *", "beginning of range (9) beyond end of range (3): 9-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/2/3 * * * *", "too many slashes: */2/3"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("-1 * * * *", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("* * * foo *", 'failed to parse int from foo: strconv.Atoi: parsing "foo": invalid syntax'),
        ("@never", "unrecognized descriptor: @never"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
        ("TZ=Nowhere 0 0 * * *", "provided bad location Nowhere: unknown time zone Nowhere"),
        (
            "99999999999999999999 * * * *",
            'failed to parse int from 99999999999999999999: strconv.Atoi: parsing "99999999999999999999": value out of range',
        ),
    ],
)
def test_invalid_schedules_have_a_reason(text: str, why: str):
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(text)
    assert str(caught.value) == why


def test_a_zone_before_the_schedule_is_kept():
    assert parse_schedule("CRON_TZ=Europe/Berlin @daily").zone == "Europe/Berlin"


@given(st.lists(st.integers(0, 59), min_size=1, unique=True))
def test_a_list_of_minutes_means_these_minutes(minutes: list[int]):
    text = ",".join(map(str, minutes)) + " * * * *"
    assert parse_schedule(text).minute.values == set(minutes)


@given(st.integers(0, 59), st.integers(0, 59), st.integers(1, 70))
def test_a_range_with_a_step_is_the_python_range(low: int, high: int, step: int):
    if low > high:
        low, high = high, low
    parsed = parse_schedule(f"{low}-{high}/{step} * * * *")
    assert parsed.minute.values == set(range(low, high + 1, step))


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str):
    try:
        understood = parse_schedule(text)
    except ScheduleError:
        understood = None
    assert understood is None or all(field.values for field in understood[:5]) or "," in text


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+1"])
def test_zones_of_the_data_base_are_fine(name: str):
    assert time_zone_sentences(name) == []


@pytest.mark.parametrize("name", ["America", "Europe//Berlin", "-05:00", "a" * 15, "/UTC", "Europe/Berlin/"])
def test_other_zones_are_unknown(name: str):
    assert time_zone_sentences(name) == [f"unknown time zone {name}"]


def test_local_in_another_case_is_wrong_twice():
    assert len(time_zone_sentences("local")) == 2
