"""PodTolerationRestriction: namespaces give their Pods tolerations, and restrict those that Pods may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.errors import NotFound, PlainError
from kapi.api.meta import GroupResource
from kapi.codec import json
from kapi.registry.kinds.core.pod.placement import check_tolerations
from kapi.registry.kinds.core.pod.resources import quality_of_service
from kapi.registry.request import CREATE, UPDATE
from kapi.server.admission.pods.tolerations import EXISTS, NO_SCHEDULE, are_allowed, merge_tolerations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.registry.strategy import Lookup
    from kapi.server.configfile import Shape

PODS: Final = GroupResource("", "pods")
DEFAULTS: Final = "scheduler.alpha.kubernetes.io/defaultTolerations"
ALLOWED: Final = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"

_TOLERATION: Final[Shape] = {"key": str, "operator": str, "value": str, "effect": str, "tolerationSeconds": int}
KINDS: Final = {
    ("podtolerationrestriction.admission.k8s.io/v1alpha1", "Configuration"): {
        "default": [_TOLERATION],
        "whitelist": [_TOLERATION],
    }
}
"""The object that configures the plug-in, and its fields."""


def configuration_errors(prefix: str, obj: Object) -> list[FieldError]:
    """Return what is wrong with a configuration, whose fields are below a prefix."""
    errors: list[FieldError] = []
    for field in ("default", "whitelist"):
        check_tolerations(errors, f"{prefix}{field}", obj.get(field) or [])
    return errors


class PodTolerationRestriction:
    """Merges the tolerations of the namespace into a Pod, and refuses what the namespace does not allow.

    `default` and `allowed` are for namespaces without the annotations.
    """

    reads_only = True

    def __init__(self, lookup: Lookup, default: Sequence[Object] = (), allowed: Sequence[Object] = ()) -> None:
        self._lookup = lookup
        self._default = default
        self._allowed = allowed

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for Pods that are created or updated."""
        return operation in (CREATE, UPDATE) and not subresource and resource.group_resource == PODS

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Merge the tolerations, and refuse what is not allowed."""
        if obj is None:
            return
        extra: list[Object] = []
        if write.operation == CREATE:
            extra += self._annotated(write.namespace, DEFAULTS, self._default) or ()
        if ((obj.get("status") or {}).get("qosClass") or quality_of_service(obj)) != "BestEffort":
            extra.append({"key": "node.kubernetes.io/memory-pressure", "operator": EXISTS, "effect": NO_SCHEDULE})
        if extra:
            obj["spec"]["tolerations"] = merge_tolerations(obj["spec"].get("tolerations") or (), extra)
        await self.validate(write, obj, old)

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse tolerations that are not allowed."""
        tolerations = ((obj or {}).get("spec") or {}).get("tolerations")
        if not tolerations:
            return
        own = self._annotated(write.namespace, ALLOWED, None)
        scope, allowed = ("cluster", self._allowed) if own is None else ("namespace", own)
        if not are_allowed(tolerations, allowed):
            merged = "pod tolerations (possibly merged with namespace default tolerations)"
            raise PlainError(f"{merged} conflict with its {scope} whitelist")

    def _annotated(self, name: str, key: str, default: Sequence[Object] | None) -> Sequence[Object] | None:
        """Return the tolerations that an annotation of the namespace has, or the default."""
        namespace = self._lookup.get("namespaces", "", name)
        if namespace is None:
            raise NotFound.of(GroupResource("", "namespaces"), name)
        text = (namespace["metadata"].get("annotations") or {}).get(key)
        if text is None:
            return default
        if not text:
            return []
        try:
            tolerations = json.decode(text.encode())
        except ValueError as error:
            raise PlainError(str(error)) from None
        if not isinstance(tolerations, list) or not all(isinstance(one, dict) for one in tolerations):
            raise PlainError("json: cannot unmarshal object into Go value of type []v1.Toleration")
        return tolerations
