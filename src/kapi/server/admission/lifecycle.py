"""Namespace lifecycle: nothing is created in a missing or terminating namespace, and three are never deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import Forbidden
from kapi.api.meta import GroupResource
from kapi.registry.request import CREATE, DELETE
from kapi.server.admission.refusal import refusal

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.catalog import Catalog
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_NAMESPACES = GroupResource("", "namespaces")
_ACCESS_REVIEWS = GroupResource("authorization.k8s.io", "localsubjectaccessreviews")


class NamespaceLifecycle:
    """Guards creation in namespaces and deletion of them. Runs with the mutating plug-ins, so that it is first.

    Kubernetes looks at the namespace of an update too. Here a namespace is deleted after all that is in it.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._namespaces = catalog.store("namespaces")

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for creations in a namespace, and deletions of namespaces."""
        if operation == CREATE:
            # Whether a namespace exists is not for everyone to know who may ask about permissions in it.
            return resource.namespaced and resource.group_resource != _ACCESS_REVIEWS
        return operation == DELETE and resource.group_resource == _NAMESPACES and not subresource

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Raise to refuse; nothing is changed."""
        if write.operation == DELETE:
            if write.name in IMMORTAL:
                raise Forbidden.of(_NAMESPACES, write.name, "this namespace may not be deleted")
            return
        if not write.namespace:
            return
        # The phase is one of the fields that the watch cache has without decoding the object.
        namespace = self._namespaces.find("", write.namespace)
        if namespace is None:
            await self._namespaces.catch_up()  # Another server may have created it a moment ago.
            namespace = self._namespaces.get("", write.namespace)
        if (namespace.fields or {}).get("status.phase") == "Terminating":
            raise terminating(write, obj)


def terminating(write: Write, obj: Object | None) -> Forbidden:
    """Return the refusal of a creation in a namespace that is being deleted."""
    namespace = write.namespace
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    error = refusal(write, obj, why)
    error.details = {**(error.details or {}), "causes": [cause]}
    return error
