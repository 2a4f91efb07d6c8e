"""Indexes of the items of a resource by the value of a label or a field, made when lists ask for them.

A list by a selector looks at every item. The second list that asks for a value of the same label or field (`app=x`,
`spec.nodeName=x`, `involvedObject.uid=x`) makes an index of it, and from then on such a list looks at the items that
have the value. An index holds keys that the cache has anyway, 30 to 85 bytes for each item that has the label; there
are at most `MOST` of a resource, and one that is not used for `UNUSED` seconds is dropped. So what is never asked for
costs nothing.

An index is made in steps, while items change: from its first step on it is told of each change, and each step adds
what the items have then. Adding what is there and removing what is not change nothing, so it is exact once all items
were taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.cache.selector import LABEL, field_value

if TYPE_CHECKING:
    from kapi.cache.item import Item
    from kapi.cache.selector import Equality, ItemSelector

MOST: Final = 8
UNUSED: Final = 600.0
FEWEST_ITEMS: Final = 1000
"""Items below which a list looks at all of them."""
MOST_FOUND: Final = 2000
"""Keys beyond which sorting them takes too long for one step, and a list looks at all items, which are in order."""
_ASKED: Final = 64
"""Labels and fields that are remembered because one list has asked for them."""


class ItemIndex:
    """The keys of items by the value of one label or field."""

    def __init__(self, source: str, name: str) -> None:
        self.source = source
        self.name = name
        self.is_complete = False
        """True once every item has been taken; before that it must not be read."""
        self.used = 0.0
        """When it was last read."""
        self._keys: dict[str, str | set[str]] = {}
        """A value that one item has, such as a uid, needs no set."""

    def value(self, item: Item | None) -> str | None:
        """The value of an item; None if it has none."""
        if item is None:
            return None
        if self.source == LABEL:
            return None if item.labels is None else item.labels.get(self.name)
        return field_value(item, self.name)

    def take(self, item: Item | None) -> None:
        """Add an item as it is now, if it is not there."""
        value = self.value(item)
        if item is None or value is None:
            return
        keys = self._keys.setdefault(value, item.key)
        if isinstance(keys, set):
            keys.add(item.key)
        elif keys != item.key:
            self._keys[value] = {keys, item.key}

    def replace(self, key: str, before: Item | None, after: Item | None) -> None:
        """Take in a change of an item."""
        value = self.value(before)
        if value is not None and value != self.value(after):
            keys = self._keys.get(value)
            if isinstance(keys, set):
                keys.discard(key)
            if not keys or keys == key:
                self._keys.pop(value, None)
        self.take(after)

    def keys(self, value: str) -> list[str] | None:
        """The keys of the items that have a value, in order; None if there are too many to sort."""
        keys = self._keys.get(value)
        if keys is None:
            return []
        if isinstance(keys, str):
            return [keys]
        return None if len(keys) > MOST_FOUND else sorted(keys)


class ItemIndexes:
    """The indexes of one resource."""

    def __init__(self) -> None:
        self._indexes: dict[tuple[str, str], ItemIndex] = {}
        self._asked: dict[tuple[str, str], None] = {}

    def __len__(self) -> int:
        return len(self._indexes)

    def replace(self, key: str, before: Item | None, after: Item | None) -> None:
        """Take in a change of an item."""
        for index in self._indexes.values():
            index.replace(key, before, after)

    def find(self, selector: ItemSelector, now: float) -> list[str] | None:
        """The keys of all items that may match, in order; None if no index tells."""
        for equality in selector.equalities if self._indexes else ():
            index = self._indexes.get(equality[:2])
            if index is not None and index.is_complete:
                index.used = now
                keys = index.keys(equality.value)
                if keys is not None:
                    return keys
        return None

    def begin(self, selector: ItemSelector, now: float) -> ItemIndex | None:
        """An index to be made for a list: the caller takes every item, then completes it.

        None if there is nothing to make: no equality follows from the selector, one of them has an index, or no list
        has asked for any of them before.
        """
        equalities = selector.equalities
        if not equalities or any(one[:2] in self._indexes for one in equalities):
            return None
        wanted = self._wanted(equalities)
        if wanted is None:
            return None
        if len(self._indexes) >= MOST:
            del self._indexes[min(self._indexes, key=lambda key: self._indexes[key].used)]
        index = self._indexes[wanted] = ItemIndex(*wanted)
        index.used = now
        return index

    def _wanted(self, equalities: tuple[Equality, ...]) -> tuple[str, str] | None:
        """The first of them that has been asked for before."""
        found = next((one[:2] for one in equalities if one[:2] in self._asked), None)
        if found is not None:
            del self._asked[found]
            return found
        if len(self._asked) >= _ASKED:
            del self._asked[next(iter(self._asked))]
        self._asked[equalities[0][:2]] = None
        return None

    def drop(self, index: ItemIndex) -> None:
        """Drop an index that could not be completed."""
        if self._indexes.get((index.source, index.name)) is index:
            del self._indexes[index.source, index.name]

    def drop_unused(self, now: float) -> None:
        """Drop the indexes that no list has used for a while."""
        for index in [one for one in self._indexes.values() if now - one.used > UNUSED]:
            self.drop(index)

    def clear(self) -> None:
        """Drop all of them: the items are replaced by others."""
        self._indexes.clear()
