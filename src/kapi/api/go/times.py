"""RFC 3339 times as Go's `time.Parse` reads them, and the texts of `metav1.Time` and `metav1.MicroTime`.

`metav1.Time` takes any fraction and keeps whole seconds in UTC; `metav1.MicroTime` demands exactly six digits of
fraction and keeps them. Both fail with the message of `time.Parse`, which clients see in a 400, so the parser here
walks the layout element by element as that one does. The canonical texts, which are nearly all, never get that far.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Final, NamedTuple

from kapi.api.go.text import quote_ascii

LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"
ZERO: Final = "0001-01-01T00:00:00"
"""Go's zero time: `metav1.Time` writes it as null."""

_CANONICAL: Final = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{6})?Z",
    re.ASCII,
).fullmatch
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EPOCH_DAY: Final = 719163
_CYCLE_DAYS: Final = 146097
"""The days of 400 years, after which the calendar repeats."""


class BadTime(ValueError):
    """A text that is not a time; the message is Go's."""


class Moment(NamedTuple):
    """A time: seconds since 1970 in UTC, the digits of its fraction as written, and its zone's offset in seconds."""

    seconds: int
    fraction: str
    offset: int


def parse_rfc3339(text: str) -> Moment:
    """Read a time with any fraction; raises BadTime."""
    return _Parser(text, LAYOUT).parse(micros=False)


def canonical_time(text: str) -> str | None:
    """Return a time in UTC with whole seconds, as `metav1.Time` does; None for the zero time. Raises BadTime."""
    match = _CANONICAL(text)
    if match and match[1] is None and not text.startswith(ZERO):
        return text
    return _render(parse_rfc3339(text), "")


def canonical_micro_time(text: str) -> str | None:
    """Return a time in UTC with six digits of fraction, as `metav1.MicroTime` does; None for the zero time."""
    match = _CANONICAL(text)
    if match and match[1] is not None and not text.startswith(ZERO):
        return text
    moment = _Parser(text, MICRO_LAYOUT).parse(micros=True)
    return _render(moment, "." + moment.fraction)


def _render(moment: Moment, fraction: str) -> str | None:
    days, rest = divmod(moment.seconds, 86400)
    # Python knows neither year 0 nor year 10000, so the date is looked up in a later cycle of the calendar.
    cycles, day = divmod(days + _EPOCH_DAY - 1, _CYCLE_DAYS)
    date = dt.date.fromordinal(day + _CYCLE_DAYS + 1)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    text = f"{date.year + (cycles - 1) * 400:04d}-{date.month:02d}-{date.day:02d}T{clock}"
    return None if text == ZERO and not fraction.strip(".0") else f"{text}{fraction}Z"


def _day_number(year: int, month: int, day: int) -> int:
    """Return the days since 1970 of a date in the years 0 to 9999."""
    cycles, year_of_cycle = divmod(year, 400)
    return dt.date(year_of_cycle + 400, month, day).toordinal() - _EPOCH_DAY + (cycles - 1) * _CYCLE_DAYS


class _Parser:
    """One pass over a text along a layout; `rest` is what is still unread."""

    def __init__(self, text: str, layout: str) -> None:
        self.text = text
        self.layout = layout
        self.rest = text

    def parse(self, *, micros: bool) -> Moment:
        """Read all of the text; `micros` demands six digits of fraction."""
        year = self.year()
        month = self.after("-", "01", "month", 1, 12)
        day = self.after("-", "02", "", 0, 99)
        hour = self.after("T", "15", "hour", 0, 23)
        minute = self.after(":", "04", "minute", 0, 59)
        second = self.after(":", "05", "second", 0, 59)
        fraction = self.micros() if micros else self.any_fraction()
        offset = self.zone()
        if self.rest:
            raise BadTime(f"parsing time {quote_ascii(self.text)}: extra text: {quote_ascii(self.rest)}")
        leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        if not 1 <= day <= _DAYS[month - 1] + leap:
            raise self.range_error("day")
        seconds = _day_number(year, month, day) * 86400 + hour * 3600 + minute * 60 + second
        return Moment(seconds - offset, fraction, offset)

    def after(self, separator: str, element: str, what: str, low: int, high: int) -> int:
        """Read a separator and the number after it."""
        if not self.rest.startswith(separator):
            raise self.error(separator)
        self.rest = self.rest[1:]
        return self.number(element, what, low, high)

    def year(self) -> int:
        """Read four digits."""
        if len(self.rest) < 4 or not _digits(self.rest[:4]):
            raise self.error("2006")
        year, self.rest = int(self.rest[:4]), self.rest[4:]
        return year

    def number(self, element: str, what: str, low: int, high: int) -> int:
        """Read two digits; the hour alone may have one."""
        width = 2 if _digits(self.rest[:2]) and len(self.rest) >= 2 else 1
        if (width == 1 and element != "15") or not _digits(self.rest[:width]):
            raise self.error(element)
        value, self.rest = int(self.rest[:width]), self.rest[width:]
        if not low <= value <= high:
            raise self.range_error(what)
        return value

    def any_fraction(self) -> str:
        """Read a fraction of any length, which may be missing."""
        if self.rest[:1] not in (".", ",") or not _digits(self.rest[1:2]):
            return ""
        after = self.rest[1:].lstrip("0123456789")
        fraction, self.rest = self.rest[1 : len(self.rest) - len(after)], after
        return fraction

    def micros(self) -> str:
        """Read a point (or comma) and exactly six digits."""
        if len(self.rest) < 7 or self.rest[0] not in ".," or not _digits(self.rest[1:7]):
            raise self.error(".000000")
        fraction, self.rest = self.rest[1:7], self.rest[7:]
        return fraction

    def zone(self) -> int:
        """Read `Z`, or a sign with hours and minutes; return the offset in seconds."""
        zone, element = self.rest[:6], "Z07:00"
        if zone.startswith("Z"):
            self.rest = self.rest[1:]
            return 0
        if len(zone) < 6 or zone[3] != ":" or not _digits(zone[1:3]) or not _digits(zone[4:]) or zone[0] not in "+-":
            raise self.error(element)
        hours, minutes = int(zone[1:3]), int(zone[4:])
        if hours > 24:
            raise self.range_error("time zone offset hour")
        if minutes > 60:
            raise self.range_error("time zone offset minute")
        self.rest = self.rest[6:]
        return (hours * 60 + minutes) * (-60 if zone[0] == "-" else 60)

    def error(self, element: str) -> BadTime:
        """Return the error that the rest does not start with this element of the layout."""
        return BadTime(
            f"parsing time {quote_ascii(self.text)} as {quote_ascii(self.layout)}: "
            f"cannot parse {quote_ascii(self.rest)} as {quote_ascii(element)}"
        )

    def range_error(self, what: str) -> BadTime:
        """Return the error that a number is in no calendar or clock."""
        return BadTime(f"parsing time {quote_ascii(self.text)}: {what} out of range")


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()
