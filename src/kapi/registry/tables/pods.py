"""The table of Pods, and the STATUS column.

The status starts as the phase and is replaced by what is more specific: the reason of the Pod, the first init container
that is not done, the state of the containers, and finally the deletion of the Pod. Restarts are counted in the same
pass, because the containers that count depend on the progress of the Pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kapi.api.duration import human_duration
from kapi.api.meta import parse_time
from kapi.registry.tables import cells
from kapi.registry.tables.table import AGE, NAME, Table, text, wide

if TYPE_CHECKING:
    import datetime as dt

    from kapi.api.meta import Object

_FINISHED = {
    "Succeeded": [
        {
            "type": "Completed",
            "status": "True",
            "reason": "Succeeded",
            "message": "The pod has completed successfully.",
        }
    ],
    "Failed": [{"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}],
}


class _Restarts(NamedTuple):
    """The number of restarts, and the time of the last termination before a restart."""

    times: int = 0
    last: dt.datetime | None = None

    def plus(self, container: Object) -> _Restarts:
        """The sum with the restarts of another container."""
        ended = parse_time(cells.string(container, "lastState", "terminated", "finishedAt"))
        last = self.last
        if ended and (last is None or last < ended):
            last = ended
        return _Restarts(self.times + cells.count(container, "restartCount"), last)

    def text(self, now: dt.datetime) -> str:
        """The text of the column: `0`, or `3 (5m ago)`."""
        if not self.times or self.last is None:
            return str(self.times)
        return f"{self.times} ({human_duration((now - self.last).total_seconds())} ago)"


class _Initialization(NamedTuple):
    """The progress of the init containers. `reason` is empty once all are done."""

    reason: str
    ready: int
    restarts: _Restarts
    sidecar_restarts: _Restarts


class _Running(NamedTuple):
    """The status from the regular containers."""

    reason: str
    ready: int
    restarts: _Restarts


def _ending(terminated: Object) -> str:
    """The reason of a terminated container, else its signal, else its exit code."""
    if reason := cells.string(terminated, "reason"):
        return reason
    if signal := cells.count(terminated, "signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{cells.count(terminated, 'exitCode')}"


def _sidecars(spec: Object) -> set[str]:
    """The names of the sidecars: init containers that keep running."""
    return {
        cells.string(each, "name")
        for each in cells.items(spec, "initContainers")
        if each.get("restartPolicy") == "Always"
    }


def _waiting_for(state: Object, index: int, total: int) -> str:
    """The status of a Pod whose init container at an index is not done."""
    if "terminated" in state:
        return f"Init:{_ending(cells.part(state, 'terminated'))}"
    waiting = cells.string(state, "waiting", "reason")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{index}/{total}"


def _initialization(spec: Object, status: Object, sidecars: set[str]) -> _Initialization:
    """The progress up to the first init container that is not done; those after it have not started."""
    total = len(cells.items(spec, "initContainers"))
    ready, restarts, sidecar_restarts = 0, _Restarts(), _Restarts()
    for index, container in enumerate(cells.items(status, "initContainerStatuses")):
        restarts = restarts.plus(container)
        is_sidecar = cells.string(container, "name") in sidecars
        if is_sidecar:
            sidecar_restarts = sidecar_restarts.plus(container)
        state = cells.part(container, "state")
        if "terminated" in state and not cells.count(state, "terminated", "exitCode"):
            continue
        if is_sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        return _Initialization(_waiting_for(state, index, total), ready, restarts, sidecar_restarts)
    return _Initialization("", ready, restarts, sidecar_restarts)


def _running(status: Object, reason: str, restarts: _Restarts) -> _Running:
    """The status from the containers, from the last to the first, so that the first one with a reason determines it."""
    ready, has_running, failure = 0, False, ""
    for container in reversed(cells.items(status, "containerStatuses")):
        restarts = restarts.plus(container)
        state = cells.part(container, "state")
        if waiting := cells.string(state, "waiting", "reason"):
            reason = waiting
        elif "terminated" in state:
            reason = _ending(cells.part(state, "terminated"))
            if cells.count(state, "terminated", "exitCode"):
                failure = reason
        elif container.get("ready") and "running" in state:
            has_running = True
            ready += 1
    if reason == "Completed":
        reason = _not_all_completed(status, failure, has_running=has_running) or reason
    return _Running(reason, ready, restarts)


def _not_all_completed(status: Object, failure: str, *, has_running: bool) -> str:
    """The status of a Pod whose first container completed while others did not; empty when all completed."""
    conditions = cells.items(status, "conditions")
    # Any Ready condition counts here, not only the first.
    if has_running and any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions):
        return "Running"
    return failure or ("NotReady" if has_running else "")


def _base_reason(status: Object) -> str:
    for condition in cells.items(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return cells.string(status, "reason") or cells.string(status, "phase")


def _deletion(pod: Object, status: Object) -> str:
    """The status of a Pod that is being deleted; empty when it is not, or has already terminated."""
    if not cells.is_deleting(pod):
        return ""
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return "" if status.get("phase") in _FINISHED else "Terminating"


def _readiness_gates(spec: Object, status: Object) -> str:
    gates = cells.items(spec, "readinessGates")
    if not gates:
        return cells.NONE
    conditions = cells.items(status, "conditions")
    passed = sum(cells.status_of(conditions, cells.string(gate, "conditionType")) == "True" for gate in gates)
    return f"{passed}/{len(gates)}"


def _ip(status: Object) -> str:
    return cells.string(status, "podIP") or next(
        (cells.string(each, "ip") for each in cells.items(status, "podIPs")), ""
    )


def _pod(pod: Object, now: dt.datetime) -> list[Any]:
    spec, status = cells.part(pod, "spec"), cells.part(pod, "status")
    sidecars = _sidecars(spec)
    init = _initialization(spec, status, sidecars)
    reason, ready, restarts = init.reason or _base_reason(status), init.ready, init.restarts
    if not init.reason or cells.status_of(cells.items(status, "conditions"), "Initialized") == "True":
        running = _running(status, reason, init.sidecar_restarts)
        reason, ready, restarts = running.reason, ready + running.ready, running.restarts
    return [
        cells.name(pod),
        f"{ready}/{len(cells.items(spec, 'containers')) + len(sidecars)}",
        _deletion(pod, status) or reason,
        restarts.text(now),
        cells.age(pod, now),
        _ip(status) or cells.NONE,
        cells.string(spec, "nodeName") or cells.NONE,
        cells.string(status, "nominatedNodeName") or cells.NONE,
        _readiness_gates(spec, status),
    ]


def _conditions(pod: Object) -> list[Object]:
    return _FINISHED.get(cells.string(pod, "status", "phase"), [])


def _pod_template(obj: Object, _now: dt.datetime) -> list[Any]:
    template = cells.part(obj, "template")
    return [cells.name(obj), *cells.containers(template), cells.labels(cells.part(template, "metadata").get("labels"))]


TABLES = {
    ("", "pods"): Table(
        (
            NAME,
            text("Ready", "Containers that are ready, of all that should run."),
            text("Status", "The state of the pod in a word, taken from its containers where they say more."),
            text("Restarts", "How often containers were restarted, and how long ago the last time was."),
            AGE,
            wide("IP", "The first address of the pod."),
            wide("Node", "The node the pod is bound to."),
            wide("Nominated Node", "The node on which other pods are preempted for the pod."),
            wide("Readiness Gates", "Readiness gates that are passed, of all the pod has."),
        ),
        _pod,
        conditions=_conditions,
    ),
    ("", "podtemplates"): Table(
        (
            NAME,
            text("Containers", "The names of the containers in the template."),
            text("Images", "The images of the containers in the template."),
            text("Pod Labels", "The labels pods made from the template get."),
        ),
        _pod_template,
    ),
}
