"""Making patches: what to send so that an object becomes another one.

    two-way      original → modified: for who read an object, changed a copy and sends the difference
    three-way    original, modified, current: for who applies a configuration again and again. What left it since the
                 last time is deleted, what is in it is set, what others put into the object stays

Both come as strategic merge patches, for kinds with a schema, and as JSON merge patches, for those without. Objects are
plain decoded JSON; nothing here talks to a server, and arguments are left as they were. A patch shares parts with them:
copy it before changing it in place.

Patches are those of kubectl, except where its answer is no use:

    * equal values make no patch. kubectl sends fields with the strategy `replace` always, and the order of a list
      of scalars whenever the list is not sorted
    * a list of scalars that merges is a set: what it repeats is neither added nor deleted
    * what the object lost in the meantime is sent whole, without deletions below it: their directives would stay in it
    * items whose merge keys are of different types are different items
    * with `overwrite=False`, lists and objects that are replaced conflict as soon as they differ, not only in parts
    * fields that the schema does not know are compared as in a JSON merge patch, kubectl gives up

Errors:

    PatchError
    └── PatchCreationError     the objects cannot be compared, or should not become each other
        ├── PatchConflict      the object was changed in another way in the meantime
        └── IdentityChanged    the patch would turn the object into another one
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from kapi.api.go.text import format_value
from kapi.api.patch.mergepatch import PatchError

if TYPE_CHECKING:
    from kapi.api.patch.strategicmerge import MergeNode

__all__ = [
    "IdentityChanged",
    "PatchConflict",
    "PatchCreationError",
    "json_merge_patch",
    "three_way_json_merge_patch",
    "three_way_merge_patch",
    "two_way_merge_patch",
]

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_DELETE_PREFIX: Final = "$deleteFromPrimitiveList/"
_ORDER_PREFIX: Final = "$setElementOrder/"

Map = dict[str, Any]

# The text of a value, in which 1, 1.0, true and "1" are four values. Serves as identity where values meet as keys.
_text = msgspec.json.Encoder(order="sorted").encode


class PatchCreationError(PatchError):
    """There is no patch from the one object to the other."""


class PatchConflict(PatchCreationError):
    """The patch would overwrite a change of another writer. Holds the patch, and the changes it conflicts with."""

    def __init__(self, patch: Map, changes: Map) -> None:
        self.patch = patch
        self.changes = changes
        ours, theirs = _text(patch).decode(), _text(changes).decode()
        super().__init__(f"patch:\n{ours}\nconflicts with changes made from original to current:\n{theirs}\n")


class IdentityChanged(PatchCreationError):
    """The patch would change what the object is or what it is called."""


def two_way_merge_patch(original: Map, modified: Map, schema: MergeNode | None) -> Map:
    """The strategic merge patch that turns `original` into `modified`; empty when they are equal.

    Promise, for objects without nulls whose merging lists name nothing twice: applied to `original` it gives
    `modified`, lists in their order included. Applied to an object that has more, it leaves that alone.
    """
    return _diff(original, modified, schema, _EVERYTHING)


def three_way_merge_patch(
    original: Map, modified: Map, current: Map, schema: MergeNode | None, *, overwrite: bool = True
) -> Map:
    """The strategic merge patch for `current`: deletes what only `original` has, sets what `modified` has.

    What is in `current` only stays, except in objects with the strategy `retainKeys`, which become what `modified`
    says. With `overwrite=False`, raises PatchConflict when the patch would change what was changed from `original` to
    `current`.
    """
    additions = _diff(current, modified, schema, _ADDITIONS)
    deletions = _diff(original, modified, schema, _DELETIONS)
    patch = _combine(deletions, additions, current, schema)
    if not overwrite:
        changes = _diff(original, current, schema, _UNORDERED)
        if _is_conflict(patch, changes, schema):
            raise PatchConflict(patch, changes)
    return patch


def json_merge_patch(original: Map, modified: Map) -> Map:
    """The JSON merge patch (RFC 7386) that turns `original` into `modified`, which must be without nulls."""
    return _diff(original, modified, None, _EVERYTHING)


def three_way_json_merge_patch(original: Map, modified: Map, current: Map) -> Map:
    """Like `three_way_merge_patch`, as a JSON merge patch; raises IdentityChanged when kind or name would change."""
    patch = three_way_merge_patch(original, modified, current, None)
    metadata = patch.get("metadata")
    if "apiVersion" in patch or "kind" in patch or (isinstance(metadata, dict) and "name" in metadata):
        raise IdentityChanged("At least one of apiVersion, kind and name was changed")
    return patch


# -- differences ------------------------------------------------------------------------------------------------------


class _Wanted(NamedTuple):
    """The differences that go into a patch. `order` includes the order of merging lists where it differs."""

    changes: bool = True
    deletions: bool = True
    order: bool = True


_EVERYTHING: Final = _Wanted()
_ADDITIONS: Final = _Wanted(deletions=False)
_DELETIONS: Final = _Wanted(changes=False)
_UNORDERED: Final = _Wanted(order=False)


def _diff(original: Map, modified: Map, node: MergeNode | None, wanted: _Wanted, *, retains_keys: bool = False) -> Map:
    patch: Map = {}
    for key, value in modified.items():
        before = original.get(key)
        if key in original and type(before) is type(value) and isinstance(value, (dict, list)):
            _diff_field(patch, key, before, value, node.child(key) if node else None, wanted)
        elif wanted.changes and (key not in original or not _is_same(before, value)):
            patch[key] = value
    if wanted.deletions:
        patch.update((key, None) for key in original if key not in modified)
    if retains_keys:
        _retain_keys(patch, original, modified)
    return patch


def _retain_keys(patch: Map, original: Map, modified: Map) -> None:
    """List the keys that stay, when there is anything to change, or anything more in the object."""
    retained = sorted(key for key, value in modified.items() if value is not None)
    has_more = any(value is not None and key not in modified for key, value in original.items())
    if retained and (patch or has_more):
        patch[_RETAIN_KEYS] = retained


def _diff_field(patch: Map, key: str, before: Any, after: Any, node: MergeNode | None, wanted: _Wanted) -> None:
    """Put the difference of two objects, or two lists, into the patch."""
    if isinstance(after, dict) and not _has_strategy(node, "replace"):
        changed = _diff(before, after, node, wanted, retains_keys=_has_strategy(node, "retainKeys"))
        if changed:
            patch[key] = changed
    elif isinstance(after, list) and node is not None and _has_strategy(node, "merge"):
        if before:
            _diff_list(patch, key, before, after, node, wanted)
        elif after and wanted.changes:
            patch[key] = after
    elif wanted.changes and not _is_same(before, after):
        patch[key] = after


def _has_strategy(node: MergeNode | None, strategy: str) -> bool:
    return node is not None and strategy in node.strategies


def _is_same(left: Any, right: Any) -> bool:
    """Equality in which 1, 1.0 and true are three values."""
    return bool(left == right) and _text(left) == _text(right)


# -- lists that merge -------------------------------------------------------------------------------------------------


def _diff_list(patch: Map, key: str, before: list[Any], after: list[Any], node: MergeNode, wanted: _Wanted) -> None:
    if _item_type(before, after) is dict:
        _diff_maps(patch, key, before, after, node, wanted)
    else:
        _diff_scalars(patch, key, before, after, wanted)


def _diff_maps(patch: Map, key: str, before: list[Any], after: list[Any], node: MergeNode, wanted: _Wanted) -> None:
    """Items that are new or changed, in the order of `after`; then deletions, in the order of their keys."""
    merge_key = node.merge_key or ""
    old_keys = [_key_of(item, merge_key) for item in before]
    new_keys = [_key_of(item, merge_key) for item in after]
    unmatched: dict[bytes, list[Map]] = {}
    for identity, item in zip(old_keys, before, strict=True):
        unmatched.setdefault(identity, []).append(item)
    changed = _changed_items(unmatched, after, new_keys, node, wanted)
    deleted: list[Map] = []
    if wanted.deletions:
        rest = [item[merge_key] for items in unmatched.values() for item in items]
        deleted = [{merge_key: value, _DIRECTIVE: "delete"} for value in sorted(rest, key=format_value)]
    if changed or deleted:
        patch[key] = changed + deleted
    if wanted.order and after and (changed or deleted or (wanted.changes and old_keys != new_keys)):
        patch[_ORDER_PREFIX + key] = [{merge_key: item[merge_key]} for item in after]


def _changed_items(
    unmatched: dict[bytes, list[Map]], after: list[Any], keys: list[bytes], node: MergeNode, wanted: _Wanted
) -> list[Map]:
    """Return what to send of the items of `after`; takes those they are compared with out of `unmatched`."""
    merge_key = node.merge_key or ""
    retains_keys = _has_strategy(node, "retainKeys")
    positions = {identity: position for position, identity in reversed([*enumerate(keys)])}
    changed: list[tuple[int, Map]] = []
    # From the end: of items that share a key, which the API allows in some lists, kubectl pairs the last ones.
    for identity, item in zip(reversed(keys), reversed(after), strict=True):
        if unmatched.get(identity):
            change = _diff(unmatched[identity].pop(), item, node.items, wanted, retains_keys=retains_keys)
            if change:
                changed.append((positions[identity], {**change, merge_key: item[merge_key]}))
        elif wanted.changes:
            changed.append((positions[identity], item))
    return [item for _, item in sorted(changed, key=lambda entry: entry[0])]


def _diff_scalars(patch: Map, key: str, before: list[Any], after: list[Any], wanted: _Wanted) -> None:
    old = {_text(item): item for item in before}
    new = {_text(item): item for item in after}
    added = [item for identity, item in new.items() if identity not in old]
    deleted = sorted((item for identity, item in old.items() if identity not in new), key=format_value)
    if added and wanted.changes:
        patch[key] = added
    if deleted and wanted.deletions:
        patch[_DELETE_PREFIX + key] = deleted
    if wanted.order and after and ((wanted.deletions and deleted) or (wanted.changes and not _is_same(before, after))):
        patch[_ORDER_PREFIX + key] = after


def _item_type(*lists: list[Any]) -> type:
    """The one type of all items of lists that are not all empty."""
    types = {type(item) for items in lists for item in items}
    if list in types:
        raise PatchCreationError("lists of lists are not supported")
    if len(types) > 1:
        raise PatchCreationError(f"list element types are not identical: {format_value(list(lists))}")
    return types.pop()


def _key_of(item: Map, merge_key: str) -> bytes:
    if merge_key not in item:
        raise PatchCreationError(f"map: {format_value(item)} does not contain declared merge key: {merge_key}")
    return _text(item[merge_key])


# -- two patches in one -----------------------------------------------------------------------------------------------


def _combine(deletions: Map, additions: Map, current: Map, node: MergeNode | None) -> Map:
    """One patch that does what both do to `current`. They have the same aim, so directives in both are equal."""
    patch = dict(deletions)
    for key, value in additions.items():
        before, there = patch.get(key), current.get(key)
        child = node.child(key) if node and not key.startswith("$") else None
        if isinstance(before, dict) and isinstance(value, dict) and (isinstance(there, dict) or child is None):
            patch[key] = _combine(before, value, there if isinstance(there, dict) else {}, child)
        elif isinstance(before, list) and child is not None:
            # Only a list of objects can have deletions in it; they come with its order unless nothing is left of it.
            order = deletions.get(_ORDER_PREFIX + key, [])
            patch[key] = _combine_items(before, value, there if isinstance(there, list) else [], order, child)
        else:
            # What the object does not have is sent whole. Deletions below it would not find what they are about, and
            # directives, which only places with a schema have, would stay in the object.
            patch[key] = value
    return patch


def _combine_items(
    deletions: list[Map], additions: list[Map], current: list[Map], order: list[Map], node: MergeNode
) -> list[Map]:
    """Items in the given order, then those to delete. Of items that share a key, each is combined with one at most."""
    merge_key = node.merge_key or ""
    there = {_key_of(item, merge_key): item for item in reversed(current)}
    positions = {_key_of(item, merge_key): position for position, item in reversed([*enumerate(order)])}
    partial: dict[bytes, list[Map]] = {}
    for item in deletions:
        if item.get(_DIRECTIVE) != "delete":
            partial.setdefault(_key_of(item, merge_key), []).append(item)
    kept: list[Map] = []
    for item in additions:
        identity = _key_of(item, merge_key)
        twin = partial[identity].pop(0) if partial.get(identity) else None
        kept.append(_combine(twin, item, there[identity], node.items) if twin and identity in there else item)
    kept += [item for items in partial.values() for item in items]
    kept.sort(key=lambda item: positions.get(_key_of(item, merge_key), len(order)))
    return kept + [item for item in deletions if item.get(_DIRECTIVE) == "delete"]


# -- conflicts --------------------------------------------------------------------------------------------------------


def _is_conflict(patch: Map, changes: Map, node: MergeNode | None) -> bool:
    """Return True if two patches do different things to one field. Additions to and deletions from a set never do."""
    if patch.get(_DIRECTIVE) != changes.get(_DIRECTIVE):
        return True
    return any(
        _is_field_conflict(patch[key], changes[key], node.child(key) if node else None)
        for key in patch.keys() & changes.keys()
        if not key.startswith("$")
    )


def _is_field_conflict(ours: Any, theirs: Any, node: MergeNode | None) -> bool:
    if isinstance(ours, dict) and isinstance(theirs, dict) and not _has_strategy(node, "replace"):
        return _is_conflict(ours, theirs, node)
    if isinstance(ours, list) and isinstance(theirs, list) and node is not None and _has_strategy(node, "merge"):
        return _is_list_conflict(ours, theirs, node)
    return not _is_same(ours, theirs)


def _is_list_conflict(ours: list[Any], theirs: list[Any], node: MergeNode) -> bool:
    if _item_type(ours, theirs) is not dict:
        return False
    merge_key = node.merge_key or ""
    changed = {_key_of(item, merge_key): item for item in theirs}
    pairs = [(item, changed.get(_key_of(item, merge_key))) for item in ours]
    return any(_is_conflict(item, other, node.items) for item, other in pairs if other is not None)
