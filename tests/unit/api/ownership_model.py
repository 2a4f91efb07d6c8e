"""Server-side apply once more, slowly: objects as lists of paths, sets as Python sets, no schema walk shared.

Covers writes without nulls and without empty lists and maps. A schema is a nested tuple:

    ("leaf",)  ("set",)  ("struct", {name: schema})  ("map", schema)  ("keyed", key, struct)
"""

from __future__ import annotations

import json
from typing import Any

from kapi.api.ownership.shape import KEYED, SCALAR, SET, STRUCT, Shape, struct

SCHEMA = (
    "struct",
    {
        "a": ("leaf",),
        "b": ("leaf",),
        "s": ("set",),
        "m": ("map", ("struct", {"x": ("leaf",), "y": ("leaf",)})),
        "k": (
            "keyed",
            "n",
            ("struct", {"n": ("leaf",), "v": ("leaf",), "o": ("struct", {"p": ("leaf",), "q": ("leaf",)})}),
        ),
        "o": ("struct", {"l": ("leaf",), "d": ("struct", {"z": ("leaf",)})}),
    },
)


def shape_of(schema: Any) -> Shape:
    kind = schema[0]
    if kind == "struct":
        return struct({name: shape_of(below) for name, below in schema[1].items()})
    if kind == "map":
        return Shape(STRUCT, values=shape_of(schema[1]))
    if kind == "keyed":
        return Shape(KEYED, items=shape_of(schema[2]), keys=[(schema[1], None)])
    return Shape(SET, items=Shape(SCALAR)) if kind == "set" else Shape(SCALAR)


def places(schema: Any, value: Any, path: tuple = ()) -> dict[tuple, tuple[str, Any]]:
    """Every place of an object: what kind of place it is, and the value if it is a leaf."""
    kind = schema[0]
    if kind == "leaf":
        return {path: ("leaf", value)}
    found: dict[tuple, tuple[str, Any]] = {path: ("inner", None)}
    # What lost everything in it is null, and still there.
    value = value or ({} if kind in ("struct", "map") else [])
    if kind == "set":
        for item in value:
            found[(*path, f"v:{json.dumps(item)}")] = ("item", item)
    elif kind == "keyed":
        for item in value:
            step = "k:" + json.dumps({schema[1]: item[schema[1]]}, separators=(",", ":"))
            below = places(schema[2], item, (*path, step))
            below[(*path, step)] = ("item", None)
            found |= below
    else:
        for name, item in value.items():
            inner = schema[1][name] if kind == "struct" else schema[1]
            below = places(inner, item, (*path, f"f:{name}"))
            if kind == "map":
                below[(*path, f"f:{name}")] = ("item", None)
            found |= below
    return found


class Model:
    """An object and its claims, as sets of paths."""

    def __init__(self) -> None:
        self.state: dict[tuple, tuple[str, Any]] = {(): ("inner", None)}
        self.claims: dict[tuple[str, str], set[tuple]] = {}

    def update(self, manager: str, value: Any) -> None:
        new = places(SCHEMA, value)
        touched, removed = self._changes(new)
        self._take(touched | removed, None)
        if touched:
            self.claims.setdefault(("Update", manager), set()).update(touched)
        self.state = new

    def apply(self, manager: str, value: Any, *, force: bool) -> set[tuple[str, tuple]] | None:
        """The conflicts, or None when it was applied."""
        owner = ("Apply", manager)
        wanted = places(SCHEMA, value)
        mine = {path for path, (kind, _) in wanted.items() if kind != "inner"}
        claims = {**self.claims, owner: mine}
        merged = {**self.state, **wanted}
        result = self._pruned(merged, self.claims.get(owner, set()), claims)
        touched, removed = self._changes(result)
        conflicts = {(who, path) for who, paths in claims.items() if who != owner for path in paths & touched}
        if conflicts and not force:
            return {("/".join(who), path) for who, path in conflicts}
        self.claims = claims
        self._take(touched | removed, owner)
        self.state = result
        self.claims = {who: paths for who, paths in self.claims.items() if paths}
        return None

    def _pruned(self, merged: dict, last: set[tuple], claims: dict) -> dict:
        gone = named(merged, last)
        everybody = named(merged, set().union(*claims.values()))
        first = without(merged, gone)
        second = without(merged, set(merged) - set(first) - everybody - {()})
        return without(merged, (set(merged) - set(second)) & gone)

    def _changes(self, new: dict) -> tuple[set[tuple], set[tuple]]:
        old = self.state
        touched = {path for path, what in new.items() if path not in old or (what[0] == "leaf" and what != old[path])}
        return touched, set(old) - set(new)

    def _take(self, taken: set[tuple], owner: Any) -> None:
        for who in list(self.claims):
            if who != owner:
                self.claims[who] = self.claims[who] - taken
                if not self.claims[who]:
                    del self.claims[who]


def named(state: dict, owned: set[tuple]) -> set[tuple]:
    """A set with the structs, maps and lists above its places."""
    above = {path[:length] for path in owned for length in range(1, len(path))}
    return owned | {path for path in above if state.get(path, ("inner",))[0] == "inner"}


def without(state: dict, removed: set[tuple]) -> dict:
    return {path: what for path, what in state.items() if not any(path[:n] in removed for n in range(1, len(path) + 1))}
