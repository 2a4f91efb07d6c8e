"""Set operations on lists: `sets.contains`, `sets.intersects`, `sets.equivalent`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.cost.calls import CallCost, CallEstimator, CallSite
from kapi.schema.cel.cost.estimates import ONE
from kapi.schema.cel.cost.prices import Price, library_size
from kapi.schema.cel.library import Library
from kapi.schema.cel.run.operations import contains
from kapi.schema.cel.types import BOOL, Overload, Param, list_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _known(items: Any) -> Callable[[Any], bool]:
    """A membership test: by hash where all values are strings, else by comparison."""
    if all(type(item) is str for item in items):
        texts = frozenset(items)
        return lambda item: type(item) is str and item in texts
    return lambda item: contains(item, items)


def _contains(items: Any, part: Any) -> bool:
    return all(map(_known(items), part))


def _equivalent(left: Any, right: Any) -> bool:
    return _contains(left, right) and _contains(right, left)


def _intersects(left: Any, right: Any) -> bool:
    return any(map(_known(right), left))


_ITEMS: Final = list_of(Param("T"))

FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "sets.contains": (Overload("list_sets_contains_list", (_ITEMS, _ITEMS), BOOL),),
    "sets.equivalent": (Overload("list_sets_equivalent_list", (_ITEMS, _ITEMS), BOOL),),
    "sets.intersects": (Overload("list_sets_intersects_list", (_ITEMS, _ITEMS), BOOL),),
}

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    "list_sets_contains_list": _contains,
    "list_sets_equivalent_list": _equivalent,
    "list_sets_intersects_list": _intersects,
}


def _price(factor: int) -> Price:
    def price(args: Sequence[Any], result: Any) -> int:
        return 1 + library_size(args[0]) * library_size(args[1]) * factor

    return price


def _estimate(factor: float) -> CallEstimator:
    def estimate(site: CallSite) -> CallCost | None:
        if len(site.args) != 2:
            return None
        return CallCost(site.size(site.args[0]).times(site.size(site.args[1])).scaled(factor).plus(ONE))

    return estimate


LIBRARY: Final = Library(
    name="cel.lib.ext.sets",
    functions=FUNCTIONS,
    implementations=IMPLEMENTATIONS,
    prices={"sets.contains": _price(1), "sets.intersects": _price(1), "sets.equivalent": _price(2)},
    estimates={"sets.contains": _estimate(1), "sets.intersects": _estimate(1), "sets.equivalent": _estimate(2)},
    since=(1, 29),
)
