"""HorizontalPodAutoscaler: defaults and rules, on the stored (v2) form.

`autoscalingversions` translates from and to v1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError, forbidden, invalid, not_supported, required
from kapi.api.meta import GroupVersion
from kapi.api.values import parse_quantity
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.autoscaling.conversion import DEFAULT_CPU_UTILIZATION, cpu_metric
from kapi.registry.kinds.fieldrules import spec_of
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

METRIC_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
POLICY_TYPES = ("Percent", "Pods")
SELECT_POLICIES = ("Disabled", "Max", "Min")
TARGET_TYPES = ("Utilization", "Value", "AverageValue")

_MAX_WINDOW = 3600
_MAX_PERIOD = 1800
_SOURCE_FIELDS = ("object", "external", "pods", "resource", "containerResource")
_UTILIZATION_OR_VALUE = "must set either a target raw value or a target utilization"
_BOTH_UTILIZATION_AND_VALUE = "may not set both a target raw value and a target utilization"


def _default_rules(window: int | None, *policies: tuple[str, int]) -> dict[str, Any]:
    rules: dict[str, Any] = {} if window is None else {"stabilizationWindowSeconds": window}
    rules["selectPolicy"] = "Max"
    rules["policies"] = [{"type": kind, "value": value, "periodSeconds": 15} for kind, value in policies]
    return rules


class HorizontalPodAutoscalerStrategy(Strategy):
    """The rules of HorizontalPodAutoscaler."""

    has_status = True

    def default(self, obj: Object) -> None:
        """At least one replica, 80 % of the requested CPU, and scaling as fast as has proved wise."""
        spec = spec_of(obj)
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            spec["metrics"] = [cpu_metric(DEFAULT_CPU_UTILIZATION)]
        if "behavior" in spec:
            behavior = spec["behavior"]
            up, down = _default_rules(0, ("Pods", 4), ("Percent", 100)), _default_rules(None, ("Percent", 100))
            behavior["scaleUp"] = {**up, **behavior.get("scaleUp", {})}
            behavior["scaleDown"] = {**down, **behavior.get("scaleDown", {})}

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """A target, bounds, and metrics to steer by."""
        return _spec_errors(obj.get("spec") or {}, {})

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """As on create, lenient with what was accepted before."""
        return _spec_errors(obj.get("spec") or {}, old.get("spec") or {})

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Counts are counts."""
        status = obj.get("status", {})
        return [
            error
            for field in ("currentReplicas", "desiredReplicas")
            for error in fieldrules.not_negative(f"status.{field}", status.get(field, 0))
        ]


