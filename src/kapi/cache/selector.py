"""The selector of a list or a watch as the cache uses it: a function of items, and the equalities that follow from it.

A selector such as `spec.nodeName=a,status.phase!=Failed` is a function that has to be called for every item. But what
it selects has certain labels and fields with certain values, so an index by one of these finds all that it may select,
and the function is called for those only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.cache.item import Item

LABEL: Final = "label"
FIELD: Final = "field"
NAME: Final = "metadata.name"
_NAMESPACE: Final = "metadata.namespace"


class Equality(NamedTuple):
    """A label or a field of an item has a value."""

    source: str
    """`LABEL` or `FIELD`."""
    name: str
    value: str


class ItemSelector(NamedTuple):
    """The items that a list or a watch is of."""

    matches: Callable[[Item], bool]
    equalities: tuple[Equality, ...] = ()
    """What holds for every item that matches; that which fewest others have comes first. Fields are those that are kept
    with an item, see `Item.field_values`."""
    identity: object = None
    """Equal for selectors that match the same items; None for one that is compared with no other."""


def field_value(item: Item, name: str) -> str:
    """The value of a field that is kept with an item; one that is not there has the empty value."""
    if name == NAME:
        return item.name
    if name == _NAMESPACE:
        return item.namespace
    fields = item.fields
    return "" if fields is None else fields.get(name, "")
