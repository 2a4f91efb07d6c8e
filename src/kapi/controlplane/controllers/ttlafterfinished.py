"""Jobs that have ended go when their time has come, `spec.ttlSecondsAfterFinished` after they completed or failed.

Reads Jobs from the watch cache; deletes them with everything they own (Foreground). A Job whose time has not come is a
timer in the queue, and nothing else.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import TYPE_CHECKING, Final

from kapi.api.errors import Conflict, NotFound
from kapi.api.meta import is_deleting, parse_time
from kapi.controller.reconcile import Request, Result, TerminalError
from kapi.controlplane.controllers.house import itself
from kapi.controlplane.controllers.inventory import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.controlplane.controllers.house import House

JOBS: Final = "jobs.batch"

_TTL_FIELD = b'"ttlSecondsAfterFinished"'


def remove_finished(house: House) -> None:
    """Delete Jobs some time after they have ended, where they say so."""
    house.add("ttl-after-finished-controller", FinishedJobs(house), hear={JOBS: _heard}, initial=lambda: _timed(house))


def _heard(event: Event) -> Iterable[Request]:
    return () if event.deleted or _TTL_FIELD not in event.item.body else itself(event)


def _timed(house: House) -> Iterable[Request]:
    return [Request(item.namespace, item.name) for item in house.inventory.items(JOBS) if _TTL_FIELD in item.body]


def expiry_of(job: Object) -> dt.datetime | None:
    """When a Job is to go; None when it has not ended, or is to stay, or goes already."""
    ttl = job.get("spec", {}).get("ttlSecondsAfterFinished")
    if ttl is None or is_deleting(job):
        return None
    for condition in job.get("status", {}).get("conditions") or ():
        if condition.get("type") in {"Complete", "Failed"} and condition.get("status") == "True":
            ended = parse_time(condition.get("lastTransitionTime") or "")
            if ended is None:
                metadata = job["metadata"]
                key = f"{metadata['namespace']}/{metadata['name']}"
                raise TerminalError(f"unable to find the time when the Job {key} finished")
            return ended + dt.timedelta(seconds=ttl)
    return None


class FinishedJobs:
    """Deletes one Job, or comes back when it is time to."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def reconcile(self, request: Request) -> Result | None:
        """Delete the Job if its time has come, exactly as it was judged: one changed meanwhile is judged again."""
        job = self._house.inventory.get(JOBS, *request)
        expiry = None if job is None else expiry_of(job)
        if job is None or expiry is None:
            return None
        left = (expiry - self._house.clock.now()).total_seconds()
        if left > 0:
            return Result(requeue_after=left)
        jobs = self._house.inventory.of_kind("batch/v1", "Job")
        assert jobs is not None
        metadata = job["metadata"]
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Foreground",
            "preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        }
        # One that is gone needs nothing more; one that was changed since has been heard of, and is judged again.
        with contextlib.suppress(NotFound, Conflict):
            await self._house.client.rest.request("DELETE", path_of(jobs, *request), body=options)
        return None
