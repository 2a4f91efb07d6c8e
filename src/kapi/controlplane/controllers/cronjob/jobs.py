"""The Jobs of a CronJob: the one that a start creates, its reference in `status.active`, and what is known of each."""

from __future__ import annotations

import copy
import datetime as dt
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.api.access import controller_of
from kapi.api.meta import is_deleting, parse_time
from kapi.controlplane.controllers.cronjob.runs import zone_named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object

SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
"""The annotation of a Job with the time that it was scheduled for, in the time zone of its CronJob."""

_FINISHED: Final = ("Complete", "Failed")


class JobState(NamedTuple):
    """The state of a Job: its controller, the condition it finished with, if it did, and when it began and ended."""

    name: str
    uid: str
    controller: str
    finished: str
    started: dt.datetime | None
    completed: dt.datetime | None
    is_deleting: bool


def job_state(job: Object) -> JobState:
    """Return the state of a Job."""
    metadata, status = job["metadata"], job.get("status") or {}
    controller = controller_of(job)
    return JobState(
        metadata["name"],
        metadata["uid"],
        "" if controller is None else controller.uid,
        _finished_condition(status),
        parse_time(status.get("startTime") or ""),
        parse_time(status.get("completionTime") or ""),
        is_deleting(job),
    )


def _finished_condition(status: Object) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") in _FINISHED and condition.get("status") == "True":
            return str(condition["type"])
    return ""


def surplus(jobs: Iterable[JobState], condition: str, limit: int | None) -> list[JobState]:
    """Return the Jobs that finished with a condition and exceed a history limit, those that began first."""
    finished = [job for job in jobs if job.finished == condition]
    if limit is None or len(finished) <= limit:
        return []
    never = dt.datetime.max.replace(tzinfo=dt.UTC)
    finished.sort(key=lambda job: (job.started or never, job.name))
    return finished[: len(finished) - limit]


def job_name(cron_job: Object, run: int) -> str:
    """Return the name of the Job of a start. It is the same each time, so that no start creates two Jobs."""
    return f"{cron_job['metadata']['name']}-{run // 60}"


def new_job(cron_job: Object, run: int) -> Object:
    """Return the Job of a start, from the template of its CronJob."""
    metadata, spec = cron_job["metadata"], cron_job["spec"]
    template = spec["jobTemplate"]
    given = template.get("metadata") or {}
    scheduled = dt.datetime.fromtimestamp(run, dt.UTC).astimezone(zone_named(spec.get("timeZone") or ""))
    annotations = {**(given.get("annotations") or {}), SCHEDULED: scheduled.isoformat().replace("+00:00", "Z")}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(cron_job, run),
            "namespace": metadata["namespace"],
            "labels": dict(given.get("labels") or {}),
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": copy.deepcopy(template.get("spec") or {}),
    }


def reference(job: Object) -> Object:
    """Return the reference to a Job in `status.active`."""
    metadata = job["metadata"]
    fields = ("namespace", "name", "uid", "resourceVersion")
    return {"apiVersion": "batch/v1", "kind": "Job", **{field: metadata[field] for field in fields}}


def referenced_job(namespace: str, name: str, uid: str) -> Object:
    """Return as much of a Job as is needed to delete it."""
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": namespace, "name": name, "uid": uid}}
