"""Discovery: which groups, versions and resources there are, in the old form and in the aggregated one.

The aggregated documents are rendered from the catalog when first asked for and kept until it changes; then only the
groups that changed are rendered again. An ETag lets clients ask whether anything did. The documents of the old form are
small, one per group version, and made when asked for.

Group versions of other API servers are among those of the catalog, all in the order of the priorities of their
APIServices; without any, the catalog has that order already.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, NamedTuple

from kapi.codec import json
from kapi.registry.builtins import GROUPS
from kapi.server.aggregation.priorities import default_priority, ordered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.api.meta import Object
    from kapi.registry.catalog import Catalog
    from kapi.registry.resource import Resource, Subresource
    from kapi.server.aggregation.aggregator import Aggregator
    from kapi.server.aggregation.apiservices import RemoteAPIService

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_BUILT_IN = frozenset(group.group for group in GROUPS)
_HEAD = b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":['


class _Fragment(NamedTuple):
    """A group of the aggregated document, encoded, and the resources it speaks of: a change replaces resources."""

    resources: tuple[tuple[Resource, bool], ...]
    content: bytes


class _Document(NamedTuple):
    """An aggregated document as of some state of the catalog and of other servers."""

    changes: tuple[int, int, int]
    body: bytes
    etag: str


class Discovery:
    """The discovery documents of a catalog, and of the servers that an aggregator knows."""

    def __init__(self, catalog: Catalog, aggregator: Aggregator | None = None) -> None:
        self._catalog = catalog
        self._aggregator = aggregator
        self._aggregated: dict[bool, _Document] = {}
        self._fragments: dict[str, _Fragment] = {}

    # -- the old form -----------------------------------------------------------------------------------------------

    def api_versions(self, address: str) -> Object:
        """GET /api."""
        return {
            "kind": "APIVersions",
            "versions": list(self._catalog.groups[""]),
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        }

    def group_versions(self) -> dict[str, list[str]]:
        """Return all groups and their versions, in the order of the aggregated form."""
        groups = self._catalog.groups
        if not self._remote:
            return {group: list(versions) for group, versions in groups.items()}
        assert self._aggregator is not None
        own = {(group, version) for group, versions in groups.items() for version in versions}
        return ordered(own | self._remote.keys(), self._aggregator.services.priorities)

    def group_list(self) -> Object:
        """GET /apis.

        Built-in groups come first. Custom ones follow in the order of the names their API services would have, which
        start with the version; the aggregated form orders them by group.
        """
        groups = self.group_versions()
        if self._remote:
            found = [_group(group, versions) for group, versions in groups.items() if group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}
        custom = sorted((group for group in groups if group not in _BUILT_IN), key=self._first_service)
        order = [group for group in groups if group and group in _BUILT_IN] + custom
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(group, groups[group]) for group in order]}

    def _first_service(self, group: str) -> str:
        return min(f"{version}.{group}" for version in self._catalog.groups[group])

    def group(self, group: str) -> Object | None:
        """GET /apis/<group>; None when there is none."""
        versions = self.group_versions().get(group)
        if not group or versions is None:
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}

    def resource_list(self, group: str, version: str) -> Object | None:
        """GET /api/v1 or /apis/<group>/<version>; None when there is none."""
        resources = self._catalog.groups.get(group, {}).get(version)
        if resources is None:
            return None
        entries: list[Object] = []
        for name in sorted(resources):
            resource = resources[name]
            entries.append(_entry(resource) | self._storage_hash(resource))
            entries += (_sub_entry(resource, sub) for sub in _subresources(resource))
        document: Object = {"kind": "APIResourceList"}
        if group:
            document["apiVersion"] = "v1"
        document["groupVersion"] = f"{group}/{version}" if group else version
        document["resources"] = entries
        return document

    # -- the aggregated form ----------------------------------------------------------------------------------------

    def aggregated(self, *, core: bool) -> tuple[bytes, str]:
        """The document of /api (`core`) or /apis in one piece, and its ETag."""
        known = self._aggregated.get(core)
        changes = self._changes
        if known is None or known.changes != changes:
            body = b"".join((_HEAD, b",".join(self._refreshed(core=core)), b"]}\n"))
            etag = '"' + hashlib.sha512(body).hexdigest().upper() + '"'
            known = self._aggregated[core] = _Document(changes, body, etag)
        return known.body, known.etag

    @property
    def _changes(self) -> tuple[int, int, int]:
        aggregator = self._aggregator
        if aggregator is None:
            return self._catalog.changes, 0, 0
        return self._catalog.changes, aggregator.services.changes, aggregator.discovery.changes

    @property
    def _remote(self) -> Mapping[tuple[str, str], RemoteAPIService]:
        """The group versions of other servers."""
        return self._aggregator.services.remote if self._aggregator is not None else {}

    def _refreshed(self, *, core: bool) -> list[bytes]:
        """The groups of a document, encoded; those that did not change are not encoded again."""
        groups = self._catalog.groups
        self._fragments = {group: old for group, old in self._fragments.items() if group in groups}
        if not self._remote:
            return [self._fragment(group) for group in groups if (not group) is core]
        shared = {group for group, _ in self._remote}
        return [
            self._shared_group(group, versions) if group in shared else self._fragment(group)
            for group, versions in sorted(self.group_versions().items(), key=self._place)
            if (not group) is core
        ]

    def _place(self, group: tuple[str, list[str]]) -> tuple[int, str]:
        """The aggregated form has groups of the same priority in the order of their names."""
        assert self._aggregator is not None
        name, versions = group
        known = self._aggregator.services.priorities
        return -max((known.get((name, one)) or default_priority(name, one)).group for one in versions), name

    def _shared_group(self, group: str, versions: list[str]) -> bytes:
        """Return a group of which other servers have some or all versions, encoded."""
        assert self._aggregator is not None
        remote, discovery = self._remote, self._aggregator.discovery
        local = self._catalog.groups.get(group, {})
        entries = [
            discovery.entry((group, version))
            if (group, version) in remote
            else _discovery_version(version, local[version])
            for version in versions
        ]
        return json.encode({"metadata": {"name": group} if group else {}, "versions": entries})

    def _fragment(self, group: str) -> bytes:
        versions = self._catalog.groups[group]
        resources = tuple((one, _is_terminating(one)) for by_name in versions.values() for one in by_name.values())
        known = self._fragments.get(group)
        if known is None or known.resources != resources:
            known = self._fragments[group] = _Fragment(resources, json.encode(_discovery_group(group, versions)))
        return known.content

    def _storage_hash(self, resource: Resource) -> Object:
        """Eight bytes that change when the stored version does; nothing when that version is not served."""
        store = resource.store
        if store is None:
            return {}
        gvk = store.storage_gvk
        if resource.custom is not None and self._catalog.find(gvk.group, gvk.version, resource.resource) is None:
            return {}
        digest = hashlib.sha256(f"{gvk.group}/{gvk.version}/{gvk.kind}".encode()).digest()
        return {"storageVersionHash": base64.b64encode(digest[:8]).decode()}


_GOING = ("delete", "deletecollection", "get", "list", "watch")
"""The verbs of a kind whose definition is being deleted. Updates work, but clients should not rely on them."""


def _group(group: str, versions: list[str]) -> Object:
    entries = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": entries, "preferredVersion": entries[0]}


def _is_terminating(resource: Resource) -> bool:
    return resource.store is not None and resource.store.is_terminating


def _verbs(resource: Resource) -> list[str]:
    return list(_GOING if _is_terminating(resource) else resource.verbs)


def _entry(resource: Resource) -> Object:
    entry: Object = {
        "name": resource.resource,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _verbs(resource),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return entry


def _subresources(resource: Resource) -> list[Subresource]:
    """Sub-resources in the order they are listed: that of their names, or the definition's."""
    found = list(resource.subresources.values())
    return found if resource.custom is not None else sorted(found, key=lambda sub: sub.name)


