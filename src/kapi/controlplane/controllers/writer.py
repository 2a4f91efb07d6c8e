"""Writes of the built-in controllers: requests to this server's API, without a connection.

Every write passes authentication, admission and validation as any client's does. A write of a reconcile that began
while this process led is not sent once it leads no more (`NotLeading`), so two servers never act at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.errors import NotFound
from kapi.api.meta import GroupVersionResource
from kapi.client.dynamic import ResourceClient
from kapi.client.errors import NoMatch
from kapi.client.options import delete_body
from kapi.client.rest import METADATA, METADATA_LIST
from kapi.controller.controller import reconcile_may_act
from kapi.controller.manager.cachedclient import NotLeading

if TYPE_CHECKING:
    from kapi.api.errors import ApiError
    from kapi.api.meta import Object
    from kapi.client.rest import RESTClient
    from kapi.controlplane.controllers.view import ObjectView
    from kapi.registry.resource import Resource

COLLECTION_SECONDS: Final = 600.0
"""The time-out of deleting a whole collection."""


class Writer:
    """Writes objects by their own apiVersion and kind, and by resource where there is no object."""

    def __init__(self, rest: RESTClient, view: ObjectView) -> None:
        self._rest = rest
        self._view = view

    async def create(self, obj: Object) -> Object:
        """Create an object; the object as it was stored."""
        return await self._client(obj).create(obj)

    async def update(self, obj: Object, subresource: str = "") -> Object:
        """Replace an object, or a sub-resource of it; `Conflict` when it was changed since it was read."""
        return await self._client(obj).replace(obj, subresource=subresource)

    async def delete(
        self, obj: Object, *, propagation: str | None = None, grace_period: int | None = None, unchanged: bool = False
    ) -> None:
        """Delete this very object, by its uid; with `unchanged` only in the state it was read in."""
        metadata = obj["metadata"]
        await self._client(obj).delete(
            metadata["name"],
            propagation=propagation,
            grace_period=grace_period,
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"] if unchanged else None,
        )

    async def is_allowed(self, review: Object) -> bool:
        """Ask whether a user may do something: the spec of a SubjectAccessReview."""
        reviews = GroupVersionResource("authorization.k8s.io", "v1", "subjectaccessreviews")
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": review}
        answer = await ResourceClient(self._rest, reviews).create(body)
        return bool(answer.get("status", {}).get("allowed"))

    def resource(self, resource: Resource, namespace: str = "") -> ResourceClient:
        """The client of a resource, for all that the methods above do not do."""
        if not reconcile_may_act():
            raise NotLeading("this process does not lead any more; the request was not sent")
        gvr = GroupVersionResource(resource.group, resource.version, resource.resource)
        return ResourceClient(self._rest, gvr, namespace if resource.namespaced else "")

    async def delete_collection(self, resource: Resource, namespace: str) -> None:
        """Delete all objects of a resource in a namespace; their dependents follow in the background."""
        # Only metadata is asked for: the answer lists every object. An initializer that is gone must not keep any.
        await self._rest.send(
            "DELETE",
            self.resource(resource, namespace).path(),
            query={"includeUninitialized": "true"},
            body=delete_body({"propagation": "Background"}),
            accept=METADATA_LIST,
            timeout=COLLECTION_SECONDS,
        )

    async def read_metadata(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """The metadata of an object as the store has it now; None when there is no such object."""
        try:
            path = self.resource(resource, namespace).path(name)
            found = await self._rest.request("GET", path, query={"includeUninitialized": "true"}, accept=METADATA)
        except NotFound:
            return None
        metadata: Object = found["metadata"]
        return metadata

    def _client(self, obj: Object) -> ResourceClient:
        resource = self._view.of_kind(obj["apiVersion"], obj["kind"])
        if resource is None:
            raise NoMatch(f"{obj['apiVersion']} {obj['kind']} is not served")
        return self.resource(resource, obj["metadata"].get("namespace", ""))


def is_namespace_terminating(error: ApiError) -> bool:
    """Return True if a write was refused because its namespace is being deleted: it need not be tried again."""
    causes = (error.details or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
