"""The selectors of a list or a watch, as one `ItemSelector`: what the watch cache matches, and what it indexes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.cache.selector import FIELD, LABEL, NAME, Equality, ItemSelector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kapi.cache.watchcache import Item
    from kapi.registry.store import Store
    from kapi.server.handlers.options import ListOptions

_VAGUE: Final = frozenset(
    {"metadata.namespace", "reason", "source", "spec.restartPolicy", "status.phase", "status.successful", "type"}
)
"""Fields of which many objects have the same value."""
_METADATA: Final = "metadata."


def selector_of(options: ListOptions, store: Store, name: str = "") -> ItemSelector | None:
    """The selector of a list or a watch, of objects of one name if it is given; None when everything matches."""
    selects = _named(_selects(options, store), name)
    if store.cache.had_uninitialized and not options.includes_uninitialized:
        selects = _initialized(selects)
    if selects is None:
        return None
    identity = (store, options.labels, options.fields, name, options.includes_uninitialized)
    return ItemSelector(selects, tuple(_equalities(options, store, name)), identity)


def _equalities(options: ListOptions, store: Store, name: str) -> Iterator[Equality]:
    """Yield what all that is selected has in common, the rarest first: names, other fields, labels, vague fields."""
    if name:
        yield Equality(FIELD, NAME, name)
    fields = [] if options.fields is None else options.fields.equalities
    # Other fields of a custom object may be of another version than the selector.
    usable = [pair for pair in fields if store.selects_kept_fields or pair[0].startswith(_METADATA)]
    usable.sort(key=lambda pair: pair[0] != NAME)
    yield from (Equality(FIELD, *pair) for pair in usable if pair[1] and pair[0] not in _VAGUE)
    if options.labels is not None:
        yield from (Equality(LABEL, *pair) for pair in options.labels.equalities)
    yield from (Equality(FIELD, *pair) for pair in usable if not pair[1] or pair[0] in _VAGUE)


def _selects(options: ListOptions, store: Store) -> Callable[[Item], bool] | None:
    labels, fields = options.labels, options.fields
    if fields is None:
        if labels is None:
            return None
        match_labels = labels.matches
        return lambda item: match_labels(item.labels)
    match_fields, values = fields.matches, store.field_values
    if labels is None:
        return lambda item: match_fields(values(item))
    match_labels = labels.matches
    return lambda item: match_labels(item.labels) and match_fields(values(item))


def _named(matches: Callable[[Item], bool] | None, name: str) -> Callable[[Item], bool] | None:
    """A function that matches the items of one name, or of any if it is empty."""
    if not name:
        return matches
    if matches is None:
        return lambda item: item.name == name
    return lambda item: item.name == name and matches(item)


def _initialized(matches: Callable[[Item], bool] | None) -> Callable[[Item], bool]:
    return lambda item: not item.is_uninitialized and (matches is None or matches(item))
