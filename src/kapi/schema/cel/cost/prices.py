"""What calls cost at run time, in the units that budgets are counted in.

Costs are part of the contract: a rule that ran out of budget must do so at the same size of object everywhere. A price
is a number, or a function of the arguments and the result for calls whose work grows with them. Failed arguments and
results count as values of size one. What is not listed costs one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from kapi.schema.cel.values import Opaque, Optional, is_list, size_of

Price = int | Callable[[Sequence[Any], Any], int]

_TEXT: Final = 0.1
_PATTERN: Final = 0.25
LIST_CREATION: Final = 10
MAP_CREATION: Final = 30


def text_price(size: float) -> int:
    """Going through so many characters once. A float product on purpose: seventy characters cost eight."""
    return math.ceil(size * _TEXT)


def _size(value: Any) -> int:
    """As `size_of`, but what is inside an optional does not count: libraries look less closely."""
    return 1 if isinstance(value, Optional) else size_of(value)


def _pass(times: int) -> Price:
    return lambda args, result: text_price(_size(args[0]) * times)


def _first(args: Sequence[Any], result: Any) -> int:
    return text_price(size_of(args[0]))


def _shorter(args: Sequence[Any], result: Any) -> int:
    return text_price(min(size_of(args[0]), size_of(args[1])))


def equality_price(args: Sequence[Any], result: Any) -> int:
    """`==`: as much as the shorter side, and one for values of libraries."""
    return 1 if isinstance(args[0], Opaque) else _shorter(args, result)


def _both(args: Sequence[Any], result: Any) -> int:
    return text_price(size_of(args[0]) + size_of(args[1]))


def _pattern(args: Sequence[Any], result: Any) -> int:
    return text_price(1.0 + size_of(args[0])) * math.ceil(size_of(args[1]) * _PATTERN)


def _contains(args: Sequence[Any], result: Any) -> int:
    return text_price(size_of(args[0])) * text_price(size_of(args[1]))


def _members(args: Sequence[Any], result: Any) -> int:
    return size_of(args[1])


def _join(args: Sequence[Any], result: Any) -> int:
    return text_price(_size(result) * 2)


def _contains_address(parses: bool, masks: bool) -> Price:
    def price(args: Sequence[Any], result: Any) -> int:
        size = _size(args[0])
        cost = text_price(size + size)
        if masks:
            cost += text_price(size) + 1
        return cost + text_price(_size(args[1])) if parses else cost

    return price


def _validate(args: Sequence[Any], result: Any) -> int:
    pattern = getattr(args[0], "pattern_size", None)
    if not isinstance(pattern, int):
        return 1
    return text_price(1.0 + _size(args[1])) * math.ceil(pattern * _PATTERN)


def _traversal(args: Sequence[Any], result: Any) -> int:
    return _depth_first(args[0])


def _depth_first(value: Any) -> int:
    """Every leaf counts one, strings and bytes by their bytes."""
    if isinstance(value, str):
        return int(len(value.encode(errors="replace")) * _TEXT)
    if isinstance(value, bytes):
        return int(len(value) * _TEXT)
    if is_list(value):
        return sum(map(_depth_first, value))
    if isinstance(value, dict):
        return sum(_depth_first(key) + _depth_first(item) for key, item in value.items())
    return 1


def _sets(factor: int) -> Price:
    return lambda args, result: 1 + _size(args[0]) * _size(args[1]) * factor


def _new_list(factor: float, size: int) -> int:
    return int(size * factor) + 1 + LIST_CREATION


def _result_list(args: Sequence[Any], result: Any) -> int:
    return _new_list(1, _size(result))


def _flattened(args: Sequence[Any], result: Any) -> int:
    depth = args[1] if len(args) > 1 and isinstance(args[1], int) else 1
    return _new_list(float(depth), _size(args[0]))


def _compared(place: int) -> Price:
    def price(args: Sequence[Any], result: Any) -> int:
        items = args[place]
        if not is_list(items) or not items:
            return _new_list(2.0, 0)
        factor = 2.0 + (_TEXT if isinstance(items[0], (str, bytes)) else 0)
        return _new_list(factor, len(items) ** 2)

    return price


_BY_FUNCTION: Final[dict[str, Price]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversal),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _pass(1)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"), _pass(1)),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _pass(2)),
    **dict.fromkeys(("find", "findAll"), _pattern),
    "join": _join,
    "validate": _validate,
}
"""Libraries are priced by the name of the function, whichever overload is meant."""

_COMPARABLE: Final = (
    "int",
    "uint",
    "double",
    "bool",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "string",
    "bytes",
)
_ORDERED: Final = tuple(
    f"{order}_{kind}" for order in ("less", "less_equals", "greater", "greater_equals") for kind in ("string", "bytes")
)
_BY_OVERLOAD: Final[dict[str, Price]] = {
    "cidr_ip": 1,
    "cidr_contains_ip_string": _contains_address(parses=True, masks=False),
    "cidr_contains_ip_ip": _contains_address(parses=False, masks=False),
    "cidr_contains_cidr_string": _contains_address(parses=True, masks=True),
    "cidr_contains_cidr": _contains_address(parses=False, masks=True),
    **dict.fromkeys(("list_sets_contains_list", "list_sets_intersects_list"), _sets(1)),
    "list_sets_equivalent_list": _sets(2),
    **dict.fromkeys(("list_slice", "lists_range", "list_reverse"), _result_list),
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _flattened),
    "list_distinct": _compared(0),
    **{f"list_{kind}_sort": _compared(0) for kind in _COMPARABLE},
    **{f"list_{kind}_sortByAssociatedKeys": _compared(1) for kind in _COMPARABLE},
    **dict.fromkeys(
        (
            "starts_with_string",
            "ends_with_string",
            "string_to_bytes",
            "bytes_to_string",
            "strings_quote",
            "string_format",
        ),
        _first,
    ),
    **dict.fromkeys(_ORDERED, _shorter),
    **dict.fromkeys(("add_string", "add_bytes"), _both),
    "in_list": _members,
    "matches_string": _pattern,
    "contains_string": _contains,
}

_SCALARS: Final = frozenset({"int", "uint", "double", "bool", "google.protobuf.Timestamp", "google.protobuf.Duration"})


def price_of(function: str, overload: str) -> Price:
    """The price of a call; `overload` is empty when it is only known at run time, and then little is charged."""
    if overload in _BY_OVERLOAD and (function not in _BY_FUNCTION or overload == "cidr_ip"):
        return _BY_OVERLOAD[overload]
    if function in {"containsIP", "containsCIDR"}:
        return _contains_address(parses=False, masks=function == "containsCIDR")
    return _BY_FUNCTION.get(function, 1)


def equality_price_of(function: str, left: str, right: str) -> Price:
    """The price of `==` or `!=` between two types, by name: one where nothing has a size."""
    if left in _SCALARS and right in _SCALARS:
        return 1
    return equality_price if function == "_==_" else _shorter
