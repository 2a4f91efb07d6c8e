"""Strings, numbers and whole values as Go prints and reads them: `%q`, `%v`, `%#v`, `%g` and `strconv`."""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from typing import Any, Final

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch
_UNSIGNED: Final = re.compile(r"[0-9]+", re.ASCII).fullmatch
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII).fullmatch
_HEX_FLOAT: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+", re.ASCII
).fullmatch
_SPECIAL: Final = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE | re.ASCII).fullmatch
_SEPARATOR: Final = re.compile(r"(?<=[0-9])_(?=[0-9])", re.ASCII)
_MAX_NUMBER_LENGTH: Final = 4000
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})

ESCAPES: Final = {
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
"""The characters that have an escape sequence of their own in a Go string."""
_RUNE_QUOTES: Final = {"'": r"'\''", '"': "'\"'"}


# -- strings ----------------------------------------------------------------------------------------------------------


def quote(text: str) -> str:
    """Return a string as `%q` prints it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    found = ESCAPES.get(character)
    if found is not None:
        return found
    return character if character.isprintable() else _numbered(ord(character))


def _numbered(code: int) -> str:
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quote_ascii(text: str) -> str:
    """Return a string as the `time` package quotes it: every byte outside printable ASCII in hexadecimal."""
    shown = "".join(
        f"\\{chr(byte)}" if byte in b'"\\' else chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}"
        for byte in text.encode(errors="surrogatepass")
    )
    return f'"{shown}"'


def quote_character(code: int) -> str:
    """Return a character in single quotes, as `%q` prints a rune."""
    text = chr(code)
    if text in _RUNE_QUOTES:
        return _RUNE_QUOTES[text]
    return f"'{_escaped(text)}'"


# -- whole values -----------------------------------------------------------------------------------------------------


def format_value(value: Any) -> str:
    """Return decoded JSON as `%v` prints it: `map[a:1 b:[x y]]`."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{format_value(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(format_value, value))}]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return short_float(value) if isinstance(value, float) else str(value)


def format_syntax(value: Any) -> str:
    """Return decoded JSON as `%#v` prints it: `map[string]interface {}{"a":1}`."""
    if isinstance(value, dict):
        entries = ", ".join(f"{format_syntax(key)}:{format_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{entries}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(format_syntax, value))}}}"
    if value is None:
        return "interface {}(nil)"
    return quote(value) if isinstance(value, str) else format_value(value)


# -- reading numbers --------------------------------------------------------------------------------------------------


def parse_int(text: str) -> int | None:
    """Read a decimal integer of 64 bits; None when it is not one."""
    if not _INTEGER(text):
        return None
    value = _to_int(text)
    return value if value is not None and -(2**63) <= value < 2**63 else None


def parse_uint(text: str) -> int | None:
    """Read a decimal integer of 64 bits without a sign; None when it is not one."""
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
    """Read a float in any notation of Go; None when it is not one or is too large."""
    if _SPECIAL(text):
        return float(text)
    if "_" in text:
        text = _SEPARATOR.sub("", text)
    if _HEX_FLOAT(text) and len(text) < _MAX_NUMBER_LENGTH:
        try:
            return float.fromhex(text)
        except OverflowError:
            return None
    if not _DECIMAL(text):
        return None
    value = float(text)
    return None if math.isinf(value) else value


def parse_bool(text: str) -> bool | None:
    """Read a boolean as `strconv.ParseBool` does; None when it is not one."""
    if text in _TRUE:
        return True
    return False if text in _FALSE else None


# -- printing numbers -------------------------------------------------------------------------------------------------


def short_float(value: float, *, single: bool = False) -> str:
    """Return a float as `%g` prints it: the fewest digits that identify it, with an exponent from 1e6 and below 1e-4.

    `single` counts digits as for a float32.
    """
    if special := _special(value):
        return special
    sign, digits, power = _shortest_single(value) if single else shortest_digits(value)
    if -4 <= power < 6:
        return sign + positional(digits, power)
    return sign + scientific(digits, power)


def plain_float(value: float) -> str:
    """Return a float in the fewest digits that identify it, without an exponent: `1`, `0.000001`, `+Inf`."""
    if special := _special(value):
        return special
    sign, digits, power = shortest_digits(value)
    return sign + positional(digits, power)


def fixed_float(value: float, precision: int) -> str:
    """Return a float with so many digits after the point."""
    return _special(value) or f"{value:.{precision}f}"


def shortest_digits(value: float) -> tuple[str, str, int]:
    """Return the sign, the fewest digits that identify a finite float, and the power of ten of the first digit."""
    sign, parts, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, parts))
    power = len(digits) + exponent - 1 if value else 0
    return "-" if sign else "", digits.rstrip("0") or "0", power


def scientific(digits: str, power: int) -> str:
    """Return digits with one before the point and an exponent of at least two digits."""
    fraction = "." + digits[1:] if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{power:+03d}"


def positional(digits: str, power: int) -> str:
    """Return digits without an exponent, filled up with zeros."""
    if power < 0:
        return f"0.{'0' * (-power - 1)}{digits}"
    whole, fraction = digits[: power + 1].ljust(power + 1, "0"), digits[power + 1 :]
    return f"{whole}.{fraction}" if fraction else whole


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return ""


def _shortest_single(value: float) -> tuple[str, str, int]:
    magnitude = abs(to_single(value))
    # Nine digits tell any two float32 apart.
    for precision in range(10):
        text = f"{magnitude:.{precision}e}"
        if to_single(float(text)) == magnitude:
            break
    mantissa, _, exponent = text.partition("e")
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    return sign, mantissa.replace(".", "").rstrip("0") or "0", int(exponent)


def to_single(value: float) -> float:
    """Return the nearest float32; infinite when it is too large for one."""
    try:
        nearest: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return nearest
