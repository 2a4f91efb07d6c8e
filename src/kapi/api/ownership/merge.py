"""Two objects of one shape: what changed between them, and one laid over the other.

`compare` says which fields were added, changed and removed, which is what moves ownership. `merge` lays a partial
object over a whole one. `remove` takes fields out. None of them changes its arguments; results share with them what
stayed as it was, so that an object that did not change comes back as the very same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.api.ownership.fieldset import LEAF, SELF
from kapi.api.ownership.shape import ANY, LAST_LEAF, SCALAR, SET, STRUCT, step_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.ownership.fieldset import FieldSet
    from kapi.api.ownership.shape import Shape

_MISSING: Final[Any] = object()
_ORDINARY_DEPTH: Final = 16


def same(shape: Shape, one: Any, other: Any) -> bool:
    """Return True if two values are equal. Numbers are by their value; a number is never a boolean."""
    return bool(one == other) and (not shape.is_loose or _alike(one, other))


def _alike(one: Any, other: Any) -> bool:
    """Return True if equal values are equal without taking 1 for true."""
    if isinstance(one, dict):
        return all(_alike(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return all(map(_alike, one, other))
    return isinstance(one, bool) == isinstance(other, bool)


# -- compare ----------------------------------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """The fields that a change removed, modified and added. No field is in more than one of the sets."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    def filtered(self, keep: Callable[[FieldSet], FieldSet]) -> Comparison:
        """The comparison as far as a filter lets it through."""
        return Comparison(keep(self.removed), keep(self.modified), keep(self.added))


SAME: Final = Comparison(LEAF, LEAF, LEAF)

Changes = tuple["FieldSet | None", "FieldSet | None", "FieldSet | None"]
"""The fields removed, modified and added at and below a place."""
_MODIFIED: Final[Changes] = (None, LEAF, None)


def compare(shape: Shape, old: Any, new: Any) -> Comparison:
    """Return what changed from one object to another. Raises `InvalidValue` for items that cannot be told apart."""
    changes = _compare(shape, old, new)
    if changes is None:
        return SAME
    removed, modified, added = changes
    return Comparison(removed or LEAF, modified or LEAF, added or LEAF)


def _compare(shape: Shape, old: Any, new: Any, depth: int = 0) -> Changes | None:
    if old is _MISSING:
        return (None, None, _all(shape, new))
    if new is _MISSING:
        return (_all(shape, old), None, None)
    # Comparing values as a whole is the fast way to see that nothing changed. But a change in the last place of a large
    # value at depth 200 would be looked for 200 times; so in deep objects it is done at powers of two only.
    if (depth < _ORDINARY_DEPTH or not depth & (depth - 1)) and same(shape, old, new):
        return None
    kind = shape.kind
    if kind == ANY:
        # Here and not in a function of its own, to take fewer frames of the stack for deep objects.
        before, after = shape.part(old), shape.part(new)
        if before is not after:
            return _compare_types(before, after, old, new)
        shape, kind = before, before.kind
    if kind <= LAST_LEAF or (not old and not new):
        return None if same(shape, old, new) else _MODIFIED
    if kind == STRUCT:
        return _compare_structs(shape, old or {}, new or {}, depth + 1)
    return _compare_lists(shape, old or [], new or [], depth + 1)


def _compare_types(before: Shape, after: Shape, old: Any, new: Any) -> Changes:
    """Values of different types: the keys of a map come or go, and the place itself is modified."""
    removed = _all(before, old) if before.kind == STRUCT else None
    added = _all(after, new) if after.kind == STRUCT else None
    return (_without_self(removed), LEAF, _without_self(added))


def _without_self(node: FieldSet | None) -> FieldSet | None:
    if not node:
        return None
    return {step: below for step, below in node.items() if step != SELF}


def _all(shape: Shape, value: Any) -> FieldSet:
    """Everything at and below a place that came or went as a whole."""
    kind = shape.kind
    if kind == ANY:
        shape = shape.part(value)
        kind = shape.kind
    if kind <= LAST_LEAF or value is None:
        return LEAF
    if kind == STRUCT:
        return _all_fields(shape, value)
    node: FieldSet = {SELF: LEAF}
    for item in value:
        step = step_of(shape, item)
        node[step] = LEAF if step in node or kind == SET or not shape.items else _all(shape.items, item)
    return node if value else LEAF


