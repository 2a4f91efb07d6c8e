"""More of lists: sums, extremes, order, places, slices, flattening, sorting, ranges.

Two families under one roof, because expressions do not tell them apart: those of Kubernetes (`sum`, `max`, `isSorted`)
and those of the language's extension (`slice`, `sort`, `distinct`).
"""

from __future__ import annotations

from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.run.code import BudgetExceeded
from kapi.schema.cel.run.operations import BY_FUNCTION, unsupported
from kapi.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Overload,
    Param,
    Type,
    list_of,
)
from kapi.schema.cel.values import (
    Duration,
    EvaluationError,
    Uint,
    compare,
    equal,
    is_list,
    is_ordered,
    no_such_overload,
    type_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_ITEMS: Final = 10_000_000
"""More than any budget pays for."""

# -- of Kubernetes ----------------------------------------------------------------------------------------------------


def _is_sorted(items: Any) -> bool:
    previous = None
    for place, item in enumerate(items):
        if not is_ordered(item):
            no_such_overload()
        # What has no order among themselves, such as NaN, does not make a list unsorted.
        if place and _order(previous, item) > 0:
            return False
        previous = item
    return True


def _order(left: Any, right: Any) -> int:
    try:
        return compare(left, right)
    except EvaluationError:
        return 0


def _summer(zero: Any) -> Callable[[Any], Any]:
    add = BY_FUNCTION["_+_"]

    def total(items: Any) -> Any:
        value = zero
        for item in items:
            value = add(value, item)
        return value

    return total


def _extreme(name: str, sign: int) -> Callable[[Any], Any]:
    def extreme(items: Any) -> Any:
        best = None
        for place, item in enumerate(items):
            if not is_ordered(item):
                no_such_overload()
            if not place or _order(item, best) * sign > 0:
                best = item
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        return best

    return extreme


def _index_of(items: Any, wanted: Any) -> int:
    return next((place for place, item in enumerate(items) if _same(item, wanted)), -1)


def _last_index_of(items: Any, wanted: Any) -> int:
    return next((place for place in range(len(items) - 1, -1, -1) if _same(items[place], wanted)), -1)


def _same(left: Any, right: Any) -> bool:
    try:
        return equal(left, right)
    except EvaluationError:
        return False


# -- of the language's extension --------------------------------------------------------------------------------------


def _slice(items: Any, start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(items) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return [items[place] for place in range(start, end)]


def _flatten(items: Any, depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Any] = []
    _flatten_into(flat, items, depth)
    return flat


def _flatten_into(flat: list[Any], items: Any, depth: int) -> None:
    for item in items:
        if depth and is_list(item):
            _flatten_into(flat, item, depth - 1)
        else:
            flat.append(item)
        if len(flat) > _MOST_ITEMS:
            raise BudgetExceeded


def _sort_by(items: Any, keys: Any) -> Any:
    if not is_list(items) or not is_list(keys):
        unsupported("@sortByAssociatedKeys", items)
    if len(items) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(items)} and {len(keys)} elements respectively"
        )
    if not keys:
        return items
    if not is_ordered(keys[0]):
        raise EvaluationError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    order = cmp_to_key(_order)
    return [item for _, item in sorted(zip(keys, items, strict=True), key=lambda pair: order(pair[0]))]


def _sort(items: Any) -> Any:
    return _sort_by(items, items) if is_list(items) else unsupported("sort", items)


def _flatten_any(items: Any, depth: Any = 1) -> list[Any]:
    if is_list(items) and type(depth) is int:
        return _flatten(items, depth)
    raise EvaluationError(f"no such overload: {type_of(items)}.flatten()")


def _range(count: int) -> list[int]:
    if count > _MOST_ITEMS:
        raise BudgetExceeded
    return [*range(count)]


def _distinct(items: Any) -> list[Any]:
    if all(type(item) is str for item in items):
        return [*dict.fromkeys(items)]
    found: list[Any] = []
    for item in items:
        if not any(_same(item, one) for one in found):
            found.append(item)
    return found


