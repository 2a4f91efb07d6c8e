"""Event, in its two dialects. One store, two APIs: core/v1 as it was, events.k8s.io/v1 as it should have been.

What is stored is the core form; `to_events_v1` and `to_core_v1` translate. The hooks of both strategies see the
core form, whichever API was used; events.k8s.io only adds stricter rules. Events expire and are never owned, so
deletion policies mean nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.fielderror import FieldError, invalid, required
from kapi.registry.kinds import fieldrules
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

_TO_EVENTS = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_TO_CORE = {new: old for old, new in _TO_EVENTS.items()}
_REFERENCE_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_MAX_SHORT = 128
_MAX_NOTE = 1024
_MISMATCH = "does not match event.namespace"


def to_events_v1(event: Object) -> Object:
    """The events.k8s.io/v1 form of a stored event. Shares its parts."""
    return {**_renamed(event, _TO_EVENTS), "apiVersion": "events.k8s.io/v1"}


def to_core_v1(event: Object) -> Object:
    """The core/v1 form of an events.k8s.io/v1 event. Shares its parts; the inverse of `to_events_v1`."""
    return {**_renamed(event, _TO_CORE), "apiVersion": "v1"}


def _renamed(event: Object, fields: dict[str, str]) -> Object:
    return {fields.get(field, field): value for field, value in event.items()}


class EventStrategy(Strategy):
    """The rules of core/v1 events."""

    allow_create_on_update = True
    default_propagation = "Unsupported"
    selectable_fields = (
        *(f"involvedObject.{field}" for field in _REFERENCE_FIELDS),
        "reason",
        "reportingComponent",
        "source",
        "type",
    )
    controller_field = "reportingComponent"
    """What the reporting controller is called in this dialect, for messages."""

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """The event is about something in its namespace; one with an eventTime says who reports what."""
        errors = self._new_style_errors(obj) if obj.get("eventTime") else _namespace_errors(obj)
        return errors + fieldrules.dns_subdomain("namespace", obj["metadata"].get("namespace", ""))

    def _new_style_errors(self, event: Object) -> list[FieldError]:
        errors: list[FieldError] = []
        namespace = event.get("involvedObject", {}).get("namespace", "")
        if not namespace and event["metadata"].get("namespace") not in {"default", "kube-system"}:
            errors.append(invalid("involvedObject.namespace", namespace, _MISMATCH))
        controller = event.get("reportingComponent", "")
        if not controller:
            errors.append(required(self.controller_field))
        errors += fieldrules.qualified_name(self.controller_field, controller)
        for field in ("reportingInstance", "action", "reason"):
            value = event.get(field, "")
            if not value:
                errors.append(required(field))
            errors += _length_errors(field, value, _MAX_SHORT)
        return errors + _length_errors("message", event.get("message", ""), _MAX_NOTE)

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """Old clients use names with almost anything in them."""
        return names.path_segment(name, prefix=prefix)

    def selectable(self, obj: Object) -> dict[str, str]:
        """By what it is about, who reports it, and why."""
        about = obj.get("involvedObject", {})
        controller = obj.get("reportingComponent", "")
        return {
            **{f"involvedObject.{field}": about.get(field, "") for field in _REFERENCE_FIELDS},
            "reason": obj.get("reason", ""),
            "reportingComponent": controller,
            "source": obj.get("source", {}).get("component") or controller,
            "type": obj.get("type", ""),
        }


class EventsV1Strategy(EventStrategy):
    """The rules of events.k8s.io/v1: no deprecated fields, and nothing but the series changes."""

    controller_field = "reportingController"

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """As for core, and strictly new."""
        errors = super().validate_create(write, obj)
        errors += _series_errors(obj)
        if not obj.get("eventTime"):
            errors.append(required("eventTime"))
        if obj.get("type") not in {"Normal", "Warning"}:
            errors.append(invalid("type", "", f"has invalid value: {obj.get('type', '')}"))
        for field in ("firstTimestamp", "lastTimestamp", "count"):
            if obj.get(field):
                errors.append(invalid(field, "", "needs to be unset"))
        source = obj.get("source") or {}
        if source.get("component") or source.get("host"):
            errors.append(invalid("source", "", "needs to be unset"))
        return errors

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """A DNS subdomain, as for most kinds."""
        return names.dns_subdomain(name, prefix=prefix)

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """A series may grow; what happened stays."""
        errors = EventStrategy.validate_create(self, write, obj)
        if obj.get("series") != old.get("series"):
            errors += _series_errors(obj)
        for field in _FROZEN:
            now, was = obj.get(field) or None, old.get(field) or None
            path = "reportingController" if field == "reportingComponent" else field
            errors += fieldrules.unchanged(path, now, was)
        return errors


_FROZEN = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)


def _namespace_errors(event: Object) -> list[FieldError]:
    about, own = event.get("involvedObject", {}).get("namespace", ""), event["metadata"].get("namespace", "")
    matches = own == about if about else own in {"", "default"}
    return [] if matches else [invalid("involvedObject.namespace", about, _MISMATCH)]


def _length_errors(field: str, value: str, limit: int) -> list[FieldError]:
    return [invalid(field, "", f"can have at most {limit} characters")] if len(value.encode()) > limit else []


def _series_errors(event: Object) -> list[FieldError]:
    series: dict[str, Any] | None = event.get("series")
    if series is None:
        return []
    errors = [] if series.get("count", 0) >= 2 else [invalid("series.count", "", "should be at least 2")]
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("", "Event"): EventStrategy(),
    ("events.k8s.io", "Event"): EventsV1Strategy(),
}
