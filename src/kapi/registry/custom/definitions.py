"""The stored definitions, turned into served resources the moment they are committed.

`Definitions` listens to the watch cache of definitions, which is fed before a write is acknowledged. So a client that
reads that a definition is established finds its kind served, by every path and in discovery.

A change of a definition replaces the resources it concerns and leaves the others, and their watchers, alone. A resource
that was replaced is retired: its watches end, which clients answer by watching again from where they were, and writes
that were validated by the old rules are refused with a request to try again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kapi.api.meta import GroupResource, GroupVersionKind
from kapi.api.versions import by_priority
from kapi.cache.watchcache import Item, Selection
from kapi.registry.custom.scale import ScalePaths
from kapi.registry.custom.store import CustomStore
from kapi.registry.custom.strategy import CustomStrategy
from kapi.registry.custom.version import CustomVersion, outline_of
from kapi.registry.encoding import encode, head_of
from kapi.registry.resource import STATUS_VERBS, Resource, Subresource
from kapi.storage.keys import object_key, resource_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.registry.catalog import Catalog
    from kapi.registry.custom.conversion import Converter, ConverterFor
    from kapi.registry.custom.version import Names, Outline, Version

RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"
VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order custom resources have them in discovery."""
_STORED_AS = ("apiextensions.k8s.io", "customresourcedefinitions")
SCALE = Subresource("scale", "Scale", STATUS_VERBS, "autoscaling", "v1")


class Rules(NamedTuple):
    """The classes that serve the versions of a kind."""

    store: type[CustomStore] = CustomStore
    strategy: type[CustomStrategy] = CustomStrategy


CUSTOM = Rules()


def _key(name: str) -> str:
    """Return the storage key of a definition."""
    return object_key(*_STORED_AS, "", name)


class Definition:
    """A definition that is served: its resources by version, and which of them are published."""

    def __init__(self, outline: Outline) -> None:
        self.group = outline.spec.group
        self.plural = outline.spec.names.plural
        self.uid = outline.metadata.uid
        self.resources: dict[str, Resource] = {}
        self._served = [version.name for version in outline.spec.versions if version.served]
        self._storage = next(version.name for version in outline.spec.versions if version.storage)

    @property
    def published(self) -> dict[str, Resource]:
        """The versions clients can reach."""
        return {version: self.resources[version] for version in self._served}

    @property
    def storage(self) -> Resource:
        """The version objects are stored in, served or not."""
        return self.resources[self._storage]


