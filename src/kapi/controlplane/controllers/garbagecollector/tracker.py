"""The dependency tracker: which objects a commit affects, and what the collector remembers between commits.

`DependencyTracker.enqueue` is called within every commit of every kind, so it must cost next to nothing for objects
that have no owners and no dependents and are not being deleted. Nothing that it remembers is precious: `initial` finds
all of it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from kapi.cache.watchcache import prefix_of
from kapi.controlplane.controllers.garbagecollector.metadata import (
    has_same_references,
    is_being_deleted,
    metadata_of,
    request_of,
    uid_of,
)
from kapi.controlplane.controllers.garbagecollector.references import ReferenceClassifier, UnservedKind
from kapi.registry.custom.definitions import RESOURCE as DEFINITIONS
from kapi.registry.deletion import FOREGROUND, ORPHAN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.cache.watchcache import Event, Item
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.view import ObjectView

IGNORED: Final = "events"
"""The resource that is not garbage collected, as in Kubernetes: Events expire."""

MIN_DELETED: Final = 10_000
"""The number of deleted owners that are remembered before those without dependents are dropped."""


@dataclass(slots=True)
class WaitingOwner:
    """An object that is being deleted in the foreground.

    Promise: it need not be reconciled before `blocker`, the key of a dependent, changes or is deleted. `blocker` is
    None before the first reconcile.
    """

    key: str
    blocker: str | None = None


class DependencyTracker:
    """Maps commits to the objects that may have to be deleted, orphaned or released."""

    def __init__(self, view: ObjectView) -> None:
        self._view = view
        self._ignored = view.prefix(IGNORED)
        self._definitions = view.prefix(DEFINITIONS)
        self.waiting_owners: dict[str, WaitingOwner] = {}
        """Objects that are being deleted in the foreground, by uid."""
        self._deleted: dict[str, str] = {}
        """The namespaces of owners that were deleted while they had dependents, by uid."""
        self._max_deleted = MIN_DELETED
        self._undecided: dict[UnservedKind, dict[str, None]] = {}
        """The keys of objects that cannot be classified before a kind is served."""
        self.late: set[str] = set()
        """The keys of objects that were given an absent owner when they were written, until they are reconciled."""
        self.classifier = ReferenceClassifier(view, self._deleted)

    # -- for the collector ------------------------------------------------------------------------------------------

    def dependents(self, uid: str) -> list[str]:
        """The keys of the objects that name an owner, except for Events."""
        return [key for key in self._view.dependents(uid) if not key.startswith(self._ignored)]

    def enqueue_when_served(self, key: str, kinds: Iterable[UnservedKind]) -> None:
        """Enqueue an object again when one of these kinds is served."""
        for kind in kinds:
            self._undecided.setdefault(kind, {})[key] = None

    def _drop_undecided(self, key: str) -> None:
        for kind, keys in list(self._undecided.items()):
            keys.pop(key, None)
            if not keys:
                del self._undecided[kind]

    # -- at the start -----------------------------------------------------------------------------------------------

    def initial(self) -> Iterable[Request]:
        """The requests for whatever the process before may have left undone."""
        prefixes = [prefix for prefix in self._view.prefixes() if prefix != self._ignored]
        for item in chain.from_iterable(map(self._view.below, prefixes)):
            if is_being_deleted(item):
                yield from self._being_deleted(item)
            elif item.owners and not self.classifier.is_solid(item):
                yield request_of(item.key)

    # -- within a commit --------------------------------------------------------------------------------------------

    def enqueue(self, prefix: str, event: Event) -> Iterable[Request]:
        """The requests for the objects that a change affects."""
        requests = self._affected(prefix, event)
        if self._undecided and prefix == self._definitions:
            return [*requests, *self._decidable()]
        return requests

    def _affected(self, prefix: str, event: Event) -> Iterable[Request]:
        item, previous = event.item, event.previous
        if event.deleted:
            return self._deletion(item)
        if item.owners is None and (previous is None or previous.owners is None):
            # An object that is being deleted has existed before.
            return self._being_deleted(item) if previous is not None and is_being_deleted(item) else ()
        return () if prefix == self._ignored else self._write(item, previous)

    def _write(self, item: Item, previous: Item | None) -> list[Request]:
        """An object that names owners, or did, was written."""
        is_changed = previous is None or not has_same_references(item, previous)
        requests: list[Request] = []
        if is_changed and previous is not None:
            requests += self._unblocked(previous)
        if is_being_deleted(item):
            requests += self._being_deleted(item)
        elif is_changed and item.owners and not self.classifier.is_solid(item):
            self.late.add(item.key)
            requests.append(request_of(item.key))
        return requests

    def _being_deleted(self, item: Item) -> Iterable[Request]:
        """An object that is being deleted was written, or found at the start."""
        metadata = metadata_of(item)
        if metadata.has(ORPHAN) or not metadata.has(FOREGROUND):
            self.waiting_owners.pop(metadata.uid, None)
            return (request_of(item.key),) if metadata.has(ORPHAN) else ()
        if metadata.uid in self.waiting_owners:
            return ()
        self.waiting_owners[metadata.uid] = WaitingOwner(item.key)
        return [request_of(item.key), *map(request_of, self.dependents(metadata.uid))]

    def _deletion(self, item: Item) -> Iterable[Request]:
        """An object was deleted. Its dependents are enqueued without being decoded."""
        requests = self._unblocked(item)
        if item.owners and self._undecided:
            self._drop_undecided(item.key)
        if not self.waiting_owners and not self._view.has_owners:
            return requests
        uid = uid_of(item)
        self.waiting_owners.pop(uid, None)
        dependents = self.dependents(uid)
        if dependents:
            self._remember_deleted(uid, item.namespace)
            requests += map(request_of, dependents)
        return requests

    def _unblocked(self, item: Item) -> list[Request]:
        """The owners that may have waited for an object, or for a change of its references."""
        if not item.owners or not self.waiting_owners:
            return []
        waiting = (self.waiting_owners.get(uid) for uid in item.owners)
        return [request_of(owner.key) for owner in waiting if owner is not None and owner.blocker in (None, item.key)]

    def _remember_deleted(self, uid: str, namespace: str) -> None:
        self._deleted[uid] = namespace
        if len(self._deleted) > self._max_deleted:
            for one in [one for one in self._deleted if not self.dependents(one)]:
                del self._deleted[one]
            self._max_deleted = 2 * len(self._deleted) + MIN_DELETED

    def _decidable(self) -> list[Request]:
        """The objects that waited for kinds which are served now."""
        served = [kind for kind in self._undecided if self._is_served(kind)]
        return [request_of(key) for kind in served for key in self._undecided.pop(kind)]

    def _is_served(self, kind: UnservedKind) -> bool:
        if kind.prefix:
            return self._view.resource_at(f"{kind.prefix}name") is not None
        return self._view.of_kind(kind.api_version, kind.kind) is not None


def own_kind(key: str) -> UnservedKind:
    """The kind of an object that cannot be written because its kind is not served."""
    return UnservedKind("", "", prefix_of(key))
