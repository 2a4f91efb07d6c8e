"""Tables of device classes, resource claims and resource slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.registry.tables import cells
from kapi.registry.tables.table import AGE, NAME, Table, text

if TYPE_CHECKING:
    import datetime as dt

    from kapi.api.meta import Object

_GROUP = "resource.k8s.io"


def _state(obj: Object) -> str:
    status, deleting = cells.part(obj, "status"), cells.is_deleting(obj)
    words = ["deleted"] if deleting else []
    if status.get("allocation") is not None:
        words += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not deleting:
        words.append("pending")
    return ",".join(words)


def _claim(obj: Object, now: dt.datetime) -> list[Any]:
    return [cells.name(obj), _state(obj), cells.age(obj, now)]


def _slice(obj: Object, now: dt.datetime) -> list[Any]:
    spec = cells.part(obj, "spec")
    return [
        cells.name(obj),
        cells.string(spec, "nodeName"),
        cells.string(spec, "driver"),
        cells.string(spec, "pool", "name"),
        cells.age(obj, now),
    ]


def _name_and_age(obj: Object, now: dt.datetime) -> list[Any]:
    return [cells.name(obj), cells.age(obj, now)]


TABLES = {
    (_GROUP, "deviceclasses"): Table((NAME, AGE), _name_and_age),
    (_GROUP, "resourceclaimtemplates"): Table((NAME, AGE), _name_and_age),
    (_GROUP, "resourceclaims"): Table(
        (NAME, text("State", "Whether the claim is pending, allocated, reserved or deleted."), AGE), _claim
    ),
    (_GROUP, "resourceslices"): Table(
        (
            NAME,
            text("Node", "The node whose devices these are."),
            text("Driver", "The driver that publishes the devices."),
            text("Pool", "The pool the devices belong to."),
            AGE,
        ),
        _slice,
    ),
}
