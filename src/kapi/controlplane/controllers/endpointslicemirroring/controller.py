"""Mirrors Endpoints that no controller wrote to EndpointSlices, for clients that read only these.

Endpoints of Services without a selector are mirrored, unless they have the label `skip-mirror` or serve leader
election. Slices of Endpoints that are not mirrored any more are deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import Forbidden
from kapi.controller.reconcile import Result
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.context import request_for
from kapi.controlplane.controllers.endpoints.controller import ENDPOINTS, LEADER
from kapi.controlplane.controllers.endpointslice.controller import WORKERS
from kapi.controlplane.controllers.endpointslice.plan import Plan
from kapi.controlplane.controllers.endpointslice.tracker import SLICES, SliceTracker
from kapi.controlplane.controllers.endpointslicemirroring.mirror import (
    MANAGER,
    MAX_MIRRORED,
    SKIP_MIRROR,
    mirror_of,
    plan_mirror,
)
from kapi.controlplane.controllers.serviceendpoints.pods import has_selector
from kapi.controlplane.controllers.writer import is_namespace_terminating

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.context import ControllerContext
    from kapi.controlplane.controllers.endpointslicemirroring.mirror import Mirror


def add_endpointslice_mirroring_controller(context: ControllerContext) -> None:
    """Add the controller; see the module."""
    controller = EndpointSliceMirroringController(context)
    context.add(
        names.ENDPOINTSLICE_MIRRORING,
        controller,
        enqueue={
            "services": controller.enqueue_service,
            ENDPOINTS: controller.enqueue_endpoints,
            SLICES: controller.slices.enqueue,
        },
        initial=controller.initial,
        workers=WORKERS,
    )


class EndpointSliceMirroringController:
    """Reconciles the slices that mirror Endpoints."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._recorder = context.manager.recorder("endpoint-slice-mirroring-controller")
        self._without_selector: set[Request] = set()
        """Services without a selector."""
        self.slices = SliceTracker(context.view, context.writer, MANAGER)

    def initial(self) -> Iterable[Request]:
        """Index what there is: Services without a selector, and slices whose Service may not be one any more."""
        self._without_selector = {
            request_for(item) for item in self._context.view.items("services") if not has_selector(item)
        }
        return sorted({*self._without_selector, *self.slices.load()})

    def enqueue_service(self, event: Event) -> Iterable[Request]:
        """A Service that gained or lost its selector, or was created or deleted without one."""
        request = request_for(event.item)
        had_no_selector = request in self._without_selector
        has_no_selector = not event.deleted and not has_selector(event.item)
        if has_no_selector == had_no_selector:
            return ()
        if has_no_selector:
            self._without_selector.add(request)
        else:
            self._without_selector.discard(request)
        return (request,)

    def enqueue_endpoints(self, event: Event) -> Iterable[Request]:
        """The Service without a selector whose Endpoints changed."""
        request = request_for(event.item)
        return (request,) if request in self._without_selector else ()

    async def reconcile(self, request: Request) -> Result | None:
        """Make the slices that mirror Endpoints what they should be."""
        slices = self.slices.of(request)
        endpoints = self._context.view.get(ENDPOINTS, *request) if request in self._without_selector else None
        if endpoints is None or not _is_mirrored(endpoints):
            plan = Plan(delete=slices)
        else:
            mirror = mirror_of(endpoints)
            self._record_skipped(endpoints, mirror)
            plan = plan_mirror(endpoints, mirror, slices)
            if "deletionTimestamp" in endpoints["metadata"]:
                plan.create.clear()
        if not plan:
            return None
        try:
            is_stale = await self.slices.apply(request, plan)
        except Forbidden as error:
            if not is_namespace_terminating(error):
                raise
            return None
        return Result(requeue=True) if is_stale else None

    def _record_skipped(self, endpoints: Object, mirror: Mirror) -> None:
        if mirror.invalid:
            note = f"Skipped {mirror.invalid} invalid IP addresses when mirroring to EndpointSlices"
            self._recorder.warning(endpoints, "InvalidIPAddress", note)
        if mirror.skipped > mirror.invalid:
            note = (
                f"A max of {MAX_MIRRORED} addresses can be mirrored to EndpointSlices per Endpoints subset. "
                f"{mirror.skipped} addresses were skipped"
            )
            self._recorder.warning(endpoints, "TooManyAddressesToMirror", note)


def _is_mirrored(endpoints: Object) -> bool:
    metadata = endpoints["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return labels.get(SKIP_MIRROR) != "true" and LEADER not in annotations
