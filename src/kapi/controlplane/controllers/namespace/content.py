"""What is in a namespace: which kinds, how many objects, what holds them, and how they are deleted.

Read from the watch caches, so that only kinds with something to delete are touched, whatever was defined a moment ago;
deleted through the API. Kinds that are not served are not seen: nobody can delete what nobody can name.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from kapi.client.rest import METADATA_LIST
from kapi.controlplane.controllers.inventory import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.cache.watchcache import WatchCache
    from kapi.client.client import Client
    from kapi.controlplane.controllers.inventory import Inventory
    from kapi.registry.resource import Resource

_OPTIONS: Final = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
"""Dependents that are in the namespace go anyway, so nothing is to wait for them."""
_SECONDS: Final = 600.0
"""How long a collection may take to delete."""


class _Metadata(msgspec.Struct, rename="camel"):
    deletion_timestamp: str = ""
    finalizers: list[str] = []


class _Marked(msgspec.Struct):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Marked).decode


class Left(NamedTuple):
    """The objects of a resource that are in a namespace."""

    total: int
    fresh: int
    """How many of them have not been deleted yet."""
    finalizers: Counter[str]
    until: str
    """When the grace of the last of them ends; empty when none has been deleted."""


class Content:
    """The content of namespaces, as of the last commit."""

    def __init__(self, inventory: Inventory, client: Client) -> None:
        self._inventory = inventory
        self._client = client
        self._pods = inventory.catalog.store("pods")

    def has_pods(self, namespace: str) -> bool:
        """Whether there are pods in a namespace."""
        return bool(self._pods.cache.count(f"{self._pods.prefix}{namespace}/"))

    def resources(self, namespace: str) -> list[Resource]:
        """The resources that have objects in a namespace which can be deleted; pods first."""
        found = [resource for resource in self._deletable() if _cache(resource).count(_prefix(resource, namespace))]
        return sorted(found, key=lambda resource: resource.store is not self._pods)

    def _deletable(self) -> Iterator[Resource]:
        return (
            resource
            for resource in self._inventory.resources()
            if resource.namespaced and "deletecollection" in resource.verbs
        )

    def namespaces(self) -> set[str]:
        """The names of all namespaces that have content, whether they are there or not."""
        return {name for resource in self._deletable() for name in _namespaces(_cache(resource))}

    def survey(self, resource: Resource, namespace: str) -> Left:
        """What there is of a resource."""
        items = _cache(resource).items(_prefix(resource, namespace))
        finalizers: Counter[str] = Counter()
        fresh, until = 0, ""
        for item in items:
            metadata = _decode(b"{" + item.body).metadata
            finalizers.update(metadata.finalizers)
            if metadata.deletion_timestamp:
                until = max(until, metadata.deletion_timestamp)
            else:
                fresh += 1
        return Left(len(items), fresh, finalizers, until)

    async def delete(self, resource: Resource, namespace: str) -> None:
        """Delete all objects of a resource, or mark them, if something holds them."""
        await self._client.rest.send(
            "DELETE", path_of(resource, namespace), body=_OPTIONS, accept=METADATA_LIST, timeout=_SECONDS
        )


def _cache(resource: Resource) -> WatchCache:
    return resource.stored.cache


def _prefix(resource: Resource, namespace: str) -> str:
    return f"{resource.stored.prefix}{namespace}/"


def _namespaces(cache: WatchCache) -> Iterator[str]:
    """The namespaces that occur in a cache: one look at each, not at each object."""
    start = cache.prefix
    while True:
        items, _ = cache.page("", start, 1)
        if not items:
            return
        namespace = items[0].namespace
        yield namespace
        # Keys are sorted, and "0" follows "/".
        start = f"{cache.prefix}{namespace}0"
