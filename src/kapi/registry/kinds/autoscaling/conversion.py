"""HorizontalPodAutoscaler in its two versions: what v2 can say and v1 cannot travels in annotations.

What is stored is v2. `to_v1` and `to_v2` translate; going there and back loses nothing. The texts inside the
annotations are part of the API: older clients read them. Pure functions; they share parts with their argument and
never change it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object

PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS = f"{PREFIX}metrics"
CURRENT_METRICS = f"{PREFIX}current-metrics"
CONDITIONS = f"{PREFIX}conditions"
BEHAVIOR = f"{PREFIX}behavior"
DEFAULT_CPU_UTILIZATION = 80

_TOLERANCES = (f"{PREFIX}scale-down-tolerance", f"{PREFIX}scale-up-tolerance")
_ROUND_TRIP = frozenset({METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR, *_TOLERANCES})
_SPEC_FIELDS = ("scaleTargetRef", "minReplicas", "maxReplicas")
_STATUS_FIELDS = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")

_Part = dict[str, Any]


def cpu_metric(utilization: int) -> _Part:
    """The one metric v1 has a field for."""
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def to_v1(scaler: Object) -> Object:
    """The autoscaling/v1 form of a stored (v2) object."""
    spec, status = _without_nulls(scaler.get("spec") or {}), _without_nulls(scaler.get("status") or {})
    old_spec, old_status = _pick(spec, _SPEC_FIELDS), {"currentReplicas": 0, **_pick(status, _STATUS_FIELDS)}
    cpu = next((_cpu_target(metric) for metric in spec.get("metrics") or () if _cpu_target(metric) is not None), None)
    if cpu is not None:
        old_spec["targetCPUUtilizationPercentage"] = cpu
    for metric in status.get("currentMetrics") or ():
        current = metric.get("resource", {}).get("current", {}).get("averageUtilization")
        if metric.get("type") == "Resource" and metric["resource"].get("name") == "cpu" and current is not None:
            old_status["currentCPUUtilizationPercentage"] = current
    annotations = _annotations_for(spec, status)
    return _assemble(scaler, "autoscaling/v1", old_spec, old_status, annotations)


def to_v2(scaler: Object) -> Object:
    """The stored (v2) form of an autoscaling/v1 object."""
    old_spec, old_status = scaler.get("spec") or {}, scaler.get("status") or {}
    annotations = scaler["metadata"].get("annotations") or {}
    spec, status = _pick(old_spec, _SPEC_FIELDS), _pick(old_status, _STATUS_FIELDS)
    cpu = old_spec.get("targetCPUUtilizationPercentage")
    metrics = [_metric_to_v2(metric) for metric in _list(annotations.get(METRICS))]
    metrics += [cpu_metric(cpu)] if cpu is not None else []
    spec["metrics"] = metrics or [cpu_metric(DEFAULT_CPU_UTILIZATION)]
    behavior = _decoded(annotations.get(BEHAVIOR))
    if isinstance(behavior, dict) and behavior:
        spec["behavior"] = _lowered(behavior)
    current = [_status_to_v2(metric) for metric in _list(annotations.get(CURRENT_METRICS))]
    utilization = old_status.get("currentCPUUtilizationPercentage")
    if not current and utilization is not None:
        resource = {"name": "cpu", "current": {"averageUtilization": utilization}}
        current = [{"type": "Resource", "resource": resource}]
    status["currentMetrics"] = current or None
    if not status.get("currentReplicas"):
        status.pop("currentReplicas", None)
    conditions = _list(annotations.get(CONDITIONS))
    if conditions:
        status["conditions"] = conditions
    return _assemble(scaler, "autoscaling/v2", spec, status, {})


def _without_nulls(value: Any) -> Any:
    """Return a value as Go would have decoded it: a null field is absent, a null item of a list is empty.

    Stored objects have no nulls, but the configuration of a server-side apply is converted as the client wrote it.
    """
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [{} if item is None else _without_nulls(item) for item in value]
    return value


def _assemble(scaler: Object, version: str, spec: _Part, status: _Part, annotations: dict[str, str]) -> Object:
    metadata = dict(scaler["metadata"])
    kept = {key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key not in _ROUND_TRIP}
    if kept or annotations:
        metadata["annotations"] = kept | annotations
    converted = {**scaler, "apiVersion": version, "metadata": metadata, "spec": spec}
    if status or "status" in scaler:
        converted["status"] = status
    return converted


def _annotations_for(spec: _Part, status: _Part) -> dict[str, str]:
    others = [metric for metric in spec.get("metrics") or () if _cpu_target(metric) is None]
    contents = {
        METRICS: [_metric_to_v1(metric) for metric in others],
        CURRENT_METRICS: [_status_to_v1(metric) for metric in status.get("currentMetrics") or ()],
        BEHAVIOR: _capitalised(spec["behavior"]) if "behavior" in spec else None,
        CONDITIONS: status.get("conditions"),
    }
    return {key: msgspec.json.encode(value).decode() for key, value in contents.items() if value}


def _cpu_target(metric: _Part) -> int | None:
    resource = metric.get("resource", {})
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    target: int | None = resource.get("target", {}).get("averageUtilization")
    return target


# -- metrics ---------------------------------------------------------------------------------------------------------


def _metric_to_v1(metric: _Part) -> _Part:
    return _each_source(metric, _SOURCES_TO_V1)


def _metric_to_v2(metric: _Part) -> _Part:
    return _each_source(metric, _SOURCES_TO_V2)


def _status_to_v1(metric: _Part) -> _Part:
    return _each_source(metric, _STATUSES_TO_V1)


def _status_to_v2(metric: _Part) -> _Part:
    return _each_source(metric, _STATUSES_TO_V2)


def _each_source(metric: _Part, converters: dict[str, Callable[[_Part], _Part]]) -> _Part:
    return {
        field: converters[field](value) if field in converters and isinstance(value, dict) else value
        for field, value in metric.items()
    }


def _object_to_v1(source: _Part) -> _Part:
    target, metric = source.get("target", {}), source.get("metric", {})
    return _present(
        target=source.get("describedObject", {}),
        metricName=metric.get("name", ""),
        targetValue=target.get("value", "0"),
        selector=metric.get("selector"),
        averageValue=target.get("averageValue"),
    )


def _object_to_v2(source: _Part) -> _Part:
    average, value = source.get("averageValue"), source.get("targetValue")
    if average is not None and value == "0":
        value = None
    kind = "Value" if average is None else "AverageValue"
    return {
        "describedObject": source.get("target", {}),
        "target": _present(type=kind, value=value, averageValue=average),
        "metric": _present(name=source.get("metricName", ""), selector=source.get("selector")),
    }


def _pods_to_v1(source: _Part) -> _Part:
    metric = source.get("metric", {})
    average = source.get("target", {}).get("averageValue", "0")
    return _present(metricName=metric.get("name", ""), targetAverageValue=average, selector=metric.get("selector"))


def _pods_to_v2(source: _Part) -> _Part:
    return {
        "metric": _present(name=source.get("metricName", ""), selector=source.get("selector")),
        "target": _present(type="AverageValue", averageValue=source.get("targetAverageValue")),
    }


def _external_to_v1(source: _Part) -> _Part:
    metric, target = source.get("metric", {}), source.get("target", {})
    return _present(
        metricName=metric.get("name", ""),
        metricSelector=metric.get("selector"),
        targetValue=target.get("value"),
        targetAverageValue=target.get("averageValue"),
    )


def _external_to_v2(source: _Part) -> _Part:
    value = source.get("targetValue")
    kind = "AverageValue" if value is None else "Value"
    return {
        "metric": _present(name=source.get("metricName", ""), selector=source.get("metricSelector")),
        "target": _present(type=kind, value=value, averageValue=source.get("targetAverageValue")),
    }


def _resource_to_v1(source: _Part) -> _Part:
    target = source.get("target", {})
    return _present(
        name=source.get("name", ""),
        targetAverageUtilization=target.get("averageUtilization"),
        targetAverageValue=target.get("averageValue"),
        container=source.get("container"),
    )


def _resource_to_v2(source: _Part) -> _Part:
    utilization = source.get("targetAverageUtilization")
    kind = "AverageValue" if utilization is None else "Utilization"
    average = source.get("targetAverageValue")
    target = _present(type=kind, averageValue=average, averageUtilization=utilization)
    return _present(name=source.get("name", ""), target=target, container=source.get("container"))


def _object_status_to_v1(source: _Part) -> _Part:
    metric, current = source.get("metric", {}), source.get("current", {})
    return _present(
        target=source.get("describedObject", {}),
        metricName=metric.get("name", ""),
        currentValue=current.get("value", "0"),
        selector=metric.get("selector"),
        averageValue=current.get("averageValue"),
    )


def _object_status_to_v2(source: _Part) -> _Part:
    return {
        "metric": _present(name=source.get("metricName", ""), selector=source.get("selector")),
        "current": _present(value=source.get("currentValue"), averageValue=source.get("averageValue")),
        "describedObject": source.get("target", {}),
    }


def _pods_status_to_v1(source: _Part) -> _Part:
    metric = source.get("metric", {})
    average = source.get("current", {}).get("averageValue", "0")
    return _present(metricName=metric.get("name", ""), currentAverageValue=average, selector=metric.get("selector"))


def _pods_status_to_v2(source: _Part) -> _Part:
    return {
        "metric": _present(name=source.get("metricName", ""), selector=source.get("selector")),
        "current": _present(averageValue=source.get("currentAverageValue")),
    }


def _external_status_to_v1(source: _Part) -> _Part:
    metric, current = source.get("metric", {}), source.get("current", {})
    return _present(
        metricName=metric.get("name", ""),
        metricSelector=metric.get("selector"),
        currentValue=current.get("value", "0"),
        currentAverageValue=current.get("averageValue"),
    )


def _external_status_to_v2(source: _Part) -> _Part:
    return {
        "metric": _present(name=source.get("metricName", ""), selector=source.get("metricSelector")),
        "current": _present(value=source.get("currentValue"), averageValue=source.get("currentAverageValue")),
    }


def _resource_status_to_v1(source: _Part) -> _Part:
    current = source.get("current", {})
    return _present(
        name=source.get("name", ""),
        currentAverageUtilization=current.get("averageUtilization"),
        currentAverageValue=current.get("averageValue", "0"),
        container=source.get("container"),
    )


def _resource_status_to_v2(source: _Part) -> _Part:
    current = _present(
        averageValue=source.get("currentAverageValue"),
        averageUtilization=source.get("currentAverageUtilization"),
    )
    return _present(name=source.get("name", ""), current=current, container=source.get("container"))


_SOURCES_TO_V1: dict[str, Callable[[_Part], _Part]] = {
    "object": _object_to_v1,
    "pods": _pods_to_v1,
    "external": _external_to_v1,
    "resource": _resource_to_v1,
    "containerResource": _resource_to_v1,
}
_SOURCES_TO_V2: dict[str, Callable[[_Part], _Part]] = {
    "object": _object_to_v2,
    "pods": _pods_to_v2,
    "external": _external_to_v2,
    "resource": _resource_to_v2,
    "containerResource": _resource_to_v2,
}
_STATUSES_TO_V1: dict[str, Callable[[_Part], _Part]] = {
    "object": _object_status_to_v1,
    "pods": _pods_status_to_v1,
    "external": _external_status_to_v1,
    "resource": _resource_status_to_v1,
    "containerResource": _resource_status_to_v1,
}
_STATUSES_TO_V2: dict[str, Callable[[_Part], _Part]] = {
    "object": _object_status_to_v2,
    "pods": _pods_status_to_v2,
    "external": _external_status_to_v2,
    "resource": _resource_status_to_v2,
    "containerResource": _resource_status_to_v2,
}


# -- pieces ----------------------------------------------------------------------------------------------------------


def _present(**fields: Any) -> _Part:
    return {field: value for field, value in fields.items() if value is not None}


def _pick(source: _Part, fields: tuple[str, ...]) -> _Part:
    return {field: source[field] for field in fields if field in source}


def _decoded(text: str | None) -> Any:
    """Return what an annotation holds; a broken one holds nothing."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _list(text: str | None) -> list[_Part]:
    value = _decoded(text)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _capitalised(value: Any) -> Any:
    """Field names as the behaviour annotation has them: those of kube-apiserver's internal type."""
    if isinstance(value, dict):
        return {key[:1].upper() + key[1:]: _capitalised(entry) for key, entry in value.items()}
    return [_capitalised(entry) for entry in value] if isinstance(value, list) else value


def _lowered(value: Any) -> Any:
    """The inverse of `_capitalised`; nulls, which the internal type is full of, go."""
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: _lowered(entry) for key, entry in value.items() if entry is not None}
    return [_lowered(entry) for entry in value] if isinstance(value, list) else value
