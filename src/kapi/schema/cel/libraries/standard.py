"""The standard functions: operators, conversions, times, strings and optional values.

Here are the signatures; implementations are in `run.operations`, costs in `cost`, both by overload id. These ids and
the order of the overloads are those of cel-go, since prices and results are looked up by them.
"""

from __future__ import annotations

from typing import Final

from kapi.schema.cel.cost.calls import STANDARD_ESTIMATES
from kapi.schema.cel.cost.prices import STANDARD_PRICES
from kapi.schema.cel.library import Library
from kapi.schema.cel.run.operations import BY_FUNCTION, IMPLEMENTATIONS
from kapi.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    OPTIONAL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Overload,
    Param,
    Type,
    list_of,
    map_of,
    optional_of,
    type_of,
)

_A, _B, _K, _V = Param("A"), Param("B"), Param("K"), Param("V")
_LIST, _MAP = list_of(_A), map_of(_A, _B)
_VALUES, _ENTRIES = list_of(_V), map_of(_K, _V)
_IDS: Final = {
    BOOL: "bool",
    INT: "int64",
    UINT: "uint64",
    DOUBLE: "double",
    STRING: "string",
    BYTES: "bytes",
    TIMESTAMP: "timestamp",
    DURATION: "duration",
}
"""The names of types in overload ids."""


def _plain(overload: str, args: tuple[Type, ...], result: Type) -> Overload:
    return Overload(overload, args, result)


def _member(overload: str, args: tuple[Type, ...], result: Type) -> Overload:
    return Overload(overload, args, result, member=True)


def _same(name: str, *types: Type) -> tuple[Overload, ...]:
    """An operator on two values of one type that gives a value of that type."""
    return tuple(_plain(f"{name}_{_IDS[one]}", (one, one), one) for one in types)


def _comparison(name: str) -> tuple[Overload, ...]:
    """An order: within each type, and between numbers of different types."""
    numbers = (INT, UINT, DOUBLE)
    others = {INT: (DOUBLE, UINT), UINT: (DOUBLE, INT), DOUBLE: (INT, UINT)}
    pairs = [(BOOL, BOOL)]
    for one in numbers:
        pairs += [(one, one), *((one, other) for other in others[one])]
    pairs += [(one, one) for one in (STRING, BYTES, TIMESTAMP, DURATION)]
    return tuple(
        _plain(f"{name}_{_IDS[left]}" + ("" if left is right else f"_{_IDS[right]}"), (left, right), BOOL)
        for left, right in pairs
    )


def _conversion(to: Type, *sources: Type) -> tuple[Overload, ...]:
    return tuple(_plain(f"{_IDS[source]}_to_{_IDS[to]}", (source,), to) for source in sources)


def _size(name: str, type_: Type) -> tuple[Overload, ...]:
    return _plain(f"size_{name}", (type_,), INT), _member(f"{name}_size", (type_,), INT)


def _part_of_time(name: str, *, of_duration: bool = False) -> tuple[Overload, ...]:
    # One of these ids has a shape of its own.
    zoned = f"timestamp_to_{name}_tz" if name == "seconds" else f"timestamp_to_{name}_with_tz"
    parts = (
        _member(f"timestamp_to_{name}", (TIMESTAMP,), INT),
        _member(zoned, (TIMESTAMP, STRING), INT),
    )
    return (*parts, _member(f"duration_to_{name}", (DURATION,), INT)) if of_duration else parts


