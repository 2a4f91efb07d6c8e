"""Tables of autoscalers with their targets: the current and the target value of each metric, `cpu: 10%/50%`.

Objects arrive in the stored version, autoscaling/v2, whichever version was asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.registry.tables import cells
from kapi.registry.tables.table import AGE, NAME, Table, integer, text

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    from kapi.api.meta import Object

_SHOWN = 2
_NIL = "<nil>"
"""The text that kube-apiserver prints for a missing quantity."""


def _current(status: Object | None, field: str) -> str:
    """A measured quantity; `<unknown>` before the first measurement."""
    return cells.UNKNOWN if status is None else cells.quantity(cells.part(status, "current").get(field), _NIL)


def _average(source: Object, status: Object | None) -> str:
    """The text of a Pods metric, which is always an average."""
    target = cells.part(source, "target").get("averageValue")
    return f"{_current(status, 'averageValue')}/{cells.quantity(target, _NIL)}"


def _value(source: Object, status: Object | None) -> str:
    """The text of an Object or External metric: a total, or the average over the Pods."""
    target = cells.part(source, "target")
    if (average := target.get("averageValue")) is None:
        return f"{_current(status, 'value')}/{cells.quantity(target.get('value'), _NIL)}"
    measured = cells.part(status or {}, "current").get("averageValue")
    return f"{cells.quantity(measured, cells.UNKNOWN)}/{cells.quantity(average)} (avg)"


def _percent(value: int | None, absent: str) -> str:
    return absent if value is None else f"{value}%"


def _resource(source: Object, status: Object | None) -> str:
    """The text of a Resource metric such as cpu: an amount, or a percentage of the requests."""
    target, resource = cells.part(source, "target"), cells.string(source, "name")
    if (average := target.get("averageValue")) is not None:
        return f"{resource}: {_current(status, 'averageValue')}/{cells.quantity(average)}"
    measured = cells.part(status or {}, "current").get("averageUtilization")
    wanted = _percent(target.get("averageUtilization"), "<auto>")
    return f"{resource}: {_percent(measured, cells.UNKNOWN)}/{wanted}"


_SOURCES: dict[str, tuple[str, Callable[[Object, Object | None], str]]] = {
    "External": ("external", _value),
    "Object": ("object", _value),
    "Pods": ("pods", _average),
    "Resource": ("resource", _resource),
    "ContainerResource": ("containerResource", _resource),
}


def _metric(metric: Object, status: Object) -> str:
    known = _SOURCES.get(cells.string(metric, "type"))
    if known is None:
        return "<unknown type>"
    field, describe = known
    return describe(cells.part(metric, field), status.get(field))


def _targets(metrics: list[Object], measured: list[Object]) -> str:
    if not metrics:
        return cells.NONE
    shown = [
        _metric(metric, measured[index] if index < len(measured) else {})
        for index, metric in enumerate(metrics[:_SHOWN])
    ]
    return cells.few(shown, len(metrics), ", ")


def _autoscaler(obj: Object, now: dt.datetime) -> list[Any]:
    spec = cells.part(obj, "spec")
    target, smallest = cells.part(spec, "scaleTargetRef"), spec.get("minReplicas")
    return [
        cells.name(obj),
        f"{cells.string(target, 'kind')}/{cells.string(target, 'name')}",
        _targets(cells.items(spec, "metrics"), cells.items(obj, "status", "currentMetrics")),
        cells.UNSET if smallest is None else str(smallest),
        cells.count(spec, "maxReplicas"),
        cells.count(obj, "status", "currentReplicas"),
        cells.age(obj, now),
    ]


def _scale(obj: Object, now: dt.datetime) -> list[Any]:
    wanted, actual = cells.count(obj, "spec", "replicas"), cells.count(obj, "status", "replicas")
    return [cells.name(obj), wanted, actual, cells.age(obj, now)]


TABLES = {
    ("autoscaling", "scales"): Table(
        (
            text("Name", "The name of what is scaled."),
            integer("Desired", "How many replicas are wanted."),
            integer("Available", "How many there are."),
            AGE,
        ),
        _scale,
    ),
    ("autoscaling", "horizontalpodautoscalers"): Table(
        (
            NAME,
            text("Reference", "What is scaled."),
            text("Targets", "Each metric as measured and as wanted."),
            text("MinPods", "The fewest pods it scales down to."),
            text("MaxPods", "The most pods it scales up to."),
            text("Replicas", "How many pods there are."),
            AGE,
        ),
        _autoscaler,
    ),
}
