"""RuntimeClass: a Pod gets the overhead, the node selector and the tolerations of its RuntimeClass."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kapi.api.limits import OFF_LOOP_BYTES
from kapi.api.meta import GroupResource
from kapi.registry.quota.amounts import amounts_of
from kapi.registry.request import CREATE
from kapi.server.admission.pods.tolerations import merge_tolerations
from kapi.server.admission.refusal import refusal

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.registry.strategy import Lookup

PODS: Final = GroupResource("", "pods")
CLASSES: Final = "runtimeclasses.node.k8s.io"

_DIFFERENT: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_UNDEFINED: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClass:
    """Applies RuntimeClasses to new Pods, and refuses an overhead that is not that of the RuntimeClass."""

    reads_only = True

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for new Pods."""
        return operation == CREATE and not subresource and resource.group_resource == PODS

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Set overhead, node selector and tolerations."""
        spec: Object = (obj or {}).get("spec") or {}
        found = self._class(write, obj, spec)
        if found is None:
            return
        if write.object_bytes < OFF_LOOP_BYTES:
            _apply(write, obj, spec, found)
        else:
            await asyncio.to_thread(_apply, write, obj, spec, found)

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Compare the overhead once more: another plug-in may have changed it."""
        spec: Object = (obj or {}).get("spec") or {}
        found = self._class(write, obj, spec)
        if found is not None and found.get("overhead") is not None:
            fixed = found["overhead"].get("podFixed")
            if amounts_of(spec.get("overhead")) != amounts_of(fixed):
                raise refusal(write, obj, _DIFFERENT)
        elif spec.get("overhead") is not None:
            raise refusal(write, obj, _UNDEFINED)

    def _class(self, write: Write, obj: Object | None, spec: Object) -> Object | None:
        name = spec.get("runtimeClassName")
        if name is None:
            return None
        found = self._lookup.get(CLASSES, "", name)
        if found is None:
            raise refusal(write, obj, f'pod rejected: RuntimeClass "{name}" not found')
        return found


def _apply(write: Write, obj: Object | None, spec: Object, found: Object) -> None:
    """Change the spec of a Pod as its RuntimeClass says; in a thread where the Pod is large."""
    if found.get("overhead") is not None:
        fixed = found["overhead"].get("podFixed") or {}
        if spec.get("overhead") and amounts_of(spec["overhead"]) != amounts_of(fixed):
            raise refusal(write, obj, _DIFFERENT)
        spec.pop("overhead", None)
        if fixed:
            spec["overhead"] = dict(fixed)
    if found.get("scheduling") is not None:
        _schedule(write, obj, spec, found["scheduling"])


def _schedule(write: Write, obj: Object | None, spec: Object, scheduling: Object) -> None:
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            conflict = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}]"
            raise refusal(write, obj, f"conflict: {conflict} = {selector[key]}")
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    tolerations = merge_tolerations(spec.get("tolerations") or (), scheduling.get("tolerations") or ())
    if tolerations:
        spec["tolerations"] = tolerations
