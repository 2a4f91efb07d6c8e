"""Everything that is served, and how to find it: the catalog of resources, by group, version and name.

Built from the table of built-ins; custom resources join and leave it at run time (`registry.custom.definitions`).
Discovery and OpenAPI read it, the router looks resources up in it, and rules that span kinds read other objects through
it (`Lookup`).
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from kapi.api.meta import GroupResource
from kapi.api.versions import by_priority
from kapi.cache.relist import relist
from kapi.cache.watchcache import RETENTION, CacheHub
from kapi.registry import initializers
from kapi.registry.builtins import GROUPS
from kapi.registry.custom.definitions import Definitions
from kapi.registry.encoding import BodyReader, CustomReader, head_of
from kapi.registry.fieldmanagers import FieldManagers
from kapi.registry.initializers import Initializers
from kapi.registry.kinds.core.service.ranges import DEFAULT_SERVICE_CIDR
from kapi.registry.quota.charges import Charges
from kapi.registry.resource import Resource
from kapi.registry.store import Store
from kapi.registry.strategies import CONVERSIONS, SCHEMAS, STORES, strategies
from kapi.registry.strategy import PlainStrategy
from kapi.storage.keys import resource_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.cache.watchcache import Reader, WatchCache
    from kapi.registry.builtins import Group, Row
    from kapi.registry.custom.conversion import Converter, ConverterFor
    from kapi.storage.interface import Storage

_PLAIN = PlainStrategy()


class Catalog:
    """All resources served now. `groups` keeps discovery order; a group's first version is its preferred one.

    `changes` grows with every change of what is served: what was derived from an older state is stale. `groups` are
    the built-in resources; an API server of one's own (`kapi.apiserver`) has none.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        *,
        retention: float = RETENTION,
        converter_for: ConverterFor | None = None,
        service_cidrs: Sequence[str] = (DEFAULT_SERVICE_CIDR,),
        groups: Sequence[Group] = GROUPS,
    ) -> None:
        self.storage = storage
        self.clock = clock
        self.changes = 0
        self.on_change: list[Callable[[], None]] = []
        """Called after every change of what is served."""
        self.groups: dict[str, dict[str, dict[str, Resource]]] = {}
        self._stores: dict[GroupResource, Store] = {}
        self._readers: dict[str, BodyReader] = {}
        self.hub = CacheHub(storage, self._reader, clock=clock, retention=retention)
        self._strategies = strategies(self.hub, service_cidrs)
        for group in groups:
            self._add_group(group)
        self._built_in = {group: frozenset(versions) for group, versions in self.groups.items()}
        self.field_managers = FieldManagers(self)
        self.charges = Charges()
        """The charges to quotas for writes that are on their way."""
        self.definitions = Definitions(self, converter_for or _no_webhooks)
        self.initializers = Initializers(self.hub)

    async def load(self) -> None:
        """Read what is stored, and serve the kinds defined in it."""
        self.storage.on_gap = partial(relist, self.hub)
        await self.hub.load()
        self.definitions.start()
        if initializers.GROUP in self._built_in:
            (configurations,) = self.definitions.serve_built_in(initializers.definition())
            self.initializers.start(configurations.stored.cache)

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
        return self._stores[_group_resource(resource)]

    # -- Lookup, for rules that span kinds --------------------------------------------------------------------------

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        """One object, decoded; None when it is not there."""
        store = self.store(resource)
        item = store.find(namespace, name)
        return None if item is None else store.decode(item)

    def list(self, resource: str, namespace: str = "", *, ending: str = "") -> Iterable[Object]:
        """All objects of a resource, in one namespace or (empty) in all, whose name has an ending."""
        store = self.store(resource)
        prefix = f"{store.prefix}{namespace}/" if namespace else ""
        return (store.decode(item) for item in store.cache.items(prefix) if item.name.endswith(ending))

    # -- custom resources -------------------------------------------------------------------------------------------

    def custom_cache(self, resource: GroupResource) -> WatchCache:
        """The cache of a custom resource, served or not."""
        return self.hub.cache(resource_prefix(resource.group, resource.resource))

    def replace(self, retired: Iterable[Resource], added: Iterable[Resource]) -> None:
        """Stop serving some custom resources and serve others, in one step."""
        for resource in retired:
            versions = self.groups.get(resource.group, {})
            resources = versions.get(resource.version, {})
            if resources.get(resource.resource) is not resource:
                continue
            del resources[resource.resource]
            if not resources:
                del versions[resource.version]
            if not versions:
                del self.groups[resource.group]
            self._replace_store(resource.group_resource)
        for resource in added:
            if resource.version in self._built_in.get(resource.group, ()):
                continue  # a group version of ours is not extended by definitions
            if resource.group not in self.groups:
                self.groups[resource.group] = {}
                self._order_groups()
            versions = self.groups[resource.group]
            if resource.version not in versions:
                versions[resource.version] = {}
                self._order_versions(resource.group)
            self.groups[resource.group][resource.version][resource.resource] = resource
            self._stores[resource.group_resource] = resource.stored
        self.changes += 1
        for changed in self.on_change:
            changed()

    def _replace_store(self, resource: GroupResource) -> None:
        """Find a custom resource's store by a version that is still served, after another was retired."""
        versions = self.groups.get(resource.group, {}).values()
        left = next((resources[resource.resource] for resources in versions if resource.resource in resources), None)
        if left is None:
            self._stores.pop(resource, None)
        else:
            self._stores[resource] = left.stored

    def _order_groups(self) -> None:
        custom = sorted(group for group in self.groups if group not in self._built_in)
        self.groups = {group: self.groups[group] for group in (*self._built_in, *custom) if group in self.groups}

    def _order_versions(self, group: str) -> None:
        built_in = self._built_in.get(group, frozenset())
        versions = self.groups[group]
        ours = [version for version in versions if version in built_in]
        theirs = sorted((version for version in versions if version not in built_in), key=by_priority)
        self.groups[group] = {version: versions[version] for version in (*ours, *theirs)}

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
        resource.read_schema = SCHEMAS.get((group.group, group.version, row.kind))
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

    def _reader(self, prefix: str) -> Reader:
        return self._readers.get(prefix) or CustomReader()


@lru_cache(maxsize=256)
def _group_resource(text: str) -> GroupResource:
    name, _, group = text.partition(".")
    return GroupResource(group, name)


def _no_webhooks(name: str, conversion: Object) -> Converter:
    raise NotImplementedError(f"{name}: this server was put together without conversion webhooks")
