"""Namespace lifecycle: nothing is created in a namespace that is missing or going, and three are never deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import Forbidden, GroupResource, NotFound
from kapi.api.meta import is_deleting

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.strategy import Lookup
    from kapi.server.admission.chain import Operation

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_NAMESPACES = GroupResource("", "namespaces")


class NamespaceLifecycle:
    """Guards creation in namespaces and deletion of them. Runs among the mutating plugins, so that it is first."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def handles(self, operation: Operation) -> bool:
        """Creations in a namespace; deletions of namespaces."""
        if operation.kind == "CREATE":
            return bool(operation.namespace) and operation.resource.namespaced
        return operation.kind == "DELETE" and operation.resource.group_resource == _NAMESPACES

    async def mutate(self, operation: Operation, obj: Object | None, old: Object | None) -> None:
        """Refuse; nothing is changed."""
        if operation.kind == "DELETE":
            if operation.name in IMMORTAL:
                raise Forbidden.of(_NAMESPACES, operation.name, "this namespace may not be deleted")
            return
        if not operation.resource.verbs or operation.resource.store is None:
            return
        namespace = self._lookup.get("namespaces", "", operation.namespace)
        if namespace is None:
            raise NotFound.of(_NAMESPACES, operation.namespace)
        if is_deleting(namespace) or namespace.get("status", {}).get("phase") == "Terminating":
            raise self._terminating(operation, obj)

    def _terminating(self, operation: Operation, obj: Object | None) -> Forbidden:
        metadata = (obj or {}).get("metadata", {})
        name = operation.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
        namespace = operation.namespace
        return Forbidden.of(
            operation.resource.group_resource,
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
