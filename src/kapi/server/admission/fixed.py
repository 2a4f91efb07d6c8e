"""Plug-ins that do not look at the write: AlwaysAdmit and AlwaysDeny. Kubernetes has deprecated both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.server.admission.refusal import refusal

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource


class AlwaysAdmit:
    """Admits all writes, as would no plug-in at all. Plug-ins of features that are off in v1.36 are the same."""

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return False: there is nothing to be done."""
        return False


class AlwaysDeny:
    """Refuses all writes; for tests."""

    reads_only = True

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for all writes."""
        return True

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse the write."""
        raise refusal(write, obj, "admission control is denying all modifications")

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse the write."""
        raise refusal(write, obj, "admission control is denying all modifications")
