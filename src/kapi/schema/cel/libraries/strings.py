"""String functions of cel-go's extension: `substring`, `indexOf`, `replace`, `split`, `join`. Indices count characters.

Results that are much longer than what they are made from are refused: no budget counts them before they are made.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from kapi.api.go.text import ESCAPES
from kapi.schema.cel.cost.calls import READ_FACTOR, CallCost, CallSite, rewrite_target, traverse
from kapi.schema.cel.cost.estimates import LARGEST, UNKNOWN, ZERO, Estimate, wrapped
from kapi.schema.cel.cost.prices import library_size, reads, text_price, traversal_price
from kapi.schema.cel.libraries.formatting import format_string
from kapi.schema.cel.library import Library
from kapi.schema.cel.run.code import BudgetExceeded
from kapi.schema.cel.types import DYN, INT, STRING, Overload, list_of
from kapi.schema.cel.values import EvaluationError, show, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LONGEST: Final = 2**24
"""In characters. At the price of joining this is more than any budget."""

_UPPER: Final = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER: Final = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_QUOTED: Final = str.maketrans(ESCAPES)
# What Go calls space; Python's str.strip takes a few control characters more.
_SPACE: Final = "\t\n\v\f\r \u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def _out_of_range(place: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {place}")


def _char_at(text: str, place: int) -> str:
    if not 0 <= place <= len(text):
        raise _out_of_range(place)
    return text[place : place + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part)
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    found = text.count(old) if count < 0 else min(text.count(old), count)
    if len(text) + found * (len(new) - len(old)) > max(_LONGEST, len(text)):
        raise BudgetExceeded
    return text.replace(old, new, found)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if count < 0 or count >= len(text):
        return [*text]
    return [*text[: count - 1], text[count - 1 :]]


def _substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def _substring_between(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for place in (start, end):
        if not 0 <= place <= len(text):
            raise _out_of_range(place)
    return text[start:end]


def _join(items: Any, separator: str = "") -> str:
    length = len(separator) * len(items)
    for item in items:
        if not isinstance(item, str):
            raise EvaluationError(f"join: invalid input: {show(item)}")
        length += len(item)
    if length > _LONGEST:
        raise BudgetExceeded
    return separator.join(items)


def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


_STRINGS: Final = list_of(STRING)

FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "charAt": (Overload("string_char_at_int", (STRING, INT), STRING, member=True),),
    "indexOf": (
        Overload("string_index_of_string", (STRING, STRING), INT, member=True),
        Overload("string_index_of_string_int", (STRING, STRING, INT), INT, member=True),
    ),
    "lastIndexOf": (
        Overload("string_last_index_of_string", (STRING, STRING), INT, member=True),
        Overload("string_last_index_of_string_int", (STRING, STRING, INT), INT, member=True),
    ),
    "lowerAscii": (Overload("string_lower_ascii", (STRING,), STRING, member=True),),
    "replace": (
        Overload("string_replace_string_string", (STRING, STRING, STRING), STRING, member=True),
        Overload("string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, member=True),
    ),
    "split": (
        Overload("string_split_string", (STRING, STRING), _STRINGS, member=True),
        Overload("string_split_string_int", (STRING, STRING, INT), _STRINGS, member=True),
    ),
    "substring": (
        Overload("string_substring_int", (STRING, INT), STRING, member=True),
        Overload("string_substring_int_int", (STRING, INT, INT), STRING, member=True),
    ),
    "trim": (Overload("string_trim", (STRING,), STRING, member=True),),
    "upperAscii": (Overload("string_upper_ascii", (STRING,), STRING, member=True),),
    "format": (Overload("string_format", (STRING, list_of(DYN)), STRING, member=True),),
    "strings.quote": (Overload("strings_quote", (STRING,), STRING),),
    "join": (
        Overload("list_join", (_STRINGS,), STRING, member=True),
        Overload("list_join_string", (_STRINGS, STRING), STRING, member=True),
    ),
}

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    "string_char_at_int": _char_at,
    "string_index_of_string": _index_of,
    "string_index_of_string_int": _index_of,
    "string_last_index_of_string": _last_index_of,
    "string_last_index_of_string_int": _last_index_of,
    "string_lower_ascii": lambda text: text.translate(_LOWER),
    "string_replace_string_string": _replace,
    "string_replace_string_string_int": _replace,
    "string_split_string": _split,
    "string_split_string_int": _split,
    "string_substring_int": _substring,
    "string_substring_int_int": _substring_between,
    "string_trim": lambda text: text.strip(_SPACE),
    "string_upper_ascii": lambda text: text.translate(_UPPER),
    "string_format": format_string,
    "strings_quote": _quote,
    "list_join": _join,
    "list_join_string": _join,
}


# -- costs ------------------------------------------------------------------------------------------------------------


def _price_join(args: Sequence[Any], result: Any) -> int:
    return text_price(library_size(result) * 2)


def _price_reading(args: Sequence[Any], result: Any) -> int:
    return text_price(size_of(args[0]))


def _estimate_format(site: CallSite) -> CallCost | None:
    return CallCost((site.target.size or UNKNOWN).scaled(READ_FACTOR)) if site.target else None


def _estimate_quote(site: CallSite) -> CallCost:
    size = site.args[0].size or UNKNOWN
    return CallCost(size.scaled(READ_FACTOR), Estimate(wrapped(size.min + 2), wrapped(size.max * 2 + 2)))


def _estimate_replace(site: CallSite) -> CallCost | None:
    if site.target is None or len(site.args) < 2:
        return None
    size, old, new = site.size(site.target), site.size(site.args[0]), site.size(site.args[1])
    most, kept_most = _longest_replacement(size.max, old.min, new.max)
    least, kept_least = _shortest_replacement(size.min, old.max, new.min)
    result = Estimate(least, most).times(new).plus(Estimate(kept_least, kept_most))
    return CallCost(size.scaled(2 * READ_FACTOR), result)


def _longest_replacement(size: int, old: int, new: int) -> tuple[int, int]:
    """The number of replacements, and the characters kept, when the result is as long as can be."""
    if old == 0:
        # An empty string is found around every character.
        return min(size + 1, LARGEST), size
    if new <= old:
        return 0, size
    return math.ceil(float(size) / float(old)), 0


def _shortest_replacement(size: int, old: int, new: int) -> tuple[int, int]:
    if old == 0:
        return min(size + 1, LARGEST), size
    if old <= new:
        return 0, size
    return math.ceil(float(size) / float(old)), 0


def _estimate_split(site: CallSite) -> CallCost | None:
    if site.target is None:
        return None
    size = site.size(site.target)
    most = size.max
    if len(site.args) > 1:
        limit = site.args[1].written_int
        most = most if limit is None else wrapped(limit)
    return CallCost(size.scaled(2 * READ_FACTOR), Estimate(0, most))


def _estimate_join(site: CallSite) -> CallCost | None:
    if site.target is None:
        return None
    count = site.size(site.target)
    items = site.items(site.target)
    size = count.times(items[1]) if items else ZERO
    if site.args:
        gaps = Estimate(max(count.min - 1, 0), max(count.max - 1, 0))
        size = size.plus(site.size(site.args[0]).times(gaps))
    return CallCost(size.scaled(READ_FACTOR), size)


_REWRITING: Final = ("lowerAscii", "upperAscii", "substring", "trim")
_SEARCHING: Final = ("indexOf", "lastIndexOf")

LIBRARY: Final = Library(
    name="cel.lib.ext.strings",
    functions=FUNCTIONS,
    implementations=IMPLEMENTATIONS,
    prices={
        **dict.fromkeys(_REWRITING, reads()),
        **dict.fromkeys(_SEARCHING, traversal_price),
        **dict.fromkeys(("replace", "split"), reads(2)),
        "join": _price_join,
        "string_format": _price_reading,
        "strings_quote": _price_reading,
    },
    estimates={
        **dict.fromkeys(_REWRITING, rewrite_target),
        **dict.fromkeys(_SEARCHING, traverse),
        "replace": _estimate_replace,
        "split": _estimate_split,
        "join": _estimate_join,
        "string_format": _estimate_format,
        "strings_quote": _estimate_quote,
    },
)
