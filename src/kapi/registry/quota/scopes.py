"""Scopes: which of the objects of a namespace a quota is about.

A scope is a question to an object; a quota counts objects to which all of its scopes say yes. Only Pods and claims of
storage have scopes: of anything else, a quota with scopes counts none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kapi.registry.kinds.core.pod.resources import quality_of_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.api.meta import Object


class Scope(NamedTuple):
    """One question: a name, and for scopes that have values which of them are meant."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    def selects(self, *names: str) -> bool:
        """Whether an object that has these values, or none, is meant."""
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
    """The scopes of a quota, however they are written."""
    spec = quota.get("spec") or {}
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return (
        *(Scope(name) for name in spec.get("scopes") or ()),
        *(Scope(one["scopeName"], one["operator"], tuple(one.get("values") or ())) for one in expressions),
    )


def is_in_no_scope(scope: Scope, obj: Object) -> bool:
    """What kinds without scopes answer."""
    return False


# -- Pods -------------------------------------------------------------------------------------------------------------


def is_pod_in_scope(scope: Scope, pod: Object) -> bool:
    """What a Pod answers."""
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
            return any(map(_is_about_other_namespaces, _affinity_terms(spec)))
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


def _is_about_other_namespaces(term: dict[str, Any]) -> bool:
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None


# -- claims of storage ------------------------------------------------------------------------------------------------


def is_claim_in_scope(scope: Scope, claim: Object) -> bool:
    """What a claim of storage answers."""
    return scope.name == "VolumeAttributesClass" and scope.selects(*volume_classes_of(claim))


def volume_classes_of(obj: Object) -> set[str]:
    """The volume classes that a claim or a volume is about: wanted, had, and on the way."""
    status = obj.get("status") or {}
    names = (
        obj["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return {name for name in names if name}
