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

    Groups = dict[object, "Group"]


class Group:
    """Watchers that are sent the same bytes: of the same namespace, selector and form, in the same framing."""

    __slots__ = ("after", "watchers")

    def __init__(self) -> None:
        self.watchers: dict[Watcher, None] = {}
        self.after = 0
        """No watcher of the group has been sent anything later than this revision when it joined."""

    def offer(self, events: Sequence[Event], last: int, failed: Callable[[Watcher, Event, Exception], None]) -> None:
        """Send what these events mean to the watchers; `last` is the revision that is reached with them.

        One whose selector or encoder raises is told to `failed`.
        """
        watchers = list(self.watchers)
        if len(watchers) == 1 or events[0].item.revision <= self.after:
            # One that has been sent some of them already gets the others only.
            for watcher in watchers:
                try:
                    watcher.offer(events, last)
                except Exception as error:
                    failed(watcher, events[0], error)
            return
        first = watchers[0]
        try:
            framed = first.framed(events)
        except Exception as error:
            for watcher in watchers:
                failed(watcher, events[0], error)
            return
        if not framed:
            return
        for watcher in watchers:
            try:
                if watcher.outlet.write_framed(framed):
                    watcher.fall_behind(last)
            except Exception as error:
                failed(watcher, events[0], error)

    def offer_large(self, events: Sequence[Event], failed: Callable[[Watcher, Event, Exception], None]) -> None:
        """Let the watchers read these events from history, if they concern them: some are too large for one write."""
        for watcher in list(self.watchers):
            try:
                watcher.offer_large(events)
            except Exception as error:
                failed(watcher, events[0], error)


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
        group.after = max(group.after, watcher.after)
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
