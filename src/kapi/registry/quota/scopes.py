"""Scopes of quotas: a quota counts the objects that all of its scopes include.

Only Pods and PersistentVolumeClaims have scopes: of any other resource, a quota with scopes counts no objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kapi.registry.kinds.core.pod.resources import quality_of_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.api.meta import Object


class Scope(NamedTuple):
    """A scope: its name, and an operator and values for scopes that select by value."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    def selects(self, *names: str) -> bool:
        """Return True if the scope includes an object with these values."""
        match self.operator:
            case "Exists":
                return bool(names)
            case "DoesNotExist":
                return not names
            case "In":
                return any(name in self.values for name in names)
            case "NotIn":
                return not names or any(name not in self.values for name in names)
        return False


def scopes_of(quota: Object) -> tuple[Scope, ...]:
    """The scopes of a quota, from `scopes` and `scopeSelector`."""
    spec = quota.get("spec") or {}
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return (
        *(Scope(name) for name in spec.get("scopes") or ()),
        *(Scope(one["scopeName"], one["operator"], tuple(one.get("values") or ())) for one in expressions),
    )


def is_in_no_scope(scope: Scope, obj: Object) -> bool:
    """Return False: kinds without scopes are in none."""
    return False


# -- Pods -------------------------------------------------------------------------------------------------------------


def is_pod_in_scope(scope: Scope, pod: Object) -> bool:
    """Return True if a scope includes a Pod."""
    spec = pod["spec"]
    match scope.name:
        case "Terminating":
            return _has_deadline(spec)
        case "NotTerminating":
            return not _has_deadline(spec)
        case "BestEffort":
            return _is_best_effort(pod)
        case "NotBestEffort":
            return not _is_best_effort(pod)
        case "PriorityClass":
            priority = spec.get("priorityClassName")
            return scope.selects(priority) if priority else scope.selects()
        case "CrossNamespacePodAffinity":
            return any(map(_names_other_namespaces, _affinity_terms(spec)))
    return False


def _has_deadline(spec: dict[str, Any]) -> bool:
    deadline = spec.get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def _is_best_effort(pod: Object) -> bool:
    return ((pod.get("status") or {}).get("qosClass") or quality_of_service(pod)) == "BestEffort"


def _affinity_terms(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        yield from rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}


def _names_other_namespaces(term: dict[str, Any]) -> bool:
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None


# -- PersistentVolumeClaims -------------------------------------------------------------------------------------------


def is_claim_in_scope(scope: Scope, claim: Object) -> bool:
    """Return True if a scope includes a PersistentVolumeClaim."""
    return scope.name == "VolumeAttributesClass" and scope.selects(*volume_classes_of(claim))


def volume_classes_of(obj: Object) -> set[str]:
    """The VolumeAttributesClasses that a claim or a volume names: desired, current, and target of a modification."""
    status = obj.get("status") or {}
    names = (
        obj["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return {name for name in names if name}
