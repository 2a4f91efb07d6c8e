"""The rules for numbers: range, bounds and multiples, with the arithmetic of kube-apiserver.

It compares integers as integers, so a bound or factor with a fraction loses it when the value has none; and a schema
of type integer with such a bound refuses everything, since the bound itself is out of its type. Odd, but what users of
such a schema see. Where kube-apiserver's answer depends on the processor (a bound beyond int64 compared with an
integer) we take the sane one, in which the bound is just very large.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kapi.api.go.text import short_float
from kapi.schema.structural.messages import invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kapi.api.fielderror import FieldError
    from kapi.schema.structural.model import Schema

_INT_RANGES: Final = {"int32": (-(2**31), 2**31 - 1)}
_INT64: Final = (-(2**63), 2**63 - 1)
_LARGEST_EXACT: Final = float(2**53 - 1)


def is_whole(number: float) -> bool:
    """Return True if a float passes for an integer. Positive ones may be off by a billionth of their size."""
    if not -_LARGEST_EXACT <= number <= _LARGEST_EXACT:
        return False
    if number.is_integer():
        return True
    below = float(int(number))
    return number >= 1 and (number - below) / (number + below) < 1e-9


@dataclass(frozen=True, slots=True)
class NumberRules:
    """The constraints on numbers at one place of a schema. `type` is empty where the schema allows several types."""

    type: str
    format: str
    multiple_of: float | None
    minimum: float | None
    maximum: float | None
    exclusive_minimum: bool
    exclusive_maximum: bool

    @classmethod
    def of(cls, schema: Schema, kind_format: str) -> NumberRules:
        """The rules of a schema whose supported format is `kind_format`."""
        single = "" if schema.int_or_string else schema.type
        numeric = single if single in {"integer", "number"} else ""
        return cls(
            type=numeric,
            format=kind_format if numeric else "",
            multiple_of=_float(schema.multiple_of),
            minimum=_float(schema.minimum),
            maximum=_float(schema.maximum),
            exclusive_minimum=schema.exclusive_minimum,
            exclusive_maximum=schema.exclusive_maximum,
        )

    def limits_floats(self) -> bool:
        """Return True if a float could be invalid."""
        limits = (self.multiple_of, self.minimum, self.maximum)
        return self.type == "integer" or self.format == "float" or any(limit is not None for limit in limits)

    def accepts_integers(self) -> Callable[[int], bool] | None:
        """A function that returns True for valid int64 numbers; None when all are valid."""
        low, high = _INT_RANGES.get(self.format, _INT64)
        limits = (self.multiple_of, self.minimum, self.maximum)
        if any(limit is not None and not self._in_range(limit) for limit in limits):
            return lambda _: False
        if self.minimum is not None:
            low = max(low, _int64(self.minimum) + self.exclusive_minimum)
        if self.maximum is not None:
            high = min(high, _int64(self.maximum) - self.exclusive_maximum)
        if self.multiple_of is not None:
            factor = _int64(self.multiple_of)
            return lambda value: factor > 0 and low <= value <= high and value % factor == 0
        if (low, high) == _INT64:
            return None
        return lambda value: low <= value <= high

    def errors(self, value: float, path: str) -> Iterator[FieldError]:
        """The errors of a number at a path, in the order of kube-apiserver."""
        if not self._in_range(value):
            yield self._out_of_range("Checked", path)
        yield from self._multiple_errors(value, path)
        yield from self._bound_errors(value, path, "Minimum boundary", self.minimum)
        yield from self._bound_errors(value, path, "Maximum boundary", self.maximum)

    def _multiple_errors(self, value: float, path: str) -> Iterator[FieldError]:
        factor = self.multiple_of
        if factor is None:
            return
        fits = self._in_range(factor)
        if not fits:
            yield self._out_of_range("MultipleOf", path)
        number, by = _comparable(value, factor, native=fits)
        if by <= 0:
            yield invalid(path, by, f"factor MultipleOf declared for {path} must be positive: {_text(by)}")
        elif number % by if isinstance(number, int) else not is_whole(_quotient(number, by)):
            yield invalid(path, number, f"{path} in body should be a multiple of {_text(by)}")

    def _bound_errors(self, value: float, path: str, which: str, limit: float | None) -> Iterator[FieldError]:
        if limit is None:
            return
        fits = self._in_range(limit)
        if not fits:
            yield self._out_of_range(which, path)
        number, bound = _comparable(value, limit, native=fits)
        upper = which.startswith("Max")
        exclusive = self.exclusive_maximum if upper else self.exclusive_minimum
        beyond = number > bound if upper else number < bound
        if beyond or (exclusive and number == bound):
            words = ("less than" if upper else "greater than") + ("" if exclusive else " or equal to")
            yield invalid(path, number, f"{path} in body should be {words} {_text(bound)}")

    def _in_range(self, number: float) -> bool:
        if self.type == "integer":
            low, high = _INT_RANGES.get(self.format, _INT64)
            return float(number).is_integer() and low <= number <= high
        if self.format == "float":
            try:
                struct.pack("<f", number)
            except OverflowError:
                return False
        return True

    def _out_of_range(self, what: str, path: str) -> FieldError:
        shape = f"with format {self.format}" if self.format else "(default format)"
        return invalid("", "", f"{what} value must be of type {self.type} {shape} in {path}")


def _float(limit: float | None) -> float | None:
    return None if limit is None else float(limit)


def _int64(limit: float) -> int:
    return max(_INT64[0], min(_INT64[1], int(limit)))


def _comparable(value: float, limit: float, *, native: bool) -> tuple[float, float]:
    """The two as they are compared: as integers if the value is one and the limit is of the schema's type."""
    if isinstance(value, int) and native:
        return value, _int64(limit)
    return float(value), limit


def _quotient(number: float, factor: float) -> float:
    return 1 / factor * number if factor < 1 else number / factor


def _text(limit: float) -> str:
    return str(limit) if isinstance(limit, int) else short_float(limit)
