"""Merge rules of the fields of built-in kinds: patch strategies and keys, list and map types.

A `MergeNode` has the rules of a field and leads to those below it, step by step along the path of a patch. Strategic
merge patch and server-side apply walk it together with the object. Nodes are made on the way, once per field of a
definition.
"""

from __future__ import annotations

import functools

from kapi.schema.builtin import definitions as builtin


class MergeNode:
    """The merge rules of one field. Strategies and keys are the field's own, not those of its type."""

    __slots__ = ("_items", "_node")

    def __init__(self, node: builtin.Node) -> None:
        self._node = node
        below = node.items
        self._items = MergeNode(below) if below and is_struct(below) else None

    @property
    def strategies(self) -> tuple[str, ...]:
        """`merge`, `retainKeys`, both or none; none means that the field is replaced as a whole."""
        return self._node.patch_strategies

    @property
    def merge_key(self) -> str | None:
        """The field that identifies the items of a merging list; None for a list of scalars."""
        return self._node.patch_merge_key or None

    @property
    def items(self) -> MergeNode | None:
        """The items of a list of structs; None for any other field."""
        return self._items

    @property
    def list_type(self) -> str:
        """`atomic`, `set`, `map`, or empty for a field that is not a list or does not say."""
        return self._node.list_type

    @property
    def list_map_keys(self) -> tuple[str, ...]:
        """The fields that together identify an item of a `map` list."""
        return self._node.list_map_keys

    @property
    def map_type(self) -> str:
        """`atomic` when the struct or map has one owner, `granular` or empty when each field has its own."""
        return self._node.map_type or (builtin.definition(self._node.ref).map_type if self._node.ref else "")

    def child(self, field: str) -> MergeNode | None:
        """A field of the struct, or the values of a map of structs; None when nothing is known below."""
        if self._node.ref:
            return _field(self._node.ref, field)
        values = self._node.values
        return MergeNode(values) if values and is_struct(values) else None


def is_struct(node: builtin.Node) -> bool:
    """Return True if values of a node have fields that are known."""
    return bool(node.ref) and node.ref not in builtin.NOT_STRUCTS


def root(definition: str) -> MergeNode:
    """The node of a whole object."""
    return MergeNode(builtin.Node(ref=definition))


@functools.cache
def _field(definition: str, field: str) -> MergeNode | None:
    node = builtin.definition(definition).properties.get(field)
    return MergeNode(node) if node else None
