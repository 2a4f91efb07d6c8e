"""Conversion of JSON values to the values of expressions, where the schema says that they differ.

Most JSON serves as it is. Texts with a format become moments, spans of time and bytes; numbers become floats; lists
that are sets or maps are marked as such. A function is made once per schema and copies only what it changes; for parts
that no expression looks at nothing is made at all.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.syntax.ast import Comprehension, Expr, Ident, Select, children
from kapi.schema.cel.syntax.identifiers import unescape
from kapi.schema.cel.times import parse_duration, parse_timestamp
from kapi.schema.cel.values import Duration, EvaluationError, MapList, SetList
from kapi.schema.structural.model import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Adapt = Callable[[Any], Any]

UsedFields = dict[str, Any]
"""The properties that an expression uses, each with those below it, or with None for all of it."""

_LOOSE_DURATION: Final = re.compile(r"([0-9]{1,19})[\t\n\f\r ]*([A-Za-z\u00b5]+)")
_LOOSE_UNITS: Final = (
    (("ns",), "nano", 1),
    (("us", "\u00b5s"), "micro", 10**3),
    (("ms",), "milli", 10**6),
    (("s",), "sec", 10**9),
    (("m",), "min", 60 * 10**9),
    (("h", "hr"), "hour", 3600 * 10**9),
    (("d",), "day", 24 * 3600 * 10**9),
    (("w", "wk"), "week", 7 * 24 * 3600 * 10**9),
)
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})


def adapter(schema: Schema, used: UsedFields | None = None) -> Adapt | None:
    """A function from the JSON values of a schema to run-time values; None when JSON serves as it is.

    With `used`, only those parts are changed, and the rest must not be looked at.
    """
    if schema.int_or_string or used == {}:
        return None
    if schema.type == "array":
        return _list_adapter(schema)
    if schema.type == "object":
        return _object_adapter(schema, used)
    if schema.type == "number":
        return _number
    return _FORMATS.get(schema.format) if schema.type == "string" else None


def _list_adapter(schema: Schema) -> Adapt | None:
    items = adapter(schema.items) if schema.items else None
    if schema.list_type == "map" and schema.list_map_keys:
        return _map_list(items, schema.list_map_keys)
    if schema.list_type == "set" and schema.items and (schema.items.type in _SCALARS or schema.items.int_or_string):
        return _plain_list(items, SetList)
    return _plain_list(items, list) if items else None


def _plain_list(items: Adapt | None, kind: type[list[Any]]) -> Adapt:
    def adapt(value: Any) -> Any:
        if type(value) is not list:
            return value
        return kind(map(items, value) if items else value)

    return adapt


def _map_list(items: Adapt | None, keys: tuple[str, ...]) -> Adapt:
    def adapt(value: Any) -> Any:
        if type(value) is not list:
            return value
        return MapList(map(items, value) if items else value, keys)

    return adapt


def _object_adapter(schema: Schema, used: UsedFields | None) -> Adapt | None:
    if isinstance(schema.additional, Schema):
        return _map_adapter(schema.additional)
    below = {}
    for name, part in schema.properties.items():
        if used is None or name in used:
            adapt = adapter(part, used[name] if used else None)
            if adapt is not None:
                below[name] = adapt
    if not below:
        return None

    def adapt_object(value: Any) -> Any:
        if type(value) is not dict:
            return value
        changed = {name: adapt(value[name]) for name, adapt in below.items() if name in value}
        return value | changed if changed else value

    return adapt_object


def _map_adapter(schema: Schema) -> Adapt | None:
    adapt = adapter(schema)
    if adapt is None:
        return None
    return lambda value: {key: adapt(one) for key, one in value.items()} if type(value) is dict else value


def _number(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _timestamp(value: Any) -> Any:
    if type(value) is not str:
        return value
    text = value.upper()
    try:
        # A time without a zone is read as UTC.
        return parse_timestamp(text) or parse_timestamp(f"{text}Z") or value
    except EvaluationError:
        return value


def _date(value: Any) -> Any:
    return _timestamp(f"{value}T00:00:00Z") if type(value) is str else value


def _duration(value: Any) -> Any:
    return parse_duration(value) or _loose_duration(value) or value if type(value) is str else value


def _loose_duration(text: str) -> Duration | None:
    """Any text with numbers and units of time in it, such as `2 weeks and 1 day`."""
    spans = [int(found[1]) * unit for found in _LOOSE_DURATION.finditer(text) for unit in _units(found[2].lower())]
    total = (sum(spans) + 2**63) % 2**64 - 2**63
    return Duration(total) if spans else None


def _units(word: str) -> Iterator[int]:
    for names, prefix, nanos in _LOOSE_UNITS:
        if word in names or word.startswith(prefix):
            yield nanos


def _bytes(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        return base64.b64decode(value.translate(_STANDARD_ALPHABET), validate=True)
    except (binascii.Error, ValueError):
        return value


_STANDARD_ALPHABET: Final = str.maketrans("-_", "+/")
_FORMATS: Final[dict[str, Adapt]] = {"date-time": _timestamp, "date": _date, "duration": _duration, "byte": _bytes}


# -- which fields an expression uses ----------------------------------------------------------------------------------


def used_fields(expr: Expr, variable: str) -> UsedFields | None:
    """The parts of a variable that an expression uses; None when it may be all of it."""
    found: UsedFields | None = {}
    waiting: list[Expr] = [expr]
    while waiting:
        one = waiting.pop()
        steps: list[str] = []
        while isinstance(one, Select):
            steps.append(unescape(one.field))
            one = one.operand
        if isinstance(one, Ident):
            if one.name == variable:
                found = merge(found, _chain(steps))
        elif isinstance(one, Comprehension) and variable in (one.variable, one.second, one.accumulator):
            return None
        else:
            waiting.extend(children(one))
    return found


def _chain(steps: list[str]) -> UsedFields | None:
    chain: UsedFields | None = None
    for step in steps:
        chain = {step: chain}
    return chain


def merge(left: UsedFields | None, right: UsedFields | None) -> UsedFields | None:
    """The parts that either uses."""
    if left is None or right is None:
        return None
    merged = dict(left)
    for name, below in right.items():
        merged[name] = merge(merged[name], below) if name in merged else below
    return merged
