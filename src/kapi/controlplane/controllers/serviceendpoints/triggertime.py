"""The trigger time annotation of endpoints, from which the latency of updates is measured.

It is the earliest time among the changes since endpoints were last computed: a Pod's change of readiness, or the
Service's creation. Times are strings as the API prints them, UTC and whole seconds, so they sort as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.serviceendpoints.pods import EndpointPod

TRIGGER_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"


class _Seen(NamedTuple):
    created: str
    pods: dict[str, str]


class TriggerTimes:
    """The times of each Service and its Pods when its endpoints were last computed by this process."""

    def __init__(self) -> None:
        self._seen: dict[Request, _Seen] = {}

    def next(self, request: Request, service: Object, pods: Iterable[EndpointPod]) -> str:
        """The trigger time of the update that is made now; empty when nothing that has a time changed."""
        created: str = service["metadata"].get("creationTimestamp") or ""
        times = {pod.name: pod.ready_since for pod in pods if pod.ready_since}
        seen = self._seen.get(request)
        self._seen[request] = _Seen(created, times)
        if seen is None:
            return created
        changed = [time for name, time in times.items() if time > seen.pods.get(name, "")]
        if created > seen.created:
            changed.append(created)
        return min(changed, default="")

    def forget(self, request: Request) -> None:
        """Drop the times of a Service that was deleted."""
        self._seen.pop(request, None)


def stamp(obj: Object, time: str) -> None:
    """Set the trigger time annotation of an object, or remove it when there is no time."""
    annotations = dict(obj["metadata"].get("annotations") or {})
    if time:
        annotations[TRIGGER_TIME] = time
    else:
        annotations.pop(TRIGGER_TIME, None)
    if annotations:
        obj["metadata"]["annotations"] = annotations
    else:
        obj["metadata"].pop("annotations", None)
