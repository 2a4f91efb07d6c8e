"""The open watches of a resource, found by what they select, so that a change costs only those it may concern.

Watchers that are sent the same bytes form a `Group`, for which an event is matched and encoded once. A group is in one
place of the index: in its namespace, under one equality of its selector, or among those that have none. An event is
looked up by the state before it and by the state after it, for an object that leaves a selection concerns its
watchers as much as one that enters it. What is found this way may still not match; what is not found cannot.

A group that has no equality (`a!=b`, `a in (b,c)`) is asked of every change in its namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.cache.selector import LABEL, field_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kapi.cache.item import Event, Item
    from kapi.cache.watcher import Watcher

    Failed = Callable[[Watcher, Event, Exception], None]
    Groups = dict[object, "Group"]


STEP = 16
"""Watchers of a group that are written to before others get a turn."""


class Group:
    """Watchers that are sent the same bytes: of the same namespace, selector and form, in the same framing.

    Events are offered in steps. Between two of them watchers may join and leave; one that has joined, or has left and
    joined again, has been sent these events from history, which `Watcher.after` says.
    """

    __slots__ = ("watchers",)

    def __init__(self) -> None:
        self.watchers: dict[Watcher, None] = {}

    def offer(self, events: Sequence[Event], last: int, failed: Failed) -> Iterator[int]:
        """Send what these events mean to the watchers; `last` is the revision that is reached with them.

        One whose selector or encoder raises is told to `failed`. Yields how many have left the feed since the step
        before, because their clients do not keep up.
        """
        watchers, first = self.watchers, events[0].item.revision
        framed: bytes | None = None
        left = 0
        for number, watcher in enumerate(list(watchers), 1):
            if watcher not in watchers:
                continue
            try:
                if watcher.after >= first:
                    # It has been sent some of them already, and gets the others only.
                    left += watcher.offer(events, last)
                else:
                    if framed is None:
                        framed = watcher.framed(events)
                    if not framed:
                        break
                    watcher.after = last
                    if watcher.outlet.write_framed(framed):
                        watcher.fall_behind(last)
                        left += 1
            except Exception as error:
                failed(watcher, events[0], error)
            if not number % STEP:
                yield left
                left = 0
        if left:
            yield left

    def offer_to_one(self, events: Sequence[Event], last: int, failed: Failed) -> int:
        """Do what `offer` does, for a group of one watcher at most; returns how many have left the feed."""
        left = 0
        for watcher in list(self.watchers):
            try:
                left += watcher.offer(events, last)
            except Exception as error:
                failed(watcher, events[0], error)
        return left

    def offer_large(self, events: Sequence[Event], failed: Failed) -> Iterator[int]:
        """Let the watchers read these events from history, if they concern them: some are too large for one write.

        Yields how many have left the feed for this since the step before.
        """
        left = 0
        for number, watcher in enumerate(list(self.watchers), 1):
            if watcher not in self.watchers:
                continue
            try:
                left += watcher.offer_large(events)
            except Exception as error:
                failed(watcher, events[0], error)
            if not number % STEP:
                yield left
                left = 0
        if left:
            yield left


class _Scope:
    """The groups of one namespace, or those of all namespaces together."""

    __slots__ = ("every", "fields", "labels")

    def __init__(self) -> None:
        self.every: Groups = {}
        """Groups that no equality finds."""
        self.fields: dict[str, dict[str, Groups]] = {}
        """By field and value. A kind has few fields to select by, so each is looked up."""
        self.labels: dict[tuple[str, str], Groups] = {}
        """By label and value. There may be any number of labels, so those of the object are looked up."""

    @property
    def is_empty(self) -> bool:
        return not (self.every or self.fields or self.labels)

    def groups_of(self, watcher: Watcher) -> Groups:
        """The groups in the place where a watcher belongs."""
        equality = watcher.equality
        if equality is None:
            return self.every
        source, name, value = equality
        if source == LABEL:
            return self.labels.setdefault((name, value), {})
        return self.fields.setdefault(name, {}).setdefault(value, {})

    def clean(self, watcher: Watcher) -> None:
        """Remove the place of a watcher if there is no group in it."""
        equality = watcher.equality
        if equality is None:
            return
        source, name, value = equality
        if source == LABEL:
            if not self.labels[name, value]:
                del self.labels[name, value]
            return
        values = self.fields[name]
        if not values[value]:
            del values[value]
            if not values:
                del self.fields[name]

    def concerned(self, item: Item, previous: Item | None) -> Iterator[Group]:
        """Yield the groups that a change of an object may concern, each once."""
        yield from self.every.values()
        for name, values in self.fields.items():
            after = field_value(item, name)
            if (groups := values.get(after)) is not None:
                yield from groups.values()
            if previous is not None and (before := field_value(previous, name)) != after:
                yield from values.get(before, _NONE).values()
        if self.labels:
            labels = item.labels or _NO_LABELS
            for pair in labels.items():
                yield from self.labels.get(pair, _NONE).values()
            if previous is not None and previous.labels and previous.labels != item.labels:
                for pair in previous.labels.items():
                    if labels.get(pair[0]) != pair[1]:
                        yield from self.labels.get(pair, _NONE).values()


_NONE: Groups = {}
_NO_LABELS: dict[str, str] = {}


class WatcherIndex:
    """The watchers of a resource that are in the live feed."""

    def __init__(self) -> None:
        self._groups: dict[Watcher, Group] = {}
        self._scopes: dict[str, _Scope] = {}
        """By the prefix of the keys in a namespace; the empty one is of all namespaces."""

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Watcher]:
        return iter(self._groups)

    def __contains__(self, watcher: Watcher) -> bool:
        return watcher in self._groups

    def add(self, watcher: Watcher) -> None:
        """Add a watcher, if it is not there."""
        if watcher in self._groups:
            return
        scope = self._scopes.get(watcher.prefix)
        if scope is None:
            scope = self._scopes[watcher.prefix] = _Scope()
        groups = scope.groups_of(watcher)
        group = groups.get(watcher.identity)
        if group is None:
            group = groups[watcher.identity] = Group()
        group.watchers[watcher] = None
        self._groups[watcher] = group

    def remove(self, watcher: Watcher) -> bool:
        """Remove a watcher; returns False if it is not there."""
        group = self._groups.pop(watcher, None)
        if group is None:
            return False
        del group.watchers[watcher]
        if not group.watchers:
            scope = self._scopes[watcher.prefix]
            del scope.groups_of(watcher)[watcher.identity]
            scope.clean(watcher)
            if scope.is_empty:
                del self._scopes[watcher.prefix]
        return True

    def concerned(self, events: Sequence[Event]) -> dict[Group, list[Event]]:
        """The groups that events may concern, each with its events in order."""
        found: dict[Group, list[Event]] = {}
        for event in events:
            item, previous = event.item, event.previous
            for prefix in ("", item.key[: len(item.key) - len(item.name)]):
                scope = self._scopes.get(prefix)
                if scope is not None:
                    for group in scope.concerned(item, previous):
                        found.setdefault(group, []).append(event)
        return found
