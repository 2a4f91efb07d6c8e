"""Conversions between types: `int('1')`, `string(1.5)`, `timestamp(...)`. By overload, as the checker names them.

Converting text that does not say a value of the type is an error and always the same one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kapi.api.go.text import parse_bool, parse_float, parse_int, parse_uint, short_float
from kapi.schema.cel.times import checked_timestamp, format_timestamp, parse_duration, parse_timestamp
from kapi.schema.cel.types import (
    BOOL,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
)
from kapi.schema.cel.values import MAX_INT, MIN_INT, SECOND, Duration, EvaluationError, Timestamp, Uint

if TYPE_CHECKING:
    from collections.abc import Callable

CONVERTERS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"},
)
"""Functions that convert a value; of a constant they are computed once, for nothing, and must not fail."""


def _refuse(source: Type, target: Type) -> NoReturn:
    raise EvaluationError(f"type conversion error from '{source.name}' to '{target.name}'")


def _parser(parse: Callable[[str], Any], target: Type) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        value = parse(text)
        return _refuse(STRING, target) if value is None else value

    return convert


def _parse_unsigned(text: str) -> Uint | None:
    value = parse_uint(text)
    return None if value is None else Uint(value)


def _double_to_int(value: float) -> int:
    if math.isnan(value) or value <= float(MIN_INT) or value >= float(MAX_INT):
        raise EvaluationError("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Uint:
    if math.isnan(value) or value < 0 or value >= 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(value))


def _int_to_uint(value: int) -> Uint:
    if value < 0:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)


def _uint_to_int(value: int) -> int:
    if value > MAX_INT:
        raise EvaluationError("integer overflow")
    return int(value)


def _bytes_to_string(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _seconds(moment: Timestamp) -> int:
    return moment.nanos // SECOND


def _moment(seconds: int) -> Timestamp:
    return checked_timestamp(seconds * SECOND)


def _nanos(span: Duration) -> int:
    return span.nanos


def _same(value: Any) -> Any:
    return value


def _text(value: bool) -> str:
    return "true" if value else "false"


def _encoded(text: str) -> bytes:
    return text.encode(errors="replace")


CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "bool_to_bool": _same,
    "string_to_bool": _parser(parse_bool, BOOL),
    "bytes_to_bytes": _same,
    "string_to_bytes": _encoded,
    "double_to_double": _same,
    "int64_to_double": float,
    "string_to_double": _parser(parse_float, DOUBLE),
    "uint64_to_double": float,
    "duration_to_duration": _same,
    "int64_to_duration": lambda value: _refuse(INT, DURATION),
    "string_to_duration": _parser(parse_duration, DURATION),
    "int64_to_int64": _same,
    "double_to_int64": _double_to_int,
    "duration_to_int64": _nanos,
    "string_to_int64": _parser(parse_int, INT),
    "timestamp_to_int64": _seconds,
    "uint64_to_int64": _uint_to_int,
    "string_to_string": _same,
    "bool_to_string": _text,
    "bytes_to_string": _bytes_to_string,
    "double_to_string": short_float,
    "duration_to_string": str,
    "int64_to_string": str,
    "timestamp_to_string": format_timestamp,
    "uint64_to_string": str,
    "timestamp_to_timestamp": _same,
    "int64_to_timestamp": _moment,
    "string_to_timestamp": _parser(parse_timestamp, TIMESTAMP),
    "uint64_to_uint64": _same,
    "double_to_uint64": _double_to_uint,
    "int64_to_uint64": _int_to_uint,
    "string_to_uint64": _parser(_parse_unsigned, UINT),
}
