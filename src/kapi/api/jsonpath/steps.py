"""The steps a JSONPath is made of: each is a function from a list of values to the next list.

They are what `path` compiles a path to, and of no use without it. A step that does not fit its values raises
`Failed`; how much all steps of one search may touch is counted by an `Effort`. Pure.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Repeated descents and unions multiply. A value that is touched takes up to 1 µs; ordinary paths touch a few dozen.
MAX_TOUCHED: Final = 50_000
MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)


class JSONPathError(ValueError):
    """A path that cannot be read, in the words of kube-apiserver, or that does not fit the object it is tried on."""


class Failed(JSONPathError):
    """A step that does not fit its values. `partial` is what an existence test still counts as found."""

    def __init__(self, message: str, partial: list[Any]) -> None:
        super().__init__(message)
        self.partial = partial


class Effort:
    """The number of values that a search may still touch, or several searches that share it."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_TOUCHED

    def spend(self, count: int) -> None:
        """Account for that many values; raises JSONPathError when there were too many."""
        self.left -= count
        if self.left < 0:
            raise JSONPathError(f"the path touches more than {MAX_TOUCHED} values")


if TYPE_CHECKING:
    Step = Callable[[list[Any], Effort], list[Any]]


def run(steps: Sequence[Step], values: list[Any], effort: Effort) -> list[Any]:
    """One step after the other."""
    for step in steps:
        effort.spend(len(values) + 1)
        values = step(values, effort)
    return values


# -- selecting --------------------------------------------------------------------------------------------------------


class Field:
    """The values under a key; a class, so that a path of nothing else can be told."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, values: list[Any], _effort: Effort) -> list[Any]:
        """Objects without the key, and values that are no objects, lead to nothing."""
        name = self.name
        return [value[name] for value in values if isinstance(value, dict) and name in value]


def _children(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list):
        return value
    # A string is a row of bytes to kube-apiserver.
    return value.encode(errors="replace") if isinstance(value, str) else ()


def wildcard(values: list[Any], effort: Effort) -> list[Any]:
    """Everything directly below."""
    found: list[Any] = []
    for value in values:
        below = _children(value)
        effort.spend(len(below))
        found += below
    return found


def descent(values: list[Any], effort: Effort) -> list[Any]:
    """Every value that has something below it, outermost first."""
    found: list[Any] = []
    pending = values[::-1]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            found += [value] if value else []
            continue
        below = _children(value)
        if below:
            effort.spend(len(below))
            found.append(value)
            pending += below[::-1]
    return found


class Bound(NamedTuple):
    """One of the numbers between the colons; None when it was left out, derived when it follows from an index."""

    value: int | None
    is_derived: bool = False


def slices(start: Bound, end: Bound, step: Bound) -> Step:
    """Items by index. An index is the slice that begins there, so that -1 ends at the end of the list."""

    def select(values: list[Any], effort: Effort) -> list[Any]:
        found: list[Any] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise Failed("value is not array or slice", values)
            length = len(value)
            first, last = start.value or 0, length if end.value is None else end.value
            first += length if first < 0 else 0
            last += length if last < 0 or (last == 0 and end.is_derived) else 0
            if first == last:
                return found  # as kube-apiserver: an empty selection ends the search, not only this list
            _check_bounds(first, last, length, values)
            if step.value is not None and step.value <= 0:
                raise Failed("step must be > 0", values)
            chosen = value[first : last : step.value or 1]
            effort.spend(len(chosen))
            found += chosen
        return found

    return select


def _check_bounds(first: int, last: int, length: int, values: list[Any]) -> None:
    if not 0 <= first < length:
        raise Failed(f"array index out of bounds: index {first}, length {length}", values)
    if not 0 <= last <= length:
        raise Failed(f"array index out of bounds: index {last - 1}, length {length}", values)
    if first > last:
        raise Failed(f"starting index {first} is greater than ending index {last}", values)


def union(members: Sequence[Sequence[Step]]) -> Step:
    """Return the values that the members find, one after the other."""

    def gather(values: list[Any], effort: Effort) -> list[Any]:
        found: list[Any] = []
        for steps in members:
            try:
                found += run(steps, values, effort)
            except Failed as error:
                raise Failed(str(error), values) from None
        return found

    return gather


# -- constants --------------------------------------------------------------------------------------------------------


def text(value: str) -> Step:
    """A text in place of whatever was found."""
    return lambda _values, _effort: [value]


def constant(value: float) -> Step:
    """A number or a truth value in place of each value that was found."""
    return lambda values, _effort: [value] * len(values)


def identifier(name: str) -> Step:
    """A word where a step should be. Loops (`range` to `end`) are for templates; a path finds nothing in them."""

    def fail(values: list[Any], _effort: Effort) -> list[Any]:
        if name == "range":
            raise JSONPathError("a path cannot hold a range")
        if name == "end":
            raise Failed("not in range, nothing to end", [])
        raise Failed(f"unrecognized identifier {name}", values)

    return fail


# -- filters ----------------------------------------------------------------------------------------------------------


def exists(left: Sequence[Step]) -> Step:
    """The items in which a path finds something. One that does not fit counts as found, oddly, as in kube-apiserver."""

    def passes(item: Any, effort: Effort) -> bool:
        try:
            return bool(run(left, [item], effort))
        except Failed as error:
            return bool(error.partial)

    def select(values: list[Any], effort: Effort) -> list[Any]:
        return [item for value in values for item in _items(value, values) if passes(item, effort)]

    return select


def comparison(left: Sequence[Step], right: Sequence[Step], sign: str) -> Step:
    """The items in which two paths lead to values that compare. Items that lack one of them are left out."""
    compare = _COMPARISONS.get(sign)

    def select(values: list[Any], effort: Effort) -> list[Any]:
        found: list[Any] = []
        for value in values:
            for item in _items(value, values):
                one = _single(left, item, values, effort)
                other = _single(right, item, values, effort) if one else []
                if not one or not other:
                    continue
                if compare is None:
                    raise Failed(f"unrecognized filter operator {sign}", found)
                _check_comparable(one[0], other[0], found, is_order=sign not in ("==", "!="))
                if compare(one[0], other[0]):
                    found.append(item)
        return found

    return select


_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _items(value: Any, values: list[Any]) -> list[Any]:
    if not isinstance(value, list):
        raise Failed("value is not array or slice and cannot be filtered", values)
    return value


def _single(steps: Sequence[Step], item: Any, values: list[Any], effort: Effort) -> list[Any]:
    """One value or none."""
    try:
        found = run(steps, [item], effort)
    except Failed as error:
        raise Failed(str(error), values) from None
    if len(found) > 1:
        raise Failed("can only compare one element at a time", values)
    return found


def _check_comparable(one: Any, other: Any, found: list[Any], *, is_order: bool) -> None:
    """Only values of one type are comparable: an integer is not even unequal to a float."""
    kinds = _scalar_kind(one), _scalar_kind(other)
    if None in kinds:
        raise Failed("invalid type for comparison", found)
    if kinds[0] is not kinds[1]:
        raise Failed("incompatible types for comparison", found)
    if is_order and kinds[0] is bool:
        raise Failed("invalid type for comparison", found)


def _scalar_kind(value: Any) -> type | None:
    kind = type(value)
    if kind is int:
        # Beyond 64 bits a number is a fraction to kube-apiserver.
        return int if MIN_INT64 <= value <= MAX_INT64 else float
    return kind if kind in (str, bool, float) else None