def _all_fields(shape: Shape, value: dict[str, Any]) -> FieldSet:
    node: FieldSet = {SELF: LEAF}
    fields, values = shape.fields, shape.values
    for name, empty in shape.present.items():
        if name not in value:
            step, inner = fields[name]
            node[step] = _all(inner, empty)
    for name, below in value.items():
        known = fields.get(name)
        if known is not None:
            node[known[0]] = _all(known[1], below)
        else:
            node[f"f:{name}"] = _all(values, below) if values else LEAF
    return node if len(node) > 1 else LEAF


class _Found:
    """Collects the changes below a place."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self) -> None:
        self.removed: FieldSet = {}
        self.modified: FieldSet = {}
        self.added: FieldSet = {}

    def add(self, step: str, changes: Changes) -> None:
        removed, modified, added = changes
        if removed is not None:
            self.removed[step] = removed
        if modified is not None:
            self.modified[step] = modified
        if added is not None:
            self.added[step] = added

    def changes(self) -> Changes | None:
        if self.removed or self.modified or self.added:
            return (self.removed or None, self.modified or None, self.added or None)
        return None


def _compare_structs(shape: Shape, old: dict[str, Any], new: dict[str, Any], depth: int) -> Changes | None:
    found = _Found()
    fields, present = shape.fields, shape.present
    for name, before in old.items():
        after = new.get(name, _MISSING)
        # Identity and equality of unchanged parts are cheap here and keep the walk to what changed.
        if after is before:
            continue
        if after is _MISSING and name in present:
            after = present[name]
        step, inner = fields.get(name) or (f"f:{name}", shape.values)
        changes = _compare(inner, before, after, depth) if inner else _compare_unknown(before, after)
        if changes is not None:
            found.add(step, changes)
    for name, after in new.items():
        if name not in old:
            before = present.get(name, _MISSING)
            step, inner = fields.get(name) or (f"f:{name}", shape.values)
            changes = _compare(inner, before, after, depth) if inner else (None, None, LEAF)
            if changes is not None:
                found.add(step, changes)
    return found.changes()


def _compare_unknown(before: Any, after: Any) -> Changes | None:
    """A field that is not declared, in an object that was written before it was removed from the schema."""
    if after is _MISSING:
        return (LEAF, None, None)
    return None if before == after else _MODIFIED


def _compare_lists(shape: Shape, old: list[Any], new: list[Any], depth: int) -> Changes | None:
    found = _Found()
    before, after = _by_step(shape, old), _by_step(shape, new)
    for step, items in before.items():
        others = after.get(step, [])
        if len(items) == 1 and len(others) <= 1:
            changes = _compare_items(shape, items[0], others[0] if others else _MISSING, depth)
        else:
            changes = _compare_repeated(shape, items, others)
        if changes is not None:
            found.add(step, changes)
    for step, others in after.items():
        if step not in before:
            added = _compare_items(shape, _MISSING, others[0]) if len(others) == 1 else (None, None, LEAF)
            assert added is not None
            found.add(step, added)
    return found.changes()


def _by_step(shape: Shape, items: list[Any]) -> dict[str, list[Any]]:
    index: dict[str, list[Any]] = {}
    for item in items:
        index.setdefault(step_of(shape, item), []).append(item)
    return index


def _compare_items(shape: Shape, old: Any, new: Any, depth: int = 0) -> Changes | None:
    if shape.items is None or shape.kind == SET:
        if old is _MISSING:
            return (None, None, LEAF)
        return (LEAF, None, None) if new is _MISSING else None
    return _compare(shape.items, old, new, depth)


def _compare_repeated(shape: Shape, old: list[Any], new: list[Any]) -> Changes | None:
    """Items that could not be told apart, before or after: they count as one leaf while there are several."""
    if len(old) > 1 and len(new) > 1:
        return None if old == new else _MODIFIED
    if len(old) > 1:
        added = _compare_items(shape, _MISSING, new[0]) if new else None
        return (LEAF, None, added[2] if added else None)
    removed = _compare_items(shape, old[0], _MISSING)
    return (removed[0] if removed else None, None, LEAF)


# -- merge ------------------------------------------------------------------------------------------------------------


def merge(shape: Shape, live: Any, config: Any) -> Any:
    """The object with a configuration laid over it. What the configuration does not mention stays."""
    kind = shape.kind
    if kind == ANY:
        shape = shape.part(config)
        kind = shape.kind
        if kind > LAST_LEAF and not isinstance(live, dict if kind == STRUCT else list):
            return config
    if kind <= LAST_LEAF or (not live and not config):
        return live if same(shape, live, config) else config
    if not config:
        return live
    if not live:
        return config
    return _merge_structs(shape, live, config) if kind == STRUCT else _merge_lists(shape, live, config)


def _merge_structs(shape: Shape, live: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    result = live
    fields = shape.fields
    for name, wanted in config.items():
        current = live.get(name, _MISSING)
        if current is _MISSING:
            merged = wanted
        else:
            known = fields.get(name)
            inner = known[1] if known else shape.values
            merged = merge(inner, current, wanted) if inner else wanted
            if merged is current:
                continue
        result = dict(live) if result is live else result
        result[name] = merged
    return result


def _merge_lists(shape: Shape, live: list[Any], config: list[Any]) -> list[Any]:
    """Items in the order of the configuration where it says something, in the live order where it does not."""
    wanted = {step_of(shape, item): item for item in config}
    current: dict[str, Any] = {}
    steps = [step_of(shape, item) for item in live]
    for step, item in zip(steps, live, strict=True):
        # Of items that cannot be told apart none is merged with.
        current[step] = None if step in current else item
    order = list(wanted)
    shared = iter([step for step in order if step in current])
    expected = next(shared, None)
    merged: list[Any] = []
    done: set[str] = set()
    at = taken = 0
    while at < len(steps) or taken < len(order):
        if at < len(steps) and taken < len(order):
            step = steps[at]
            if step == order[taken]:
                done.add(step)
                merged.append(_merge_item(shape, current.get(step), wanted[step]))
                at, taken, expected = at + 1, taken + 1, next(shared, None)
                continue
            if step in wanted and expected is not None and expected != step:
                # In both, but its turn is when the configuration names it.
                at += 1
                continue
        if at < len(steps):
            step = steps[at]
            if step not in wanted:
                merged.append(live[at])
                at += 1
                continue
            if step in done:
                at += 1
        if taken < len(order):
            step = order[taken]
            done.add(step)
            merged.append(_merge_item(shape, current.get(step), wanted[step]))
            taken += 1
            if expected == step:
                expected = next(shared, None)
    unchanged = len(merged) == len(live) and all(map(_is, merged, live))
    return live if unchanged else merged


def _is(one: Any, other: Any) -> bool:
    return one is other


def _merge_item(shape: Shape, current: Any, wanted: Any) -> Any:
    if current is None or shape.items is None:
        return wanted
    return merge(shape.items, current, wanted)


# -- remove -----------------------------------------------------------------------------------------------------------


def remove(shape: Shape, value: Any, owned: FieldSet) -> Any:
    """The value without the fields of a set. What has nothing left in it becomes null."""
    kind = shape.kind
    if kind == ANY:
        shape = shape.part(value)
        kind = shape.kind
    if kind == SCALAR:
        return value
    if kind <= LAST_LEAF or not value:
        return None
    return _remove_fields(shape, value, owned) if kind == STRUCT else _remove_items(shape, value, owned)


def _remove_fields(shape: Shape, value: dict[str, Any], owned: FieldSet) -> dict[str, Any] | None:
    kept: dict[str, Any] = {}
    for name, below in value.items():
        known = shape.fields.get(name)
        step, inner = known or (f"f:{name}", shape.values)
        part = owned.get(step)
        if part is None:
            kept[name] = below
        elif part and SELF not in part:
            kept[name] = remove(inner, below, part) if inner else below
    return kept or None


def _remove_items(shape: Shape, value: list[Any], owned: FieldSet) -> list[Any] | None:
    kept: list[Any] = []
    for item in value:
        part = owned.get(step_of(shape, item))
        if part is None:
            kept.append(item)
        elif part and SELF not in part:
            kept.append(remove(shape.items, item, part) if shape.items else item)
    return kept or None
