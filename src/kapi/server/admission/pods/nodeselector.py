"""PodNodeSelector: Pods run on the nodes that an annotation of their namespace, or the configuration, selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api import names
from kapi.api.errors import Forbidden, NotFound, PlainError
from kapi.api.fielderror import invalid
from kapi.api.meta import GroupResource
from kapi.registry.request import CREATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.registry.strategy import Lookup

PODS: Final = GroupResource("", "pods")
ANNOTATION: Final = "scheduler.alpha.kubernetes.io/node-selector"
DEFAULT: Final = "clusterDefaultNodeSelector"
"""The key in the configuration for namespaces without the annotation. The other keys are names of namespaces."""


class PodNodeSelector:
    """Adds the node selector of the namespace to Pods, and refuses other node selectors.

    The configuration also has a list of allowed labels for namespaces.
    """

    reads_only = True

    def __init__(self, lookup: Lookup, selectors: Mapping[str, str]) -> None:
        self._lookup = lookup
        self._selectors = selectors

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for new Pods."""
        return operation == CREATE and not subresource and resource.group_resource == PODS

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Add the node selector."""
        if obj is None:
            return
        added = self._namespace_selector(write.namespace)
        given = obj["spec"].get("nodeSelector") or {}
        _refuse_conflicts(obj, added, given)
        merged = {**added, **given}
        if merged:
            obj["spec"]["nodeSelector"] = merged
        await self.validate(write, obj, old)

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse a node selector that conflicts with the namespace's, or has labels that are not allowed in it."""
        if obj is None:
            return
        given = obj["spec"].get("nodeSelector") or {}
        _refuse_conflicts(obj, self._namespace_selector(write.namespace), given)
        allowed = selected_labels(self._selectors.get(write.namespace, ""))
        if allowed and any(allowed.get(key) != value for key, value in given.items()):
            raise _forbidden(obj, "pod node label selector labels conflict with its namespace whitelist")

    def _namespace_selector(self, name: str) -> dict[str, str]:
        namespace = self._lookup.get("namespaces", "", name)
        if namespace is None:
            raise NotFound.of(GroupResource("", "namespaces"), name)
        annotation = (namespace["metadata"].get("annotations") or {}).get(ANNOTATION)
        return selected_labels(self._selectors.get(DEFAULT, "") if annotation is None else annotation)


def _refuse_conflicts(obj: Object, selector: Mapping[str, str], given: Mapping[str, str]) -> None:
    if any(given.get(key, value) != value for key, value in selector.items()):
        raise _forbidden(obj, "pod node label selector conflicts with its namespace node label selector")


def _forbidden(obj: Object, why: str) -> Forbidden:
    return Forbidden.of(PODS, obj["metadata"].get("name", ""), why)


def selected_labels(selector: str) -> dict[str, str]:
    """Read `key=value,key=value`. Raises `PlainError`."""
    labels: dict[str, str] = {}
    for term in selector.split(",") if selector else ():
        parts = term.split("=")
        if len(parts) != 2:
            raise PlainError(f"invalid selector: [{' '.join(parts)}]")
        key, value = (part.strip() for part in parts)
        # Kubernetes has no path for these errors either.
        if problems := names.qualified_name(key):
            raise PlainError(str(invalid("<nil>", key, "; ".join(problems))))
        if problems := names.label_value(value):
            raise PlainError(str(invalid(f"[{key}]", value, "; ".join(problems))))
        labels[key] = value
    return labels
