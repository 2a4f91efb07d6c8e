"""Lists of type set and map: no item, or no combination of keys, may occur twice.

The second of equal items is reported, the third and later are not. If the stored object has
duplicates, those of the new one are not reported, so that objects from before the rule can still be updated.

Nearly all objects are valid, so a first walk only tells if there may be duplicates. It compares as Python does, so that
1 and true are equal; the second walk, compiled when it is first needed, is exact and makes the errors.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from kapi.api.fielderror import FieldError
from kapi.schema.structural.checks.enumeration import identity
from kapi.schema.structural.messages import duplicate, invalid
from kapi.schema.structural.model import Schema
from kapi.schema.structural.report import Report, join

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from kapi.schema.structural.report import Path

    Doubt = Callable[[Any], bool]
    """Return True if something may be wrong in a map or a list."""
    Place = tuple[Doubt | None, Doubt | None]
    """The functions for a map and for a list at this place."""
    Walk = Callable[[Any, Path, Report], None]

_IDLE: Final[Place] = (None, None)

ListCheck = Callable[[Any, str], list[FieldError]]
"""Validates a value found at a path; an empty path is a whole object."""


def compile_list_types(schema: Schema) -> ListCheck | None:
    """The function that finds duplicates in the sets and maps of a value; None when the schema has neither."""
    on_map, on_list = _doubts(schema)
    if on_map is on_list is None:
        return None
    walk: Walk | None = None

    def check(value: Any, path: str) -> list[FieldError]:
        nonlocal walk
        doubt = on_map if type(value) is dict else on_list if type(value) is list else None
        if doubt is None or not doubt(value):
            return []
        walk = walk or _walk(schema)
        assert walk is not None
        report = Report()
        walk(value, (None, path) if path else None, report)
        return report.errors

    return check


def check_update(check: ListCheck, new: Any, old: Any, path: str = "") -> list[FieldError]:
    """The duplicates in `new`, unless `old` had some too."""
    errors = check(new, path)
    return [] if errors and check(old, path) else errors


# -- may there be duplicates ------------------------------------------------------------------------------------------


def _doubts(schema: Schema | bool | None) -> Place:
    """The functions for the maps and the lists at a place; None where there is nothing to check."""
    if not isinstance(schema, Schema):
        return _IDLE
    below = [(name, *_doubts(part)) for name, part in schema.properties.items()]
    visited = [one for one in below if any(one[1:])]
    others = _doubts(schema.additional)
    return _map_doubt(visited, others), _list_doubt(_uniqueness_doubt(schema), _doubts(schema.items))


def _map_doubt(visited: list[tuple[str, Doubt | None, Doubt | None]], others: Place) -> Doubt | None:
    every = _every_doubt(others)
    if not visited and every is None:
        return None

    def doubt(obj: dict[str, Any]) -> bool:
        if every is not None and every(obj.values()):
            return True
        for name, on_map, on_list in visited:
            value = obj.get(name)
            ask = on_map if type(value) is dict else on_list if type(value) is list else None
            if ask is not None and ask(value):
                return True
        return False

    return doubt


def _every_doubt(place: Place) -> Doubt | None:
    on_map, on_list = place
    if on_map is on_list is None:
        return None

    def doubt(values: Iterable[Any]) -> bool:
        for value in values:
            ask = on_map if type(value) is dict else on_list if type(value) is list else None
            if ask is not None and ask(value):
                return True
        return False

    return doubt


def _list_doubt(unique: Doubt | None, items: Place) -> Doubt | None:
    every = _every_doubt(items)
    if unique is None or every is None:
        return unique or every
    return lambda values: unique(values) or every(values)


def _uniqueness_doubt(schema: Schema) -> Doubt | None:
    if schema.list_type == "set":
        return _is_dubious_set
    if schema.list_type != "map":
        return None
    if not schema.list_map_keys:
        return bool
    key = itemgetter(*schema.list_map_keys)

    def doubt(items: list[Any]) -> bool:
        try:
            return len(set(map(key, items))) < len(items)
        except (KeyError, TypeError):
            # An item without a key, or of the wrong shape altogether.
            return True

    return doubt


def _is_dubious_set(items: list[Any]) -> bool:
    try:
        return len(set(items)) < len(items)
    except TypeError:
        return True


# -- what is wrong ----------------------------------------------------------------------------------------------------


def _walk(schema: Schema) -> Walk | None:
    below: dict[str, Walk] = {}
    for name, part in schema.properties.items():
        inner = _walk(part)
        if inner is not None:
            below[name] = inner
    others = _walk(schema.additional) if isinstance(schema.additional, Schema) else None
    items = _walk(schema.items) if schema.items is not None else None
    unique = _uniqueness(schema)
    if not below and others is None and items is None and unique is None:
        return None

    def walk(value: Any, path: Path, report: Report) -> None:
        if report.full:
            return
        if type(value) is dict:
            if others is not None:
                for key, one in value.items():
                    others(one, (path, f"[{key}]"), report)
            for name, inner in below.items():
                if name in value:
                    inner(value[name], (path, "." + name), report)
        elif type(value) is list:
            if unique is not None:
                unique(value, path, report)
            if items is not None:
                for index, item in enumerate(value):
                    items(item, (path, f"[{index}]"), report)

    return walk


def _uniqueness(schema: Schema) -> Walk | None:
    if schema.list_type == "set":
        return _check_set
    if schema.list_type != "map":
        return None
    keys = schema.list_map_keys

    def check_map(items: list[Any], path: Path, report: Report) -> None:
        for index, item in enumerate(items):
            if item is not None and type(item) is not dict:
                words = "must be an object for an array of list-type map"
                report.add(invalid(join((path, f"[{index}]")), item, words))
                return
        if len(items) > 1:
            chosen = [{} if item is None else {key: item[key] for key in keys if key in item} for item in items]
            _report_repeated(chosen, _map_identities(chosen, keys), path, report)

    return check_map


def _check_set(items: list[Any], path: Path, report: Report) -> None:
    if len(items) > 1:
        _report_repeated(items, map(identity, items), path, report)


def _map_identities(chosen: list[dict[str, Any]], keys: tuple[str, ...]) -> Iterator[Hashable]:
    if len(keys) != 1:
        return map(identity, chosen)
    # With one key its value decides, and where it is missing, that it is.
    (key,) = keys
    return (identity(one[key]) if key in one else None for one in chosen)


def _report_repeated(items: list[Any], identities: Iterable[Hashable], path: Path, report: Report) -> None:
    seen: dict[Hashable, int] = {}
    for index, one in enumerate(identities):
        times = seen[one] = seen.get(one, 0) + 1
        if times == 2 and not report.full:
            report.add(duplicate(join((path, f"[{index}]")), items[index]))