def _sub_entry(resource: Resource, sub: Subresource) -> Object:
    entry: Object = {
        "name": f"{resource.resource}/{sub.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
    }
    if sub.version:
        entry["group"], entry["version"] = sub.group, sub.version
    entry["kind"] = sub.kind
    entry["verbs"] = list(sub.verbs)
    return entry


def _discovery_group(group: str, versions: dict[str, dict[str, Resource]]) -> Object:
    entries = [_discovery_version(version, resources) for version, resources in versions.items()]
    return {"metadata": {"name": group} if group else {}, "versions": entries}


def _discovery_version(version: str, resources: dict[str, Resource]) -> Object:
    return {
        "version": version,
        "resources": [_discovery_resource(resources[name]) for name in sorted(resources)],
        "freshness": "Current",
    }


def _discovery_resource(resource: Resource) -> Object:
    # The group and version are given for custom kinds only, as kube-apiserver does.
    own = ("", "") if resource.custom is None else (resource.group, resource.version)
    entry: Object = {
        "resource": resource.resource,
        "responseKind": {"group": own[0], "version": own[1], "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": _verbs(resource),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {"group": sub.group or own[0], "version": sub.version or own[1], "kind": sub.kind},
                "verbs": list(sub.verbs),
            }
            for sub in _subresources(resource)
        ]
    return entry
