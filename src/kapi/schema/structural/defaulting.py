"""Defaulting of custom objects, and removal of nulls that are neither allowed nor defaulted.

When an object is decoded, from a request or from the store, kube-apiserver prunes it, removes the nulls that are
neither allowed nor defaulted (`compile_null_removal`), reads embedded metadata, and then applies defaults
(`compile_default`), which also replace the remaining nulls that are not allowed. After server-side apply and after a
change by a webhook it applies the defaults alone.

Compiled once per schema into functions that visit only places with something to do. Values that are filled in are
fresh: what is later changed in one object is not changed in another.

A default of 10 kB in the items of a list makes gigabytes of a megabyte of empty items. So the size of each default is
known in advance and counted before it is filled in, and defaulting stops when an object would be larger than any that
is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapi.api.limits import OBJECT_BYTES
from kapi.schema.structural.model import MISSING, Schema

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[Any], None]
    """Works on a map or a list in place."""
    Place = tuple[Step | None, Step | None]
    """The functions for a map and for a list at this place; None for nothing to do."""
    Filling = Callable[[Any, "_Budget"], None]
    """Fills in defaults in a map or a list in place, within a budget."""
    FilledPlace = tuple[Filling | None, Filling | None]
    NullPlace = tuple[bool, Step | None, Step | None]
    """True if a null is removed, and the functions for a map and for a list."""
    Maker = Callable[["_Budget"], Any]

_IDLE: Final[tuple[None, None]] = (None, None)
_encode = msgspec.json.Encoder().encode


class DefaultsTooLarge(ValueError):
    """The defaults of an object take more bytes than an object may have. Some of them are filled in."""


class _Budget:
    """The bytes, as JSON, that defaulting may still add to one object."""

    __slots__ = ("_left",)

    def __init__(self, size: int) -> None:
        self._left = size

    def spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise DefaultsTooLarge


def has_default(schema: Schema) -> bool:
    """Return True if there is a default other than null."""
    return schema.default is not MISSING and schema.default is not None


# -- defaults ---------------------------------------------------------------------------------------------------------


def compile_default(schema: Schema) -> Callable[[dict[str, Any]], None] | None:
    """A function that fills in defaults, in place; None when the schema has none. Defaulting twice changes nothing.

    It raises `DefaultsTooLarge` as soon as it has added `OBJECT_BYTES`.
    """
    fill = _defaulted(schema)[0]
    return None if fill is None else lambda obj: fill(obj, _Budget(OBJECT_BYTES))


def _fill(place: FilledPlace, value: Any, budget: _Budget) -> None:
    step = place[0] if type(value) is dict else place[1] if type(value) is list else None
    if step is not None:
        step(value, budget)


def _defaulted(schema: Schema | bool | None) -> FilledPlace:
    if not isinstance(schema, Schema):
        return _IDLE
    below = {name: _defaulted(inner) for name, inner in schema.properties.items()}
    others = _default_others(schema, _defaulted(schema.additional))
    return _default_map(schema, below, others), _default_list(schema.items, _defaulted(schema.items))


def _default_map(schema: Schema, below: dict[str, FilledPlace], others: Filling | None) -> Filling | None:
    plain: list[tuple[str, Any, bool, int]] = []
    made: list[tuple[str, Maker, bool]] = []
    for name, inner in schema.properties.items():
        if not has_default(inner):
            continue
        if isinstance(inner.default, dict | list):
            made.append((name, _maker(inner, below[name], key=name), inner.nullable))
        else:
            plain.append((name, inner.default, inner.nullable, _size(name, inner.default)))
    visited = [(name, *place) for name, place in below.items() if any(place)]
    if not (plain or made or visited or others):
        return None

    def default(obj: dict[str, Any], budget: _Budget) -> None:
        for name, on_map, on_list in visited:
            value = obj.get(name)
            if type(value) is dict:
                if on_map is not None:
                    on_map(value, budget)
            elif on_list is not None and type(value) is list:
                on_list(value, budget)
        for name, value, nullable, size in plain:
            if name not in obj or (obj[name] is None and not nullable):
                budget.spend(size)
                obj[name] = value
        for name, make, nullable in made:
            if name not in obj or (obj[name] is None and not nullable):
                obj[name] = make(budget)
        if others is not None:
            others(obj, budget)

    return default


def _default_others(schema: Schema, place: FilledPlace) -> Filling | None:
    """The function for the keys that only `additionalProperties` describes."""
    known, make = schema.properties, _replacement(schema.additional, place)
    if make is None and not any(place):
        return None

    def default(obj: dict[str, Any], budget: _Budget) -> None:
        for key, value in obj.items():
            if key in known:
                continue
            if value is None and make is not None:
                obj[key] = make(budget)
            else:
                _fill(place, value, budget)

    return default


def _default_list(schema: Schema | None, place: FilledPlace) -> Filling | None:
    """The function for lists; `place` is that of the items."""
    make = _replacement(schema, place)
    if make is None and not any(place):
        return None

    def default(items: list[Any], budget: _Budget) -> None:
        for index, item in enumerate(items):
            if item is None and make is not None:
                items[index] = make(budget)
            else:
                _fill(place, item, budget)

    return default


def _replacement(schema: Schema | bool | None, place: FilledPlace) -> Maker | None:
    """The function that makes the value for a null among items or further keys; None when null stays."""
    if not isinstance(schema, Schema) or schema.nullable or not has_default(schema):
        return None
    return _maker(schema, place)


def _size(key: str, value: Any) -> int:
    """The bytes of a field as JSON, or of a value where there is no key."""
    return (len(key) + len('"":') if key else 0) + len(_encode(value))


def _maker(schema: Schema, place: FilledPlace, key: str = "") -> Maker:
    """A function that makes a new copy of the default, with the defaults inside it; leaves are shared.

    The defaults inside are filled in each time, too: keeping the whole ready would take the size of a schema times its
    depth when there is a default at every depth.
    """
    value, size = schema.default, _size(key, schema.default)

    def make(budget: _Budget) -> Any:
        budget.spend(size)
        fresh = copy_json(value)
        _fill(place, fresh, budget)
        return fresh

    return make


def copy_json(value: Any) -> Any:
    """A deep copy that shares immutable values."""
    if type(value) is dict:
        return {key: copy_json(below) for key, below in value.items()}
    return [copy_json(below) for below in value] if type(value) is list else value


# -- nulls ------------------------------------------------------------------------------------------------------------


def _apply(place: Place, value: Any) -> None:
    step = place[0] if type(value) is dict else place[1] if type(value) is list else None
    if step is not None:
        step(value)


def compile_null_removal(schema: Schema) -> Callable[[dict[str, Any]], None] | None:
    """A function that removes, in place, the nulls of fields that may not be null and have no default.

    Nulls in lists stay, since taking them out would move other items; fields without a schema stay, too. None when the
    schema specifies no field at all.
    """
    return _without_nulls(schema)[0]


def _without_nulls(schema: Schema | bool | None) -> Place:
    if not isinstance(schema, Schema):
        return _IDLE
    known = {name: (_drops_null(inner), *_without_nulls(inner)) for name, inner in schema.properties.items()}
    others = (_drops_null(schema.additional), *_without_nulls(schema.additional))
    return _null_map(known, others), _null_list(_without_nulls(schema.items))


def _null_map(known: dict[str, NullPlace], others: NullPlace) -> Step | None:
    if not any(map(any, known.values())) and not any(others):
        return None
    find = known.get

    def remove(obj: dict[str, Any]) -> None:
        gone: list[str] = []
        for key, value in obj.items():
            if value is None:
                if find(key, others)[0]:
                    gone.append(key)
                continue
            kind = type(value)
            if kind is dict:
                step = find(key, others)[1]
            elif kind is list:
                step = find(key, others)[2]
            else:
                continue
            if step is not None:
                step(value)
        for key in gone:
            del obj[key]

    return remove


def _drops_null(schema: Schema | bool | None) -> bool:
    return isinstance(schema, Schema) and not schema.nullable and not has_default(schema)


def _null_list(place: Place) -> Step | None:
    if not any(place):
        return None

    def remove(items: list[Any]) -> None:
        for item in items:
            _apply(place, item)

    return remove
