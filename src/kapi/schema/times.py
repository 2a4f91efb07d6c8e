"""Times as the API reads and writes them, with the errors of the reference's parser.

`metav1.Time` takes RFC 3339 with any fraction and keeps whole seconds in UTC; `metav1.MicroTime` demands exactly six
digits of fraction and keeps them. Both fail in the words of Go's `time.Parse`, which clients see in a 400, so the
parser here walks the layout element by element as that one does. The common case never gets that far.
"""

from __future__ import annotations

import datetime as dt
import re

LAYOUT = "2006-01-02T15:04:05Z07:00"
MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
ZERO = "0001-01-01T00:00:00"
"""The moment that means no time at all; it is written as null and therefore left out."""

_CANONICAL = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{6})?Z",
    re.ASCII,
).fullmatch
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class BadTime(ValueError):
    """A text that is not a time; the message is Go's."""


def canonical_time(text: str) -> str | None:
    """A time in UTC with whole seconds; None for the zero time. Raises BadTime."""
    match = _CANONICAL(text)
    if match and match[1] is None and not text.startswith(ZERO):
        return text
    moment = _Parser(text, LAYOUT).parse(fraction=False)
    return _render(moment, "")


def canonical_micro_time(text: str) -> str | None:
    """A time in UTC with six digits of fraction; None for the zero time. Raises BadTime."""
    match = _CANONICAL(text)
    if match and match[1] is not None and not text.startswith(ZERO):
        return text
    parser = _Parser(text, MICRO_LAYOUT)
    moment = parser.parse(fraction=True)
    return _render(moment, "." + parser.fraction)


def _render(moment: tuple[list[int], int], fraction: str) -> str | None:
    (year, *rest), offset = moment
    # Python knows no year 0 nor 10000; the calendar repeats every 400 years, so a year of our time stands in.
    stand_in = 2000 + year % 400
    month, day, hour, minute, second = rest
    local = dt.datetime(stand_in, month, day, hour, minute, second, tzinfo=dt.UTC)
    shifted = local - dt.timedelta(minutes=offset)
    text = f"{shifted.year - stand_in + year:04d}-{shifted:%m-%dT%H:%M:%S}"
    return None if text == ZERO and not fraction.strip(".0") else f"{text}{fraction}Z"


def _quote(text: str) -> str:
    """A text as Go's time package quotes it: everything outside printable ASCII by its bytes."""
    shown = "".join(
        chr(byte)
        if 32 <= byte < 127 and byte not in b'"\\'
        else f"\\{chr(byte)}"
        if byte in b'"\\'
        else f"\\x{byte:02x}"
        for byte in text.encode(errors="surrogatepass")
    )
    return f'"{shown}"'


class _Parser:
    """One walk along a layout. `rest` is what is still unread."""

    def __init__(self, text: str, layout: str) -> None:
        self.text = text
        self.layout = layout
        self.rest = text
        self.fraction = ""

    def parse(self, *, fraction: bool) -> tuple[list[int], int]:
        """Year to second, and the zone's offset in minutes."""
        numbers = [self.year()]
        for separator, element, what, low, high in (
            ("-", "01", "month", 1, 12),
            ("-", "02", "", 0, 99),
            ("T", "15", "hour", 0, 23),
            (":", "04", "minute", 0, 59),
            (":", "05", "second", 0, 59),
        ):
            self.literal(separator)
            numbers.append(self.number(element, what, low, high))
        if fraction:
            self.micros()
        else:
            self.any_fraction()
        offset = self.zone()
        if self.rest:
            raise BadTime(f"parsing time {_quote(self.text)}: extra text: {_quote(self.rest)}")
        year, month, day = numbers[:3]
        leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        if not 1 <= day <= _DAYS[month - 1] + leap:
            raise self.range_error("day")
        return numbers, offset

    def literal(self, separator: str) -> None:
        """The character the layout has between two elements."""
        if not self.rest.startswith(separator):
            raise self.error(separator)
        self.rest = self.rest[1:]

    def year(self) -> int:
        """Four digits, though only the first is looked at before they are read as a number."""
        if len(self.rest) < 4 or not _digits(self.rest[:4]):
            raise self.error("2006")
        year, self.rest = int(self.rest[:4]), self.rest[4:]
        return year

    def number(self, element: str, what: str, low: int, high: int) -> int:
        """Two digits; the hour alone may have one."""
        width = 2 if _digits(self.rest[:2]) and len(self.rest) >= 2 else 1
        if (width == 1 and element != "15") or not _digits(self.rest[:width]):
            raise self.error(element)
        value, self.rest = int(self.rest[:width]), self.rest[width:]
        if not low <= value <= high:
            raise self.range_error(what)
        return value

    def any_fraction(self) -> None:
        """A fraction the layout does not ask for is allowed and forgotten."""
        if self.rest[:1] in (".", ",") and _digits(self.rest[1:2]):
            self.rest = self.rest[1:].lstrip("0123456789")

    def micros(self) -> None:
        """A dot (or comma) and exactly six digits."""
        if len(self.rest) < 7 or self.rest[0] not in ".," or not _digits(self.rest[1:7]):
            raise self.error(".000000")
        self.fraction, self.rest = self.rest[1:7], self.rest[7:]

    def zone(self) -> int:
        """`Z`, or a sign with hours and minutes."""
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
        return (hours * 60 + minutes) * (-1 if zone[0] == "-" else 1)

    def error(self, element: str) -> BadTime:
        """The rest does not start with what the layout wants here."""
        return BadTime(
            f"parsing time {_quote(self.text)} as {_quote(self.layout)}: "
            f"cannot parse {_quote(self.rest)} as {_quote(element)}"
        )

    def range_error(self, what: str) -> BadTime:
        """A number no calendar or clock has."""
        return BadTime(f"parsing time {_quote(self.text)}: {what} out of range")


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()
