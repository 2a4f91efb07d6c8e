import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.go.times import BadTime, canonical_micro_time, canonical_time

LAYOUT = '"2006-01-02T15:04:05Z07:00"'
MICRO = '"2006-01-02T15:04:05.000000Z07:00"'


@pytest.mark.parametrize(
    "text, kept",
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.987Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05,9Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z"),
        ("2026-01-01T00:30:00+05:45", "2025-12-31T18:45:00Z"),
        ("2026-01-02T3:04:05Z", "2026-01-02T03:04:05Z"),
        ("2024-02-29T23:59:59-00:01", "2024-03-01T00:00:59Z"),
        ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_times_are_kept_in_utc_with_whole_seconds(text, kept):
    assert canonical_time(text) == kept


@pytest.mark.parametrize(
    "text, kept",
    [
        ("2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.123456Z"),
        ("2026-01-02T03:04:05.000000+01:00", "2026-01-02T02:04:05.000000Z"),
        ("0001-01-01T00:00:00.000000Z", None),
    ],
)
def test_micro_times_keep_six_digits(text, kept):
    assert canonical_micro_time(text) == kept


@pytest.mark.parametrize(
    "text, message",
    [
        ("x", f'parsing time "x" as {LAYOUT}: cannot parse "x" as "2006"'),
        ("", f'parsing time "" as {LAYOUT}: cannot parse "" as "2006"'),
        (
            "20a6-01-02T03:04:05Z",
            f'parsing time "20a6-01-02T03:04:05Z" as {LAYOUT}: cannot parse "20a6-01-02T03:04:05Z" as "2006"',
        ),
        (
            "2026-1-02T03:04:05Z",
            f'parsing time "2026-1-02T03:04:05Z" as {LAYOUT}: cannot parse "1-02T03:04:05Z" as "01"',
        ),
        ("2026-01-02t03:04:05Z", f'parsing time "2026-01-02t03:04:05Z" as {LAYOUT}: cannot parse "t03:04:05Z" as "T"'),
        ("2026-01-02T03:04:05", f'parsing time "2026-01-02T03:04:05" as {LAYOUT}: cannot parse "" as "Z07:00"'),
        ("2026-01-02T03:04:05 Z", f'parsing time "2026-01-02T03:04:05 Z" as {LAYOUT}: cannot parse " Z" as "Z07:00"'),
        ("2026-13-02T03:04:05Z", 'parsing time "2026-13-02T03:04:05Z": month out of range'),
        ("2026-02-30T03:04:05Z", 'parsing time "2026-02-30T03:04:05Z": day out of range'),
        ("2026-01-02T25:04:05Z", 'parsing time "2026-01-02T25:04:05Z": hour out of range'),
        ("2026-01-02T03:04:60Z", 'parsing time "2026-01-02T03:04:60Z": second out of range'),
        ("2026-01-02T03:04:05+25:00", 'parsing time "2026-01-02T03:04:05+25:00": time zone offset hour out of range'),
        ("2026-01-02T03:04:05Zz", 'parsing time "2026-01-02T03:04:05Zz": extra text: "z"'),
        ('"\\é', f'parsing time "\\"\\\\\\xc3\\xa9" as {LAYOUT}: cannot parse "\\"\\\\\\xc3\\xa9" as "2006"'),
    ],
)
def test_invalid_times_fail_with_the_message_of_go(text, message):
    with pytest.raises(BadTime) as raised:
        canonical_time(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    "text, rest",
    [("2026-01-02T03:04:05Z", "Z"), ("2026-01-02T03:04:05.123Z", ".123Z")],
)
def test_micro_times_demand_their_fraction(text, rest):
    with pytest.raises(BadTime) as raised:
        canonical_micro_time(text)
    assert str(raised.value) == f'parsing time "{text}" as {MICRO}: cannot parse "{rest}" as ".000000"'


zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))


FIRST, LAST = dt.datetime.fromisoformat("1000-01-01"), dt.datetime.fromisoformat("9998-12-31")


@given(st.datetimes(FIRST, LAST, timezones=zones))
def test_any_moment_is_the_same_moment_in_utc(moment):
    text = moment.isoformat()
    kept = canonical_time(text)
    assert kept == moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert canonical_time(kept) == kept


@given(st.text(alphabet="0123456789-:TZ.+x", max_size=25))
def test_accepted_times_are_canonical(text):
    try:
        kept = canonical_time(text)
    except BadTime:
        return
    assert kept is None or canonical_time(kept) == kept
