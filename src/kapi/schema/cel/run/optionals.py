"""Optional values, and the insertion of map entries that macros expand to, by overload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.values import NONE, EvaluationError, Optional, find, is_zero, show

if TYPE_CHECKING:
    from collections.abc import Callable


def _of_nonzero(value: Any) -> Optional:
    return NONE if is_zero(value) else Optional(value)


def _value(optional: Optional) -> Any:
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _has_value(optional: Optional) -> bool:
    return optional.present


def _first(items: Any) -> Optional:
    return Optional(items[0]) if items else NONE


def _last(items: Any) -> Optional:
    return Optional(items[len(items) - 1]) if items else NONE


def _unwrap(items: Any) -> list[Any]:
    values = []
    for item in items:
        if not isinstance(item, Optional):
            raise EvaluationError(f"value {show(item)} is not optional")
        if item.present:
            values.append(item.value)
    return values


def _insert(entries: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    """Insert an entry in place: only folds can call this, on a map of their own."""
    if find(entries, key)[0]:
        raise EvaluationError(f"insert failed: key {show(key)} already exists")
    entries[key] = value
    return entries


def _insert_all(entries: dict[Any, Any], more: dict[Any, Any]) -> dict[Any, Any]:
    for key, value in more.items():
        _insert(entries, key, value)
    return entries


OPTIONALS: Final[dict[str, Callable[..., Any]]] = {
    "optional_of": Optional,
    "optional_ofNonZeroValue": _of_nonzero,
    "optional_none": lambda: NONE,
    "optional_value": _value,
    "optional_hasValue": _has_value,
    "list_first": _first,
    "list_last": _last,
    "optional_unwrap": _unwrap,
    "optional_unwrapOpt": _unwrap,
}

INSERTIONS: Final[dict[str, Callable[..., Any]]] = {
    "@mapInsert_map_key_value": _insert,
    "@mapInsert_map_map": _insert_all,
}
