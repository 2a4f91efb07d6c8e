"""The standard functions by overload: arithmetic, order, strings, sizes, membership, the parts of a time.

`IMPLEMENTATIONS` is for calls whose overload is known and whose arguments have the types it says; these do not look at
types again. `BY_FUNCTION` is for operators on values whose types are only known at run time, and looks.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kapi.schema.cel.run.conversions import CONVERSIONS
from kapi.schema.cel.run.optionals import INSERTIONS, OPTIONALS
from kapi.schema.cel.run.patterns import matches
from kapi.schema.cel.times import between, checked_duration, earlier, later, reader
from kapi.schema.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    Concat,
    Duration,
    EvaluationError,
    MapList,
    SetList,
    Timestamp,
    Uint,
    compare,
    equal,
    find,
    is_list,
    is_ordered,
    no_such_overload,
    type_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.schema.cel.types import Type

# -- numbers ----------------------------------------------------------------------------------------------------------


def _signed(value: int) -> int:
    if MIN_INT <= value <= MAX_INT:
        return value
    raise EvaluationError("integer overflow")


def _unsigned(value: int) -> Uint:
    if 0 <= value <= MAX_UINT:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def _add_int(left: int, right: int) -> int:
    value = left + right
    return value if MIN_INT <= value <= MAX_INT else _signed(value)


def _subtract_int(left: int, right: int) -> int:
    value = left - right
    return value if MIN_INT <= value <= MAX_INT else _signed(value)


def _multiply_int(left: int, right: int) -> int:
    return _signed(left * right)


def _quotient(left: int, right: int) -> int:
    """Division that rounds towards 0; Python's rounds down."""
    if right == 0:
        raise EvaluationError("division by zero")
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _remainder(left: int, right: int) -> int:
    """The remainder with the sign of the left side; Python's has that of the right."""
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == MIN_INT and right == -1:
        raise EvaluationError("integer overflow")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _divide_double(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add_int64": _add_int,
    "add_uint64": lambda left, right: _unsigned(left + right),
    "add_double": operator.add,
    "add_string": operator.add,
    "add_bytes": operator.add,
    "add_duration_duration": lambda left, right: checked_duration(left.nanos + right.nanos),
    "add_duration_timestamp": lambda left, right: later(right, left),
    "add_timestamp_duration": later,
    "subtract_int64": _subtract_int,
    "subtract_uint64": lambda left, right: _unsigned(left - right),
    "subtract_double": operator.sub,
    "subtract_duration_duration": lambda left, right: checked_duration(left.nanos - right.nanos),
    "subtract_timestamp_duration": earlier,
    "subtract_timestamp_timestamp": between,
    "multiply_int64": _multiply_int,
    "multiply_uint64": lambda left, right: _unsigned(left * right),
    "multiply_double": operator.mul,
    "divide_int64": lambda left, right: _signed(_quotient(left, right)),
    "divide_uint64": lambda left, right: Uint(_quotient(left, right)),
    "divide_double": _divide_double,
    "modulo_int64": _remainder,
    "modulo_uint64": lambda left, right: Uint(_remainder(left, right)),
}


def _negate(value: Any) -> Any:
    if type(value) is int:
        return _signed(-value)
    if type(value) is float:
        return -value
    if isinstance(value, Duration):
        return checked_duration(-value.nanos)
    return no_such_overload() if type(value) is bool else unsupported("-_", value)


def unsupported(function: str, value: Any) -> NoReturn:
    """Raise the error of a function on a value of a wrong type; for some types it does not name the function."""
    if isinstance(value, (str, Timestamp, Duration)):
        no_such_overload()
    raise EvaluationError(f"no such overload: {function}")


# -- lists and maps ---------------------------------------------------------------------------------------------------

_LONG: Final = 1000


def add_lists(left: Any, right: Any) -> Any:
    """`+` of two lists. Long ones are not copied, or adding in a loop would take memory that no budget counts."""
    if isinstance(left, SetList):
        return _union(left, right)
    if isinstance(left, MapList):
        return _merge(left, right)
    if len(left) + len(right) > _LONG:
        return Concat(left, right)
    return [*left, *right]


def _union(left: SetList, right: Any) -> SetList:
    result = SetList(left)
    seen = {(type(item), item) for item in left}
    for item in right:
        if (type(item), item) not in seen:
            seen.add((type(item), item))
            result.append(item)
    return result


def _merge(left: MapList, right: Any) -> MapList:
    result = MapList(left, left.keys)
    places = {left.key_of(item): place for place, item in enumerate(left)}
    for item in right:
        place = places.get(left.key_of(item))
        if place is None:
            result.append(item)
        else:
            result[place] = item
    return result


def contains(item: Any, items: Any) -> bool:
    """`item in list`."""
    return any(equal(one, item) for one in items)


def has_key(key: Any, entries: dict[Any, Any]) -> bool:
    """`key in map`."""
    return find(entries, key)[0]


def _member(item: Any, container: Any) -> bool:
    if is_list(container):
        return contains(item, container)
    return has_key(item, container) if isinstance(container, dict) else no_such_overload()


def _size(value: Any) -> int:
    if isinstance(value, (str, bytes, dict)) or is_list(value):
        return len(value)
    return unsupported("size", value)


# -- strings ----------------------------------------------------------------------------------------------------------


