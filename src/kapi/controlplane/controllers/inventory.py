"""What housekeeping sees of the house: which resources there are, and where each object of them is.

Housekeeping runs in the process that has every object in its watch caches already. So it reads there, as of the last
commit, instead of keeping a second copy of everything; what it changes, it changes through the API like everybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import GroupResource
from kapi.api.meta import GroupVersionResource
from kapi.client.options import resource_path
from kapi.storage.keys import parse_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.api.meta import Object
    from kapi.cache.watchcache import CacheHub, Item
    from kapi.registry.catalog import Catalog
    from kapi.registry.resource import Resource


class Inventory:
    """Reads the catalog and its caches. Everything is current: kinds defined a moment ago are there."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._changes = -1
        self._resources: dict[GroupResource, Resource] = {}
        self._kinds: dict[tuple[str, str], Resource] = {}

    @property
    def hub(self) -> CacheHub:
        """The watch caches."""
        return self.catalog.hub

    # -- resources --------------------------------------------------------------------------------------------------

    def resources(self) -> Iterator[Resource]:
        """Every stored resource once, at its preferred version; of groups that share objects, the storing one."""
        self._refresh()
        return iter(self._resources.values())

    def resource(self, name: GroupResource) -> Resource | None:
        """A resource at its preferred version, by the group and name in its objects' keys."""
        self._refresh()
        return self._resources.get(name)

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The stored resource of a kind at a version; None when that version of it is not served."""
        self._refresh()
        return self._kinds.get((api_version, kind))

    def _refresh(self) -> None:
        if self._changes == self.catalog.changes:
            return
        self._changes = self.catalog.changes
        self._resources.clear()
        self._kinds.clear()
        for resource in self.catalog:
            if resource.store is None:
                continue
            self._kinds[resource.api_version, resource.kind] = resource
            location = parse_key(f"{resource.store.prefix}name")
            stored = GroupResource(location.group, location.resource)
            if stored.group == resource.group:
                self._resources.setdefault(stored, resource)

    # -- objects ----------------------------------------------------------------------------------------------------

    def resource_at(self, key: str) -> Resource | None:
        """The resource whose object lies at a key; None when it is not served (any more)."""
        location = parse_key(key)
        return self.resource(GroupResource(location.group, location.resource))

    def items(self, resource: str, namespace: str = "") -> list[Item]:
        """The items of a resource (`pods`, `jobs.batch`), in one namespace or in all: labels, fields and bytes."""
        store = self.catalog.store(resource)
        return store.cache.items(f"{store.prefix}{namespace}/" if namespace else "")

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        """One object, decoded, yours to change; None when it is not there."""
        return self.catalog.get(resource, namespace, name)

    def decode(self, resource: str, item: Item) -> Object:
        """The object of an item of a built-in resource; yours to change."""
        return self.catalog.store(resource).decode(item)


def path_of(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Where the API serves a collection, an object of it, or a part of that."""
    gvr = GroupVersionResource(resource.group, resource.version, resource.resource)
    return resource_path(gvr, namespace if resource.namespaced else "", name, subresource)
