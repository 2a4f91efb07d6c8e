"""Discovery: which groups, versions and resources there are, in the old form and in the aggregated one.

Documents are rendered from the catalog when first asked for and kept until it changes; an ETag lets clients ask
whether it did.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from kapi.codec import json

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.catalog import Catalog
    from kapi.registry.resource import Resource, Subresource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Discovery:
    """The discovery documents of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._aggregated: dict[bool, tuple[bytes, str]] = {}

    # -- the old form -----------------------------------------------------------------------------------------------

    def api_versions(self, address: str) -> Object:
        """GET /api."""
        return {
            "kind": "APIVersions",
            "versions": list(self._catalog.groups[""]),
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        }

    def group_list(self) -> Object:
        """GET /apis."""
        groups = [self._group(group) for group in self._catalog.groups if group]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def group(self, group: str) -> Object | None:
        """GET /apis/<group>; None when there is none."""
        if not group or group not in self._catalog.groups:
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}

    def _group(self, group: str) -> Object:
        versions = [
            {"groupVersion": f"{group}/{version}", "version": version} for version in self._catalog.groups[group]
        ]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def resource_list(self, group: str, version: str) -> Object | None:
        """GET /api/v1 or /apis/<group>/<version>; None when there is none."""
        resources = self._catalog.groups.get(group, {}).get(version)
        if resources is None:
            return None
        entries: list[Object] = []
        for resource in resources.values():
            entries.append(_entry(resource))
            entries += (_sub_entry(resource, sub) for sub in resource.subresources.values())
        entries.sort(key=lambda entry: str(entry["name"]))
        document: Object = {"kind": "APIResourceList"}
        if group:
            document["apiVersion"] = "v1"
        document["groupVersion"] = f"{group}/{version}" if group else version
        document["resources"] = entries
        return document

    # -- the aggregated form ----------------------------------------------------------------------------------------

    def aggregated(self, *, core: bool) -> tuple[bytes, str]:
        """The document of /api (`core`) or /apis in one piece, and its ETag."""
        cached = self._aggregated.get(core)
        if cached is None:
            items = [_discovery_group(group, self._catalog) for group in self._catalog.groups if (not group) is core]
            document = {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": "apidiscovery.k8s.io/v2",
                "metadata": {},
                "items": items,
            }
            body = json.encode(document) + b"\n"
            etag = '"' + hashlib.sha512(body).hexdigest().upper() + '"'
            cached = self._aggregated[core] = (body, etag)
        return cached


def _entry(resource: Resource) -> Object:
    entry: Object = {
        "name": resource.resource,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.store is not None:
        entry["storageVersionHash"] = _storage_hash(resource)
    return entry


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


def _storage_hash(resource: Resource) -> str:
    """Eight bytes that change when the stored version does."""
    gvk = resource.stored.gvk
    text = f"{gvk.group}/{gvk.version}/{gvk.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _discovery_group(group: str, catalog: Catalog) -> Object:
    versions = [
        {
            "version": version,
            "resources": [_discovery_resource(resources[name]) for name in sorted(resources)],
            "freshness": "Current",
        }
        for version, resources in catalog.groups[group].items()
    ]
    return {"metadata": {"name": group} if group else {}, "versions": versions}


def _discovery_resource(resource: Resource) -> Object:
    entry: Object = {
        "resource": resource.resource,
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
                "verbs": list(sub.verbs),
            }
            for sub in sorted(resource.subresources.values(), key=lambda sub: sub.name)
        ]
    return entry
