"""The values of expressions at run time: their equality, order, types, sizes and texts.

JSON values are used as they are, without wrapping: int, float, str, bool, None, list and dict mean what they mean in
JSON. The types that JSON lacks are here: unsigned integers, timestamps, durations, optional values, constructed
objects, and lists of type set and map, which the caller makes.

Python calls `True` and `1` equal and expressions do not, so nothing here compares with `==` before the types are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from kapi.api.go.text import plain_float, short_float
from kapi.schema.cel.types import BOOL, BYTES, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, UINT, Object, Type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1
SECOND: Final = 10**9
FIRST_SECOND: Final = -62135596800
"""The first second of the year 1, since the epoch."""
LAST_SECOND: Final = 253402300799
"""The last second of the year 9999, since the epoch."""


class EvaluationError(Exception):
    """An expression has no value; the text is the one that users read. `cost` is what was spent until then."""

    cost: int = 0

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Uint(int):
    """An unsigned integer of 64 bits. Arithmetic of Python makes an int of it: wrap the result again."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A duration in nanoseconds, within 64 bits."""

    nanos: int

    def __str__(self) -> str:
        return f"{plain_float(seconds_of(self.nanos))}s"


@dataclass(frozen=True, slots=True, eq=False)
class Timestamp:
    """A timestamp in nanoseconds since the epoch, in the years 1 to 9999, with its UTC offset in seconds.

    Timestamps are compared without their offset, which only shows in text.
    """

    nanos: int
    offset: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Timestamp) -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: Timestamp) -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: Timestamp) -> bool:
        return self.nanos >= other.nanos


@dataclass(frozen=True, slots=True, eq=False)
class Optional:
    """A value that may be absent. `NONE` is the one that is."""

    value: Any = None
    present: bool = True


NONE: Final = Optional(present=False)


class SetList(list[Any]):
    """A list of distinct scalars without an order: `+` adds what is missing."""


