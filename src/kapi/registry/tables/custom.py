"""Tables of custom kinds, made at run time from the printer columns of their definitions.

A definition gives each column a name, a type and a JSONPath; here that becomes a `Table` like those of the built-in
kinds. The texts in cells are those of kube-apiserver, which prints as Go does: `<no value>` for a null, `1e+06` for the
fraction 1000000.0, compact JSON for anything with parts.

All cells of a row together search a bounded number of values and have a bounded size: a definition may have any number
of columns, each of which could show the whole object.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapi.api.duration import human_duration
from kapi.api.go.times import BadTime, canonical_time
from kapi.api.jsonpath.path import JSONPathError, compile_path
from kapi.api.jsonpath.steps import Effort
from kapi.api.limits import TABLE_ROW_CHARACTERS
from kapi.api.meta import parse_time
from kapi.registry.tables import cells
from kapi.registry.tables.table import AGE, NAME, Column, Table

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Sequence

    from kapi.api.jsonpath.path import Path
    from kapi.api.meta import Object

    Cell = Callable[[Any, dt.datetime], Any]
    Reader = Callable[[Object, dt.datetime, "_Budget"], Any]

_encode_text = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode

_MAX_INT64: Final = 2**63 - 1
_MIN_INT64: Final = -(2**63)
_EXACT: Final = 2**53
# Durations in Go are 64-bit counts of nanoseconds and stop here.
_LONGEST: Final = _MAX_INT64 / 1e9

_DEFAULT: Final[Sequence[Object]] = (
    {"name": "Age", "type": "date", "description": AGE.description, "jsonPath": ".metadata.creationTimestamp"},
)


def custom_table(columns: Sequence[Object]) -> Table:
    """The table for the `additionalPrinterColumns` of one version; name and age when there are none.

    Never fails: from the first column whose path cannot be read on, columns are left out, as by kube-apiserver.
    """
    shown = [NAME]
    readers: list[Reader] = []
    for column in columns or _DEFAULT:
        try:
            path = compile_path(column["jsonPath"])
        except JSONPathError:
            break
        shown.append(_column(column))
        readers.append(_reader(path, _CELLS.get(column["type"], _no_cell)))

    def row(obj: Object, now: dt.datetime) -> list[Any]:
        budget = _Budget()
        return [cells.name(obj), *[read(obj, now, budget) for read in readers]]

    return Table(shown, row)


def _column(column: Object) -> Column:
    described = column.get("description")
    return Column(
        column["name"],
        column["type"],
        column.get("format", ""),
        described or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
        column.get("priority", 0),
    )


class _Budget:
    """What the cells of one row may still cost."""

    __slots__ = ("characters", "effort")

    def __init__(self) -> None:
        self.effort = Effort()
        self.characters = TABLE_ROW_CHARACTERS

    def cut(self, text: str) -> str:
        """The text as far as there is space for it."""
        if len(text) > self.characters:
            text = f"{text[: self.characters]}..."
        self.characters = max(self.characters - len(text), 0)
        return text


def _reader(path: Path, cell: Cell) -> Reader:
    """The function that makes one cell: from the first value found, or null."""
    find = path.find

    def read(obj: Object, now: dt.datetime, budget: _Budget) -> Any:
        try:
            found = find(obj, budget.effort)
        except JSONPathError:
            return None
        if not found:
            return None
        value = found[0]
        if isinstance(value, dict | list) and cell is _string:
            # Printing as Go does is slow: what is cut anyway is printed as msgspec does, or not at all.
            whole = _encode_sorted(value) if budget.characters else b"{}"
            return budget.cut(whole.decode() if len(whole) > budget.characters else cell(value, now))
        shown = cell(value, now)
        return budget.cut(shown) if type(shown) is str else shown

    return read


def _replicas(name: str, description: str, path: str) -> Object:
    return {"name": name, "type": "integer", "description": description, "jsonPath": path}


# -- cells by type ----------------------------------------------------------------------------------------------------


def _no_cell(_value: Any, _now: dt.datetime) -> Any:
    return None


def _string(value: Any, _now: dt.datetime) -> str:
    if type(value) is str:
        return value
    if value is None:
        return "<no value>"
    if isinstance(value, dict | list):
        return _escape_markup(_json(value))
    return _number_text(value) if type(value) is float else _json(value)


def _integer(value: Any, _now: dt.datetime) -> int | None:
    if type(value) is int and _MIN_INT64 <= value <= _MAX_INT64:
        return value
    if type(value) is int or type(value) is float:
        # What does not fit becomes the smallest number, which is what the processor makes of it.
        return int(value) if _MIN_INT64 <= value < _MAX_INT64 else _MIN_INT64
    return None


def _number(value: Any, _now: dt.datetime) -> float | None:
    if type(value) is int:
        return value if -_EXACT <= value <= _EXACT else float(value)
    if type(value) is float:
        # Without a fraction it is written as a whole number.
        return int(value) if value.is_integer() and abs(value) <= _EXACT else value
    return None


def _boolean(value: Any, _now: dt.datetime) -> bool | None:
    return value if type(value) is bool else None


def _date(value: Any, now: dt.datetime) -> str | None:
    """The duration since a time; `<unknown>` for an empty time, `<invalid>` for a text that is none."""
    if type(value) is not str:
        return None
    if value in ("", "null"):
        return cells.UNKNOWN
    try:
        has_moment = canonical_time(value) is not None
    except BadTime:
        return "<invalid>"
    if not has_moment:
        return cells.UNKNOWN
    start = parse_time(value)
    # A year that Python does not know is year 0.
    return human_duration(min((now - start).total_seconds(), _LONGEST) if start else _LONGEST)


_CELLS: Final[dict[str, Cell]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}

# -- Go's words for values --------------------------------------------------------------------------------------------


def _json(value: Any) -> str:
    """Compact JSON with sorted keys. Objects come from a decoder that bounds their depth."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{_json(key)}:{_json(value[key])}' for key in sorted(value))}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_json, value))}]"
    return _json_number(value) if type(value) is float else _encode_text(value).decode()


def _escape_markup(text: str) -> str:
    """The text with the characters escaped that Go's encoder escapes for HTML and JavaScript."""
    return text.translate(_MARKUP)


_MARKUP: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def _json_number(value: float) -> str:
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return _plain(value)
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa}e{int(exponent):+d}"


def _number_text(value: float) -> str:
    """The shortest digits that parse to the same number; with an exponent below 1e-4 and from a million on."""
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return _plain(value)
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    power = int(exponent) + len(digits) - 1
    first, rest = digits[0], "".join(map(str, digits[1:]))
    return f"{'-' if value < 0 else ''}{first}{'.' if rest else ''}{rest}e{power:+03d}"


def _plain(value: float) -> str:
    return format(Decimal(repr(value)), "f").removesuffix(".0")


SCALE_TABLE: Final = custom_table(
    [
        _replicas("Desired", "How many replicas are wanted.", ".spec.replicas"),
        _replicas("Available", "How many replicas there are.", ".status.replicas"),
        *_DEFAULT,
    ]
)
"""The table of the Scale of a custom object."""