_OPERATORS: Final[dict[str, tuple[Overload, ...]]] = {
    "_?_:_": (_plain("conditional", (BOOL, _A, _A), _A),),
    "_&&_": (_plain("logical_and", (BOOL, BOOL), BOOL),),
    "_||_": (_plain("logical_or", (BOOL, BOOL), BOOL),),
    "!_": (_plain("logical_not", (BOOL,), BOOL),),
    "@not_strictly_false": (_plain("not_strictly_false", (BOOL,), BOOL),),
    "_==_": (_plain("equals", (_A, _A), BOOL),),
    "_!=_": (_plain("not_equals", (_A, _A), BOOL),),
    "_+_": (
        *_same("add", BYTES, DOUBLE),
        _plain("add_duration_duration", (DURATION, DURATION), DURATION),
        _plain("add_duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP),
        _plain("add_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
        *_same("add", INT),
        _plain("add_list", (_LIST, _LIST), _LIST),
        *_same("add", STRING, UINT),
    ),
    "_-_": (
        *_same("subtract", DOUBLE),
        _plain("subtract_duration_duration", (DURATION, DURATION), DURATION),
        *_same("subtract", INT),
        _plain("subtract_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
        _plain("subtract_timestamp_timestamp", (TIMESTAMP, TIMESTAMP), DURATION),
        *_same("subtract", UINT),
    ),
    "_*_": _same("multiply", DOUBLE, INT, UINT),
    "_/_": _same("divide", DOUBLE, INT, UINT),
    "_%_": _same("modulo", INT, UINT),
    "-_": (_plain("negate_double", (DOUBLE,), DOUBLE), _plain("negate_int64", (INT,), INT)),
    "_<_": _comparison("less"),
    "_<=_": _comparison("less_equals"),
    "_>_": _comparison("greater"),
    "_>=_": _comparison("greater_equals"),
    "_[_]": (
        _plain("index_list", (_LIST, INT), _A),
        _plain("index_map", (_MAP, _A), _B),
        _plain("optional_list_index_int", (optional_of(_VALUES), INT), optional_of(_V)),
        _plain("optional_map_index_value", (optional_of(_ENTRIES), _K), optional_of(_V)),
    ),
    "@in": (_plain("in_list", (_A, _LIST), BOOL), _plain("in_map", (_A, _MAP), BOOL)),
}

_CONVERSIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "type": (_plain("type", (_A,), type_of(_A)),),
    "dyn": (_plain("to_dyn", (_A,), DYN),),
    "bool": _conversion(BOOL, BOOL, STRING),
    "bytes": _conversion(BYTES, BYTES, STRING),
    "double": _conversion(DOUBLE, DOUBLE, INT, STRING, UINT),
    "duration": _conversion(DURATION, DURATION, INT, STRING),
    "int": _conversion(INT, INT, DOUBLE, DURATION, STRING, TIMESTAMP, UINT),
    "string": _conversion(STRING, STRING, BOOL, BYTES, DOUBLE, DURATION, INT, TIMESTAMP, UINT),
    "timestamp": _conversion(TIMESTAMP, TIMESTAMP, INT, STRING),
    "uint": _conversion(UINT, UINT, DOUBLE, INT, STRING),
}

_MEMBERS: Final[dict[str, tuple[Overload, ...]]] = {
    "size": (*_size("bytes", BYTES), *_size("list", _LIST), *_size("map", _MAP), *_size("string", STRING)),
    "contains": (_member("contains_string", (STRING, STRING), BOOL),),
    "endsWith": (_member("ends_with_string", (STRING, STRING), BOOL),),
    "startsWith": (_member("starts_with_string", (STRING, STRING), BOOL),),
    "matches": (_plain("matches", (STRING, STRING), BOOL), _member("matches_string", (STRING, STRING), BOOL)),
    "getFullYear": _part_of_time("year"),
    "getMonth": _part_of_time("month"),
    "getDayOfYear": _part_of_time("day_of_year"),
    "getDayOfMonth": _part_of_time("day_of_month"),
    "getDate": _part_of_time("day_of_month_1_based"),
    "getDayOfWeek": _part_of_time("day_of_week"),
    "getHours": _part_of_time("hours", of_duration=True),
    "getMinutes": _part_of_time("minutes", of_duration=True),
    "getSeconds": _part_of_time("seconds", of_duration=True),
    "getMilliseconds": _part_of_time("milliseconds", of_duration=True),
}

_OPTIONALS: Final[dict[str, tuple[Overload, ...]]] = {
    "optional.of": (_plain("optional_of", (_V,), optional_of(_V)),),
    "optional.ofNonZeroValue": (_plain("optional_ofNonZeroValue", (_V,), optional_of(_V)),),
    "optional.none": (_plain("optional_none", (), optional_of(_V)),),
    "value": (_member("optional_value", (optional_of(_V),), _V),),
    "hasValue": (_member("optional_hasValue", (optional_of(_V),), BOOL),),
    "or": (_member("optional_or_optional", (optional_of(_V), optional_of(_V)), optional_of(_V)),),
    "orValue": (_member("optional_orValue_value", (optional_of(_V), _V), _V),),
    "_?._": (_plain("select_optional_field", (DYN, STRING), optional_of(_V)),),
    "_[?_]": (
        _plain("list_optindex_optional_int", (_VALUES, INT), optional_of(_V)),
        _plain("optional_list_optindex_optional_int", (optional_of(_VALUES), INT), optional_of(_V)),
        _plain("map_optindex_optional_value", (_ENTRIES, _K), optional_of(_V)),
        _plain("optional_map_optindex_optional_value", (optional_of(_ENTRIES), _K), optional_of(_V)),
    ),
    "first": (_member("list_first", (_VALUES,), optional_of(_V)),),
    "last": (_member("list_last", (_VALUES,), optional_of(_V)),),
    "optional.unwrap": (_plain("optional_unwrap", (list_of(optional_of(_V)),), _VALUES),),
    "unwrapOpt": (_member("optional_unwrapOpt", (list_of(optional_of(_V)),), _VALUES),),
}

_INSERTION: Final[dict[str, tuple[Overload, ...]]] = {
    "cel.@mapInsert": (
        _plain("@mapInsert_map_key_value", (_ENTRIES, _K, _V), _ENTRIES),
        _plain("@mapInsert_map_map", (_ENTRIES, _ENTRIES), _ENTRIES),
    ),
}
"""The functions that the macros for maps call; expressions cannot spell them."""

STANDARD: Final[dict[str, tuple[Overload, ...]]] = {
    **_OPERATORS,
    **_CONVERSIONS,
    **_MEMBERS,
    **_OPTIONALS,
    **_INSERTION,
}
"""The overloads of every function, by the name of the function."""

_NAMED: Final = (BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT, TIMESTAMP, DURATION, Type(TYPE), Type(OPTIONAL))

LIBRARY: Final = Library(
    name="standard",
    functions=STANDARD,
    implementations=IMPLEMENTATIONS,
    general=BY_FUNCTION,
    prices=STANDARD_PRICES,
    estimates=STANDARD_ESTIMATES,
    types={
        **{one.name: one for one in _NAMED},
        "timestamp": TIMESTAMP,
        "duration": DURATION,
        "list": _LIST,
        "map": _MAP,
    },
)
