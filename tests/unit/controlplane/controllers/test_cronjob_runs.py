"""The times of cron schedules: the next start, changes of clocks, and the start that is due."""

from __future__ import annotations

import datetime as dt
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.controlplane.controllers.cronjob import runs
from kapi.controlplane.controllers.cronjob.runs import Due, due_run, next_due, next_run
from kapi.registry.kinds.batch.cron import ScheduleError, parse_schedule

MINUTE, DAY = 60, 86400


def unix(text):
    return int(dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp())


def printed(run):
    return None if run is None else f"{dt.datetime.fromtimestamp(run, dt.UTC):%Y-%m-%dT%H:%M:%S}"


def following(schedule, after, count):
    """The next starts in UTC."""
    run, found = unix(after), []
    for _ in range(count):
        run = next_run(parse_schedule(schedule), run)
        found.append(printed(run))
    return found


@pytest.mark.parametrize(
    ("schedule", "after", "run"),
    [
        ("*/15 * * * *", "2026-01-01T00:00:00", "2026-01-01T00:15:00"),
        ("*/15 * * * *", "2026-01-01T00:14:59", "2026-01-01T00:15:00"),
        ("* * * * *", "2026-01-01T00:00:30", "2026-01-01T00:01:00"),
        ("30 * * * *", "2026-12-31T23:30:30", "2027-01-01T00:30:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 0 31 * ?", "2026-01-31T12:00:00", "2026-03-31T00:00:00"),
        ("0 0 * * mon", "2026-01-01T00:00:00", "2026-01-05T00:00:00"),
        ("0 0 * * 0", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        # Either of two days that are given; both, if one of them is open.
        ("0 0 13 * fri", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
        ("0 0 13 */1 *", "2026-01-01T00:00:00", "2026-01-13T00:00:00"),
        ("0 0 */9 * fri", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
        ("@hourly", "2026-01-01T00:30:00", "2026-01-01T01:00:00"),
        ("@weekly", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        ("@monthly", "2026-01-01T00:00:00", "2026-02-01T00:00:00"),
        ("@yearly", "2026-01-01T00:00:00", "2027-01-01T00:00:00"),
        ("@every 90s", "2026-01-01T00:00:01", "2026-01-01T00:01:31"),
        ("TZ=Asia/Kolkata 0 9 * * *", "2026-01-01T00:00:00", "2026-01-01T03:30:00"),
        ("TZ=Asia/Tokyo 0 0 1 1 *", "2026-01-01T00:00:00", "2026-12-31T15:00:00"),
    ],
)
def test_the_next_start(schedule, after, run):
    assert printed(next_run(parse_schedule(schedule), unix(after))) == run


@pytest.mark.parametrize(
    ("schedule", "after", "starts"),
    [
        # Clocks go from 02:00 to 03:00 on 29 March 2026: 02:30 does not exist.
        ("TZ=Europe/Berlin 30 2 * * *", "2026-03-28T00:00:00", ["2026-03-28T01:30:00", "2026-03-30T00:30:00"]),
        ("TZ=Europe/Berlin 0 * * * *", "2026-03-29T00:00:00", ["2026-03-29T01:00:00", "2026-03-29T02:00:00"]),
        # Clocks go from 03:00 to 02:00 on 25 October 2026: 02:30 comes twice.
        (
            "TZ=Europe/Berlin 30 2 * * *",
            "2026-10-24T12:00:00",
            ["2026-10-25T00:30:00", "2026-10-25T01:30:00", "2026-10-26T01:30:00"],
        ),
        # Clocks go from 00:00 to 01:00 on 8 March 2026: that day has no midnight.
        ("TZ=America/Havana 0 0 * * *", "2026-03-07T00:00:00", ["2026-03-07T05:00:00", "2026-03-09T04:00:00"]),
        # Half an hour: after 02:00 is 02:30, and the whole hours are missed until the next day.
        ("TZ=Australia/Lord_Howe 0 3 * * *", "2026-10-02T17:00:00", ["2026-10-04T16:00:00"]),
        # Samoa had no 30 December 2011.
        ("TZ=Pacific/Apia 0 9 * * sat", "2011-12-28T00:00:00", ["2011-12-30T19:00:00"]),
    ],
)
def test_starts_when_clocks_are_changed(schedule, after, starts):
    assert following(schedule, after, len(starts)) == starts


@pytest.mark.parametrize(
    "schedule", ["0 0 31 2 *", "0 0 30 feb ?", ", * * * *", "* , * * *", "* * , * *", "* * * , *", "* * , * ,"]
)
def test_a_schedule_without_starts_has_no_next_one(schedule):
    assert next_run(parse_schedule(schedule), unix("2026-01-01T00:00:00")) is None


def test_a_day_list_without_values_leaves_the_other_days():
    assert following("0 0 , * fri", "2026-01-01T00:00:00", 2) == ["2026-01-02T00:00:00", "2026-01-09T00:00:00"]


def test_a_search_ends_after_five_years():
    leap = parse_schedule("0 0 29 2 *")
    assert printed(next_run(leap, unix("2099-01-01T00:00:00"))) == "2104-02-29T00:00:00"
    assert next_run(leap, unix("2097-01-01T00:00:00")) is None


# -- against a model --------------------------------------------------------------------------------------------------

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Sydney"]


def field(low, high):
    number = st.integers(low, high)
    spans = st.tuples(number, number).map(sorted)
    return st.one_of(
        st.sampled_from(["*", "?"]),
        st.builds("*/{}".format, st.integers(1, high)),
        st.lists(number, min_size=1, max_size=3).map(lambda some: ",".join(map(str, some))),
        st.builds(lambda span, step: f"{span[0]}-{span[1]}/{step}", spans, st.integers(1, 9)),
    )


schedules = st.tuples(field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)).map(" ".join)


def model(schedule, zone, after, until):
    """The first minute whose clock matches, by trying each."""
    minute, hour, day, month, weekday = schedule[:5]
    at = after - after % MINUTE + MINUTE
    while at <= until:
        wall = dt.datetime.fromtimestamp(at, zone)
        days = wall.day in day.values, (wall.weekday() + 1) % 7 in weekday.values
        matches = all(days) if day.star or weekday.star else any(days)
        if matches and wall.minute in minute.values and wall.hour in hour.values and wall.month in month.values:
            return at
        at += MINUTE
    return None


@given(schedules, st.sampled_from(ZONES), st.integers(unix("2024-01-01T00:00:00"), unix("2030-01-01T00:00:00")))
def test_the_next_start_is_the_first_minute_that_matches(text, zone, after):
    parsed = parse_schedule(f"TZ={zone} {text}")
    run, until = next_run(parsed, after), after + 3 * DAY
    expected = model(parsed, zoneinfo.ZoneInfo(zone), after, until)
    assert (run if run is not None and run <= until else None) == expected


@given(
    schedules,
    st.sampled_from(ZONES),
    st.integers(unix("2024-01-01T00:00:00"), unix("2026-01-01T00:00:00")),
    st.integers(0, 400 * DAY),
)
def test_the_due_start_is_the_last_of_all_starts(text, zone, since, seconds):
    schedule, now = parse_schedule(f"TZ={zone} {text}"), since + seconds
    try:
        due = due_run(schedule, since, now)
    except ScheduleError:
        assert next_run(schedule, since) is None or next_run(schedule, next_run(schedule, since)) is None
        return
    if due.run is None:
        # Nothing was missed; or a lot was, of an irregular schedule.
        assert due.missed or next_run(schedule, since) > now
    else:
        assert since < due.run <= now
        following_run = next_run(schedule, due.run)
        assert following_run is None or following_run > now
        assert next_run(schedule, due.run - 1) == due.run
    later = next_due(schedule, since, now)
    assert later is None or later > now


# -- the start that is due --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "now", "run", "missed"),
    [
        ("*/10 * * * *", "2026-01-01T00:09:59", None, 0),
        ("*/10 * * * *", "2026-01-01T00:10:00", "2026-01-01T00:10:00", 0),
        ("*/10 * * * *", "2026-01-01T00:19:59", "2026-01-01T00:10:00", 0),
        ("*/10 * * * *", "2026-01-01T00:20:00", "2026-01-01T00:20:00", 2),
        ("*/10 * * * *", "2026-01-01T16:45:00", "2026-01-01T16:40:00", 100),
        ("*/10 * * * *", "2026-01-01T16:55:00", "2026-01-01T16:50:00", 101),
        ("@every 7m", "2026-01-01T10:00:00", "2026-01-01T09:55:00", 85),
        # The interval is counted as four hours, and nothing was scheduled in the last eight.
        ("0 8-16/4 * * 1-5", "2026-01-04T12:00:00", None, 20),
    ],
)
def test_the_start_that_is_due(schedule, now, run, missed):
    due = due_run(parse_schedule(schedule), unix("2026-01-01T00:00:00"), unix(now))
    assert due == Due(None if run is None else unix(run), missed)


def test_a_schedule_without_starts_is_an_error_only_if_one_would_be_due():
    never, now = parse_schedule("0 0 31 2 *"), unix("2026-01-01T00:00:00")
    with pytest.raises(ScheduleError, match=r"^time difference between two schedules is less than 1 second$"):
        due_run(never, now - 1, now)
    assert due_run(never, now + 1, now) == Due(None, 0)
    assert next_due(never, now - 1, now) is None


@pytest.mark.parametrize(
    ("schedule", "since"),
    [
        ("* * * * *", "1900-01-01T00:00:00"),
        ("@every 1s", "1900-01-01T00:00:00"),
        # The first interval is eleven months, and a month of minutes is in the last of them.
        ("* * * 1 *", "2024-01-31T23:58:00"),
        ("TZ=Europe/Berlin 0-58 * * 1 *", "2024-01-31T22:57:00"),
    ],
)
def test_the_cost_does_not_grow_with_missed_starts(schedule, since, monkeypatch):
    calls = 0

    def counted(*args):
        nonlocal calls
        calls += 1
        return next_run(*args)

    monkeypatch.setattr(runs, "next_run", counted)
    parsed, now = parse_schedule(schedule), unix("2025-12-31T20:00:00")
    due = due_run(parsed, unix(since), now)
    assert next_run(parsed, due.run) > now
    assert calls < 60
