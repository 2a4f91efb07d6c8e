"""The certificatesigningrequest-cleaner controller: deletes requests that were decided, or waited too long.

A request that is decided is kept for an hour, one that is not for a day. A timer in the queue is all there is of each.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import TYPE_CHECKING, Final

from kapi.api.errors import Conflict, NotFound
from kapi.api.meta import parse_time
from kapi.controller.reconcile import Result
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.certificates.request import RESOURCE, CertificateRequest
from kapi.controlplane.controllers.context import enqueue_unless_deleted

if TYPE_CHECKING:
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.context import ControllerContext

DECIDED: Final = dt.timedelta(hours=1)
PENDING: Final = dt.timedelta(hours=24)


def add_certificate_cleaner_controller(context: ControllerContext) -> None:
    """Add the controller; see the module."""
    context.add(
        names.CERTIFICATE_CLEANER,
        CertificateCleanerController(context),
        enqueue={RESOURCE: enqueue_unless_deleted},
        initial=context.all_of(RESOURCE),
    )


def expiry_of(wanted: CertificateRequest) -> dt.datetime | None:
    """Return the time at which a request is deleted."""
    times = [
        parse_time(condition.get("lastUpdateTime") or "")
        for kind in ("Approved", "Denied", "Failed")
        if (condition := wanted.condition(kind)) is not None
    ]
    decided = [moment for moment in times if moment is not None]
    if decided:
        return min(decided) + DECIDED
    created = parse_time(wanted.obj["metadata"].get("creationTimestamp") or "")
    return None if created is None else created + PENDING


class CertificateCleanerController:
    """Deletes one request, or comes back when its time is over."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def reconcile(self, request: Request) -> Result | None:
        """Delete a request whose time is over."""
        obj = self._context.view.get(RESOURCE, *request)
        expiry = None if obj is None else expiry_of(CertificateRequest(obj))
        if obj is None or expiry is None:
            return None
        left = (expiry - self._context.clock.now()).total_seconds()
        if left > 0:
            return Result(requeue_after=left)
        # Conflict: it was changed since it was read, and that change has enqueued it again.
        with contextlib.suppress(NotFound, Conflict):
            await self._context.writer.delete(obj, unchanged=True)
        return None
