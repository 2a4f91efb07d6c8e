"""LimitRange: how much one Pod, container or claim of a namespace may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.fielderror import FieldError, duplicate, forbidden, invalid, required
from kapi.api.values import Quantity, parse_quantity
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.pod.resources import is_native
from kapi.registry.kinds.core.resourcequotas import resource_name_errors
from kapi.registry.strategy import Strategy
from kapi.registry.uid import new_uid

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})


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

    def prepare_create(self, write: Write, obj: Object) -> None:
        """A LimitRange needs no name: it is given a random UUID."""
        metadata = obj["metadata"]
        if not metadata.get("name"):
            metadata["name"] = new_uid()

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
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
    errors = resource_name_errors(path, name)
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
    ("", "LimitRange"): LimitRangeStrategy(),
}
