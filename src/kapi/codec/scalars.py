"""Plain YAML scalars as kube-apiserver reads them, and numbers as it writes them in YAML.

The rules are go-yaml's reading of YAML 1.1, which is not PyYAML's: `yes` is true, `012` is ten, `1:30` and
`2020-01-01` are strings, `1e3` is a number. `yaml` uses them to read and, turned round, to know which strings
need quotes. Pure.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Final

from kapi.api.go.text import short_float, to_single

Scalar = str | int | float | bool | None

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_UINT64_MAX: Final = 2**64 - 1

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
# A first character outside these sets makes a string; this is the test that most scalars end at.
_WORD_STARTS: Final = frozenset("yYnNtTfFoO~")
_NUMBER_STARTS: Final = frozenset("0123456789+-.")

_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_POINT_FLOAT = re.compile(r"\.[0-9]+(?:[eE][-+]?[0-9]+)?\Z")
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?\Z")
_TIME = r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:[.,]\d+)?"
_TIMESTAMP = re.compile(
    rf"(\d{{4}})-(\d{{1,2}})-(\d{{1,2}})(?:[Tt]{_TIME}(?:Z|[+-](\d\d):(\d\d))| {_TIME})?\Z", re.ASCII
)


def resolve(text: str) -> Scalar:
    """The value of an unquoted scalar. Integers may exceed int64 (up to 2**64 - 1); floats may be infinite or NaN."""
    first = text[:1]
    if first in _NUMBER_STARTS:
        return _WORDS[text] if text in _WORDS else _number(text)
    if first in _WORD_STARTS or not first:
        return _WORDS.get(text, text)
    return text


def needs_quotes(text: str) -> bool:
    """True when the string, unquoted, would be read as something other than itself by a YAML 1.1 reader."""
    first = text[:1]
    if first not in _NUMBER_STARTS and first not in _WORD_STARTS and first:
        return False
    return not isinstance(resolve(text), str) or _BASE_60.match(text) is not None or _is_timestamp(text)


def format_float(value: float, *, single: bool = False) -> str:
    """A float as Go's `%g` writes it, with as few digits as identify it; `single` counts as float32 would."""
    if single:
        value = to_single(value)
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    return short_float(value, single=single)


def _number(text: str) -> Scalar:
    """An integer, a float, or the text itself; underscores do not count, except after a leading point."""
    if text[0] == ".":
        return _finite(text, text) if _POINT_FLOAT.match(text) else text
    plain = text.replace("_", "")
    match = _INTEGER.match(plain)
    if match is not None:
        value = _integer(match)
        if value is not None:
            return value
    if _FLOAT.match(plain):
        return _finite(plain, text)
    return text


def _finite(number: str, text: str) -> Scalar:
    """The number, or the text as it stood when it is too large for a float."""
    value = float(number)
    return text if math.isinf(value) else value


def _integer(match: re.Match[str]) -> int | None:
    """The integer if Go's int64 or uint64 can hold it."""
    sign, hexadecimal, binary, octal, decimal = match.groups()
    for digits, base in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10)):
        if digits is None:
            continue
        digits = digits.lstrip("0") or "0"  # noqa: PLW2901 - without leading zeros, length bounds the value
        if len(digits) > 64:
            return None
        value = int(digits, base)
        if sign == "-":
            value = -value
        upper = _INT64_MAX if sign else _UINT64_MAX
        return value if _INT64_MIN <= value <= upper else None
    return None


def _is_timestamp(text: str) -> bool:
    match = _TIMESTAMP.match(text)
    if match is None:
        return False
    year, month, day, *clocks = match.groups()
    hour, minute, second, zone_hour, zone_minute = clocks[:5]
    if hour is None:
        hour, minute, second = clocks[5:]
    if int(zone_hour or 0) > 24 or int(zone_minute or 0) >= 60:
        return False
    try:
        # Go counts a year 0; the calendar of year 2000 is the same.
        dt.date(int(year) or 2000, int(month), int(day))
        dt.time(int(hour or 0), int(minute or 0), int(second or 0))
    except ValueError:
        return False
    return True
