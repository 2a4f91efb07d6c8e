"""The view: everything that the built-in controllers read, and how they learn of changes.

`ObjectView` is the contract, `CacheView` the implementation on the watch caches of this process, which hold every
object already; a second copy would only be older. An implementation on informers can take its place: controllers see
nothing of the caches behind it.

What a view says may be behind the store when another server has written. So no controller deletes on the strength of
what a view lacks: writes carry preconditions, and the garbage collector reads an owner through the API before it
deletes a dependent of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kapi.api.meta import GroupResource
from kapi.cache.watchcache import prefix_of
from kapi.storage.keys import parse_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item, WatchCache
    from kapi.registry.catalog import Catalog
    from kapi.registry.resource import Resource


class ObjectView(Protocol):
    """A consistent view of resources and objects, as of the last change that was taken in.

    Objects are `Item`s, with labels, selectable fields, owners and encoded bytes, or decoded objects, which are the
    caller's to change. A resource is named as `pods` or `jobs.batch`, an object by its storage key or by resource,
    namespace and name. Nothing here waits.
    """

    # -- resources --------------------------------------------------------------------------------------------------

    @property
    def discovery_generation(self) -> int:
        """A number that changes when resources are added or removed."""
        ...

    def resources(self) -> Iterator[Resource]:
        """Every stored resource once, at its preferred version; of groups that share objects, the storing one."""
        ...

    def resource(self, name: GroupResource) -> Resource | None:
        """A resource at its preferred version, by the group and name in its objects' keys."""
        ...

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The stored resource of a kind at a version; None when that version of it is not served."""
        ...

    def resource_at(self, key: str) -> Resource | None:
        """The resource of the object at a key; None when it is not served (any more)."""
        ...

    def prefix(self, resource: str) -> str:
        """The key prefix of a built-in resource."""
        ...

    # -- objects ----------------------------------------------------------------------------------------------------

    def at(self, key: str) -> Item | None:
        """The object at a key."""
        ...

    def find(self, resource: str, namespace: str, name: str) -> Item | None:
        """One object of a built-in resource."""
        ...

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        """One object of a built-in resource, decoded."""
        ...

    def decode(self, resource: str, item: Item) -> Object:
        """The decoded object of an item of a built-in resource."""
        ...

    def items(self, resource: str, namespace: str = "") -> list[Item]:
        """The objects of a built-in resource, in one namespace or in all."""
        ...

    def below(self, prefix: str) -> list[Item]:
        """The objects whose keys begin with a prefix that names at least the resource."""
        ...

    def count(self, prefix: str) -> int:
        """The number of objects `below` a prefix."""
        ...

    def namespaces_of(self, prefix: str) -> Iterator[str]:
        """The namespaces in which a resource has objects."""
        ...

    def prefixes(self) -> list[str]:
        """The key prefixes of all resources that have, or had, objects."""
        ...

    # -- owners -----------------------------------------------------------------------------------------------------

    @property
    def has_owners(self) -> bool:
        """True if any object names an owner."""
        ...

    def dependents(self, uid: str) -> list[str]:
        """The keys of the objects that name an owner, in the order in which they began to."""
        ...

    # -- changes ----------------------------------------------------------------------------------------------------

    def subscribe(self, prefix: str, listener: Callable[[Sequence[Event]], None]) -> Callable[[], None]:
        """Call a listener with every change of a resource, in order; the function that is returned ends that."""
        ...

    def subscribe_all(self, listener: Callable[[str, Sequence[Event]], None]) -> Callable[[], None]:
        """Call a listener with the key prefix and the changes of any resource, those defined later among them."""
        ...


class CacheView:
    """The view of the watch caches of this process: current to the last commit of this server."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._hub = catalog.hub
        self._generation = -1
        self._resources: dict[GroupResource, Resource] = {}
        self._kinds: dict[tuple[str, str], Resource] = {}

    # -- resources --------------------------------------------------------------------------------------------------

    @property
    def discovery_generation(self) -> int:
        """See `ObjectView`."""
        return self._catalog.changes

    def resources(self) -> Iterator[Resource]:
        """See `ObjectView`."""
        self._refresh()
        return iter(self._resources.values())

    def resource(self, name: GroupResource) -> Resource | None:
        """See `ObjectView`."""
        self._refresh()
        return self._resources.get(name)

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """See `ObjectView`."""
        self._refresh()
        return self._kinds.get((api_version, kind))

    def resource_at(self, key: str) -> Resource | None:
        """See `ObjectView`."""
        location = parse_key(key)
        return self.resource(GroupResource(location.group, location.resource))

    def prefix(self, resource: str) -> str:
        """See `ObjectView`."""
        return self._catalog.store(resource).prefix

    def _refresh(self) -> None:
        if self._generation == self._catalog.changes:
            return
        self._generation = self._catalog.changes
        self._resources.clear()
        self._kinds.clear()
        for resource in self._catalog:
            if resource.store is None:
                continue
            self._kinds[resource.api_version, resource.kind] = resource
            location = parse_key(f"{resource.store.prefix}name")
            stored = GroupResource(location.group, location.resource)
            if stored.group == resource.group:
                self._resources.setdefault(stored, resource)

    # -- objects ----------------------------------------------------------------------------------------------------

    def at(self, key: str) -> Item | None:
        """See `ObjectView`."""
        return self._hub.find(key)

    def find(self, resource: str, namespace: str, name: str) -> Item | None:
        """See `ObjectView`."""
        return self._catalog.store(resource).find(namespace, name)

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        """See `ObjectView`."""
        return self._catalog.get(resource, namespace, name)

    def decode(self, resource: str, item: Item) -> Object:
        """See `ObjectView`."""
        return self._catalog.store(resource).decode(item)

    def items(self, resource: str, namespace: str = "") -> list[Item]:
        """See `ObjectView`."""
        prefix = self.prefix(resource)
        return self.below(f"{prefix}{namespace}/" if namespace else prefix)

    def below(self, prefix: str) -> list[Item]:
        """See `ObjectView`."""
        return self._cache(prefix).items(prefix)

    def count(self, prefix: str) -> int:
        """See `ObjectView`."""
        return self._cache(prefix).count(prefix)

    def namespaces_of(self, prefix: str) -> Iterator[str]:
        """See `ObjectView`; one look-up for each namespace, not for each object."""
        cache, start = self._cache(prefix), prefix
        while True:
            items, _ = cache.page("", start, 1)
            if not items:
                return
            namespace = items[0].namespace
            yield namespace
            # Keys are sorted, and "0" follows "/".
            start = f"{prefix}{namespace}0"

    def prefixes(self) -> list[str]:
        """See `ObjectView`."""
        return [cache.prefix for cache in self._hub.caches]

    def _cache(self, prefix: str) -> WatchCache:
        # Looked up each time: the cache of a custom resource is dropped with its definition, and may come back.
        return self._hub.cache(prefix_of(prefix))

    # -- owners -----------------------------------------------------------------------------------------------------

    @property
    def has_owners(self) -> bool:
        """See `ObjectView`."""
        return len(self._hub.owners) > 0

    def dependents(self, uid: str) -> list[str]:
        """See `ObjectView`."""
        return self._hub.owners.dependents(uid)

    # -- changes ----------------------------------------------------------------------------------------------------

    def subscribe(self, prefix: str, listener: Callable[[Sequence[Event]], None]) -> Callable[[], None]:
        """See `ObjectView`; the listener runs within the commit, before the write is acknowledged."""
        cache = self._hub.cache(prefix)
        cache.listen(listener)
        return lambda: cache.unlisten(listener)

    def subscribe_all(self, listener: Callable[[str, Sequence[Event]], None]) -> Callable[[], None]:
        """See `ObjectView`; the listener runs within the commit, before the write is acknowledged."""

        def take(cache: WatchCache, events: Sequence[Event]) -> None:
            listener(cache.prefix, events)

        self._hub.listeners.append(take)
        return lambda: self._hub.listeners.remove(take)
