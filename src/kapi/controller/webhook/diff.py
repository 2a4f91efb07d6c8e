"""Differences of JSON documents: as a JSON patch (RFC 6902), and as changes carried over to a third document.

A patch has `add`, `remove` and `replace` only and takes the first document exactly to the second. Lists are compared
from both ends, and what is left in the middle place by place: linear, and never wrong, though not always shortest.
"""

from __future__ import annotations

from typing import Any

import msgspec

Operation = dict[str, Any]

_canonical = msgspec.json.Encoder(order="sorted").encode


def diff(before: Any, after: Any) -> list[Operation]:
    """The operations that make `after` of `before`, in order; none when they are the same."""
    operations: list[Operation] = []
    _diff(before, after, "", operations)
    return operations


def _diff(before: Any, after: Any, path: str, operations: list[Operation]) -> None:
    if isinstance(before, dict) and isinstance(after, dict):
        _diff_objects(before, after, path, operations)
    elif isinstance(before, list) and isinstance(after, list):
        _diff_lists(before, after, path, operations)
    elif not same(before, after):
        operations.append({"op": "replace", "path": path, "value": after})


def _diff_objects(before: dict[str, Any], after: dict[str, Any], path: str, operations: list[Operation]) -> None:
    operations.extend({"op": "remove", "path": f"{path}/{_escaped(key)}"} for key in before if key not in after)
    for key, value in after.items():
        where = f"{path}/{_escaped(key)}"
        if key in before:
            _diff(before[key], value, where, operations)
        else:
            operations.append({"op": "add", "path": where, "value": value})


def _diff_lists(before: list[Any], after: list[Any], path: str, operations: list[Operation]) -> None:
    shorter = min(len(before), len(after))
    start = 0
    while start < shorter and same(before[start], after[start]):
        start += 1
    end = 0
    while end < shorter - start and same(before[-1 - end], after[-1 - end]):
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    both = min(len(old), len(new))
    for index in range(both):
        _diff(old[index], new[index], f"{path}/{start + index}", operations)
    # From the back, so that the places of those still to go do not move.
    operations.extend({"op": "remove", "path": f"{path}/{start + i}"} for i in reversed(range(both, len(old))))
    operations.extend({"op": "add", "path": f"{path}/{start + i}", "value": new[i]} for i in range(both, len(new)))


def same(one: Any, other: Any) -> bool:
    """Return True if two values are the same JSON: true is not 1, and 1.0 is."""
    if isinstance(one, dict):
        if not isinstance(other, dict) or one.keys() != other.keys():
            return False
        return all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def carried_over(original: Any, before: Any, after: Any) -> Any:
    """`original` with what changed from `before` to `after`.

    `before` is the original as decoded into a class that may lack some fields. Fields that it lacks are kept; fields
    that changed have their new values. Items of a list are matched by equality, by their place when none was added or
    removed, and by their `name`. Nothing is changed in place.
    """
    if same(before, after):
        return original
    if isinstance(original, dict) and isinstance(before, dict) and isinstance(after, dict):
        result = {key: value for key, value in original.items() if key in after or key not in before}
        for key, value in after.items():
            known = key in original and key in before
            result[key] = carried_over(original[key], before[key], value) if known else value
        return result
    if isinstance(original, list) and isinstance(before, list) and isinstance(after, list):
        return _carried_items(original, before, after) if len(original) == len(before) else after
    return after


def _carried_items(original: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    if len(before) == len(after) and _names(before) == _names(after):
        return [carried_over(*triple) for triple in zip(original, before, after, strict=True)]
    places = {_identity(item): index for index, item in enumerate(before)}
    result = []
    for item in after:
        index = places.pop(_identity(item), None)
        result.append(item if index is None else carried_over(original[index], before[index], item))
    return result


def _identity(item: Any) -> str | bytes:
    """Return the identity of an item: its name, or else all of it."""
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else _canonical(item)


def _names(items: list[Any]) -> list[str | None]:
    names = [item.get("name") if isinstance(item, dict) else None for item in items]
    return [name if isinstance(name, str) else None for name in names]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
