"""Semantic equality of objects, and the difference that messages show.

Immutability is a matter of meaning: a field sent as its zero value (`false`, `0`, `""`, `[]`, `{}`) says the same as
the field left out, because typed clients drop such fields on their way through. Maps whose keys users choose
(labels and the like) are the exception: there an empty value is a value. Pure functions, used by the kinds that
freeze part of their spec.
"""

from __future__ import annotations

import difflib
from typing import Any

import msgspec

_USER_KEYED = frozenset({"labels", "annotations", "matchLabels", "nodeSelector", "options", "volumeAttributes"})
"""Fields whose value maps keys of the user's choice to strings."""


def same(left: Any, right: Any) -> bool:
    """Return True if two JSON values mean the same; absent (None) equals any zero value."""
    if left == right:
        return True
    if isinstance(left, dict) and isinstance(right, dict):
        return _same_dicts(left, right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return not left and not right and (left is None or right is None)


def _same_dicts(left: dict[str, Any], right: dict[str, Any]) -> bool:
    for key in left.keys() | right.keys():
        one, other = left.get(key), right.get(key)
        if one == other:
            continue
        if key in _USER_KEYED:
            if (one or {}) != (other or {}):
                return False
        elif not same(one, other):
            return False
    return True


def without(value: dict[str, Any], *keys: str) -> dict[str, Any]:
    """A shallow copy that lacks the given keys."""
    return {key: item for key, item in value.items() if key not in keys}


def difference(old: Any, new: Any) -> str:
    """The changed lines of two JSON values with three lines of context, as a unified diff."""
    before, after = (
        msgspec.json.format(msgspec.json.encode(side, order="sorted"), indent=1).decode() for side in (old, new)
    )
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3)
    return "".join(line + "\n" for line in list(lines)[2:])
