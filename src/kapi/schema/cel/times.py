"""Timestamps and durations: parsed, formatted, shown in a time zone, added and subtracted.

All of it on whole nanoseconds, for the years 1 to 9999, with the limits and the error texts of cel-go. Time
zones come from the system's database and are remembered by Python.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final, NamedTuple
from zoneinfo import ZoneInfo

from kapi.api.go import durations
from kapi.api.go.text import parse_int, quote
from kapi.api.go.times import BadTime, parse_rfc3339
from kapi.schema.cel.values import (
    FIRST_SECOND,
    LAST_SECOND,
    MAX_INT,
    MIN_INT,
    SECOND,
    Duration,
    EvaluationError,
    Timestamp,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_EPOCH_DAY: Final = 719163
_DAY: Final = 86400
_UTC_NAMES: Final = frozenset({"", "UTC", "Local"})


# -- text -------------------------------------------------------------------------------------------------------------


def parse_timestamp(text: str) -> Timestamp | None:
    """Parse a timestamp in RFC 3339; None when it is not one. Raises when it is not in the years 1 to 9999."""
    try:
        seconds, fraction, offset = parse_rfc3339(text)
    except BadTime:
        return None
    return checked_timestamp(seconds * SECOND + int(fraction[:9].ljust(9, "0")), offset)


def parse_duration(text: str) -> Duration | None:
    """Parse a duration such as `1h30m` or `-1.5s`; None when it is not one."""
    try:
        return Duration(durations.parse_duration(text))
    except ValueError:
        return None


def format_timestamp(moment: Timestamp) -> str:
    """Format a timestamp in RFC 3339 at its own offset, with as many digits of fraction as it needs."""
    clock = clock_of(moment, moment.offset)
    fraction = f".{clock.nanos:09d}".rstrip("0") if clock.nanos else ""
    zone = "Z"
    if moment.offset:
        hours, minutes = divmod(abs(moment.offset) // 60, 60)
        zone = f"{'-' if moment.offset < 0 else '+'}{hours:02d}:{minutes:02d}"
    date = f"{clock.year:04d}-{clock.month:02d}-{clock.day:02d}"
    return f"{date}T{clock.hour:02d}:{clock.minute:02d}:{clock.second:02d}{fraction}{zone}"


# -- clock ------------------------------------------------------------------------------------------------------------


class Clock(NamedTuple):
    """A timestamp as a wall clock and a calendar show it. Weekdays count from Sunday, days of the year from 0."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    nanos: int
    weekday: int
    day_of_year: int


def clock_of(moment: Timestamp, offset: int = 0) -> Clock:
    """The clock at an offset in seconds east of UTC."""
    seconds, nanos = divmod(moment.nanos, SECOND)
    days, rest = divmod(seconds + offset, _DAY)
    # 400 years later, so that offsets cannot leave the years that Python knows.
    cycles = (days + _EPOCH_DAY) // 146097 - 1
    date = dt.date.fromordinal(days + _EPOCH_DAY - cycles * 146097)
    year = date.year + cycles * 400
    hour, rest = divmod(rest, 3600)
    weekday = (days + 4) % 7
    return Clock(year, date.month, date.day, hour, rest // 60, rest % 60, nanos, weekday, date.timetuple().tm_yday - 1)


def clock_in(moment: Timestamp, zone: str) -> Clock:
    """The clock in a time zone, by name or as `+01:30`."""
    return clock_of(moment, _zone_offset(moment, zone))


def _zone_offset(moment: Timestamp, zone: str) -> int:
    hours, colon, minutes = zone.partition(":")
    if not colon:
        return _named_offset(moment, zone)
    shift = _number(hours) * 60
    shift += -_number(minutes) if zone[0] == "-" else _number(minutes)
    return shift * 60


def _number(text: str) -> int:
    value = parse_int(text)
    if value is None:
        raise EvaluationError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    return value


def _named_offset(moment: Timestamp, zone: str) -> int:
    if zone in _UTC_NAMES:
        return 0
    if ".." in zone or zone[0] in "/\\":
        raise EvaluationError("time: invalid location name")
    try:
        found = ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        raise EvaluationError(f"unknown time zone {zone}") from None
    # The first and last days are beyond what Python shifts between zones.
    second = min(max(moment.nanos // SECOND, FIRST_SECOND + 2 * _DAY), LAST_SECOND - 2 * _DAY)
    shift = (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=second)).astimezone(found).utcoffset()
    return int(shift.total_seconds()) if shift is not None else 0


def reader(part: Callable[[Clock], int]) -> tuple[Callable[[Timestamp], int], Callable[[Timestamp, str], int]]:
    """The two functions that read a part of a clock: in UTC, and in a named zone."""
    return lambda moment: part(clock_of(moment)), lambda moment, zone: part(clock_in(moment, zone))


# -- arithmetic -------------------------------------------------------------------------------------------------------


def checked_timestamp(nanos: int, offset: int = 0) -> Timestamp:
    """A timestamp, if it is in the years 1 to 9999."""
    if not FIRST_SECOND <= nanos // SECOND <= LAST_SECOND:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanos, offset)


def checked_duration(nanos: int) -> Duration:
    """A duration, if it fits 64 bits."""
    if not MIN_INT <= nanos <= MAX_INT:
        raise EvaluationError("integer overflow")
    return Duration(nanos)


def later(moment: Timestamp, span: Duration) -> Timestamp:
    """`moment + span`."""
    return checked_timestamp(moment.nanos + span.nanos, moment.offset)


def earlier(moment: Timestamp, span: Duration) -> Timestamp:
    """`moment - span`."""
    return later(moment, checked_duration(-span.nanos))


def between(end: Timestamp, start: Timestamp) -> Duration:
    """`end - start`."""
    return checked_duration(end.nanos - start.nanos)
