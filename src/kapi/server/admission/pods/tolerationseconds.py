"""DefaultTolerationSeconds: Pods stay for some minutes on a node that is not ready or not reachable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.meta import GroupResource
from kapi.registry.request import CREATE, UPDATE
from kapi.server.admission.pods.tolerations import EXISTS, NO_EXECUTE

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

PODS: Final = GroupResource("", "pods")
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
DEFAULT_SECONDS: Final = 300


class DefaultTolerationSeconds:
    """Adds the tolerations for both taints to Pods that do not have them."""

    def __init__(self, not_ready: int = DEFAULT_SECONDS, unreachable: int = DEFAULT_SECONDS) -> None:
        self._seconds = ((NOT_READY, not_ready), (UNREACHABLE, unreachable))

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for Pods that are created or updated."""
        return operation in (CREATE, UPDATE) and not subresource and resource.group_resource == PODS

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Add what is missing."""
        spec: Object = (obj or {}).get("spec") or {}
        given = spec.get("tolerations") or []
        tolerated = {one.get("key") or "" for one in given if one.get("effect") in (None, "", NO_EXECUTE)}
        if "" in tolerated:
            return
        missing = [
            {"key": key, "operator": EXISTS, "effect": NO_EXECUTE, "tolerationSeconds": seconds}
            for key, seconds in self._seconds
            if key not in tolerated
        ]
        if missing:
            spec["tolerations"] = given + missing
