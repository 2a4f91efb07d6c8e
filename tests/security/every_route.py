"""Every URL under which something is served, from the catalog itself, so that no test of "every route" can forget one."""

from typing import NamedTuple

from api_client import JSON, JSON_PATCH, MERGE, STRATEGIC
from kapi.registry.catalog import Catalog
from kapi.storage.memory import MemoryStorage

NAME = "it"
OTHER_NAMES = {
    "apiservices": "v1.g.example.com",
    "customresourcedefinitions": "things.g.example.com",
    "ipaddresses": "10.9.8.7",
}
"""Kinds whose names are not free."""
PATCHES = (MERGE, STRATEGIC, JSON_PATCH)
NOT_SERVED = {"attach", "exec", "log", "portforward", "proxy", "token"}
"""Sub-resources that are answered 501: there is no node behind a control plane, and tests have no key of tokens."""

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


def name_of(resource):
    """The name of the one object the tests make of a resource."""
    return OTHER_NAMES.get(resource.resource, NAME)


def item(resource, namespace="default"):
    return f"{collection(resource, namespace)}/{name_of(resource)}"


def writes(resource):
    """Every request that can create, change or remove an object of a stored resource through its main endpoints."""
    path = collection(resource)
    body = {"metadata": {"name": name_of(resource)}}
    verbs = set(resource.verbs)
    if "create" in verbs:
        yield Route("POST", path, JSON, body)
    if "update" in verbs:
        yield Route("PUT", item(resource), JSON, body)
    if "patch" in verbs:
        yield from _patches(item(resource))
    if "delete" in verbs:
        yield Route("DELETE", item(resource), JSON, {})
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
    metadata = {"name": name_of(resource)}
    for sub in resource.subresources.values():
        if sub.name in NOT_SERVED:
            continue
        path = f"{item(resource)}/{sub.name}"
        if "create" in sub.verbs:
            yield Route("POST", path, JSON, {"metadata": metadata, "target": {"kind": "Node", "name": "n"}})
        if "update" in sub.verbs:
            yield Route("PUT", path, JSON, {"metadata": metadata})
        if "patch" in sub.verbs:
            yield from _patches(path)


def identify(resource):
    """A name for a parametrised test."""
    return f"{resource.resource}.{resource.version}.{resource.group or 'core'}"
