"""Prices: the cost of calls at run time, in the units that budgets are counted in.

Costs are part of the contract: a rule that ran out of budget must do so at the same size of object everywhere. A price
is a number, or a function of the arguments and the result for calls whose work grows with them. Failed arguments and
results count as values of size one. The prices of the standard functions are here, with those that libraries share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from kapi.schema.cel.values import Opaque, Optional, is_list, size_of

Price = int | Callable[[Sequence[Any], Any], int]

TEXT_FACTOR: Final = 0.1
_PATTERN_FACTOR: Final = 0.25
LIST_CREATION: Final = 10
MAP_CREATION: Final = 30
OBJECT_CREATION: Final = 40


def text_price(size: float) -> int:
    """The price of reading so many characters. A float product on purpose: seventy characters cost eight."""
    return math.ceil(size * TEXT_FACTOR)


def library_size(value: Any) -> int:
    """As `size_of`, but the value inside an optional does not count: library functions look less closely."""
    return 1 if isinstance(value, Optional) else size_of(value)


def reads(times: int = 1) -> Price:
    """The price of reading the first argument so many times."""
    return lambda args, result: text_price(library_size(args[0]) * times)


def pattern_price(args: Sequence[Any], result: Any) -> int:
    """The price of searching the first argument for the pattern that is the second."""
    return text_price(1.0 + size_of(args[0])) * pattern_factor(size_of(args[1]))


def pattern_factor(size: int) -> int:
    """The factor that a pattern of so many characters multiplies the price of its text by."""
    return math.ceil(size * _PATTERN_FACTOR)


def traversal_price(args: Sequence[Any], result: Any) -> int:
    """The price of visiting everything in the first argument."""
    return _depth_first(args[0])


def _depth_first(value: Any) -> int:
    """Every leaf counts one, strings and bytes by their bytes."""
    if isinstance(value, str):
        return int(len(value.encode(errors="replace")) * TEXT_FACTOR)
    if isinstance(value, bytes):
        return int(len(value) * TEXT_FACTOR)
    if is_list(value):
        return sum(map(_depth_first, value))
    if isinstance(value, dict):
        return sum(_depth_first(key) + _depth_first(item) for key, item in value.items())
    return 1


def equality_price(args: Sequence[Any], result: Any) -> int:
    """`==`: as much as the shorter side, and one for values of libraries."""
    return 1 if isinstance(args[0], Opaque) else _shorter(args, result)


def _first(args: Sequence[Any], result: Any) -> int:
    return text_price(size_of(args[0]))


def _shorter(args: Sequence[Any], result: Any) -> int:
    return text_price(min(size_of(args[0]), size_of(args[1])))


def _both(args: Sequence[Any], result: Any) -> int:
    return text_price(size_of(args[0]) + size_of(args[1]))


def _contains(args: Sequence[Any], result: Any) -> int:
    return text_price(size_of(args[0])) * text_price(size_of(args[1]))


def _members(args: Sequence[Any], result: Any) -> int:
    return size_of(args[1])


_ORDERED: Final = tuple(
    f"{order}_{kind}" for order in ("less", "less_equals", "greater", "greater_equals") for kind in ("string", "bytes")
)

STANDARD_PRICES: Final[dict[str, Price]] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string"), _first),
    **dict.fromkeys(_ORDERED, _shorter),
    **dict.fromkeys(("add_string", "add_bytes"), _both),
    "in_list": _members,
    "matches_string": pattern_price,
    "contains_string": _contains,
}
"""By overload id."""

_SCALARS: Final = frozenset({"int", "uint", "double", "bool", "google.protobuf.Timestamp", "google.protobuf.Duration"})


def equality_price_of(function: str, left: str, right: str) -> Price:
    """The price of `==` or `!=` between two types, by name: one where nothing has a size."""
    if left in _SCALARS and right in _SCALARS:
        return 1
    return equality_price if function == "_==_" else _shorter
