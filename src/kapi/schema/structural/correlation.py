"""Correlation of a new object with the stored one, for transition rules and for ratcheting validation.

Rules that compare need the old value of the same field, and a value that has not changed is accepted even if the
schema would refuse it today. Walking down the schema, the old value of

- a property is the property of that name, if the schema describes it and both objects have it; the same for a key
  of a map (`additionalProperties`);
- an item of a list of type map is the first old item with the same keys, wherever it stands;
- an item of any other list is unknown: such lists are taken as a whole.

What the schema does not describe is never correlated, even where it preserves unknown fields, and so an object with
such fields in it never counts as unchanged. `MISSING` means that there is no old value; a null is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.schema.structural.messages import canonical
from kapi.schema.structural.model import MISSING, Schema

if TYPE_CHECKING:
    from collections.abc import Hashable

_COMPOUND = (dict, list)


def property_schema(schema: Schema, name: str) -> Schema | None:
    """The schema of the property or map key `name`; None when there is none."""
    if name in schema.properties:
        return schema.properties[name]
    return schema.additional if isinstance(schema.additional, Schema) else None


def is_keyed(schema: Schema) -> bool:
    """Return True if the items of a list described by `schema` are identified by keys."""
    return schema.type == "array" and schema.list_type == "map" and bool(schema.list_map_keys)


def correlate_items(schema: Schema, new: Any, old: Any) -> list[Any]:
    """The old value, or MISSING, of each item of the list `new`; all MISSING unless the list is of type map.

    Takes one pass over each list. Items without one of the keys have no old value, nor have those whose keys are not
    scalars.
    """
    if type(new) is not list:
        return []
    if type(old) is not list or schema.items is None or not is_keyed(schema):
        return [MISSING] * len(new)
    before: dict[Hashable, Any] = {}
    for item in old:
        if (key := _key(schema.list_map_keys, item)) is not None:
            before.setdefault(key, item)
    return [MISSING if (key := _key(schema.list_map_keys, item)) is None else before.get(key, MISSING) for item in new]


def _key(names: tuple[str, ...], item: Any) -> Hashable | None:
    if type(item) is not dict:
        return None
    values: list[Hashable] = []
    for name in names:
        value = item.get(name)
        if value is None or type(value) in _COMPOUND:
            return None
        # Python takes 1, 1.0 and True for one key; they are three.
        values.append(value if type(value) is str else (type(value), value))
    return tuple(values)


def same(new: Any, old: Any) -> bool:
    """Return True if two values are identical: 1, 1.0 and true are three values, and items have an order."""
    if type(new) is not type(old) or new != old:
        return False
    return type(new) not in _COMPOUND or canonical(new) == canonical(old)


class Comparison:
    """Compares the parts of one pair of objects, each part at most once.

    Use one for one request and no longer: results are cached by identity.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}

    def unchanged(self, schema: Schema, new: Any, old: Any) -> bool:
        """Return True if `new`, described by `schema`, equals its old value `old`.

        Lists of type map may be in another order. False if `old` is MISSING, and for objects with fields that the
        schema does not describe.
        """
        if type(new) not in _COMPOUND:
            return same(new, old)
        if type(new) is not type(old) or len(new) != len(old):
            return False
        pair = (id(new), id(old))
        known = self._known.get(pair)
        if known is None:
            compare = self._objects if type(new) is dict else self._lists
            known = self._known[pair] = compare(schema, new, old)
        return known

    def _objects(self, schema: Schema, new: dict[str, Any], old: dict[str, Any]) -> bool:
        for name, value in new.items():
            below = property_schema(schema, name)
            if below is None or name not in old or not self.unchanged(below, value, old[name]):
                return False
        return True

    def _lists(self, schema: Schema, new: list[Any], old: list[Any]) -> bool:
        if not is_keyed(schema) or schema.items is None:
            return same(new, old)
        for value, before in zip(new, correlate_items(schema, new, old), strict=True):
            if before is MISSING or not self.unchanged(schema.items, value, before):
                return False
        return True
