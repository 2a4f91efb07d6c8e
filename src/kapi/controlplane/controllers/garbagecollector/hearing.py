"""Which objects a commit concerns, and what the collector remembers between commits.

`Hearing.hear` is called within every commit of every kind, so what has no owners, owns nothing and is not being deleted
must cost it next to nothing. Nothing that it remembers is precious: `initial` finds all of it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from kapi.cache.watchcache import prefix_of
from kapi.controlplane.controllers.garbagecollector.judgement import Judge, Unserved
from kapi.controlplane.controllers.garbagecollector.metadata import (
    is_marked,
    metadata_of,
    names_the_same,
    request_of,
    uid_of,
)
from kapi.registry.custom.definitions import RESOURCE as DEFINITIONS
from kapi.registry.deletion import FOREGROUND, ORPHAN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.cache.watchcache import Event, Item, WatchCache
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.inventory import Inventory

IGNORED: Final = "events"
"""What nobody owns, whatever it says: Events come and go by themselves."""

FEW_GONE: Final = 10_000
"""How many owners may be remembered as gone before it is looked whether anybody still names them."""


@dataclass(slots=True)
class Emptying:
    """An object that waits for its dependents to go.

    Promise: it need not be looked at again before `blocker` changes or goes. It is None until somebody has looked.
    """

    key: str
    blocker: str | None = None


class Hearing:
    """From commits to the objects that may have to go, be let go, or stop waiting."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._hub = inventory.hub
        self._ignored = inventory.catalog.store(IGNORED).prefix
        self._definitions = inventory.catalog.store(DEFINITIONS).prefix
        self.emptying: dict[str, Emptying] = {}
        """Objects that are being deleted in the foreground, by uid."""
        self._gone: dict[str, str] = {}
        """The namespaces of owners that went while somebody named them, by uid."""
        self._most_gone = FEW_GONE
        self._parked: dict[Unserved, dict[str, None]] = {}
        """Keys of objects that cannot be judged before a kind is served."""
        self.judge = Judge(inventory, self._gone)

    # -- what others ask ------------------------------------------------------------------------------------------

    def dependents(self, uid: str) -> list[str]:
        """The keys of the objects that name an owner, but for those that are nobody's."""
        return [key for key in self._hub.owners.dependents(uid) if not key.startswith(self._ignored)]

    def park(self, key: str, unserved: Iterable[Unserved]) -> None:
        """Hear of an object again when one of these kinds is served."""
        for one in unserved:
            self._parked.setdefault(one, {})[key] = None

    def _unpark(self, key: str) -> None:
        for one, keys in list(self._parked.items()):
            keys.pop(key, None)
            if not keys:
                del self._parked[one]

    # -- at the start -----------------------------------------------------------------------------------------------

    def initial(self) -> Iterable[Request]:
        """Whatever the process before may have left undone."""
        items = chain.from_iterable(cache.items() for cache in list(self._hub.caches) if cache.prefix != self._ignored)
        for item in items:
            if is_marked(item):
                yield from self._marked(item)
            elif item.owners and not self.judge.is_fine(item):
                yield request_of(item.key)

    # -- within a commit --------------------------------------------------------------------------------------------

    def hear(self, cache: WatchCache, event: Event) -> Iterable[Request]:
        """The objects to look at because of a change."""
        found = self._heard(cache, event)
        if self._parked and cache.prefix == self._definitions:
            return [*found, *self._served()]
        return found

    def _heard(self, cache: WatchCache, event: Event) -> Iterable[Request]:
        item, previous = event.item, event.previous
        if event.deleted:
            return self._went(item)
        if item.owners is None and (previous is None or previous.owners is None):
            # What is being deleted has been there before.
            return self._marked(item) if previous is not None and is_marked(item) else ()
        return () if cache.prefix == self._ignored else self._owned(item, previous)

    def _owned(self, item: Item, previous: Item | None) -> list[Request]:
        """Something that names owners, or did, was written."""
        is_news = previous is None or not names_the_same(item, previous)
        found: list[Request] = []
        if is_news and previous is not None:
            found += self._unblocked(previous)
        if is_marked(item):
            found += self._marked(item)
        elif is_news and item.owners and not self.judge.is_fine(item):
            found.append(request_of(item.key))
        return found

    def _marked(self, item: Item) -> Iterable[Request]:
        """Something that is being deleted was written, or found at the start."""
        metadata = metadata_of(item)
        if metadata.has(ORPHAN) or not metadata.has(FOREGROUND):
            self.emptying.pop(metadata.uid, None)
            return (request_of(item.key),) if metadata.has(ORPHAN) else ()
        if metadata.uid in self.emptying:
            return ()
        self.emptying[metadata.uid] = Emptying(item.key)
        return [request_of(item.key), *map(request_of, self.dependents(metadata.uid))]

    def _went(self, item: Item) -> Iterable[Request]:
        """Something is gone. Those who named it are queued as they are; nothing is decoded for that."""
        found = self._unblocked(item)
        if item.owners and self._parked:
            self._unpark(item.key)
        if not self.emptying and not len(self._hub.owners):
            return found
        uid = uid_of(item)
        self.emptying.pop(uid, None)
        dependents = self.dependents(uid)
        if dependents:
            self._remember(uid, item.namespace)
            found += map(request_of, dependents)
        return found

    def _unblocked(self, item: Item) -> list[Request]:
        """Owners that may have waited for what an object said of them, or for the object."""
        if not item.owners or not self.emptying:
            return []
        waiting = (self.emptying.get(uid) for uid in item.owners)
        return [request_of(owner.key) for owner in waiting if owner is not None and owner.blocker in (None, item.key)]

    def _remember(self, uid: str, namespace: str) -> None:
        self._gone[uid] = namespace
        if len(self._gone) > self._most_gone:
            for one in [one for one in self._gone if not self.dependents(one)]:
                del self._gone[one]
            self._most_gone = 2 * len(self._gone) + FEW_GONE

    def _served(self) -> list[Request]:
        """Those who waited for kinds that are served now."""
        now = [one for one in self._parked if self._is_served(one)]
        return [request_of(key) for one in now for key in self._parked.pop(one)]

    def _is_served(self, one: Unserved) -> bool:
        if one.prefix:
            return self._inventory.resource_at(f"{one.prefix}name") is not None
        return self._inventory.of_kind(one.api_version, one.kind) is not None


def own_kind(key: str) -> Unserved:
    """The kind of an object that cannot be reached because it is not served."""
    return Unserved("", "", prefix_of(key))