def _string_test(test: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def checked(text: Any, part: Any) -> bool:
        return test(text, part) if isinstance(text, str) and isinstance(part, str) else no_such_overload()

    return checked


# -- times ------------------------------------------------------------------------------------------------------------

_CLOCK: Final = {
    "year": reader(lambda clock: clock.year),
    "month": reader(lambda clock: clock.month - 1),
    "day_of_year": reader(lambda clock: clock.day_of_year),
    "day_of_month": reader(lambda clock: clock.day - 1),
    "day_of_month_1_based": reader(lambda clock: clock.day),
    "day_of_week": reader(lambda clock: clock.weekday),
    "hours": reader(lambda clock: clock.hour),
    "minutes": reader(lambda clock: clock.minute),
    "seconds": reader(lambda clock: clock.second),
    "milliseconds": reader(lambda clock: clock.nanos // 10**6),
}
_ZONED: Final = {"seconds": "timestamp_to_seconds_tz"}


def _whole(unit: int) -> Callable[[Duration], int]:
    return lambda span: _quotient(span.nanos, unit)


_TIMES: Final[dict[str, Callable[..., Any]]] = {
    **{f"timestamp_to_{part}": plain for part, (plain, _) in _CLOCK.items()},
    **{_ZONED.get(part, f"timestamp_to_{part}_with_tz"): zoned for part, (_, zoned) in _CLOCK.items()},
    "duration_to_hours": _whole(3600 * 10**9),
    "duration_to_minutes": _whole(60 * 10**9),
    "duration_to_seconds": _whole(10**9),
    "duration_to_milliseconds": _whole(10**6),
}

# -- order ------------------------------------------------------------------------------------------------------------

_TESTS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "less": operator.lt,
    "less_equals": operator.le,
    "greater": operator.gt,
    "greater_equals": operator.ge,
}
_NAMES: Final = {"less": "_<_", "less_equals": "_<=_", "greater": "_>_", "greater_equals": "_>=_"}
_EXACT: Final = ("bool", "int64", "uint64", "string", "bytes", "timestamp", "duration", "int64_uint64", "uint64_int64")
_ROUNDED: Final = ("double", "int64_double", "uint64_double", "double_int64", "double_uint64")


def _ordering(test: Callable[[Any, Any], bool], function: str) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        if not is_ordered(left):
            unsupported(function, left)
        return test(compare(left, right), 0)

    return ordered


def _order_overloads() -> dict[str, Callable[[Any, Any], bool]]:
    found: dict[str, Callable[[Any, Any], bool]] = {}
    for order, test in _TESTS.items():
        found.update({f"{order}_{kind}": test for kind in _EXACT})
        # Floats go the long way: NaN has no order, and whole numbers become floats first.
        found.update({f"{order}_{kind}": _ordering(test, _NAMES[order]) for kind in _ROUNDED})
    return found


# -- by runtime types -------------------------------------------------------------------------------------------------

_SHORT: Final = {
    int: "int64",
    Uint: "uint64",
    float: "double",
    str: "string",
    bytes: "bytes",
    Duration: "duration",
    Timestamp: "timestamp",
}
_TIMED: Final = frozenset({Duration, Timestamp})


def _arithmetic(verb: str, function: str, kinds: frozenset[type]) -> Callable[[Any, Any], Any]:
    def compute(left: Any, right: Any) -> Any:
        kind = type(left)
        if verb == "add" and is_list(left):
            return add_lists(left, right) if is_list(right) else no_such_overload()
        if kind not in kinds:
            return unsupported(function, left)
        name = _SHORT[kind]
        other = f"_{_SHORT.get(type(right))}" if kind in _TIMED else ""
        if kind is not type(right) and not other:
            return no_such_overload()
        found = _ARITHMETIC.get(f"{verb}_{name}{other}")
        return found(left, right) if found else no_such_overload()

    return compute


_NUMERIC: Final = frozenset({int, Uint, float})


def _type_value(value: Any) -> Type:
    return type_of(value)


def _not(value: Any) -> bool:
    return not value if isinstance(value, bool) else no_such_overload()


def _matches_any(text: Any, pattern: Any) -> bool:
    if not isinstance(text, str):
        return unsupported("matches", text)
    return matches(text, pattern) if isinstance(pattern, str) else no_such_overload()


BY_FUNCTION: Final[dict[str, Callable[..., Any]]] = {
    "_+_": _arithmetic("add", "_+_", frozenset(_SHORT)),
    "_-_": _arithmetic("subtract", "_-_", _NUMERIC | _TIMED),
    "_*_": _arithmetic("multiply", "_*_", _NUMERIC),
    "_/_": _arithmetic("divide", "_/_", _NUMERIC),
    "_%_": _arithmetic("modulo", "_%_", _NUMERIC - {float}),
    "-_": _negate,
    "!_": _not,
    "@in": _member,
    "size": _size,
    "type": _type_value,
    "dyn": lambda value: value,
    "matches": _matches_any,
    "contains": _string_test(operator.contains),
    "startsWith": _string_test(str.startswith),
    "endsWith": _string_test(str.endswith),
    **{_NAMES[order]: _ordering(test, _NAMES[order]) for order, test in _TESTS.items()},
}
"""Functions with one meaning for all types, which look at their arguments themselves."""

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    **_ARITHMETIC,
    **_order_overloads(),
    **CONVERSIONS,
    **_TIMES,
    **OPTIONALS,
    **INSERTIONS,
    "add_list": add_lists,
    "negate_int64": lambda value: _signed(-value),
    "negate_double": operator.neg,
    "logical_not": operator.not_,
    "in_list": contains,
    "in_map": has_key,
    "to_dyn": lambda value: value,
    "type": _type_value,
    "matches": matches,
    "matches_string": matches,
    "contains_string": operator.contains,
    "starts_with_string": str.startswith,
    "ends_with_string": str.endswith,
    **dict.fromkeys(("size_string", "size_bytes", "size_list", "size_map"), len),
    **dict.fromkeys(("string_size", "bytes_size", "list_size", "map_size"), len),
}
