"""Namespaces of the cluster: nothing is created in one that is missing or terminating.

The admission plug-in NamespaceLifecycle, for a server that does not store namespaces: the cluster is asked, and an
answer that a namespace is there counts for a few seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from kapi.registry.request import CREATE
from kapi.server.admission.lifecycle import terminating

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.client.rest import RESTClient
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

REMEMBERED_SECONDS: Final = 5.0
MAX_REMEMBERED: Final = 10_000


class ClusterNamespaces:
    """Refuses creations in a namespace that the cluster does not have, or is deleting."""

    def __init__(self, rest: RESTClient, clock: Clock) -> None:
        self._rest = rest
        self._clock = clock
        self._active: dict[str, float] = {}
        """Namespaces that were there, and the time until which that counts."""

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for creations in a namespace."""
        return operation == CREATE and resource.namespaced

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Raise to refuse; nothing is changed."""
        name, now = write.namespace, self._clock.monotonic()
        if self._active.get(name, 0.0) > now:
            return
        found: Object = await self._rest.request("GET", f"/api/v1/namespaces/{quote(name, safe='')}")
        if (found.get("status") or {}).get("phase") == "Terminating":
            raise terminating(write, obj)
        if len(self._active) >= MAX_REMEMBERED:
            self._active.clear()
        self._active[name] = now + REMEMBERED_SECONDS