def _spec_errors(spec: dict[str, Any], before: dict[str, Any]) -> list[FieldError]:
    low, high = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    bound = 0 if before.get("minReplicas") == 0 else 1
    errors: list[FieldError] = []
    if low is not None and low < bound:
        errors.append(invalid("spec.minReplicas", low, f"must be greater than or equal to {bound}"))
    if high == 0:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif high < 0:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to 1"))
    if low is not None and high < low:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`"))
    errors += _target_errors(spec.get("scaleTargetRef") or {}, before.get("scaleTargetRef"))
    metrics = spec.get("metrics") or []
    for index, metric in enumerate(metrics):
        errors += _metric_errors(f"spec.metrics[{index}]", metric)
    if low == 0 and not any(metric.get("type") in {"Object", "External"} for metric in metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", text))
    for side in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(side)
        if rules is not None:
            errors += _rules_errors(f"spec.behavior.{side}", rules)
    return errors


def _target_errors(target: dict[str, Any], before: dict[str, Any] | None) -> list[FieldError]:
    """A reference accepted before may keep its version, whatever it is."""
    path = "spec.scaleTargetRef"
    is_stored = before is not None and all(before.get(key) == target.get(key) for key in ("apiVersion", "kind"))
    errors = _reference_errors(path, target)
    if not is_stored:
        errors += _version_errors(path, target, needs_group=target.get("kind") != "ReplicationController")
    return errors


def _reference_errors(path: str, reference: dict[str, Any]) -> list[FieldError]:
    errors = fieldrules.required_string(f"{path}.kind", reference.get("kind"), fieldrules.path_segment)
    return errors + fieldrules.required_string(f"{path}.name", reference.get("name"), fieldrules.path_segment)


def _version_errors(path: str, reference: dict[str, Any], *, needs_group: bool) -> list[FieldError]:
    version = reference.get("apiVersion", "")
    try:
        group = GroupVersion.parse(version).group
    except ValueError as error:
        return [invalid(f"{path}.apiVersion", version, str(error))]
    if needs_group and not group:
        return [invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")]
    return []


def _rules_errors(path: str, rules: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    window, where = rules.get("stabilizationWindowSeconds"), f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        errors.append(invalid(where, window, "must be greater than or equal to zero"))
    if window is not None and window > _MAX_WINDOW:
        errors.append(invalid(where, window, f"must be less than or equal to {_MAX_WINDOW}"))
    if "selectPolicy" in rules:
        errors += fieldrules.one_of(f"{path}.selectPolicy", rules["selectPolicy"], SELECT_POLICIES)
    policies = rules.get("policies") or []
    if not policies:
        errors.append(required(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        errors += _policy_errors(f"{path}.policies[{index}]", policy)
    if "tolerance" in rules:
        errors += fieldrules.non_negative_quantity(f"{path}.tolerance", rules["tolerance"])
    return errors


def _policy_errors(path: str, policy: dict[str, Any]) -> list[FieldError]:
    errors = fieldrules.one_of(f"{path}.type", policy.get("type", ""), POLICY_TYPES)
    for field in ("value", "periodSeconds"):
        if policy.get(field, 0) <= 0:
            errors.append(invalid(f"{path}.{field}", policy.get(field, 0), "must be greater than zero"))
    period = policy.get("periodSeconds", 0)
    if period > _MAX_PERIOD:
        errors.append(invalid(f"{path}.periodSeconds", period, f"must be less than or equal to {_MAX_PERIOD}"))
    return errors


def _metric_errors(path: str, metric: dict[str, Any]) -> list[FieldError]:
    kind = metric.get("type", "")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric source type"))
    if kind not in METRIC_TYPES:
        errors.append(not_supported(f"{path}.type", kind, METRIC_TYPES))
    present = [field for field in _SOURCE_FIELDS if field in metric]
    if present:
        errors += _source_errors(f"{path}.{present[0]}", present[0], metric[present[0]])
    expected = kind[:1].lower() + kind[1:]
    if kind in METRIC_TYPES and expected not in metric:
        errors.append(required(f"{path}.{expected}", "must populate information for the given metric source"))
    elif kind not in METRIC_TYPES:
        errors.append(not_supported(f"{path}.type", kind, METRIC_TYPES))
    if len(present) > 1:
        text = "must populate the given metric source only"
        errors += [forbidden(f"{path}.{field}", text) for field in present if field != expected]
    return errors


def _source_errors(path: str, kind: str, source: dict[str, Any]) -> list[FieldError]:
    target, where = source.get("target") or {}, f"{path}.target"
    errors: list[FieldError] = []
    if kind == "object":
        errors += _reference_errors(f"{path}.describedObject", source.get("describedObject") or {})
        errors += _version_errors(f"{path}.describedObject", source.get("describedObject") or {}, needs_group=False)
    if kind in {"object", "external", "pods"}:
        errors += _identifier_errors(f"{path}.metric", source.get("metric") or {})
    else:
        errors += _resource_name_errors(path, kind, source)
    return errors + _metric_target_errors(where, target) + _combination_errors(where, kind, target)


def _identifier_errors(path: str, metric: dict[str, Any]) -> list[FieldError]:
    name = metric.get("name", "")
    if not name:
        return [required(f"{path}.name", "must specify a metric name")]
    return fieldrules.path_segment(f"{path}.name", name)


def _resource_name_errors(path: str, kind: str, source: dict[str, Any]) -> list[FieldError]:
    errors = [] if source.get("name") else [required(f"{path}.name", "must specify a resource name")]
    if kind == "containerResource":
        container = source.get("container", "")
        if not container:
            errors.append(required(f"{path}.container", "must specify a container"))
        else:
            errors += fieldrules.dns_label(f"{path}.container", container)
    return errors


def _metric_target_errors(path: str, target: dict[str, Any]) -> list[FieldError]:
    kind = target.get("type", "")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric target type"))
    if kind not in TARGET_TYPES:
        errors.append(invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    errors += [
        invalid(f"{path}.{field}", target[field], "must be positive")
        for field in ("value", "averageValue")
        if field in target and parse_quantity(target[field]).mantissa <= 0
    ]
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        errors.append(invalid(f"{path}.averageUtilization", utilization, "must be greater than 0"))
    return errors


def _combination_errors(path: str, kind: str, target: dict[str, Any]) -> list[FieldError]:
    """Validate the three amounts of a metric target: which one is needed and which exclude each other."""
    has_value, has_average = "value" in target, "averageValue" in target
    if kind == "pods":
        return [] if has_average else [required(f"{path}.averageValue", "must specify a positive target averageValue")]
    if kind == "object":
        text = "must set either a target value or averageValue"
        return [] if has_value or has_average else [required(f"{path}.averageValue", text)]
    if kind == "external":
        if has_value and has_average:
            return [forbidden(f"{path}.value", "may not set both a target value for metric and a per-pod target")]
        text = "must set either a target value for metric or a per-pod target"
        return [] if has_value or has_average else [required(f"{path}.averageValue", text)]
    has_utilization = "averageUtilization" in target
    if has_utilization and has_average:
        return [forbidden(f"{path}.averageValue", _BOTH_UTILIZATION_AND_VALUE)]
    return [] if has_utilization or has_average else [required(f"{path}.averageUtilization", _UTILIZATION_OR_VALUE)]


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("autoscaling", "HorizontalPodAutoscaler"): HorizontalPodAutoscalerStrategy(),
}
