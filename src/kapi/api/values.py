"""Values that are more than their JSON type: quantities, int-or-percent; and a selector as text.

`500m` of CPU and `25%` of replicas are strings on the wire and numbers in every rule about them. Quantities
are exact (integers, never floats), print what kube-apiserver prints, and take bounded time whatever the text.
Pure functions and immutable values; no I/O.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from kapi.api.go.text import quote
from kapi.api.selectors import SelectorError, from_label_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

DECIMAL_SI: Final = "DecimalSI"
BINARY_SI: Final = "BinarySI"
DECIMAL_EXPONENT: Final = "DecimalExponent"

_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES = ("", *_BINARY_SUFFIXES)

_QUANTITY_PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_FORMAT_WRONG = f"quantities must match the regular expression '{_QUANTITY_PATTERN}'"
_NUMBER_WRONG = "unable to parse numeric part of quantity"
_SUFFIX_WRONG = "unable to parse quantity's suffix"

_split_quantity = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)").fullmatch
_is_exponent = re.compile(r"[eE][+-]?[0-9]+").fullmatch

_MAX_INT64 = 2**63 - 1
_MIN_INT64 = -(2**63)
_NANO = -9
# Limits of ours: kube-apiserver takes any number of digits and any exponent, and pays for it in memory.
_MAX_DIGITS = 4000
_MAX_EXPONENT = 1000


class Quantity:
    """An exact decimal, `mantissa * 10**exponent`, that remembers how it was written.

    Immutable. Parsing keeps at least nano precision (finer parts round away from zero) and caps binary suffixes at
    2**63-1, as kube-apiserver does. Equality, order and hash are numeric: `1Ki == 1024`. Printing keeps the format,
    drops fractions and takes the largest suffix that loses nothing. Arithmetic keeps the format of the left side
    unless that is zero.
    """

    __slots__ = ("_text", "exponent", "format", "mantissa")

    def __init__(self, mantissa: int, exponent: int = 0, form: str = DECIMAL_SI, *, text: str | None = None) -> None:
        self.mantissa = mantissa
        self.exponent = exponent
        self.format = form
        self._text = text

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read a quantity; raises ValueError with kube-apiserver's text."""
        parts = _split_quantity(text) if text else None
        if parts is None:
            raise ValueError(_FORMAT_WRONG)
        sign, whole, fraction, suffix = parts[1], parts[2], parts[3] or "", parts[4]
        base, exponent, form = _interpret(suffix)
        digits = whole.lstrip("0") or "0"
        size = len(digits) + len(fraction)
        if size > _MAX_DIGITS:
            raise ValueError(_NUMBER_WRONG)
        mantissa = int(digits + fraction)
        scale = -len(fraction)
        is_short = _is_short(size, len(fraction), exponent, form)
        if not is_short and not whole and not fraction:
            # The short path of kube-apiserver reads a missing number as zero, its long path does not.
            raise ValueError(_NUMBER_WRONG)
        keeps_text = is_short and _looks_canonical(digits + fraction, exponent - len(fraction), form)
        if base == 2:
            mantissa <<= exponent
        else:
            scale += exponent
        return cls._bounded(-mantissa if sign == "-" else mantissa, scale, form, text if keeps_text else None)

    @classmethod
    def _bounded(cls, mantissa: int, scale: int, form: str, text: str | None) -> Quantity:
        """Round to nano away from zero, cap binary values, and give fractions of one a decimal suffix."""
        if mantissa and scale < _NANO:
            mantissa, scale = _round_away(mantissa, _NANO - scale), _NANO
        quantity = cls(mantissa, scale, form, text=text)
        if form != BINARY_SI or not mantissa:
            return quantity
        magnitude = cls(abs(mantissa), scale)
        if magnitude > _LARGEST_BINARY:
            return cls(_MAX_INT64 if mantissa > 0 else -_MAX_INT64, 0, form)
        return cls(mantissa, scale, DECIMAL_SI) if magnitude < _ONE else quantity

    # -- printing -----------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        if self._text is None:
            self._text = self._canonical()
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def _canonical(self) -> str:
        mantissa, exponent = _without_tens(self.mantissa, self.exponent)
        if not mantissa:
            return "0"
        if self.format == BINARY_SI and exponent >= 0 and (exponent > 3 or abs(mantissa * _power(exponent)) >= 1024):
            return _print_binary(mantissa * _power(exponent))
        step = exponent % 3
        if self.format == DECIMAL_EXPONENT:
            exponent -= step
            return f"{mantissa * 10**step}e{exponent}" if exponent else str(mantissa * 10**step)
        # Past the largest suffix kube-apiserver drops it and so changes the value; we print more digits instead.
        step = max(step, exponent - 18)
        return f"{mantissa * 10**step}{_DECIMAL_NAMES[exponent - step]}"

    # -- order --------------------------------------------------------------------------------------------------------

    def compare(self, other: Quantity) -> int:
        """Negative, zero or positive, as this is less than, equal to or greater than `other`."""
        mine, theirs = self.mantissa, other.mantissa
        if self.exponent != other.exponent and mine and theirs:
            # Compare orders of magnitude first, so that far apart exponents are never multiplied out.
            order = len(str(abs(mine))) + self.exponent - len(str(abs(theirs))) - other.exponent
            if order == 0:
                shift = self.exponent - other.exponent
                mine, theirs = mine * 10 ** max(shift, 0), theirs * 10 ** max(-shift, 0)
            elif (mine > 0) == (theirs > 0):
                return order if mine > 0 else -order
        return (mine > theirs) - (mine < theirs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.compare(other) == 0

    def __lt__(self, other: Quantity) -> bool:
        return self.compare(other) < 0

    def __le__(self, other: Quantity) -> bool:
        return self.compare(other) <= 0

    def __gt__(self, other: Quantity) -> bool:
        return self.compare(other) > 0

    def __ge__(self, other: Quantity) -> bool:
        return self.compare(other) >= 0

    def __hash__(self) -> int:
        return hash(_without_tens(self.mantissa, self.exponent))

    def __bool__(self) -> bool:
        return self.mantissa != 0

    # -- arithmetic ---------------------------------------------------------------------------------------------------

    def __add__(self, other: Quantity) -> Quantity:
        exponent = min(self.exponent, other.exponent)
        total = self.mantissa * 10 ** (self.exponent - exponent) + other.mantissa * 10 ** (other.exponent - exponent)
        return Quantity(total, exponent, self.format if self.mantissa else other.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.mantissa, self.exponent, self.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return self + -other

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self.mantissa * factor, self.exponent, self.format)

    def scaled_value(self, scale: int) -> int:
        """Return how many `10**scale` this is, fractions rounded away from zero, kept within 64 bits."""
        shift = self.exponent - scale
        # Twenty digits are past 64 bits already; a longer shift would only cost time.
        scaled = self.mantissa * _power(min(shift, 20)) if shift >= 0 else _round_away(self.mantissa, -shift)
        return max(_MIN_INT64, min(_MAX_INT64, scaled))

    def value(self) -> int:
        """The amount in whole units: bytes, pods, cores."""
        return self.scaled_value(0)

    def milli_value(self) -> int:
        """The amount in thousandths: milli-CPUs."""
        return self.scaled_value(-3)


_ONE = Quantity(1)
_LARGEST_BINARY = Quantity(_MAX_INT64)


def _interpret(suffix: str) -> tuple[int, int, str]:
    if suffix in _DECIMAL_SUFFIXES:
        return 10, _DECIMAL_SUFFIXES[suffix], DECIMAL_SI
    if suffix in _BINARY_SUFFIXES:
        return 2, _BINARY_SUFFIXES[suffix], BINARY_SI
    if _is_exponent(suffix) and len(suffix) < 20:
        exponent = int(suffix[1:])
        if exponent <= _MAX_EXPONENT:
            return 10, exponent, DECIMAL_EXPONENT
    raise ValueError(_SUFFIX_WRONG)


def _is_short(size: int, fraction_size: int, exponent: int, form: str) -> bool:
    """Return True if kube-apiserver would hold the number in 64 bits."""
    if form == BINARY_SI:
        return fraction_size == 0 and size + exponent * 3 // 10 <= 14
    return size <= 18 and exponent - fraction_size >= _NANO


def _looks_canonical(digits: str, scale: int, form: str) -> bool:
    """Return True if kube-apiserver prints a short quantity as it was given, be it `+5` or `1.500`."""
    if form == BINARY_SI:
        return int(digits) & 7 != 0
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _power(places: int) -> int:
    """A power of ten that stays an int for the type checker too."""
    return int(10**places)


def _round_away(mantissa: int, places: int) -> int:
    """Drop decimal places, away from zero; more places than digits leave one."""
    if places > _MAX_DIGITS + 20:
        return (mantissa > 0) - (mantissa < 0)
    rounded = -(-abs(mantissa) // _power(places))
    return rounded if mantissa >= 0 else -rounded


def _without_tens(mantissa: int, exponent: int) -> tuple[int, int]:
    if not mantissa:
        return 0, 0
    if mantissa % 10:
        return mantissa, exponent
    digits = str(mantissa)
    stripped = digits.rstrip("0")
    return int(stripped), exponent + len(digits) - len(stripped)


def _print_binary(amount: int) -> str:
    power = 0
    while amount % 1024 == 0 and power < len(_BINARY_NAMES) - 1:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY_NAMES[power]}"


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity:
    """`Quantity.parse`, remembered: the same few texts come again and again."""
    return Quantity.parse(text)


def canonical_quantity(value: str | float) -> str:
    """A quantity as the server stores it: `0.5` becomes `500m`, `1024Mi` becomes `1Gi`. Raises ValueError.

    Numbers are read as the JSON that most likely stood there; a float has lost its spelling, so `1e3` is `1k`.
    """
    if isinstance(value, str):
        return str(parse_quantity(value.strip()))
    return str(parse_quantity(f"{Decimal(str(value)):f}"))


# -- int or percent ---------------------------------------------------------------------------------------------------


_is_integer = re.compile(r"[+-]?[0-9]{1,18}").fullmatch


def scale_int_or_percent(value: int | str, total: int, *, round_up: bool) -> int:
    """An absolute number from `3` or `25%` of `total`; raises ValueError with kube-apiserver's text."""
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError("invalid value for IntOrString: invalid type: string is not a percentage")
    digits = value[:-1]
    if not _is_integer(digits):
        syntax = f"strconv.Atoi: parsing {quote(digits)}: invalid syntax"
        raise ValueError(f"invalid value for IntOrString: invalid value {quote(value)}: {syntax}")
    product = int(digits) * total
    return -(-product // 100) if round_up else product // 100


# -- label selectors --------------------------------------------------------------------------------------------------


def label_selector_to_text(selector: Mapping[str, Any] | None) -> str:
    """A label selector object as printed in tables and in `status.selector`: `a=b,c in (d)`, or `<none>`."""
    try:
        return str(from_label_selector(selector)) or "<none>"
    except SelectorError:
        return "<error>"
