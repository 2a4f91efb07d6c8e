"""Lists that are sets or maps: no item, or no combination of keys, may stand twice.

The second of equal items is reported, the third and later are not. What breaks this rule in the stored object frees the
new one from it altogether, which is how the reference lets objects from before the rule live on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError
from kapi.schema.structural.model import Schema
from kapi.schema.structural.report import Report, join
from kapi.schema.structural.rules.enumerating import identity
from kapi.schema.structural.wording import duplicate, invalid

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from kapi.schema.structural.report import Path

    Walk = Callable[[Any, Path, Report], None]

ListCheck = Callable[[Any, str], list[FieldError]]
"""Judges a value found at a path; an empty path is a whole object."""


def compile_list_types(schema: Schema) -> ListCheck | None:
    """The function that finds duplicates in the sets and maps of a value; None when the schema has neither."""
    walk = _walk(schema)
    if walk is None:
        return None

    def check(value: Any, path: str) -> list[FieldError]:
        report = Report()
        walk(value, (None, path) if path else None, report)
        return report.errors

    return check


def check_update(check: ListCheck, new: Any, old: Any, path: str = "") -> list[FieldError]:
    """The duplicates in `new`, unless `old` had some too."""
    errors = check(new, path)
    return [] if errors and check(old, path) else errors


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
