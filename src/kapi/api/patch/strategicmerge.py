"""Strategic merge patch: a merge patch that knows which lists are really maps, and takes directives.

Objects merge key by key. A list merges when its schema says so: items by their merge key, scalars as a set; other lists
are replaced. Directives stand among the data and start with `$`:

    $patch: replace | delete             this object, or this list when in an item of it; an item with its merge key
    $retainKeys: [a, b]                  drop all other keys of the stored object first
    $deleteFromPrimitiveList/f: [x]      take scalars out of the list f
    $setElementOrder/f: [{name: a}, …]   put the items of the list f in this order

The schema comes in through `MergeNode`, which `kapi.schema` implements. Sharing and nulls are as for every patch, see
`kapi.api.patch.mergepatch`. Each error says by its class which answer kube-apiserver gives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, Protocol

import msgspec

from kapi.api.go.text import format_value
from kapi.api.go.types import type_name
from kapi.api.patch.mergepatch import (
    PatchContentError,
    PatchFormatError,
    PatchInternalError,
    without_nulls,
)

__all__ = ["MergeNode", "PatchContentError", "PatchFormatError", "PatchInternalError", "apply"]

_DIRECTIVE = "$patch"
_RETAIN_KEYS = "$retainKeys"
_DELETE_PREFIX = "$deleteFromPrimitiveList"
_ORDER_PREFIX = "$setElementOrder"
_DROP: Final = object()
_encode = msgspec.json.Encoder(order="sorted").encode

Map = dict[str, Any]
Identity = Callable[[Any], Hashable]


class MergeNode(Protocol):
    """The merge rules of one place of a schema."""

    @property
    def strategies(self) -> tuple[str, ...]:
        """The patch strategies of this place: `merge`, `replace`, `retainKeys`, or none."""
        ...

    @property
    def merge_key(self) -> str | None:
        """The key that tells items of the list here apart; None for lists of scalars."""
        ...

    @property
    def items(self) -> MergeNode | None:
        """The place of the items of the list here."""
        ...

    def child(self, field: str) -> MergeNode | None:
        """The place of a field of the object here."""
        ...


def apply(doc: Map, patch: Map, schema: MergeNode | None) -> Map:
    """The object after the patch. Without a schema, or below what it knows, lists are replaced."""
    return _merge_map(doc, patch, schema)


# -- objects ----------------------------------------------------------------------------------------------------------


def _merge_map(original: Map, patch: Map, node: MergeNode | None) -> Map:
    if _DIRECTIVE in patch:
        return _directed_map(patch)
    merged = dict(original)
    pending = patch
    if any(key.startswith("$") for key in patch):
        pending = dict(patch)
        _retain_keys(merged, pending)
        for key in [key for key in pending if key.startswith(_ORDER_PREFIX)]:
            _merge_ordered(merged, pending, key, node)
    for key, value in pending.items():
        _merge_field(merged, key, value, node)
    return merged


def _directed_map(patch: Map) -> Map:
    directive = patch[_DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    raise _unknown_directive(patch)


def _unknown_directive(patch: Map) -> PatchInternalError:
    directive = patch[_DIRECTIVE]
    shown = directive if isinstance(directive, str) else f"%!s({type_name(directive)}={format_value(directive)})"
    shown = "%!s(<nil>)" if directive is None else shown
    return PatchInternalError(f"unknown patch type: {shown} in map: {format_value(patch)}")


def _retain_keys(merged: Map, pending: Map) -> None:
    """Drop keys of the object that `$retainKeys` does not list; what the patch sets must be listed."""
    if _RETAIN_KEYS not in pending:
        return
    listed = pending.pop(_RETAIN_KEYS)
    problem = PatchFormatError("invalid patch format of retainKeys")
    if not isinstance(listed, list) or not all(isinstance(key, str) for key in listed):
        raise problem
    retained = set(listed)
    for key, value in pending.items():
        if value is not None and key not in retained and not key.startswith((_DELETE_PREFIX, _ORDER_PREFIX)):
            raise problem
    for key in merged.keys() - retained:
        del merged[key]


def _merge_field(merged: Map, key: str, value: Any, node: MergeNode | None) -> None:
    is_delete_list = key.startswith(_DELETE_PREFIX)
    if is_delete_list:
        key = _directive_target(key, _DELETE_PREFIX, "primitive list") or key
    if value is None:
        merged.pop(key, None)
        return
    current = merged.get(key)
    if isinstance(current, dict) and isinstance(value, dict):
        child = node.child(key) if node else None
        merged[key] = value if _strategy(child) == "replace" else _merge_map(current, value, child)
    elif isinstance(current, list) and isinstance(value, list):
        child = node.child(key) if node else None
        merged[key] = _merge_list(current, value, child, is_delete_list=is_delete_list)
    elif not is_delete_list:
        _set_or_drop(merged, key, _without_directives(without_nulls(value)))


def _set_or_drop(merged: Map, key: str, value: Any) -> None:
    if value is _DROP:
        merged.pop(key, None)
    else:
        merged[key] = value


def _directive_target(key: str, prefix: str, what: str) -> str:
    """The field a directive in a key is about."""
    head, slash, field = key.partition("/")
    if not slash or head != prefix:
        raise PatchFormatError(f"invalid patch format of {what}")
    return field


def _without_directives(value: Any) -> Any:
    """A value that meets nothing to merge with: objects that carry `$patch` vanish, at any depth."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return _DROP
        cleaned = {key: _without_directives(item) for key, item in value.items()}
        return {key: item for key, item in cleaned.items() if item is not _DROP}
    if isinstance(value, list):
        return [item for item in map(_without_directives, value) if item is not _DROP]
    return value


