"""Durations as Go's `time.Duration` reads and prints them, in whole nanoseconds: `1h30m`, `-1.5s`, `20ms`."""

from __future__ import annotations

import re
from typing import Final

from kapi.api.go.text import quote_ascii

SECOND: Final = 10**9
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
_TERM: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^.0-9]*)", re.ASCII).match
_LIMIT: Final = 1 << 63


def parse_duration(text: str) -> int:
    """Return the nanoseconds of a duration; raises ValueError with Go's message."""
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return 0
    total, at = 0, 0
    while at < len(rest):
        term = _TERM(rest, at)
        if term is None or not (term[1] or term[2]):
            raise _invalid(text)
        total += _nanoseconds(text, term[1], term[2] or "", term[3])
        at = term.end()
        if total > _LIMIT:
            raise _invalid(text)
    if text[:1] == "-" and rest:
        return -total
    if not rest or total == _LIMIT:
        raise _invalid(text)
    return total


def _nanoseconds(text: str, whole: str, fraction: str, unit: str) -> int:
    digits = whole.lstrip("0")
    if len(digits) > 19 or int(digits or "0") > _LIMIT:
        raise _invalid(text)
    if not unit:
        raise ValueError(f"time: missing unit in duration {quote_ascii(text)}")
    if unit not in _UNITS:
        raise ValueError(f"time: unknown unit {quote_ascii(unit)} in duration {quote_ascii(text)}")
    size = _UNITS[unit]
    return int(digits or "0") * size + _fraction(fraction, size)


def _fraction(digits: str, size: int) -> int:
    """Return the nanoseconds of a fraction of a unit, scaled as a float and read up to 63 bits, as Go does."""
    significant = digits.lstrip("0")
    zeros = len(digits) - len(significant)
    if not significant or zeros > 20:  # less than a nanosecond of any unit
        return 0
    kept = significant[:19] if int(significant[:19]) <= _LIMIT else significant[:18]
    return int(int(kept) * (size / 10.0 ** (zeros + len(kept))))


def _invalid(text: str) -> ValueError:
    return ValueError(f"time: invalid duration {quote_ascii(text)}")


def format_duration(nanoseconds: int) -> str:
    """Return a duration as Go prints it: `1h0m0.5s`, `1.5ms`, `0s`."""
    if nanoseconds == 0:
        return "0s"
    sign, left = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    for unit, size in (("ns", 1), ("\u00b5s", 10**3), ("ms", 10**6)):
        if left < size * 1000:
            return f"{sign}{_decimal(left, size)}{unit}"
    minutes, left = divmod(left, 60 * SECOND)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(left, SECOND)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else sign + text


def _decimal(value: int, size: int) -> str:
    whole, fraction = divmod(value, size)
    digits = str(size + fraction)[1:].rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
