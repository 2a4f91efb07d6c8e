"""`'%s has %d'.format([name, count])`: clauses of a format string, filled in from a list.

Clauses are `%s` text, `%d` whole numbers, `%f` and `%e` floats with an optional precision, `%b` binary, `%x` and `%X`
hexadecimal, `%o` octal, and `%%`. Numbers with a point are grouped by thousands, as English does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from kapi.api.go.text import fixed_float, parse_int, quote, short_float
from kapi.schema.cel.times import format_timestamp
from kapi.schema.cel.types import Type
from kapi.schema.cel.values import Duration, EvaluationError, Timestamp, Uint, is_list, type_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Clause = Callable[[Any, int | None], str]

_PRECISION: Final = 6
_MOST_DIGITS: Final = 1000
"""A limit of ours: a longer precision only makes a longer text."""
_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_TEXT_ONLY: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps, was given"
)


def format_string(text: str, items: Any) -> str:
    """The text with its clauses filled in."""
    parts: list[str] = []
    place = used = 0
    while True:
        start = text.find("%", place)
        if start < 0:
            return "".join([*parts, text[place:]])
        parts.append(text[place:start])
        if text.startswith("%%", start):
            parts.append("%")
            place = start + 2
            continue
        if used >= len(items):
            raise EvaluationError(f"index {used} out of range")
        if start + 1 >= len(text):
            raise EvaluationError("unexpected end of string")
        clause, precision, place = _clause(text, start + 1)
        parts.append(_fill(clause, items[used], precision))
        used += 1


def _fill(clause: Clause, item: Any, precision: int | None) -> str:
    try:
        return clause(item, precision)
    except EvaluationError as error:
        raise EvaluationError(f"error during formatting: {error.text}") from None


def _clause(text: str, place: int) -> tuple[Clause, int | None, int]:
    precision = None
    if text[place] == ".":
        end = place + 1
        while end < len(text) and text[end] in "0123456789":
            end += 1
        if end >= len(text):
            raise _unparsed("error while parsing precision: could not find end of precision specifier")
        precision, place = _precision(text[place + 1 : end]), end
    clause = _CLAUSES.get(text[place])
    if clause is None:
        raise _unparsed(f'unrecognized formatting clause "{text[place]}"')
    return clause, precision, place + 1


def _precision(digits: str) -> int:
    value = parse_int(digits)
    if value is None:
        kind = "value out of range" if digits else "invalid syntax"
        problem = f"strconv.Atoi: parsing {quote(digits)}: {kind}"
        raise _unparsed(f"error while parsing precision: error while converting precision to integer: {problem}")
    if value > _MOST_DIGITS:
        raise _unparsed(f"error while parsing precision: more than {_MOST_DIGITS} digits")
    return value


def _unparsed(reason: str) -> EvaluationError:
    return EvaluationError(f"could not parse formatting clause: {reason}")


def _refused(clause: str, item: Any) -> EvaluationError:
    return EvaluationError(f"{clause} {type_of(item).name}")


# -- clauses ----------------------------------------------------------------------------------------------------------


def _is_whole(item: Any) -> bool:
    return type(item) is int or type(item) is Uint


def _text(item: Any, precision: int | None = None) -> str:
    if isinstance(item, str):
        return item
    if item is None or isinstance(item, bool):
        return {True: "true", False: "false", None: "null"}[item]
    if _is_whole(item) or isinstance(item, Duration):
        return str(item)
    if isinstance(item, float):
        return short_float(item)
    if isinstance(item, bytes):
        return _decoded(item)
    if isinstance(item, Timestamp):
        return format_timestamp(item)
    if is_list(item):
        return f"[{', '.join(map(_inner, item))}]"
    if isinstance(item, dict):
        return _map(item)
    if isinstance(item, Type):
        return item.name
    raise _refused(_TEXT_ONLY, item)


def _decoded(item: bytes) -> str:
    try:
        return item.decode()
    except UnicodeDecodeError:
        raise EvaluationError(
            'could not convert argument "invalid UTF-8 in bytes, cannot convert to string" to string'
        ) from None


def _inner(item: Any) -> str:
    """A value inside a list or a map, in the form of a literal."""
    if isinstance(item, str):
        return quote(item)
    if isinstance(item, bytes):
        return f"b{quote(_decoded(item))}"
    if isinstance(item, Timestamp):
        return f'timestamp("{format_timestamp(item)}")'
    if isinstance(item, Duration):
        return f'duration("{item}")'
    if isinstance(item, float):
        text = fixed_float(item, _PRECISION)
        return text if math.isfinite(item) else f'"{text}"'
    if item is None or isinstance(item, (bool, int, dict, Type)) or is_list(item):
        return _text(item)
    raise EvaluationError(f"no formatting function for {type_of(item).name}")


def _map(entries: dict[Any, Any]) -> str:
    pairs = []
    for key, value in entries.items():
        if not isinstance(key, (str, int)):
            raise EvaluationError(f"no formatting function for map key of type {type_of(key).name}")
        pairs.append((_inner(key), _inner(value)))
    pairs.sort(key=lambda pair: pair[0])
    return f"{{{', '.join(f'{key}:{value}' for key, value in pairs)}}}"


def _decimal(item: Any, precision: int | None) -> str:
    if not _is_whole(item):
        raise _refused("decimal clause can only be used on integers, was given", item)
    return str(item)


def _number(item: Any, message: str) -> float:
    if isinstance(item, str) and item in _SPECIAL:
        return _SPECIAL[item]
    if not isinstance(item, float):
        raise _refused(message, item)
    return item


def _fixed(item: Any, precision: int | None) -> str:
    value = _number(item, "fixed-point clause can only be used on doubles, was given")
    if not math.isfinite(value):
        return _infinite(value)
    return f"{value:,.{_PRECISION if precision is None else precision}f}"


def _infinite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "\u221e" if value > 0 else "-\u221e"


def _scientific(item: Any, precision: int | None) -> str:
    value = _number(item, "scientific clause can only be used on doubles, was given")
    # cel-go takes the precision for a width, and so always shows six digits.
    if not math.isfinite(value):
        return _infinite(value).rjust(_PRECISION if precision is None else precision)
    mantissa, _, exponent = f"{value:.{_PRECISION}e}".partition("e")
    sign = "\u207b" if exponent[0] == "-" else ""
    power = "".join(_SUPERSCRIPT[digit] for digit in f"{abs(int(exponent)):02d}")
    return f"{mantissa}\u00d710{sign}{power}"


_SUPERSCRIPT: Final = dict(
    zip("0123456789", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079", strict=True)
)


def _binary(item: Any, precision: int | None) -> str:
    if isinstance(item, (bool, int)):
        return f"{int(item):b}"
    raise _refused("only integers and bools can be formatted as binary, was given", item)


def _hexadecimal(item: Any, precision: int | None) -> str:
    if isinstance(item, str):
        return item.encode(errors="replace").hex()
    if isinstance(item, bytes):
        return item.hex()
    if _is_whole(item):
        return f"{int(item):x}"
    raise _refused("only integers, byte buffers, and strings can be formatted as hex, was given", item)


def _octal(item: Any, precision: int | None) -> str:
    if _is_whole(item):
        return f"{int(item):o}"
    raise _refused("octal clause can only be used on integers, was given", item)


_CLAUSES: Final[dict[str, Clause]] = {
    "s": _text,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hexadecimal,
    "X": lambda item, precision: _hexadecimal(item, precision).upper(),
    "o": _octal,
}