def _strategy(node: MergeNode | None) -> str:
    """The one strategy of a place besides `retainKeys`, which only matters where patches are made."""
    strategies = [strategy for strategy in node.strategies if strategy != "retainKeys"] if node else []
    if len(strategies) > 1:
        raise PatchInternalError(f"unexpected patch strategy: {format_value(strategies)}")
    return strategies[0] if strategies else ""


# -- lists ------------------------------------------------------------------------------------------------------------


def _merge_list(original: list[Any], patch: list[Any], node: MergeNode | None, *, is_delete_list: bool) -> list[Any]:
    if _strategy(node) != "merge" and not is_delete_list:
        return patch
    if not original and not patch:
        return original
    merge_key = (node.merge_key if node else None) or ""
    if _element_type(original, patch) is dict:
        return _merge_maps(original, patch, merge_key, node.items if node else None)
    if is_delete_list:
        unwanted = set(map(_identity, patch))
        return [item for item in original if _identity(item) not in unwanted]
    merged = list({_identity(item): item for item in [*original, *patch]}.values())
    return _ordered(merged, patch, original, merge_key)


def _merge_maps(original: list[Any], patch: list[Any], merge_key: str, node: MergeNode | None) -> list[Any]:
    if not merge_key:
        raise PatchInternalError("cannot merge lists without merge key for struct")
    original, patch = _apply_item_directives(original, patch, merge_key)
    merged = list(original)
    positions: dict[Hashable, int] = {}
    for position, item in enumerate(merged):
        if merge_key in item:
            positions.setdefault(_identity(item[merge_key]), position)
    for item in patch:
        if merge_key not in item:
            raise _no_merge_key(item, merge_key)
        position = positions.setdefault(_identity(item[merge_key]), len(merged))
        if position == len(merged):
            merged.append(item)
        else:
            merged[position] = _merge_map(merged[position], item, node)
    return _ordered(merged, patch, original, merge_key)


