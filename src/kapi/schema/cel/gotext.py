"""Numbers and strings as Go writes and reads them: the texts of conversions and errors depend on it.

Pure functions on Python values, used by every part that turns values into text or back.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch
_UNSIGNED: Final = re.compile(r"[0-9]+", re.ASCII).fullmatch
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII).fullmatch
_HEX_FLOAT: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+", re.ASCII
).fullmatch
_SPECIAL: Final = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE | re.ASCII).fullmatch
_SEPARATOR: Final = re.compile(r"(?<=[0-9])_(?=[0-9])", re.ASCII)
_LONGEST_NUMBER: Final = 4000
_FIRST_EXPONENT: Final = 6
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})

_ESCAPES: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}


def parse_int(text: str) -> int | None:
    """A decimal integer of 64 bits; None when it is not one."""
    if not _INTEGER(text):
        return None
    value = _to_int(text)
    return value if value is not None and -(2**63) <= value < 2**63 else None


def parse_uint(text: str) -> int | None:
    """A decimal integer of 64 bits without a sign; None when it is not one."""
    if not _UNSIGNED(text):
        return None
    value = _to_int(text)
    return value if value is not None and value < 2**64 else None


def _to_int(text: str) -> int | None:
    # Python refuses, and takes long for, thousands of digits: all but leading zeros are too many anyway.
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > 20:
        return None
    return -int(digits) if text[0] == "-" else int(digits)


def parse_float(text: str) -> float | None:
    """A float in any way Go writes it; None when it is not one or is too large."""
    if _SPECIAL(text):
        return float(text)
    if "_" in text:
        text = _SEPARATOR.sub("", text)
    if _HEX_FLOAT(text) and len(text) < _LONGEST_NUMBER:
        try:
            return float.fromhex(text)
        except OverflowError:
            return None
    if not _DECIMAL(text):
        return None
    value = float(text)
    return None if math.isinf(value) else value


def parse_bool(text: str) -> bool | None:
    """A truth value in any way Go reads one; None when it is not one."""
    if text in _TRUE:
        return True
    return False if text in _FALSE else None


def plain_float(value: float) -> str:
    """A float with the fewest digits that tell it, and no exponent: `1`, `0.000001`, `+Inf`."""
    if special := _special(value):
        return special
    text = format(Decimal(repr(value)), "f")
    return text.removesuffix(".0")


def short_float(value: float) -> str:
    """A float as `%g` prints it: the fewest digits that tell it, with an exponent from a million on."""
    if special := _special(value):
        return special
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) + exponent - 1 if value else 0
    if -4 <= power < _FIRST_EXPONENT:
        return plain_float(value)
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{'-' if sign else ''}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return ""


def fixed_float(value: float, precision: int) -> str:
    """A float with so many digits after the point."""
    return _special(value) or f"{value:.{precision}f}"


def quoted(text: str) -> str:
    """A string as `%q` prints it."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    found = _ESCAPES.get(character)
    if found is not None:
        return found
    code = ord(character)
    if character.isprintable():
        return character
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
