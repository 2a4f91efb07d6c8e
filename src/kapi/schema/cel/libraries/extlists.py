"""The list functions of cel-go's extension: `slice`, `flatten`, `sort`, `sortBy`, `range`, `reverse`, `distinct`."""

from __future__ import annotations

from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.cost.calls import CallCost, CallEstimator, CallSite, Operand
from kapi.schema.cel.cost.estimates import LARGEST, ONE, Estimate, exactly, wrapped
from kapi.schema.cel.cost.prices import LIST_CREATION, TEXT_FACTOR, Price, library_size
from kapi.schema.cel.libraries.lists import COMPARABLE, is_same, on_list, order_of
from kapi.schema.cel.library import Library
from kapi.schema.cel.run.code import BudgetExceeded
from kapi.schema.cel.run.operations import unsupported
from kapi.schema.cel.types import DYN, INT, Overload, Param, list_of
from kapi.schema.cel.values import EvaluationError, is_list, is_ordered, type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MOST_ITEMS: Final = 10_000_000
"""More than any budget pays for."""


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
    order = cmp_to_key(order_of)
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
        if not any(is_same(item, one) for one in found):
            found.append(item)
    return found


_ITEMS: Final = list_of(Param("T"))

FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "slice": (on_list("list_slice", _ITEMS, INT, INT, result=_ITEMS),),
    "flatten": (
        on_list("list_flatten", list_of(_ITEMS), result=_ITEMS),
        on_list("list_flatten_int", list_of(DYN), INT, result=list_of(DYN)),
    ),
    "sort": tuple(
        on_list(f"list_{type_.name}_sort", list_of(type_), result=list_of(type_)) for type_ in COMPARABLE.values()
    ),
    "@sortByAssociatedKeys": tuple(
        on_list(f"list_{type_.name}_sortByAssociatedKeys", _ITEMS, list_of(type_), result=_ITEMS)
        for type_ in COMPARABLE.values()
    ),
    "lists.range": (Overload("lists_range", (INT,), list_of(INT)),),
    "reverse": (on_list("list_reverse", _ITEMS, result=_ITEMS),),
    "distinct": (on_list("list_distinct", _ITEMS, result=_ITEMS),),
}

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    **{f"list_{type_.name}_sort": _sort for type_ in COMPARABLE.values()},
    **{f"list_{type_.name}_sortByAssociatedKeys": _sort_by for type_ in COMPARABLE.values()},
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


# -- what calls cost --------------------------------------------------------------------------------------------------


def _new_list_price(factor: float, size: int) -> int:
    return int(size * factor) + 1 + LIST_CREATION


def _price_result(args: Sequence[Any], result: Any) -> int:
    return _new_list_price(1, library_size(result))


def _price_flatten(args: Sequence[Any], result: Any) -> int:
    depth = args[1] if len(args) > 1 and isinstance(args[1], int) else 1
    return _new_list_price(float(depth), library_size(args[0]))


def _price_pairs(place: int) -> Price:
    """The price of comparing all pairs of a list: sorting and finding duplicates are counted as that."""

    def price(args: Sequence[Any], result: Any) -> int:
        items = args[place]
        if not is_list(items) or not items:
            return _new_list_price(2.0, 0)
        factor = 2.0 + (TEXT_FACTOR if isinstance(items[0], (str, bytes)) else 0)
        return _new_list_price(factor, len(items) ** 2)

    return price


# -- what calls may cost at most --------------------------------------------------------------------------------------

_CREATION: Final = exactly(LIST_CREATION)


def _new_list(factor: float, size: Estimate) -> CallCost:
    return CallCost(size.scaled(factor).plus(ONE).plus(_CREATION), size)


def _estimate_slice(site: CallSite) -> CallCost | None:
    if site.target is None or len(site.args) != 2:
        return None
    end = _whole(site.args[1], site.size(site.target).max)
    return _new_list(1, exactly(wrapped(end - _whole(site.args[0], 0))))


def _estimate_flatten(site: CallSite) -> CallCost | None:
    if site.target is None:
        return None
    depth = _whole(site.args[0], LARGEST) if site.args else 1
    return _new_list(float(depth), site.size(site.target))


def _estimate_range(site: CallSite) -> CallCost | None:
    return _new_list(1, exactly(_whole(site.args[0], LARGEST))) if site.target is None else None


def _estimate_reverse(site: CallSite) -> CallCost | None:
    return _new_list(1, site.size(site.target)) if site.target else None


def _whole(operand: Operand, otherwise: int) -> int:
    """The number that an argument is written as, if it is one."""
    written = operand.written_int
    return otherwise if written is None else max(written, 0)


def _estimate_pairs(operand: Callable[[CallSite], Operand | None], factor: float) -> CallEstimator:
    def estimate(site: CallSite) -> CallCost | None:
        of = operand(site)
        if of is None:
            return None
        size = site.size(of)
        return _new_list(factor, size.times(size))

    return estimate


def _target(site: CallSite) -> Operand | None:
    return site.target


def _first(site: CallSite) -> Operand | None:
    return site.args[0] if site.target and site.args else None


def _sort_estimates() -> dict[str, CallEstimator]:
    estimates = {}
    for type_ in COMPARABLE.values():
        factor = 2 + TEXT_FACTOR if type_.name in ("string", "bytes") else 2.0
        estimates[f"list_{type_.name}_sort"] = _estimate_pairs(_target, factor)
        estimates[f"list_{type_.name}_sortByAssociatedKeys"] = _estimate_pairs(_first, factor)
    return estimates


LIBRARY: Final = Library(
    name="cel.lib.ext.lists",
    functions=FUNCTIONS,
    implementations=IMPLEMENTATIONS,
    general=GENERAL,
    prices={
        **dict.fromkeys(("list_slice", "lists_range", "list_reverse"), _price_result),
        **dict.fromkeys(("list_flatten", "list_flatten_int"), _price_flatten),
        "list_distinct": _price_pairs(0),
        **{f"list_{type_.name}_sort": _price_pairs(0) for type_ in COMPARABLE.values()},
        **{f"list_{type_.name}_sortByAssociatedKeys": _price_pairs(1) for type_ in COMPARABLE.values()},
    },
    estimates={
        "list_slice": _estimate_slice,
        "list_flatten": _estimate_flatten,
        "list_flatten_int": _estimate_flatten,
        "lists_range": _estimate_range,
        "list_reverse": _estimate_reverse,
        "list_distinct": _estimate_pairs(_target, 2.0),
        **_sort_estimates(),
    },
    since=(1, 34),
)
