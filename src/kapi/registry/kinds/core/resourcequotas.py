"""ResourceQuota: how much all objects of a namespace may use together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError, immutable, invalid, required
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.pod.resources import check_quantity
from kapi.registry.kinds.fieldrules import spec_of
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

_COMPUTE = frozenset({"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
_STORAGE_COUNTS = frozenset({"persistentvolumeclaims", "requests.storage"})
_QUOTA_RESOURCES = _COMPUTE | {
    "ephemeral-storage",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
}
_STANDARD_RESOURCES = _QUOTA_RESOURCES | {"storage"}
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")
_SCOPES = frozenset(
    {
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "VolumeAttributesClass",
        "CrossNamespacePodAffinity",
    },
)
_EXISTS_ONLY = _SCOPES - {"PriorityClass", "VolumeAttributesClass"}
_CONFLICTING = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_TEXT = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def _is_standard(name: str, known: frozenset[str]) -> bool:
    return name in known or name.startswith(_HUGE_PAGES)


def resource_name_errors(path: str, name: str) -> list[FieldError]:
    """Return the errors of the name of a resource that is counted."""
    errors = fieldrules.qualified_name(path, name)
    if not errors and "/" not in name and not _is_standard(name, _STANDARD_RESOURCES):
        errors.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    return errors


def _quota_amount_errors(path: str, amounts: dict[str, str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, amount in amounts.items():
        where = f"{path}[{name}]"
        errors += resource_name_errors(where, name)
        if "/" not in name and not _is_standard(name, _QUOTA_RESOURCES):
            errors.append(invalid(where, name, "must be a standard resource for quota"))
        check_quantity(errors, where, name, amount)
    return errors


def _scope_applies(scope: str, name: str) -> bool:
    """Return True if a scope can narrow down the use of a resource."""
    if scope == "BestEffort":
        return name == "pods"
    if scope == "VolumeAttributesClass":
        return name in _STORAGE_COUNTS
    return scope not in _SCOPES or name == "pods" or name in _COMPUTE


class _Misapplied:
    """The errors of scopes that cannot narrow down resources of `spec.hard`: one for each scope and resource.

    They are all the same error, which is shown to clients once, and each repeats all scopes. So that they take no more
    than a few times the memory of the object, only the first of very many are reported.
    """

    def __init__(self, spec: dict[str, Any], path: str, value: Any, entries: int) -> None:
        self._names = [name for name in spec.get("hard") or () if _is_standard(name, _QUOTA_RESOURCES)]
        self._path, self._value = path, value
        self._counts: dict[str, int] = {}
        self.left = _reported(entries)

    def errors(self, scope: str) -> list[FieldError]:
        """Return the errors of one scope."""
        count = self._counts.get(scope)
        if count is None:
            count = self._counts[scope] = sum(not _scope_applies(scope, name) for name in self._names)
        count = min(count, self.left)
        self.left -= count
        return [invalid(self._path, self._value, "unsupported scope applied to resource")] * count if count else []


def _reported(entries: int) -> int:
    """The number of errors that are reported when each repeats a list of so many entries."""
    return max(10, 10_000 // max(entries, 1))


def _scope_errors(spec: dict[str, Any]) -> list[FieldError]:
    scopes = spec.get("scopes") or []
    misapplied = _Misapplied(spec, "spec.scopes", scopes, len(scopes))
    errors: list[FieldError] = []
    unsupported = _reported(len(scopes))
    for scope in scopes:
        if scope not in _SCOPES and unsupported:
            unsupported -= 1
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        errors += misapplied.errors(scope)
    return errors + [
        invalid("spec.scopes", scopes, "conflicting scopes") for pair in _CONFLICTING if pair <= set(scopes)
    ]


def _selector_errors(spec: dict[str, Any]) -> list[FieldError]:
    selector = spec.get("scopeSelector")
    if selector is None:
        return []
    path = "spec.scopeSelector.matchExpressions"
    errors: list[FieldError] = []
    requirements = selector.get("matchExpressions") or []
    misapplied = _Misapplied(spec, path, selector, len(requirements))
    for requirement in requirements:
        scope = requirement.get("scopeName", "")
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        errors += misapplied.errors(scope)
        errors += _requirement_errors(path, requirement)
    scopes = {requirement.get("scopeName") for requirement in requirements}
    return errors + [invalid(path, spec.get("scopes"), "conflicting scopes") for pair in _CONFLICTING if pair <= scopes]


def _requirement_errors(path: str, requirement: dict[str, Any]) -> list[FieldError]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    errors: list[FieldError] = []
    if requirement.get("scopeName") in _EXISTS_ONLY and operator != "Exists":
        errors.append(invalid(f"{path}.operator", operator, _EXISTS_TEXT))
    if operator in {"In", "NotIn"}:
        if not values:
            text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.append(required(f"{path}.values", text))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.append(invalid(f"{path}.values", values, text))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    return errors


class ResourceQuotaStrategy(Strategy):
    """The rules of ResourceQuota."""

    has_status = True
    returns_deleted_object = True

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Nothing is counted yet."""
        spec_of(obj)
        obj["status"] = {}

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Known resources, amounts, and scopes that fit them."""
        spec = obj.get("spec", {})
        errors = _quota_amount_errors("spec.hard", spec.get("hard") or {})
        return errors + _scope_errors(spec) + _selector_errors(spec)

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Scopes stay."""
        errors = self.validate_create(write, obj)
        now, was = obj.get("spec", {}).get("scopes") or [], old.get("spec", {}).get("scopes") or []
        return errors if set(now) == set(was) else [*errors, immutable("spec.scopes", now or None)]

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Known resources and amounts."""
        status = obj.get("status", {})
        errors = _quota_amount_errors("status.hard", status.get("hard") or {})
        return errors + _quota_amount_errors("status.used", status.get("used") or {})


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("", "ResourceQuota"): ResourceQuotaStrategy(),
}
