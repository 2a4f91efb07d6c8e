"""The CronJob controller: creates a Job at each time of a CronJob's schedule, and deletes the oldest finished ones.

A CronJob is reconciled when it or one of its Jobs changes, and at its next start: a timer in the queue, and nothing
else. All that is known of the past is in the CronJob and its Jobs, so a controller that starts again continues where
the last one ended: the name of a Job has its time in it, and cannot be given twice. The Jobs of a deleted CronJob are
left to the garbage collector.

Reads the view; creates and deletes Jobs, and writes `status` of CronJobs when it differs.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import math
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from kapi.api.errors import AlreadyExists, ApiError, Conflict, NotFound, RequestEntityTooLarge
from kapi.api.go.text import quote
from kapi.api.meta import format_time, is_deleting, parse_time
from kapi.controller.reconcile import Request, Result
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.context import enqueue_object, request_for
from kapi.controlplane.controllers.cronjob.jobs import (
    job_name,
    job_state,
    new_job,
    reference,
    referenced_job,
    surplus,
)
from kapi.controlplane.controllers.cronjob.runs import MANY_MISSED, due_run, next_due
from kapi.controlplane.controllers.garbagecollector.metadata import uid_of
from kapi.controlplane.controllers.writer import is_namespace_terminating
from kapi.registry.kinds.batch.cron import ScheduleError, parse_schedule, zone_problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.controller.recorder import EventRecorder
    from kapi.controlplane.controllers.context import ControllerContext
    from kapi.controlplane.controllers.cronjob.jobs import JobState
    from kapi.registry.kinds.batch.cron import Schedule
    from kapi.registry.resource import Resource

CRONJOBS: Final = "cronjobs.batch"
JOBS: Final = "jobs.batch"
WORKERS: Final = 5
MOST_ACTIVE: Final = 5000
"""No Job is started for a CronJob with so many active ones: `status.active` has to fit into an object."""

_SHORTEST = 0.001
"""The shortest timer, in seconds."""
_SLICE = 100
"""Jobs that are read before the event loop gets its turn."""
_TIME_ZONE_HELP = "see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"

_log = structlog.get_logger("kapi.controllers")


def add_cronjob_controller(context: ControllerContext) -> None:
    """Add the controller; see the module."""
    controller = CronJobController(context, context.manager.recorder("cronjob-controller"))
    context.add(
        names.CRONJOB,
        controller,
        enqueue={CRONJOBS: controller.enqueue_cron_job, JOBS: controller.enqueue_job},
        initial=controller.initial,
        workers=WORKERS,
    )


class _Timing(NamedTuple):
    """The fields of a CronJob that say when it starts Jobs."""

    uid: str
    schedule: str
    zone: str | None


class _Sync:
    """One reconcile of a CronJob: the object, its new status, and the time."""

    def __init__(self, cron_job: Object, now: dt.datetime) -> None:
        self.cron_job = cron_job
        self.metadata: Object = cron_job["metadata"]
        self.spec: Object = cron_job["spec"]
        self.status: Object = dict(cron_job.get("status") or {})
        self.active: dict[str, Object] = {ref.get("uid", ""): ref for ref in self.status.pop("active", None) or ()}
        """The references of `status.active`, by uid."""
        self.now = math.floor(now.timestamp())
        self._moment = now.timestamp()

    @property
    def timing(self) -> _Timing:
        """The fields that say when Jobs are started."""
        return _Timing(self.metadata["uid"], self.spec.get("schedule", ""), self.spec.get("timeZone"))

    @property
    def last_run(self) -> int | None:
        """The time of the last start, None if there was none."""
        last = parse_time(self.status.get("lastScheduleTime") or "")
        return None if last is None else math.floor(last.timestamp())

    @property
    def since(self) -> int:
        """The time from which on starts count: the last one, or the creation of the CronJob."""
        last = self.last_run
        if last is not None:
            return last
        created = parse_time(self.metadata.get("creationTimestamp") or "")
        return self.now if created is None else math.floor(created.timestamp())

    def since_deadline(self) -> int:
        """The same, without starts whose deadline is over.

        Kubernetes also has an event MissSchedule, for a start that is found and is too late. No such start can be found
        by this rule, there or here.
        """
        deadline = self.spec.get("startingDeadlineSeconds")
        return self.since if deadline is None else max(self.since, self.now - deadline)

    def next(self, schedule: Schedule) -> Result | None:
        """When to reconcile again: at the next start."""
        run = next_due(schedule, self.since, self.now)
        # Kubernetes adds a tenth of a second, for clocks that differ. Here a timer that fires too early finds no start
        # that is due, and is set again; and with virtual time, an hour has all the starts of an hour.
        return None if run is None else Result(requeue_after=max(run - self._moment, _SHORTEST))

    def new_status(self) -> Object:
        """The status to write."""
        return {**self.status, "active": list(self.active.values())} if self.active else self.status


class CronJobController:
    """Reconciles CronJobs.

    `_requests` are the CronJobs by uid, to find the one that owns a Job. `_timings` are what each was last seen with,
    to recognise a changed schedule. `_states` are the states of their Jobs, with their revisions, so that Jobs that
    have not changed since are not read again.
    """

    def __init__(self, context: ControllerContext, recorder: EventRecorder) -> None:
        self._context = context
        self._recorder = recorder
        self._requests: dict[str, Request] = {}
        self._timings: dict[Request, _Timing] = {}
        self._states: dict[Request, dict[str, tuple[int, JobState]]] = {}

    # -- events -------------------------------------------------------------------------------------------------------

    def initial(self) -> Iterable[Request]:
        """Index the CronJobs there are; each is reconciled."""
        items = self._context.view.items(CRONJOBS)
        self._requests = {uid_of(item): request_for(item) for item in items}
        return list(self._requests.values())

    def enqueue_cron_job(self, event: Event) -> Iterable[Request]:
        """The CronJob that changed."""
        if event.deleted:
            self._requests.pop(uid_of(event.item), None)
        else:
            self._requests[uid_of(event.item)] = request_for(event.item)
        return enqueue_object(event)

    def enqueue_job(self, event: Event) -> Iterable[Request]:
        """The CronJob that owns the Job, or did."""
        before = () if event.previous is None else event.previous.owners or ()
        owners = dict.fromkeys((*(event.item.owners or ()), *before))
        return [self._requests[uid] for uid in owners if uid in self._requests]

    # -- reconciling --------------------------------------------------------------------------------------------------

    async def reconcile(self, request: Request) -> Result | None:
        """Update what is known of the Jobs, and start one if it is due."""
        cron_job = self._context.view.get(CRONJOBS, *request)
        if cron_job is None:
            self._timings.pop(request, None)
            self._states.pop(request, None)
            return None
        sync = _Sync(cron_job, self._context.clock.now())
        try:
            jobs = await self._jobs(request, sync)
            await self._delete_surplus(sync, jobs)
            await self._update_active(sync, jobs)
            result = await self._start_if_due(request, sync)
        except ApiError:
            await self._write_status(sync)
            raise
        await self._write_status(sync)
        return result

    async def _write_status(self, sync: _Sync) -> None:
        status = sync.new_status()
        if status == (sync.cron_job.get("status") or {}):
            return
        try:
            # Conflict: it was changed since it was read, and that change has enqueued it again.
            with contextlib.suppress(NotFound, Conflict):
                await self._context.writer.update({**sync.cron_job, "status": status}, "status")
        except RequestEntityTooLarge:
            # Another attempt would fail the same way until the CronJob changes.
            name, namespace = sync.metadata["name"], sync.metadata["namespace"]
            _log.warning("CronJob too large for its status", namespace=namespace, name=name, active=len(sync.active))

    # -- Jobs ---------------------------------------------------------------------------------------------------------

    async def _jobs(self, request: Request, sync: _Sync) -> list[JobState]:
        """The Jobs that the CronJob controls; only those that have changed since the last time are read."""
        view, uid = self._context.view, sync.metadata["uid"]
        before, prefix = self._states.get(request, {}), f"{view.prefix(JOBS)}{request.namespace}/"
        known: dict[str, tuple[int, JobState]] = {}
        for number, key in enumerate(view.dependents(uid)):
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            item = view.at(key) if key.startswith(prefix) else None
            if item is None:
                continue
            state = before.get(key)
            if state is None or state[0] != item.revision:
                state = (item.revision, job_state(view.decode(JOBS, item)))
            known[key] = state
        self._states[request] = known
        return [state for _, state in known.values() if state.controller == uid]

    async def _delete_surplus(self, sync: _Sync, jobs: list[JobState]) -> None:
        """Delete the finished Jobs that exceed the history limits."""
        for condition, field in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
            for job in surplus(jobs, condition, sync.spec.get(field)):
                if not job.is_deleting:
                    # A failure is reported by an event; the Job is found again the next time.
                    with contextlib.suppress(ApiError):
                        await self._delete(sync, job.name, job.uid)

    async def _delete(self, sync: _Sync, name: str, uid: str) -> None:
        """Delete a Job, with its Pods, and the reference to it."""
        try:
            with contextlib.suppress(NotFound):
                job = referenced_job(sync.metadata["namespace"], name, uid)
                await self._context.writer.delete(job, propagation="Background")
        except ApiError as error:
            self._recorder.warning(sync.cron_job, "FailedDelete", f"Deleted job: {error}")
            raise
        sync.active.pop(uid, None)
        self._recorder.normal(sync.cron_job, "SuccessfulDelete", f"Deleted job {name}")

    async def _update_active(self, sync: _Sync, jobs: list[JobState]) -> None:
        """Remove the references to Jobs that have finished or do not exist; record the last success."""
        for job in jobs:
            if not job.finished:
                if job.uid not in sync.active:
                    note = f"Saw a job that the controller did not create or forgot: {job.name}"
                    self._recorder.warning(sync.cron_job, "UnexpectedJob", note)
                continue
            if sync.active.pop(job.uid, None) is not None:
                note = f"Saw completed job: {job.name}, condition: {job.finished}"
                self._recorder.normal(sync.cron_job, "SawCompletedJob", note)
            if job.finished == "Complete":
                _record_success(sync.status, job)
        known = {job.uid for job in jobs}
        for uid, ref in [pair for pair in sync.active.items() if pair[0] not in known]:
            if not await self._exists(sync, ref):
                self._recorder.normal(sync.cron_job, "MissingJob", f"Active job went missing: {ref.get('name', '')}")
                del sync.active[uid]

    async def _exists(self, sync: _Sync, ref: Object) -> bool:
        """Return True if a Job exists that is not among those of the CronJob. Jobs of other namespaces do not count.

        It is read through the API: where several servers share a store, the view may not have the Job yet.
        """
        namespace, name = sync.metadata["namespace"], ref.get("name", "")
        if not name or ref.get("namespace") != namespace:
            return False
        found = await self._context.writer.read_metadata(self._job_resource(), namespace, name)
        return found is not None and found["uid"] == ref.get("uid")

    def _job_resource(self) -> Resource:
        resource = self._context.view.of_kind("batch/v1", "Job")
        assert resource is not None
        return resource

    # -- starts -------------------------------------------------------------------------------------------------------

    async def _start_if_due(self, request: Request, sync: _Sync) -> Result | None:
        """Start a Job if one is due; returns when the next one is."""
        before = self._timings.get(request, sync.timing)
        self._timings[request] = sync.timing
        if is_deleting(sync.cron_job) or not self._has_zone(sync) or sync.spec.get("suspend"):
            return None
        has_changed = before != sync.timing and before.uid == sync.timing.uid
        schedule = self._schedule(sync, has_changed=has_changed)
        if schedule is None:
            return None
        # As in Kubernetes, a changed schedule does not make up for starts it would have had before the change.
        run = None if has_changed else self._due(sync, schedule)
        if run is None or self._is_started(sync, run) or not await self._may_start(sync):
            return sync.next(schedule)
        try:
            await self._start(sync, run)
        except ApiError as error:
            if is_namespace_terminating(error):
                return None
            raise
        return sync.next(schedule)

    def _has_zone(self, sync: _Sync) -> bool:
        zone: str = sync.spec.get("timeZone") or ""
        problem = zone_problem(zone)
        if problem:
            self._recorder.warning(sync.cron_job, "UnknownTimeZone", f"invalid timeZone: {quote(zone)}: {problem}")
        return not problem

    def _schedule(self, sync: _Sync, *, has_changed: bool) -> Schedule | None:
        """The schedule in its time zone; None if it cannot be read, as one of an older version may be."""
        text, zone = sync.timing.schedule, sync.timing.zone
        if "TZ" in text and not has_changed:
            note = f"CRON_TZ or TZ used in schedule {quote(text)} is not officially supported, {_TIME_ZONE_HELP}"
            self._recorder.warning(sync.cron_job, "UnsupportedSchedule", note)
        try:
            return parse_schedule(text if "TZ" in text or zone is None else f"TZ={zone} {text}")
        except ScheduleError as error:
            if has_changed:
                note = f"unparseable schedule for cronjob: {text}"
                self._recorder.warning(sync.cron_job, "UnParseableCronJobSchedule", note)
            else:
                note = f"unparseable schedule: {quote(text)} : {error}"
                self._recorder.warning(sync.cron_job, "UnparseableSchedule", note)
            return None

    def _due(self, sync: _Sync, schedule: Schedule) -> int | None:
        """The start that is due; None if there is none."""
        try:
            due = due_run(schedule, sync.since_deadline(), sync.now)
        except ScheduleError as error:
            note = f"invalid schedule: {sync.timing.schedule} : {error}"
            self._recorder.warning(sync.cron_job, "InvalidSchedule", note)
            return None
        if due.run is not None and due.missed > MANY_MISSED:
            note = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self._recorder.warning(sync.cron_job, "TooManyMissedTimes", note)
        return due.run

    def _is_started(self, sync: _Sync, run: int) -> bool:
        name = job_name(sync.cron_job, run)
        return sync.last_run == run or any(ref.get("name") == name for ref in sync.active.values())

    async def _may_start(self, sync: _Sync) -> bool:
        """Return True if a Job may be started besides the active ones. They are deleted first, if they are replaced."""
        policy = sync.spec.get("concurrencyPolicy")
        if policy == "Forbid" and sync.active:
            note = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._recorder.normal(sync.cron_job, "JobAlreadyActive", note)
            return False
        if policy == "Replace":
            for uid, ref in list(sync.active.items()):
                await self._delete(sync, ref["name"], uid)
        if len(sync.active) >= MOST_ACTIVE:
            note = f"Not starting job because {len(sync.active)} jobs are active"
            self._recorder.warning(sync.cron_job, "TooManyActiveJobs", note)
            return False
        return True

    async def _start(self, sync: _Sync, run: int) -> None:
        """Create the Job of a start. The one that there may be already is this one, if the CronJob controls it."""
        job = new_job(sync.cron_job, run)
        try:
            job = await self._context.writer.create(job)
        except AlreadyExists:
            metadata = job["metadata"]
            jobs = self._context.writer.resource(self._job_resource(), metadata["namespace"])
            job = await jobs.get(metadata["name"])
            if job_state(job).controller != sync.metadata["uid"]:
                return
        except ApiError as error:
            if not is_namespace_terminating(error):
                self._recorder.warning(sync.cron_job, "FailedCreate", f"Error creating job: {error}")
            raise
        else:
            self._recorder.normal(sync.cron_job, "SuccessfulCreate", f"Created job {job['metadata']['name']}")
        sync.active[job["metadata"]["uid"]] = reference(job)
        sync.status["lastScheduleTime"] = format_time(dt.datetime.fromtimestamp(run, dt.UTC))


def _record_success(status: Object, job: JobState) -> None:
    """Record when a Job succeeded, if no later one did."""
    last = parse_time(status.get("lastSuccessfulTime") or "")
    if job.completed is not None and (last is None or last < job.completed):
        status["lastSuccessfulTime"] = format_time(job.completed)
