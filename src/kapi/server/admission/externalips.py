"""DenyServiceExternalIPs: Services get no external IPs, which would let their owner intercept the traffic to others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.meta import GroupResource
from kapi.registry.request import CREATE, UPDATE
from kapi.server.admission.refusal import refusal

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

SERVICES: Final = GroupResource("", "services")


class DenyServiceExternalIPs:
    """Refuses external IPs that a Service does not have already."""

    reads_only = True

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for Services that are created or updated."""
        return operation in (CREATE, UPDATE) and not subresource and resource.group_resource == SERVICES

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse new external IPs."""
        if _external_ips(obj) - _external_ips(old):
            raise refusal(write, obj, "Use of external IPs is denied by admission control")


def _external_ips(service: Object | None) -> set[str]:
    return set(((service or {}).get("spec") or {}).get("externalIPs") or ())
