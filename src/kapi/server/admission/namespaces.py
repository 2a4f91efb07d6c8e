"""NamespaceExists and NamespaceAutoProvision: writes to a namespace that does not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.errors import AlreadyExists, ApiError, Forbidden, NotFound
from kapi.api.meta import GroupResource
from kapi.registry import write as writepath
from kapi.registry.request import CREATE, DELETE, UPDATE, Write
from kapi.server.admission.refusal import refusal

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.catalog import Catalog
    from kapi.registry.resource import Resource

NAMESPACES: Final = GroupResource("", "namespaces")


class NamespaceExists:
    """Refuses writes to a namespace that does not exist."""

    reads_only = True

    def __init__(self, catalog: Catalog) -> None:
        self._namespaces = catalog.store("namespaces")

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for what is in a namespace."""
        return operation in (CREATE, UPDATE, DELETE) and resource.namespaced

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Look the namespace up; another server may have created it a moment ago."""
        if not write.namespace or self._namespaces.find("", write.namespace) is not None:
            return
        await self._namespaces.catch_up()
        if self._namespaces.find("", write.namespace) is None:
            raise NotFound.of(NAMESPACES, write.namespace)


class NamespaceAutoProvision:
    """Creates the namespace that an object is created in."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._namespaces = catalog.store("namespaces")

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for what is created in a namespace."""
        return operation == CREATE and resource.namespaced

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Create the namespace, in the name of the server, if it is not there."""
        name = write.namespace
        if write.dry_run or not name or self._namespaces.find("", name) is not None:
            return
        resource = self._catalog.find("", "v1", "namespaces")
        assert resource is not None
        provision = Write(
            CREATE,
            resource,
            lookup=write.lookup,
            now=write.now,
            field_manager="kube-apiserver",
            field_managers=self._catalog.field_managers,
            admission=write.admission,
        )
        namespace: Object = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}
        try:
            await writepath.create(provision, writepath.Body(namespace))
        except AlreadyExists:
            return
        except Forbidden:
            raise
        except ApiError as error:
            raise refusal(write, obj, error.message) from None
