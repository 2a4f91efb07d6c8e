"""The content of a namespace: which resources have objects in it, how many, what blocks their deletion.

Read from the view, so that only resources with objects are touched, those defined a moment ago among them; deleted
through the API. Objects of kinds that are not served are not seen, as no client could delete them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.controlplane.controllers.view import ObjectView
    from kapi.controlplane.controllers.writer import Writer
    from kapi.registry.resource import Resource


class _Metadata(msgspec.Struct, rename="camel"):
    deletion_timestamp: str = ""
    finalizers: list[str] = []


class _Object(msgspec.Struct):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Object).decode


class Remaining(NamedTuple):
    """The objects of a resource that are in a namespace."""

    total: int
    undeleted: int
    """The number of objects that are not being deleted yet."""
    finalizers: Counter[str]
    grace_end: str
    """The end of the last grace period; empty when no object is being deleted."""


class NamespaceContent:
    """The content of namespaces, as of the last commit."""

    def __init__(self, view: ObjectView, writer: Writer) -> None:
        self._view = view
        self._writer = writer
        self._pods = view.prefix("pods")

    def has_pods(self, namespace: str) -> bool:
        """Return True if there are Pods in a namespace."""
        return self._view.count(f"{self._pods}{namespace}/") > 0

    def resources(self, namespace: str) -> list[Resource]:
        """The deletable resources that have objects in a namespace; Pods first."""
        found = [resource for resource in self._deletable() if self._view.count(_prefix(resource, namespace))]
        return sorted(found, key=lambda resource: resource.stored.prefix != self._pods)

    def _deletable(self) -> Iterator[Resource]:
        return (
            resource
            for resource in self._view.resources()
            if resource.namespaced and "deletecollection" in resource.verbs
        )

    def namespaces(self) -> set[str]:
        """The names of all namespaces that have content, including those that do not exist."""
        return {name for resource in self._deletable() for name in self._view.namespaces_of(resource.stored.prefix)}

    def remaining(self, resource: Resource, namespace: str) -> Remaining:
        """The objects of a resource that are in a namespace now."""
        items = self._view.below(_prefix(resource, namespace))
        finalizers: Counter[str] = Counter()
        undeleted, grace_end = 0, ""
        for item in items:
            metadata = _decode(b"{" + item.body).metadata
            finalizers.update(metadata.finalizers)
            if metadata.deletion_timestamp:
                grace_end = max(grace_end, metadata.deletion_timestamp)
            else:
                undeleted += 1
        return Remaining(len(items), undeleted, finalizers, grace_end)

    async def delete(self, resource: Resource, namespace: str) -> None:
        """Delete all objects of a resource; those with finalizers or a grace period stay for a while."""
        # Dependents in the namespace are deleted anyway, so nothing waits for them (Background).
        await self._writer.delete_collection(resource, namespace)


def _prefix(resource: Resource, namespace: str) -> str:
    return f"{resource.stored.prefix}{namespace}/"
