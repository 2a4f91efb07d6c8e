"""Tables of deployments and other workloads, jobs, and disruption budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.duration import human_duration
from kapi.api.meta import GroupVersion, parse_time
from kapi.api.selectors import SelectorError, from_label_selector
from kapi.registry.tables import cells
from kapi.registry.tables.table import AGE, NAME, Table, boolean, integer, text, wide

if TYPE_CHECKING:
    import datetime as dt

    from kapi.api.meta import Object

_CONTAINERS = wide("Containers", "The names of the containers in the pod template.")
_IMAGES = wide("Images", "The images of the containers in the pod template.")
_SELECTOR = wide("Selector", "Which pods belong to the object.")

_JOB_STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
"""The conditions of a job that its status shows, by precedence; the empty one stands for its deletion."""


def _pod_containers(obj: Object) -> list[str]:
    return cells.containers(cells.part(obj, "spec", "template"))


def _deployment_selector(spec: Object) -> str:
    """The selector; empty rather than `<none>` when there is none, as only this printer does."""
    try:
        return str(from_label_selector(spec.get("selector")))
    except SelectorError:
        return "<invalid>"


def _deployment(obj: Object, now: dt.datetime) -> list[Any]:
    spec, status = cells.part(obj, "spec"), cells.part(obj, "status")
    return [
        cells.name(obj),
        f"{cells.count(status, 'readyReplicas')}/{cells.count(spec, 'replicas')}",
        cells.count(status, "updatedReplicas"),
        cells.count(status, "availableReplicas"),
        cells.age(obj, now),
        *_pod_containers(obj),
        _deployment_selector(spec),
    ]


def _replicas(obj: Object, now: dt.datetime) -> list[Any]:
    return [
        cells.name(obj),
        cells.count(obj, "spec", "replicas"),
        cells.count(obj, "status", "replicas"),
        cells.count(obj, "status", "readyReplicas"),
        cells.age(obj, now),
        *_pod_containers(obj),
    ]


def _replica_set(obj: Object, now: dt.datetime) -> list[Any]:
    return [*_replicas(obj, now), cells.selector(obj, "spec", "selector")]


def _replication_controller(obj: Object, now: dt.datetime) -> list[Any]:
    # Its selector is a plain map of labels, older than selectors.
    return [*_replicas(obj, now), cells.labels(cells.part(obj, "spec").get("selector"))]


def _stateful_set(obj: Object, now: dt.datetime) -> list[Any]:
    ready, wanted = cells.count(obj, "status", "readyReplicas"), cells.count(obj, "spec", "replicas")
    return [cells.name(obj), f"{ready}/{wanted}", cells.age(obj, now), *_pod_containers(obj)]


def _daemon_set(obj: Object, now: dt.datetime) -> list[Any]:
    status = cells.part(obj, "status")
    return [
        cells.name(obj),
        cells.count(status, "desiredNumberScheduled"),
        cells.count(status, "currentNumberScheduled"),
        cells.count(status, "numberReady"),
        cells.count(status, "updatedNumberScheduled"),
        cells.count(status, "numberAvailable"),
        cells.labels(cells.part(obj, "spec", "template", "spec").get("nodeSelector")),
        cells.age(obj, now),
        *_pod_containers(obj),
        cells.selector(obj, "spec", "selector"),
    ]


def _controller(obj: Object) -> str:
    """The owner that manages the object, as `statefulset.apps/name`."""
    owners = cells.items(obj, "metadata", "ownerReferences")
    owner = next((each for each in owners if each.get("controller")), None)
    if owner is None:
        return cells.NONE
    kind = cells.string(owner, "kind")
    try:
        group = GroupVersion.parse(cells.string(owner, "apiVersion")).group
    except ValueError:
        group = ""
    qualified = f"{kind}.{group}" if group else kind
    return f"{qualified.lower()}/{cells.string(owner, 'name')}" if qualified else cells.string(owner, "name")


def _controller_revision(obj: Object, now: dt.datetime) -> list[Any]:
    return [cells.name(obj), _controller(obj), cells.count(obj, "revision"), cells.age(obj, now)]


def _job_state(obj: Object) -> str:
    conditions = cells.items(obj, "status", "conditions")
    for condition, state in _JOB_STATES:
        if cells.status_of(conditions, condition) == "True" if condition else cells.is_deleting(obj):
            return state
    return "Running"


def _completions(spec: Object, status: Object) -> str:
    succeeded, wanted, parallelism = cells.count(status, "succeeded"), spec.get("completions"), spec.get("parallelism")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    return f"{succeeded}/1 of {parallelism}" if parallelism and parallelism > 1 else f"{succeeded}/1"


def _job_duration(status: Object, now: dt.datetime) -> str:
    start = parse_time(cells.string(status, "startTime"))
    if start is None:
        return ""
    end = parse_time(cells.string(status, "completionTime")) or now
    return human_duration((end - start).total_seconds())


def _job(obj: Object, now: dt.datetime) -> list[Any]:
    spec, status = cells.part(obj, "spec"), cells.part(obj, "status")
    return [
        cells.name(obj),
        _job_state(obj),
        _completions(spec, status),
        _job_duration(status, now),
        cells.age(obj, now),
        *_pod_containers(obj),
        cells.selector(spec, "selector"),
    ]


def _cron_job(obj: Object, now: dt.datetime) -> list[Any]:
    spec, status = cells.part(obj, "spec"), cells.part(obj, "status")
    last, zone, suspend = status.get("lastScheduleTime"), spec.get("timeZone"), spec.get("suspend")
    job = cells.part(spec, "jobTemplate", "spec")
    return [
        cells.name(obj),
        cells.string(spec, "schedule"),
        cells.NONE if zone is None else zone,
        cells.UNSET if suspend is None else str(suspend),
        len(cells.items(status, "active")),
        cells.since(last, now) if last else cells.NONE,
        cells.age(obj, now),
        *cells.containers(cells.part(job, "template")),
        cells.selector(job, "selector"),
    ]


def _disruption_budget(obj: Object, now: dt.datetime) -> list[Any]:
    spec = cells.part(obj, "spec")
    available, unavailable = spec.get("minAvailable"), spec.get("maxUnavailable")
    return [
        cells.name(obj),
        "N/A" if available is None else str(available),
        "N/A" if unavailable is None else str(unavailable),
        cells.count(obj, "status", "disruptionsAllowed"),
        cells.age(obj, now),
    ]


_REPLICA_COLUMNS = (
    NAME,
    integer("Desired", "How many pods there should be."),
    integer("Current", "How many pods there are."),
    integer("Ready", "How many pods are ready."),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)

TABLES = {
    ("", "replicationcontrollers"): Table(_REPLICA_COLUMNS, _replication_controller),
    ("apps", "replicasets"): Table(_REPLICA_COLUMNS, _replica_set),
    ("apps", "deployments"): Table(
        (
            NAME,
            text("Ready", "Pods that are ready, of all that are wanted."),
            text("Up-to-date", "Pods that are of the newest template."),
            text("Available", "Pods that have been ready for long enough."),
            AGE,
            _CONTAINERS,
            _IMAGES,
            _SELECTOR,
        ),
        _deployment,
    ),
    ("apps", "statefulsets"): Table(
        (NAME, text("Ready", "Pods that are ready, of all that are wanted."), AGE, _CONTAINERS, _IMAGES),
        _stateful_set,
    ),
    ("apps", "daemonsets"): Table(
        (
            NAME,
            integer("Desired", "Nodes that should run the pod."),
            integer("Current", "Nodes that should and do run the pod."),
            integer("Ready", "Nodes where the pod is ready."),
            integer("Up-to-date", "Nodes that run the pod of the newest template."),
            integer("Available", "Nodes where the pod has been ready for long enough."),
            text("Node Selector", "The labels a node must have."),
            AGE,
            _CONTAINERS,
            _IMAGES,
            _SELECTOR,
        ),
        _daemon_set,
    ),
    ("apps", "controllerrevisions"): Table(
        (
            NAME,
            text("Controller", "What the revision is a revision of."),
            text("Revision", "The number of the revision."),
            AGE,
        ),
        _controller_revision,
    ),
    ("batch", "jobs"): Table(
        (
            NAME,
            text("Status", "The state of the job in a word."),
            text("Completions", "Pods that succeeded, of all that must."),
            text("Duration", "How long the job ran, or has been running."),
            AGE,
            _CONTAINERS,
            _IMAGES,
            _SELECTOR,
        ),
        _job,
    ),
    ("batch", "cronjobs"): Table(
        (
            NAME,
            text("Schedule", "When jobs are started, in cron's notation."),
            text("Timezone", "The time zone of the schedule."),
            boolean("Suspend", "Whether no new jobs are started."),
            integer("Active", "How many jobs are running."),
            text("Last Schedule", "How long ago a job was last started."),
            AGE,
            _CONTAINERS,
            _IMAGES,
            _SELECTOR,
        ),
        _cron_job,
    ),
    ("policy", "poddisruptionbudgets"): Table(
        (
            NAME,
            text("Min Available", "How many pods must stay available."),
            text("Max Unavailable", "How many pods may be unavailable."),
            integer("Allowed Disruptions", "How many pods may be evicted now."),
            AGE,
        ),
        _disruption_budget,
    ),
}