# -- declarations -----------------------------------------------------------------------------------------------------

_SUMMABLE: Final[dict[str, tuple[Type, Any]]] = {
    "int": (INT, 0),
    "uint": (UINT, Uint(0)),
    "double": (DOUBLE, 0.0),
    "duration": (DURATION, Duration(0)),
}
_COMPARABLE: Final[dict[str, Type]] = {
    "int": INT,
    "uint": UINT,
    "double": DOUBLE,
    "bool": BOOL,
    "duration": DURATION,
    "timestamp": TIMESTAMP,
    "string": STRING,
    "bytes": BYTES,
}
_A: Final = Param("A")
_T: Final = Param("T")
_ITEMS: Final = list_of(_T)


def _on_list(overload: str, *args: Type, result: Type) -> Overload:
    return Overload(overload, args, result, member=True)


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "isSorted": tuple(
        _on_list(f"list_{name}_is_sorted_bool", list_of(type_), result=BOOL) for name, type_ in _COMPARABLE.items()
    ),
    "sum": tuple(
        _on_list(f"list_{name}_sum_{name}", list_of(type_), result=type_) for name, (type_, _) in _SUMMABLE.items()
    ),
    "max": tuple(
        _on_list(f"list_{name}_max_{name}", list_of(type_), result=type_) for name, type_ in _COMPARABLE.items()
    ),
    "min": tuple(
        _on_list(f"list_{name}_min_{name}", list_of(type_), result=type_) for name, type_ in _COMPARABLE.items()
    ),
    "indexOf": (_on_list("list_a_index_of_int", list_of(_A), _A, result=INT),),
    "lastIndexOf": (_on_list("list_a_last_index_of_int", list_of(_A), _A, result=INT),),
    "slice": (_on_list("list_slice", _ITEMS, INT, INT, result=_ITEMS),),
    "flatten": (
        _on_list("list_flatten", list_of(_ITEMS), result=_ITEMS),
        _on_list("list_flatten_int", list_of(DYN), INT, result=list_of(DYN)),
    ),
    "sort": tuple(
        _on_list(f"list_{type_.name}_sort", list_of(type_), result=list_of(type_)) for type_ in _COMPARABLE.values()
    ),
    "@sortByAssociatedKeys": tuple(
        _on_list(f"list_{type_.name}_sortByAssociatedKeys", _ITEMS, list_of(type_), result=_ITEMS)
        for type_ in _COMPARABLE.values()
    ),
    "lists.range": (Overload("lists_range", (INT,), list_of(INT)),),
    "reverse": (_on_list("list_reverse", _ITEMS, result=_ITEMS),),
    "distinct": (_on_list("list_distinct", _ITEMS, result=_ITEMS),),
}

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    **{f"list_{name}_is_sorted_bool": _is_sorted for name in _COMPARABLE},
    **{f"list_{name}_sum_{name}": _summer(zero) for name, (_, zero) in _SUMMABLE.items()},
    **{f"list_{name}_max_{name}": _extreme("max", 1) for name in _COMPARABLE},
    **{f"list_{name}_min_{name}": _extreme("min", -1) for name in _COMPARABLE},
    "list_a_index_of_int": _index_of,
    "list_a_last_index_of_int": _last_index_of,
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    **{f"list_{type_.name}_sort": _sort for type_ in _COMPARABLE.values()},
    **{f"list_{type_.name}_sortByAssociatedKeys": _sort_by for type_ in _COMPARABLE.values()},
    "lists_range": _range,
    "list_reverse": lambda items: [*items][::-1],
    "list_distinct": _distinct,
}

GENERAL: Final[dict[str, Callable[..., Any]]] = {
    "sort": _sort,
    "@sortByAssociatedKeys": _sort_by,
    "flatten": _flatten_any,
}
"""Functions that take any list and look at it themselves."""
