"""The list functions of Kubernetes: `sum`, `min`, `max`, `isSorted`, `indexOf`, `lastIndexOf`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.cost.calls import traverse
from kapi.schema.cel.cost.prices import traversal_price
from kapi.schema.cel.library import Library
from kapi.schema.cel.run.operations import BY_FUNCTION
from kapi.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
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
    is_ordered,
    no_such_overload,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def _is_sorted(items: Any) -> bool:
    previous = None
    for place, item in enumerate(items):
        if not is_ordered(item):
            no_such_overload()
        # What has no order among themselves, such as NaN, does not make a list unsorted.
        if place and order_of(previous, item) > 0:
            return False
        previous = item
    return True


def order_of(left: Any, right: Any) -> int:
    """Negative, zero or positive; zero also for values that have no order between them."""
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
            if not place or order_of(item, best) * sign > 0:
                best = item
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        return best

    return extreme


def _index_of(items: Any, wanted: Any) -> int:
    return next((place for place, item in enumerate(items) if is_same(item, wanted)), -1)


def _last_index_of(items: Any, wanted: Any) -> int:
    return next((place for place in range(len(items) - 1, -1, -1) if is_same(items[place], wanted)), -1)


def is_same(left: Any, right: Any) -> bool:
    """Return True if two values are equal; values that cannot be compared are not."""
    try:
        return equal(left, right)
    except EvaluationError:
        return False


_SUMMABLE: Final[dict[str, tuple[Type, Any]]] = {
    "int": (INT, 0),
    "uint": (UINT, Uint(0)),
    "double": (DOUBLE, 0.0),
    "duration": (DURATION, Duration(0)),
}
COMPARABLE: Final[dict[str, Type]] = {
    "int": INT,
    "uint": UINT,
    "double": DOUBLE,
    "bool": BOOL,
    "duration": DURATION,
    "timestamp": TIMESTAMP,
    "string": STRING,
    "bytes": BYTES,
}
"""Types whose values have an order, by the names that overload ids have for them."""
_A: Final = Param("A")


def on_list(overload: str, *args: Type, result: Type) -> Overload:
    """A member function of lists."""
    return Overload(overload, args, result, member=True)


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "isSorted": tuple(
        on_list(f"list_{name}_is_sorted_bool", list_of(type_), result=BOOL) for name, type_ in COMPARABLE.items()
    ),
    "sum": tuple(
        on_list(f"list_{name}_sum_{name}", list_of(type_), result=type_) for name, (type_, _) in _SUMMABLE.items()
    ),
    "max": tuple(
        on_list(f"list_{name}_max_{name}", list_of(type_), result=type_) for name, type_ in COMPARABLE.items()
    ),
    "min": tuple(
        on_list(f"list_{name}_min_{name}", list_of(type_), result=type_) for name, type_ in COMPARABLE.items()
    ),
    "indexOf": (on_list("list_a_index_of_int", list_of(_A), _A, result=INT),),
    "lastIndexOf": (on_list("list_a_last_index_of_int", list_of(_A), _A, result=INT),),
}

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    **{f"list_{name}_is_sorted_bool": _is_sorted for name in COMPARABLE},
    **{f"list_{name}_sum_{name}": _summer(zero) for name, (_, zero) in _SUMMABLE.items()},
    **{f"list_{name}_max_{name}": _extreme("max", 1) for name in COMPARABLE},
    **{f"list_{name}_min_{name}": _extreme("min", -1) for name in COMPARABLE},
    "list_a_index_of_int": _index_of,
    "list_a_last_index_of_int": _last_index_of,
}

LIBRARY: Final = Library(
    name="kubernetes.lists",
    functions=FUNCTIONS,
    implementations=IMPLEMENTATIONS,
    prices=dict.fromkeys(FUNCTIONS, traversal_price),
    estimates=dict.fromkeys(FUNCTIONS, traverse),
)