class MapList(list[Any]):
    """A list of objects identified by `keys`, without an order: `+` replaces by key and appends the rest."""

    def __init__(self, items: Iterable[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def key_of(self, item: Any) -> tuple[Any, ...]:
        """The key of an item; numbers and booleans are kept apart."""
        if type(item) is not dict:
            raise EvaluationError("no such overload")
        return tuple((type(value), value) for value in map(item.get, self.keys))


class Concat(Sequence[Any]):
    """Two lists, one after the other, without copying either. Nested ones are walked in a loop, not by recursion."""

    __slots__ = ("_left", "_length", "_right")

    def __init__(self, left: Sequence[Any], right: Sequence[Any]) -> None:
        self._left = left
        self._right = right
        self._length = len(left) + len(right)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [*self][place]
        part: Sequence[Any] = self
        while isinstance(part, Concat):
            skipped = len(part._left)  # noqa: SLF001 - of the same class
            part, place = (part._left, place) if place < skipped else (part._right, place - skipped)  # noqa: SLF001
        return part[place]

    def __iter__(self) -> Iterator[Any]:
        rest: list[Sequence[Any]] = [self]
        while rest:
            part = rest.pop()
            if isinstance(part, Concat):
                rest += (part._right, part._left)  # noqa: SLF001
            else:
                yield from part


class Opaque:
    """A value of a library, such as an address. Comparing it with a value of another type is an error, not false."""

    __slots__ = ()
    cel_type: ClassVar[Type]

    @property
    def size(self) -> int:
        """The size of this in costs."""
        return 1

    def same(self, other: Any) -> bool:
        """Return True if this equals another of the same class."""
        return bool(self == other)


@dataclass(frozen=True, slots=True, eq=False)
class Constructed:
    """An object that an expression constructed. Fields that were not given are absent."""

    type: Object
    fields: dict[str, Any]

    def same(self, other: Constructed) -> bool:
        """Return True if both are of one type and have equal fields."""
        return self.type.name == other.type.name and _equal_maps(self.fields, other.fields)


LIST_TYPE: Final = Type("list")
MAP_TYPE: Final = Type("map")
TYPE_TYPE: Final = Type("type")
OPTIONAL_TYPE: Final = Type("optional_type")

_TYPES: Final[dict[type, Type]] = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
    list: LIST_TYPE,
    SetList: LIST_TYPE,
    MapList: LIST_TYPE,
    Concat: LIST_TYPE,
    dict: MAP_TYPE,
    Timestamp: TIMESTAMP,
    Duration: DURATION,
    Optional: OPTIONAL_TYPE,
    Type: TYPE_TYPE,
}
_LISTS: Final = frozenset({list, SetList, MapList, Concat})
_NUMBERS: Final = frozenset({int, Uint, float})
_SIZED: Final = frozenset({str, bytes, dict, *_LISTS})
# Same Python type on both sides, and Python's equality is the right one.
_PLAIN: Final = frozenset({str, int, bool, bytes, Uint, float, Duration, Timestamp})


def type_of(value: Any) -> Type:
    """The type of a value at run time; lists and maps without those of their elements."""
    found = _TYPES.get(type(value))
    if found is not None:
        return found
    if isinstance(value, Constructed):
        return Type(value.type.name)
    assert isinstance(value, Opaque)
    return value.cel_type


def is_list(value: Any) -> bool:
    """Return True if a value is a list of any kind."""
    return type(value) in _LISTS


def no_such_overload() -> NoReturn:
    """Raise the error of an operation on values of wrong types."""
    raise EvaluationError("no such overload")


# -- equality ---------------------------------------------------------------------------------------------------------


def equal(left: Any, right: Any) -> bool:
    """Return True if two values are equal: numbers by amount whatever their types, other values only within a type.

    Not quite symmetric, as in cel-go: a set or map list on the left ignores order, and a library value on the
    left refuses other types.
    """
    kind = type(left)
    if kind is type(right) and kind in _PLAIN:
        return bool(left == right)
    if kind in _NUMBERS:
        return type(right) in _NUMBERS and compare_numbers(left, right) == 0
    if left is None or right is None:
        return left is right
    if kind is dict:
        return type(right) is dict and _equal_maps(left, right)
    if kind in _LISTS:
        return type(right) in _LISTS and len(left) == len(right) and _equal_lists(left, right)
    if isinstance(left, Optional):
        return isinstance(right, Optional) and _equal_optionals(left, right)
    if isinstance(left, Type):
        return isinstance(right, Type) and left.name == right.name
    if isinstance(left, Opaque):
        return left.same(right) if kind is type(right) else no_such_overload()
    return isinstance(left, Constructed) and isinstance(right, Constructed) and left.same(right)


def _equal_maps(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.items():
        found, other = find(right, key)
        if not found or not equal(value, other):
            return False
    return True


def _equal_lists(left: Sequence[Any], right: Sequence[Any]) -> bool:
    if isinstance(left, SetList):
        members = {(type(item), item) for item in left}
        return all((type(item), item) in members for item in right)
    if isinstance(left, MapList):
        items = {left.key_of(item): item for item in left}
        return all(_equal_entry(items, left.key_of(item), item) for item in right)
    return all(map(equal, left, right))


def _equal_entry(items: dict[tuple[Any, ...], Any], key: tuple[Any, ...], item: Any) -> bool:
    return key in items and equal(items[key], item)


def _equal_optionals(left: Optional, right: Optional) -> bool:
    if not left.present or not right.present:
        return left.present == right.present
    return equal(left.value, right.value)


def find(entries: dict[Any, Any], key: Any) -> tuple[bool, Any]:
    """An entry of a map, if it is there. `true` does not find `1`."""
    try:
        value = entries[key]
    except (KeyError, TypeError):
        return False, None
    if type(key) is not str and (type(key) is bool) != (type(next(iter(entries))) is bool):
        return False, None
    return True, value


# -- order ------------------------------------------------------------------------------------------------------------


def compare_numbers(left: Any, right: Any) -> int:
    """Negative, zero or positive. Against a float both become floats, once they are in range, as cel-go does."""
    if type(left) is not type(right) and (type(left) is float or type(right) is float):
        low, high = _bounds(left if type(right) is float else right)
        number = left if type(left) is float else right
        if number != number:  # noqa: PLR0124 - only NaN differs from itself
            return 1
        if low <= number <= high:
            left, right = float(left), float(right)
    return (left > right) - (left < right) if left == left else 1  # noqa: PLR0124


def _bounds(whole: int) -> tuple[float, float]:
    return (0.0, float(MAX_UINT)) if type(whole) is Uint else (float(MIN_INT), float(MAX_INT))


def compare(left: Any, right: Any) -> int:
    """Negative, zero or positive; raises for values that have no order between them."""
    kind = type(left)
    if kind in _NUMBERS and type(right) in _NUMBERS:
        if left != left or right != right:  # noqa: PLR0124
            raise EvaluationError("NaN values cannot be ordered")
        return compare_numbers(left, right)
    if kind is type(right) and kind in _PLAIN:
        return int(left > right) - int(left < right)
    return no_such_overload()


def is_ordered(value: Any) -> bool:
    """Return True if values of this type have an order at all."""
    return type(value) in _PLAIN


# -- size, zero, text -------------------------------------------------------------------------------------------------


def size_of(value: Any) -> int:
    """The size of a value in costs: characters, bytes, items or entries; 1 for anything else, errors too."""
    if type(value) in _SIZED:
        return len(value)
    if isinstance(value, Optional) and value.present:
        return size_of(value.value)
    return value.size if isinstance(value, Opaque) else 1


def is_zero(value: Any) -> bool:
    """Return True if a value is the zero of its type: empty, false, null, 0."""
    if isinstance(value, Timestamp):
        return value.nanos == FIRST_SECOND * SECOND
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, Constructed):
        return not value.fields
    return type(value) in _TYPES and not isinstance(value, (Optional, Type)) and not value


def seconds_of(nanos: int) -> float:
    """The seconds of a duration, as Go computes them: whole seconds plus the rest, so that rounding is the same."""
    whole, rest = divmod(abs(nanos), SECOND)
    seconds = whole + rest / 1e9
    return -seconds if nanos < 0 else seconds


def show(value: Any) -> str:
    """A value inside an error message."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return short_float(value)
    if type(value) in _LISTS:
        return f"[{', '.join(map(show, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{show(key)}: {show(item)}' for key, item in value.items())}}}"
    if isinstance(value, Optional):
        return f"optional({show(value.value)})" if value.present else "optional.none()"
    if isinstance(value, Constructed):
        return f"{value.type.name}{show(value.fields)}"
    return "null" if value is None else str(value)
