"""OwnerReferencesPermissionEnforcement: a change of owner references needs permissions on the object and its owners.

Who sets owners may have the garbage collector delete the object, and so needs the permission to delete it. Who blocks
the deletion of an owner needs the permission to set finalizers on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.meta import GroupResource
from kapi.registry.request import CREATE, UPDATE
from kapi.server.admission.refusal import refusal
from kapi.server.authz.attributes import Attributes

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.catalog import Catalog
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.server.authz.authorizer import Authorizer, Decision

PODS: Final = GroupResource("", "pods")


class OwnerReferencesPermissionEnforcement:
    """Asks authorization about changes of owner references."""

    reads_only = True

    def __init__(self, catalog: Catalog, authorizer: Authorizer) -> None:
        self._catalog = catalog
        self._authorizer = authorizer

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for creates and updates, but for the status of Pods, which cannot change owners."""
        return operation in (CREATE, UPDATE) and (resource.group_resource != PODS or subresource != "status")

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse a change of owners that the user has no permission for."""
        owners, before = _owners(obj), _owners(old)
        if owners == before:
            return
        if write.operation != CREATE:
            decision = await self._may_delete(write)
            if not decision.allowed:
                why = f"cannot set an ownerRef on a resource you can't delete: {_why(decision)}"
                raise refusal(write, obj, why)
        blocking = _newly_blocking(owners, before)
        if not blocking:
            return
        anything = Attributes(write.user, "update", "*", "*", "*", "finalizers", name="*")
        if (await self._authorizer.authorize(anything)).allowed:
            return
        for owner in blocking:
            await self._check_blocking(write, obj, owner)

    async def _may_delete(self, write: Write) -> Decision:
        resource = write.resource
        return await self._authorizer.authorize(
            Attributes(
                write.user,
                "delete",
                resource.group,
                resource.version,
                resource.resource,
                write.subresource,
                write.namespace,
                write.name,
            )
        )

    async def _check_blocking(self, write: Write, obj: Object | None, owner: Object) -> None:
        """Refuse to block the deletion of an owner on which the user may not set finalizers."""
        api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        group, _, version = api_version.rpartition("/")
        served = self._catalog.groups.get(group, {}).get(version, {}).values()
        resources = [resource for resource in served if resource.kind == kind]
        if not resources:
            unknown = f"cannot find RESTMapping for APIVersion {api_version} Kind {kind}"
            why = f'{unknown}: no matches for kind "{kind}" in version "{api_version}"'
            raise refusal(write, obj, f"cannot set blockOwnerDeletion in this case because {why}")
        for resource in resources:
            # An owner in a namespace is in that of the object.
            namespace = write.namespace if resource.namespaced else ""
            attributes = Attributes(
                write.user, "update", group, version, resource.resource, "finalizers", namespace, owner.get("name", "")
            )
            decision = await self._authorizer.authorize(attributes)
            if not decision.allowed:
                what = "an ownerReference refers to a resource you can't set finalizers on"
                raise refusal(write, obj, f"cannot set blockOwnerDeletion if {what}: {_why(decision)}")


def _owners(obj: Object | None) -> list[Object]:
    owners: list[Object] = ((obj or {}).get("metadata") or {}).get("ownerReferences") or []
    return owners


def _newly_blocking(owners: list[Object], before: list[Object]) -> list[Object]:
    """Return the owners whose deletion is blocked now and was not before."""
    blocked = {owner.get("uid") for owner in before if owner.get("blockOwnerDeletion")}
    return [owner for owner in owners if owner.get("blockOwnerDeletion") and owner.get("uid") not in blocked]


def _why(decision: Decision) -> str:
    return f"{decision.reason}, {decision.error or '<nil>'}"
