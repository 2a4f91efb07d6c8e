"""ResourceQuota and LimitRange: how much a namespace may use, and how much one thing in it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.fielderror import FieldError, duplicate, forbidden, immutable, invalid, required
from kapi.api.values import Quantity, parse_quantity
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.pod.resources import check_quantity, is_native
from kapi.registry.kinds.fieldrules import spec_of
from kapi.registry.strategy import Strategy, WriteContext

if TYPE_CHECKING:
    from kapi.api.meta import Object

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
_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
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


# -- resource names --------------------------------------------------------------------------------------------------


def _is_standard(name: str, known: frozenset[str]) -> bool:
    return name in known or name.startswith(_HUGE_PAGES)


def _resource_name_errors(path: str, name: str) -> list[FieldError]:
    errors = fieldrules.qualified_name(path, name)
    if not errors and "/" not in name and not _is_standard(name, _STANDARD_RESOURCES):
        errors.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    return errors


def _quota_amount_errors(path: str, amounts: dict[str, str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, amount in amounts.items():
        where = f"{path}[{name}]"
        errors += _resource_name_errors(where, name)
        if "/" not in name and not _is_standard(name, _QUOTA_RESOURCES):
            errors.append(invalid(where, name, "must be a standard resource for quota"))
        check_quantity(errors, where, name, amount)
    return errors


# -- ResourceQuota ---------------------------------------------------------------------------------------------------


def _scope_applies(scope: str, name: str) -> bool:
    """Whether a scope can narrow down the use of a resource."""
    if scope == "BestEffort":
        return name == "pods"
    if scope == "VolumeAttributesClass":
        return name in _STORAGE_COUNTS
    return scope not in _SCOPES or name == "pods" or name in _COMPUTE


def _misapplied(scope: str, hard: dict[str, str]) -> list[str]:
    return [name for name in sorted(hard) if _is_standard(name, _QUOTA_RESOURCES) and not _scope_applies(scope, name)]


def _scope_errors(spec: dict[str, Any]) -> list[FieldError]:
    scopes = spec.get("scopes") or []
    errors: list[FieldError] = []
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        misapplied = _misapplied(scope, spec.get("hard") or {})
        errors += [invalid("spec.scopes", scopes, "unsupported scope applied to resource") for _ in misapplied]
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
    for requirement in requirements:
        scope = requirement.get("scopeName", "")
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        misapplied = _misapplied(scope, spec.get("hard") or {})
        errors += [invalid(path, selector, "unsupported scope applied to resource") for _ in misapplied]
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

    def prepare_create(self, context: WriteContext, obj: Object) -> None:
        """Nothing is counted yet."""
        spec_of(obj)
        obj["status"] = {}

    def validate_create(self, context: WriteContext, obj: Object) -> list[FieldError]:
        """Known resources, amounts, and scopes that fit them."""
        spec = obj.get("spec", {})
        errors = _quota_amount_errors("spec.hard", spec.get("hard") or {})
        return errors + _scope_errors(spec) + _selector_errors(spec)

    def validate_update(self, context: WriteContext, obj: Object, old: Object) -> list[FieldError]:
        """Scopes stay."""
        errors = self.validate_create(context, obj)
        now, was = obj.get("spec", {}).get("scopes") or [], old.get("spec", {}).get("scopes") or []
        return errors if set(now) == set(was) else [*errors, immutable("spec.scopes", now or None)]

    def validate_status(self, context: WriteContext, obj: Object, old: Object) -> list[FieldError]:
        """Known resources and amounts."""
        status = obj.get("status", {})
        errors = _quota_amount_errors("status.hard", status.get("hard") or {})
        return errors + _quota_amount_errors("status.used", status.get("used") or {})


# -- LimitRange ------------------------------------------------------------------------------------------------------


class LimitRangeStrategy(Strategy):
    """The rules of LimitRange."""

    allow_create_on_update = True

    def default(self, obj: Object) -> None:
        """For containers, missing defaults follow from the limits: from max, from default, from min."""
        for limit in obj.get("spec", {}).get("limits") or ():
            if limit.get("type") != "Container":
                continue
            default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            request = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
            for field, amounts in (("default", default), ("defaultRequest", request)):
                if amounts:
                    limit[field] = amounts

    def validate_create(self, context: WriteContext, obj: Object) -> list[FieldError]:
        """One limit per type, each consistent in itself."""
        errors: list[FieldError] = []
        seen: set[str] = set()
        for index, limit in enumerate(obj.get("spec", {}).get("limits") or ()):
            path, kind = f"spec.limits[{index}]", limit.get("type", "")
            errors += _type_errors(f"{path}.type", kind)
            if kind in seen:
                errors.append(duplicate(f"{path}.type", kind))
            seen.add(kind)
            errors += _limit_errors(path, limit)
        return errors


def _type_errors(path: str, kind: str) -> list[FieldError]:
    errors = fieldrules.qualified_name(path, kind)
    if not errors and "/" not in kind and kind not in {"Pod", "Container", "PersistentVolumeClaim"}:
        errors.append(invalid(path, kind, "must be a standard limit type or fully qualified"))
    return errors


def _limit_name_errors(path: str, name: str, kind: str) -> list[FieldError]:
    errors = _resource_name_errors(path, name)
    if kind not in {"Pod", "Container"}:
        return errors
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not name.startswith("hugepages-"):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and (name.startswith("requests.") or names.qualified_name(f"requests.{name}")):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def _limit_errors(path: str, limit: dict[str, Any]) -> list[FieldError]:
    kind = limit.get("type", "")
    fields = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
    errors: list[FieldError] = []
    if kind == "Pod":
        for field in ("default", "defaultRequest"):
            fields.remove(field)
            if limit.get(field):
                errors.append(forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
    for field in fields:
        for name in limit.get(field) or ():
            errors += _limit_name_errors(f"{path}.{field}[{name}]", name, kind)
    if kind == "PersistentVolumeClaim" and not any("storage" in (limit.get(field) or ()) for field in ("min", "max")):
        text = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{path}.limits", text))
    amounts = {field: limit.get(field) or {} for field in fields}
    for name in dict.fromkeys(name for field in fields for name in amounts[field]):
        errors += _consistency_errors(path, name, {field: amounts[field].get(name) for field in fields})
    return errors


_ORDERED = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)
"""Smaller field, larger field, field blamed, value shown, complaint."""


def _consistency_errors(path: str, name: str, amounts: dict[str, str | None]) -> list[FieldError]:
    errors: list[FieldError] = []
    for low, high, blamed, shown, complaint in _ORDERED:
        smaller, larger = amounts.get(low), amounts.get(high)
        if smaller is not None and larger is not None and parse_quantity(smaller) > parse_quantity(larger):
            errors.append(invalid(f"{path}.{blamed}[{name}]", amounts[shown], complaint.format(smaller, larger)))
    errors += _ratio_errors(f"{path}.maxLimitRequestRatio[{name}]", amounts)
    limit, request = amounts.get("default"), amounts.get("defaultRequest")
    overcommits = is_native(name) and not name.startswith("hugepages-")
    if not overcommits and limit and request and parse_quantity(limit) != parse_quantity(request):
        complaint = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        errors.append(invalid(f"{path}.defaultRequest[{name}]", request, complaint))
    return errors


def _ratio_errors(path: str, amounts: dict[str, str | None]) -> list[FieldError]:
    text = amounts.get("maxLimitRequestRatio")
    if text is None:
        return []
    ratio = parse_quantity(text)
    errors = [invalid(path, text, f"ratio {text} is less than 1")] if ratio < Quantity(1) else []
    low, high = amounts.get("min"), amounts.get("max")
    if low is not None and high is not None and parse_quantity(low):
        bound = parse_quantity(high).milli_value() / parse_quantity(low).milli_value()
        if ratio.milli_value() / 1000 > bound:
            errors.append(invalid(path, text, f"ratio {text} is greater than max/min = {bound:f}"))
    return errors


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("", "ResourceQuota"): ResourceQuotaStrategy(),
    ("", "LimitRange"): LimitRangeStrategy(),
}
