"""Namespace lifecycle: nothing is created in a missing or terminating namespace, and three are never deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import Forbidden, NotFound
from kapi.api.meta import GroupResource, is_deleting
from kapi.registry.request import CREATE, DELETE

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.strategy import Lookup

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_NAMESPACES = GroupResource("", "namespaces")


class NamespaceLifecycle:
    """Guards creation in namespaces and deletion of them. Runs with the mutating plug-ins, so that it is first."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def handles(self, write: Write) -> bool:
        """Return True for creations in a namespace, and deletions of namespaces."""
        if write.operation == CREATE:
            return bool(write.namespace) and write.resource.namespaced
        return write.operation == DELETE and write.resource.group_resource == _NAMESPACES

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Raise to refuse; nothing is changed."""
        if write.operation == DELETE:
            if write.name in IMMORTAL:
                raise Forbidden.of(_NAMESPACES, write.name, "this namespace may not be deleted")
            return
        if not write.resource.verbs or write.resource.store is None:
            return
        namespace = self._lookup.get("namespaces", "", write.namespace)
        if namespace is None:
            raise NotFound.of(_NAMESPACES, write.namespace)
        if is_deleting(namespace) or namespace.get("status", {}).get("phase") == "Terminating":
            raise self._terminating(write, obj)

    def _terminating(self, write: Write, obj: Object | None) -> Forbidden:
        metadata = (obj or {}).get("metadata", {})
        name = write.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
        namespace = write.namespace
        return Forbidden.of(
            write.resource.group_resource,
            name,
            f"unable to create new content in namespace {namespace} because it is being terminated",
            [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ],
        )