def _apply_item_directives(original: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """The stored list without deleted items, and the patch without items that were directives."""
    plain = []
    unwanted: set[Hashable] = set()
    is_replaced = False
    for item in patch:
        directive = item.get(_DIRECTIVE, _DROP)
        if directive is _DROP:
            plain.append(item)
        elif directive == "delete":
            if merge_key not in item:
                raise _no_merge_key(item, merge_key)
            unwanted.add(_identity(item[merge_key]))
        elif directive == "replace":
            is_replaced = True
        elif directive == "merge":
            raise PatchInternalError("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(item)
    if is_replaced:
        return plain, []
    kept = [item for item in original if merge_key not in item or _identity(item[merge_key]) not in unwanted]
    return kept, plain


def _no_merge_key(item: Map, merge_key: str) -> PatchInternalError:
    return PatchInternalError(f"map: {format_value(item)} does not contain declared merge key: {merge_key}")


def _element_type(*lists: list[Any]) -> type:
    """The one type of all items; lists of lists and mixtures cannot be merged."""
    items = [item for each in lists for item in each]
    if not items:
        raise PatchInternalError("no elements in any of the given slices")
    element_type: type = type(items[0])
    if element_type is list:
        raise PatchContentError("lists of lists are not supported")
    if any(type(item) is not element_type for item in items):
        raise PatchInternalError(f"list element types are not identical: {format_value(list(lists))}")
    return element_type


def _identity(value: Any) -> Hashable:
    """Something to compare values by in which 1, 1.0 and true are three values."""
    if isinstance(value, str):
        return value
    return type(value), _encode(value) if isinstance(value, (dict, list)) else value


# -- order ------------------------------------------------------------------------------------------------------------


def _merge_ordered(merged: Map, pending: Map, key: str, node: MergeNode | None) -> None:
    """Merge the list a `$setElementOrder` is about, and put it in that order; both leave `pending`."""
    order = _as_list(pending.pop(key))
    field = _directive_target(key, _ORDER_PREFIX, "setElementOrder list")
    original = _as_list(merged[field]) if field in merged else None
    patch = _as_list(pending[field]) if field in pending else None
    child = node.child(field) if node else None
    merge_key = (child.merge_key if child else None) or ""
    _check_order(patch or [], order, merge_key)
    if original is None and patch is None:
        return
    if patch is None:
        items = original or []
    elif original is None:
        items = _without_directives(patch)
    else:
        items = _merge_list(original, patch, child, is_delete_list=False)
    stored_order = _order_after_deletion(original, patch, merge_key) if original and patch else original or []
    if merge_key and items:
        _check_maps(order)
    if _element_type(original or [], patch or []) is not dict or merge_key:
        items = _ordered(items, order, stored_order, merge_key)
    merged[field] = items
    pending.pop(field, None)


def _order_after_deletion(original: list[Any], patch: list[Any], merge_key: str) -> list[Any]:
    """The order of the stored list when the patch is to be put in order.

    In kube-apiserver, new items take the places that deleted ones left at the end of the list, so a renamed item comes
    after those that stood before it. Clients see that order, so it is kept.
    """
    if not merge_key or not any(item.get(_DIRECTIVE) == "delete" for item in patch if isinstance(item, dict)):
        return original
    kept, plain = _apply_item_directives(original, patch, merge_key)
    known = _positions(kept, _by_key(merge_key))
    added = [item for item in plain if _identity(item[merge_key]) not in known]
    return [*kept, *added][: len(original)]


def _check_maps(items: list[Any]) -> None:
    for position, item in enumerate(items):
        if not isinstance(item, dict):
            raise PatchInternalError(f"value for key {position} is not a map")


def _check_order(patch: list[Any], order: list[Any], merge_key: str) -> None:
    """The items of the patch must be in the order list, in the same order."""
    if not order or not patch:
        return
    identity = _by_key(merge_key)
    for item in patch:
        if merge_key and not isinstance(item, dict):
            raise _wrong_type("map[string]interface {}", item)
    remaining = [item for item in patch if not (isinstance(item, dict) and item.get(_DIRECTIVE) == "delete")]
    reached = 0
    for item in order:
        while reached < len(remaining) and isinstance(remaining[reached], dict) and _DIRECTIVE in remaining[reached]:
            reached += 1
        if reached == len(remaining):
            return
        if identity(remaining[reached]) == identity(item):
            reached += 1
    if reached < len(remaining):
        lists = f"{format_value(patch)}\n doesn't match {_ORDER_PREFIX} list:\n{format_value(order)}"
        raise PatchInternalError(f"The order in patch list:\n{lists}\n")


def _ordered(merged: list[Any], patch_order: list[Any], stored_order: list[Any], merge_key: str) -> list[Any]:
    """Items the patch names in its order, the others in theirs, each of the latter before what it stood before."""
    identity = _by_key(merge_key)
    in_patch = _positions(patch_order, identity)
    in_store = _positions(stored_order, identity)
    named: list[Any] = []
    unnamed: list[Any] = []
    for item in merged:
        (named if identity(item) in in_patch else unnamed).append(item)
    named.sort(key=lambda item: in_patch[identity(item)])
    unnamed.sort(key=lambda item: in_store.get(identity(item), len(in_store)))
    ordered: list[Any] = []
    rest = iter(unnamed)
    other = next(rest, _DROP)
    for item in named:
        position = in_store.get(identity(item), -1)
        while other is not _DROP and 0 <= in_store.get(identity(other), -1) < position:
            ordered.append(other)
            other = next(rest, _DROP)
        ordered.append(item)
    return ordered if other is _DROP else [*ordered, other, *rest]


def _positions(items: list[Any], identity: Identity) -> dict[Hashable, int]:
    positions: dict[Hashable, int] = {}
    for position, item in enumerate(items):
        positions.setdefault(identity(item), position)
    return positions


def _by_key(merge_key: str) -> Identity:
    """Return the identity of an item: its merge key, or itself."""
    if not merge_key:
        return _identity

    def identity(item: Any) -> Hashable:
        if not isinstance(item, dict):
            raise _wrong_type("map[string]interface {}", item)
        if merge_key not in item:
            raise _no_merge_key(item, merge_key)
        return _identity(item[merge_key])

    return identity


# -- types in messages ------------------------------------------------------------------------------------------------


def _as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong_type("[]interface {}", value)
    return value


def _wrong_type(expected: str, value: Any) -> PatchInternalError:
    received = "%!s(<nil>)" if value is None else type_name(value)
    return PatchInternalError(f"expected a {expected}, but received a {received}")