class Definitions:
    """All definitions that are served now, by name; keeps the catalog in step with what is stored."""

    def __init__(self, catalog: Catalog, converter_for: ConverterFor) -> None:
        self._catalog = catalog
        self._converter_for = converter_for
        self._served: dict[str, Definition] = {}
        self._built_in: dict[str, Rules] = {}
        self._cache = catalog.hub.cache(resource_prefix(*_STORED_AS))

    def start(self) -> None:
        """Serve what is stored, then follow the changes. History must have been loaded."""
        for item in self._cache.items():
            with self._catalog.hub.invalid.guard(item.key, "registry.custom.definitions"):
                self._define(item)
        self._cache.listen(self._heard)

    def serve_built_in(self, obj: Object, rules: Rules = CUSTOM) -> list[Resource]:
        """Serve a kind of this server by a definition that is not stored; returns the resource of each version."""
        name = obj["metadata"]["name"]
        body = encode(obj).removeprefix(head_of(obj["apiVersion"], obj["kind"]))
        self._built_in[name] = rules
        self._serve(Item(_key(name), "", name, 0, body, Selection(None, None)))
        resources = list(self._served[name].resources.values())
        for resource in resources:
            assert isinstance(resource.stored, CustomStore)
            resource.stored.is_built_in = True
        return resources

    def get(self, name: str) -> Definition | None:
        """A served definition by name."""
        return self._served.get(name)

    def _heard(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.deleted and event.item.name not in self._built_in:
                self._forget(event.item.name)
            else:
                self._define(event.item)

    def _define(self, item: Item) -> None:
        if item.name not in self._built_in:
            self._serve(item)

    def _serve(self, item: Item) -> None:
        outline = outline_of(item)
        if not (outline.is_true("Established") or outline.is_true("NamesAccepted")):
            self._forget(item.name)
            return
        known = self._served.get(item.name)
        if known is not None and known.uid != outline.metadata.uid:
            self._forget(item.name)
            known = None
        current = self._build(outline, item, known)
        self._served[item.name] = current
        before = {} if known is None else known.published
        after = current.published
        self._replace(
            [one for version, one in before.items() if after.get(version) is not one],
            [one for version, one in after.items() if before.get(version) is not one],
        )

    def _forget(self, name: str) -> None:
        known = self._served.pop(name, None)
        if known is None:
            return
        self._replace(list(known.published.values()), [])
        cache = self._catalog.custom_cache(GroupResource(known.group, known.plural))
        if not len(cache):
            self._catalog.hub.drop(cache.prefix)

    def _replace(self, retired: list[Resource], added: list[Resource]) -> None:
        self._catalog.replace(retired, added)
        for resource in retired:
            store = resource.stored
            assert isinstance(store, CustomStore)
            store.is_retired = True
            assert resource.custom is not None
            if not resource.custom.retired.done():
                resource.custom.retired.set_result(None)

    # -- building ---------------------------------------------------------------------------------------------------

    def _build(self, outline: Outline, item: Item, known: Definition | None) -> Definition:
        definition = Definition(outline)
        going = outline.is_true("Terminating") or outline.metadata.deletion_timestamp is not None
        converter = self._converter(outline)
        customs = {version.name: _custom(outline, version, item, known) for version in outline.spec.versions}
        for version in outline.spec.versions:
            old = known.resources.get(version.name) if known is not None else None
            if old is not None and old.custom is customs[version.name]:
                resource = old
            else:
                resource = self._resource(outline, version, customs, converter)
            store = resource.stored
            assert isinstance(store, CustomStore)
            store.is_terminating = going
            definition.resources[version.name] = resource
        return definition

    def _converter(self, outline: Outline) -> Converter | None:
        conversion = outline.spec.conversion
        if conversion.get("strategy") != "Webhook":
            return None
        return self._converter_for(outline.metadata.name, conversion)

    def _resource(
        self, outline: Outline, version: Version, customs: dict[str, CustomVersion], converter: Converter | None
    ) -> Resource:
        spec, names = outline.spec, outline.status.accepted_names
        custom = customs[version.name]
        scale = None
        if version.subresources is not None and version.subresources.scale is not None:
            scale = ScalePaths.of(version.subresources.scale)
        rules = self._built_in.get(outline.metadata.name, CUSTOM)
        strategy = rules.strategy(version, custom.schema, scale)
        store = rules.store(
            gvk=GroupVersionKind(spec.group, version.name, names.kind),
            resource=GroupResource(spec.group, spec.names.plural),
            namespaced=spec.scope == "Namespaced",
            strategy=strategy,
            storage=self._catalog.storage,
            hub=self._catalog.hub,
            schema=lambda: custom.schema,
        )
        stored_in = next(one.name for one in spec.versions if one.storage)
        schemas = {f"{spec.group}/{name}": one.schema for name, one in customs.items()}
        store.configure(schemas, f"{spec.group}/{stored_in}", converter, _key(outline.metadata.name))
        return Resource(
            group=spec.group,
            version=version.name,
            resource=spec.names.plural,
            kind=names.kind,
            singular=names.singular,
            namespaced=store.namespaced,
            verbs=VERBS,
            short_names=tuple(names.short_names),
            categories=tuple(names.categories),
            subresources=_subresources(version, names.kind),
            store=store,
            selectable=strategy.selectable_fields,
            deprecation=_deprecation(outline, version, names),
            list_kind=names.list_kind,
            custom=custom,
            read_schema=lambda: custom.schema,
        )


def _custom(outline: Outline, version: Version, item: Item, known: Definition | None) -> CustomVersion:
    """The version of a definition as it is served; the same object as before when nothing changed for it."""
    custom = CustomVersion(outline, version, item)
    old = known.resources.get(version.name) if known is not None else None
    if old is None or old.custom is None or old.custom.fingerprint != custom.fingerprint:
        return custom
    old.custom.refresh(item)
    return old.custom


def _subresources(version: Version, kind: str) -> dict[str, Subresource]:
    found = version.subresources
    subresources: dict[str, Subresource] = {}
    if found is not None and found.status is not None:
        subresources["status"] = Subresource("status", kind, STATUS_VERBS)
    if found is not None and found.scale is not None:
        subresources["scale"] = SCALE
    return subresources


def _deprecation(outline: Outline, version: Version, names: Names) -> str:
    """The warning for clients of a deprecated version: the author's, or else one that names the version to use."""
    if not version.deprecated:
        return ""
    if version.deprecation_warning is not None:
        return version.deprecation_warning
    group = outline.spec.group
    text = f"{group}/{version.name} {names.kind} is deprecated"
    better = [one.name for one in outline.spec.versions if one.served and not one.deprecated]
    best = min(better, key=by_priority, default="")
    if best and by_priority(best) < by_priority(version.name):
        text += f"; use {group}/{best} {names.kind}"
    return text
