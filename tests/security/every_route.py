"""Every URL under which something is served, from the catalog itself, so that no test of "every route" can forget one."""

from typing import NamedTuple

from api_client import JSON, JSON_PATCH, MERGE, STRATEGIC
from kapi.registry.catalog import Catalog
from kapi.storage.memory import MemoryStorage

NAME = "it"
PATCHES = (MERGE, STRATEGIC, JSON_PATCH)
NOT_SERVED = {"attach", "exec", "log", "portforward", "proxy", "token"}
"""Sub-resources that are answered 501: there is no node behind this control plane, and nothing signs tokens."""

CATALOG = Catalog(MemoryStorage(), None)
RESOURCES = list(CATALOG)
STORED = [resource for resource in RESOURCES if resource.store is not None]


class Route(NamedTuple):
    """One way to change something."""

    method: str
    path: str
    content_type: str
    body: object

    def __str__(self):
        return f"{self.method} {self.path} {self.content_type.removeprefix('application/')}".replace("/", "_")


def root(resource):
    return f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"


def collection(resource, namespace="default"):
    scope = f"/namespaces/{namespace}" if resource.namespaced else ""
    return f"{root(resource)}{scope}/{resource.resource}"


def bare(resource, namespace="default"):
    """The least that can be stored as an object of a resource. Most kinds would not accept it, but all can hold it."""
    metadata = {"name": NAME, "uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    if resource.namespaced:
        metadata["namespace"] = namespace
    gvk = resource.store.gvk
    return {"kind": gvk.kind, "apiVersion": gvk.api_version, "metadata": metadata, "spec": {}}


async def plant(api, resource, obj=None):
    """Put an object where a resource keeps them, past all rules; the store."""
    store = api.catalog.find(resource.group, resource.version, resource.resource).store
    obj = obj or bare(resource)
    await store.write(store.key(obj["metadata"].get("namespace", ""), NAME), obj, 0)
    return store


def writes(resource):
    """Every request that can create, change or remove an object of a stored resource through its main endpoints."""
    path = collection(resource)
    body = {"metadata": {"name": NAME}}
    verbs = set(resource.verbs)
    if "create" in verbs:
        yield Route("POST", path, JSON, body)
    if "update" in verbs:
        yield Route("PUT", f"{path}/{NAME}", JSON, body)
    if "patch" in verbs:
        yield from _patches(f"{path}/{NAME}")
    if "delete" in verbs:
        yield Route("DELETE", f"{path}/{NAME}", JSON, {})
    if "deletecollection" in verbs:
        yield Route("DELETE", path, JSON, {})


def _patches(path):
    for content_type in PATCHES:
        patch = {"metadata": {"labels": {"a": "b"}}}
        if content_type == JSON_PATCH:
            patch = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
        yield Route("PATCH", path, content_type, patch)


def sub_writes(resource):
    """The same for its sub-resources."""
    for sub in resource.subresources.values():
        if sub.name in NOT_SERVED:
            continue
        path = f"{collection(resource)}/{NAME}/{sub.name}"
        if "create" in sub.verbs:
            yield Route("POST", path, JSON, {"metadata": {"name": NAME}, "target": {"kind": "Node", "name": "n"}})
        if "update" in sub.verbs:
            yield Route("PUT", path, JSON, {"metadata": {"name": NAME}})
        if "patch" in sub.verbs:
            yield from _patches(path)


def identify(resource):
    """A name for a parametrised test."""
    return f"{resource.resource}.{resource.version}.{resource.group or 'core'}"
