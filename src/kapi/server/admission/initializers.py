"""Initializers: new objects of configured resources are given the list of initializers that must finish them.

The historical form of dynamic admission; `registry/initializers.py` tells the whole story. While there is no
configuration, and no object that waits for an initializer, this handles nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.errors import Forbidden, Invalid
from kapi.registry.initializers import NAME, finish, initializer_errors
from kapi.registry.request import CREATE, UPDATE
from kapi.server.authz.attributes import Attributes

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object
    from kapi.registry.initializers import Initializers
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.server.authz.authorizer import Authorizer

_MIRROR_POD: Final = "kubernetes.io/config.mirror"
"""A Pod that the kubelet has made from a file runs already."""


class InitializersPlugin:
    """Adds the names of initializers to new objects, and guards objects that are not initialized."""

    def __init__(self, initializers: Initializers, authorizer: Authorizer, forget: Callable[[], None]) -> None:
        self._initializers = initializers
        self._authorizer = authorizer
        initializers.on_change.append(forget)

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for creations and updates of objects, while initializers are in use."""
        if not self._initializers.is_active or subresource or str(resource.group_resource) == NAME:
            return False
        return operation in (CREATE, UPDATE) and resource.store is not None

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Add initializers to a new object; refuse who may not initialize."""
        if obj is None:
            return
        if old is None:
            await self._create(write, obj["metadata"])
        else:
            await self._update(write, obj["metadata"], old["metadata"])

    async def _create(self, write: Write, metadata: Object) -> None:
        if metadata.get("initializers") is not None:
            # Who may initialize may choose the initializers; an empty list chooses none.
            await self._require(write, "create with initializers denied")
            finish(metadata)
            return
        names = self._initializers.names_for(write.resource)
        if names and _MIRROR_POD not in (metadata.get("annotations") or {}):
            metadata["initializers"] = {"pending": [{"name": name} for name in names]}

    async def _update(self, write: Write, metadata: Object, before: Object) -> None:
        finish(metadata)
        if "initializers" not in metadata and "initializers" not in before:
            return
        errors = initializer_errors(metadata, before)
        if errors:
            raise Invalid.of(write.store.group_kind, write.name, errors)
        await self._require(write, "update to uninitialized resource denied")

    async def _require(self, write: Write, message: str) -> None:
        resource = write.resource
        asked = Attributes(
            write.user,
            "initialize",
            resource.group,
            resource.version,
            resource.resource,
            namespace=write.namespace,
            name=write.name,
        )
        decision = await self._authorizer.authorize(asked)
        if not decision.allowed:
            raise Forbidden.of(resource.group_resource, write.name, f"{message}: {decision.reason}")
