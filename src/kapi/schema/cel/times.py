"""Moments and spans of time: read from text, written, taken apart in a time zone, added and subtracted.

All of it on whole nanoseconds, for the years 1 to 9999, with the limits and the error texts of the reference. Time
zones come from the system's database and are remembered by Python.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Final, NamedTuple
from zoneinfo import ZoneInfo

from kapi.schema.cel.gotext import parse_int, quoted
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

_MOMENT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))",
    re.ASCII,
).fullmatch
_TERM: Final = re.compile(r"([0-9]*)(?:(\.)([0-9]*))?([^.0-9]+)", re.ASCII).match
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_EPOCH_DAY: Final = 719163
_DAY: Final = 86400
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_UTC_NAMES: Final = frozenset({"", "UTC", "Local"})


# -- text -------------------------------------------------------------------------------------------------------------


def parse_timestamp(text: str) -> Timestamp | None:
    """A moment in RFC 3339; None when it is not one. Raises when it is not in the years 1 to 9999."""
    parts = _MOMENT(text)
    if parts is None:
        return None
    year, month, day, hour, minute, second = (int(parts[place]) for place in range(1, 7))
    if not 1 <= month <= 12 or not 1 <= day <= _days_in(year, month) or hour > 23 or minute > 59 or second > 59:
        return None
    offset = _offset(parts[8], parts[9], parts[10])
    if offset is None:
        return None
    seconds = _day_number(year, month, day) * _DAY + hour * 3600 + minute * 60 + second - offset
    nanos = int((parts[7] or "")[:9].ljust(9, "0"))
    return checked_timestamp(seconds * SECOND + nanos, offset)


def _offset(sign: str | None, hours: str, minutes: str) -> int | None:
    if sign is None:
        return 0
    # Twenty-four hours and sixty minutes pass: some people write them.
    if int(hours) > 24 or int(minutes) > 60:
        return None
    seconds = int(hours) * 3600 + int(minutes) * 60
    return -seconds if sign == "-" else seconds


def _days_in(year: int, month: int) -> int:
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _DAYS[month - 1] + leap


def _day_number(year: int, month: int, day: int) -> int:
    # The calendar repeats every 400 years; Python knows no year 0.
    cycles, year_of_cycle = divmod(year, 400)
    return dt.date(year_of_cycle + 400, month, day).toordinal() - _EPOCH_DAY + (cycles - 1) * 146097


def parse_duration(text: str) -> Duration | None:
    """A span such as `1h30m` or `-1.5s`; None when it is not one."""
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return Duration(0)
    total = 0
    if not rest:
        return None
    while rest:
        term = _TERM(rest)
        nanos = _term_nanos(term) if term else None
        if term is None or nanos is None:
            return None
        total += nanos
        if total > -MIN_INT:
            return None
        rest = rest[term.end() :]
    total = -total if text[0] == "-" else total
    return Duration(total) if total <= MAX_INT else None


def _term_nanos(term: re.Match[str]) -> int | None:
    whole, fraction, unit = term[1], term[3] or "", _UNITS.get(term[4])
    if unit is None or not (whole or fraction) or len(whole.lstrip("0")) > 19:
        return None
    # The reference scales a fraction as a float and so do we; digits past its precision change nothing.
    part = int(int(fraction[:18]) * (unit / 10.0 ** len(fraction[:18]))) if fraction else 0
    return int(whole or "0") * unit + part


def format_timestamp(moment: Timestamp) -> str:
    """A moment in RFC 3339 at its own offset, with as many digits of fraction as it needs."""
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
    """A moment as a wall clock and a calendar show it. Weekdays count from Sunday, days of the year from nought."""

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
    """The clock so many seconds east of Greenwich."""
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
        raise EvaluationError(f"strconv.Atoi: parsing {quoted(text)}: invalid syntax")
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
    """A moment, if it is in the years 1 to 9999."""
    if not FIRST_SECOND <= nanos // SECOND <= LAST_SECOND:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanos, offset)


def checked_duration(nanos: int) -> Duration:
    """A span, if it fits 64 bits."""
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
