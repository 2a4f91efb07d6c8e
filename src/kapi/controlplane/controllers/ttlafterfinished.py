"""The ttl-after-finished controller: deletes Jobs `spec.ttlSecondsAfterFinished` after they completed or failed.

Reads Jobs from the view; deletes them in the foreground, with everything they own. A Job that has not expired is a
timer in the queue, and nothing else.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import TYPE_CHECKING, Final

from kapi.api.errors import Conflict, NotFound
from kapi.api.meta import is_deleting, parse_time
from kapi.controller.reconcile import Result, TerminalError
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.context import enqueue_object, request_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.context import ControllerContext

JOBS: Final = "jobs.batch"

_TTL_FIELD = b'"ttlSecondsAfterFinished"'


def add_ttl_after_finished_controller(context: ControllerContext) -> None:
    """Add the controller; see the module."""
    context.add(
        names.TTL_AFTER_FINISHED,
        TTLAfterFinishedController(context),
        enqueue={JOBS: _enqueue},
        initial=lambda: [request_for(item) for item in context.view.items(JOBS) if _TTL_FIELD in item.body],
    )


def _enqueue(event: Event) -> Iterable[Request]:
    return () if event.deleted or _TTL_FIELD not in event.item.body else enqueue_object(event)


def expiry_of(job: Object) -> dt.datetime | None:
    """The time at which a Job expires; None if it has no TTL, has not finished, or is being deleted."""
    ttl = job.get("spec", {}).get("ttlSecondsAfterFinished")
    if ttl is None or is_deleting(job):
        return None
    for condition in job.get("status", {}).get("conditions") or ():
        if condition.get("type") in {"Complete", "Failed"} and condition.get("status") == "True":
            finished = parse_time(condition.get("lastTransitionTime") or "")
            if finished is None:
                metadata = job["metadata"]
                key = f"{metadata['namespace']}/{metadata['name']}"
                raise TerminalError(f"unable to find the time when the Job {key} finished")
            return finished + dt.timedelta(seconds=ttl)
    return None


class TTLAfterFinishedController:
    """Deletes one Job, or comes back when it expires."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def reconcile(self, request: Request) -> Result | None:
        """Delete the Job if it has expired, in the state that was read."""
        job = self._context.view.get(JOBS, *request)
        expiry = None if job is None else expiry_of(job)
        if job is None or expiry is None:
            return None
        left = (expiry - self._context.clock.now()).total_seconds()
        if left > 0:
            return Result(requeue_after=left)
        # Conflict: it was changed since it was read, and that change has enqueued it again.
        with contextlib.suppress(NotFound, Conflict):
            await self._context.writer.delete(job, propagation="Foreground", unchanged=True)
        return None
