"""Everything that is served, and how to find it: the catalog of resources, by group, version and name.

Built once from the table of built-ins; custom resources will join and leave it at run time. Discovery and OpenAPI
read it, the router looks resources up in it, and rules that span kinds read other objects through it (`Lookup`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import GroupResource
from kapi.registry.builtins import GROUPS
from kapi.registry.encoding import BodyReader, head_of
from kapi.registry.resource import Resource
from kapi.registry.rules import CONVERSIONS, STORES, strategies
from kapi.registry.store import Store
from kapi.registry.strategy import Strategy
from kapi.storage.keys import resource_prefix
from kapi.storage.watchcache import RETENTION, CacheHub

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.registry.builtins import Group, Row
    from kapi.storage.interface import Storage

_PLAIN = Strategy()


class Catalog:
    """All resources served now. `groups` keeps discovery order; a group's first version is its preferred one."""

    def __init__(self, storage: Storage, clock: Clock, *, retention: float = RETENTION) -> None:
        self.storage = storage
        self.clock = clock
        self.groups: dict[str, dict[str, dict[str, Resource]]] = {}
        self._strategies = strategies()
        self._stores: dict[GroupResource, Store] = {}
        self._readers: dict[str, BodyReader] = {}
        self.hub = CacheHub(storage, self._reader, clock=clock, retention=retention)
        for group in GROUPS:
            self._add_group(group)

    # -- finding ----------------------------------------------------------------------------------------------------

    def find(self, group: str, version: str, resource: str) -> Resource | None:
        """The resource at a version, or None."""
        try:
            return self.groups[group][version][resource]
        except KeyError:
            return None

    def __iter__(self) -> Iterator[Resource]:
        for versions in self.groups.values():
            for resources in versions.values():
                yield from resources.values()

    def store(self, resource: str) -> Store:
        """A store by its `GroupResource` text: `pods`, `leases.coordination.k8s.io`."""
        name, _, group = resource.partition(".")
        return self._stores[GroupResource(group, name)]

    # -- Lookup, for rules that span kinds --------------------------------------------------------------------------

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        """One object, decoded; None when it is not there."""
        store = self.store(resource)
        item = store.find(namespace, name)
        return None if item is None else store.decode(item)

    def list(self, resource: str, namespace: str = "") -> Iterable[Object]:
        """All objects of a resource, in one namespace or (empty) in all."""
        store = self.store(resource)
        prefix = f"{store.prefix}{namespace}/" if namespace else ""
        return (store.decode(item) for item in store.cache.items(prefix))

    # -- building ---------------------------------------------------------------------------------------------------

    def _add_group(self, group: Group) -> None:
        resources = self.groups.setdefault(group.group, {}).setdefault(group.version, {})
        for row in group.rows:
            resources[row.resource] = self._resource(group, row)

    def _resource(self, group: Group, row: Row) -> Resource:
        resource = Resource(
            group=group.group,
            version=group.version,
            resource=row.resource,
            kind=row.kind,
            singular=row.singular or row.kind.lower(),
            namespaced=row.namespaced,
            verbs=row.verbs,
            short_names=row.short_names,
            categories=row.categories,
            subresources={sub.name: sub for sub in row.subresources},
            deprecation=row.deprecation,
        )
        if not row.stored:
            return resource
        hub_group, hub_version = group.hub or (group.group, group.version)
        resource.store = self._store(hub_group, hub_version, row, resource)
        conversion = CONVERSIONS.get((group.group, group.version, row.kind))
        if conversion is not None:
            resource.to_hub, resource.from_hub, resource.field_aliases = conversion
        resource.selectable = tuple(resource.field_aliases) or resource.store.strategy.selectable_fields
        return resource

    def _store(self, group: str, version: str, row: Row, resource: Resource) -> Store:
        stored = GroupResource(group, row.resource)
        own = self._strategies.get((resource.group, row.kind))
        # Versions of one group share a store. Another group has its own, with its own rules, over the same objects.
        name = stored if resource.group == group or own is None else resource.group_resource
        store = self._stores.get(name)
        if store is None:
            hub_strategy = self._strategies.get((group, row.kind), _PLAIN)
            gvk = resource.gvk._replace(group=group, version=version)
            selectable = hub_strategy.selectable if hub_strategy.selectable_fields else None
            prefix = resource_prefix(group, row.resource)
            self._readers.setdefault(prefix, BodyReader(head_of(gvk.api_version, gvk.kind), selectable))
            store = self._stores[name] = STORES.get((group, row.kind), Store)(
                gvk=gvk,
                resource=name,
                namespaced=row.namespaced,
                strategy=own or hub_strategy,
                storage=self.storage,
                hub=self.hub,
                schema=lambda: resource.schema,
                stored_as=(stored, hub_strategy),
            )
        return store

    def _reader(self, prefix: str) -> BodyReader:
        reader = self._readers.get(prefix)
        # Keys of a resource nobody serves: kept whole, so that nothing is lost if it is served again.
        return reader or BodyReader(b"", None)
