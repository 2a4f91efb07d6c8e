"""Reconciles the EndpointSlices of every Service that selects Pods.

A Service is reconciled when it changes, when a Pod that it selects (or selected) changes in a way that shows in
endpoints, when a Node is created or deleted or changes its zone, and when another client changes one of its slices.
The garbage collector deletes the slices of a Service that was deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.errors import ApiError, Conflict, Forbidden, Invalid
from kapi.controller.reconcile import Request, Result, TerminalError
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.endpointslice.plan import MANAGER, plan_slices
from kapi.controlplane.controllers.endpointslice.tracker import SLICES, SliceTracker
from kapi.controlplane.controllers.serviceendpoints.index import ServiceIndex
from kapi.controlplane.controllers.serviceendpoints.triggertime import TriggerTimes, stamp
from kapi.controlplane.controllers.writer import is_namespace_terminating

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item
    from kapi.controlplane.controllers.context import ControllerContext
    from kapi.controlplane.controllers.endpointslice.plan import Plan
    from kapi.controlplane.controllers.serviceendpoints.pods import EndpointPod

ZONE: Final = "topology.kubernetes.io/zone"
WORKERS: Final = 5
_MAX_NAMED_PODS: Final = 20
"""The number of Pods that are named in an Event: more would not fit."""


def add_endpointslice_controller(context: ControllerContext) -> None:
    """Add the controller; see the module."""
    controller = EndpointSliceController(context)
    context.add(
        names.ENDPOINTSLICE,
        controller,
        enqueue={
            "services": controller.index.enqueue_service,
            "pods": controller.index.enqueue_pod,
            "nodes": controller.nodes.enqueue,
            SLICES: controller.slices.enqueue,
        },
        initial=controller.initial,
        workers=WORKERS,
    )


class EndpointSliceController:
    """Reconciles the slices of Services."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._times = TriggerTimes()
        self._recorder = context.manager.recorder("endpoint-slice-controller")
        self._reported: dict[Request, str] = {}
        """The last Event about each Service with Pods that are in no slice."""
        self.index = ServiceIndex(context.view)
        self.slices = SliceTracker(context.view, context.writer, MANAGER)
        self.nodes = NodeUsage(context)

    def initial(self) -> Iterable[Request]:
        """Index what there is; all Services are reconciled."""
        self.slices.load()
        return self.index.load()

    async def reconcile(self, request: Request) -> Result | None:
        """Make the slices of a Service what they should be."""
        service = self._context.view.get("services", *request) if request in self.index else None
        if service is None:
            self._times.forget(request)
            self._reported.pop(request, None)
            self.nodes.use(request, ())
            return None
        pods = self.index.pods(request)
        zones = self.nodes.use(request, pods)
        time = self._times.next(request, service, pods)
        plan = plan_slices(service, pods, zones, self.slices.of(request))
        self._report_without_node(request, service, plan)
        if not plan:
            return None
        try:
            return await self._apply(request, service, plan, time)
        except Conflict:
            raise
        except Invalid as error:
            self._failed(service, str(error))
            raise TerminalError(str(error)) from error
        except ApiError as error:
            self._failed(service, str(error))
            raise

    async def _apply(self, request: Request, service: Object, plan: Plan, time: str) -> Result | None:
        if "deletionTimestamp" in service["metadata"]:
            # The garbage collector would delete them again.
            plan.create.clear()
        for each in (*plan.create, *plan.update):
            stamp(each, time)
        try:
            is_stale = await self.slices.apply(request, plan)
        except Forbidden as error:
            if not is_namespace_terminating(error):
                raise
            return None
        return Result(requeue=True) if is_stale else None

    def _report_without_node(self, request: Request, service: Object, plan: Plan) -> None:
        """Record an Event about Pods that are left out because their Node does not exist; once while that stays so."""
        where = f"{request.namespace}/{request.name}"
        sentences = [
            f"skipping Pod {pod.name} for Service {where}: Node {pod.node} Not Found"
            for pod in plan.without_node[:_MAX_NAMED_PODS]
        ]
        text = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
        if sentences and self._reported.get(request) != text:
            self._failed(service, text)
        if sentences:
            self._reported[request] = text
        else:
            self._reported.pop(request, None)

    def _failed(self, service: Object, why: str) -> None:
        where = f"{service['metadata']['namespace']}/{service['metadata']['name']}"
        note = f"Error updating Endpoint Slices for Service {where}: {why}"
        self._recorder.warning(service, "FailedToUpdateEndpointSlices", note)


class NodeUsage:
    """The Services that have Pods on each Node, as of the last reconcile of each."""

    def __init__(self, context: ControllerContext) -> None:
        self._view = context.view
        self._services: dict[str, set[Request]] = {}
        self._nodes: dict[Request, frozenset[str]] = {}

    def use(self, request: Request, pods: Sequence[EndpointPod]) -> dict[str, str]:
        """Record the Nodes that the Pods of a Service are on; the zones of those that exist."""
        nodes = frozenset(pod.node for pod in pods)
        before = self._nodes.get(request, frozenset())
        for name in nodes - before:
            self._services.setdefault(name, set()).add(request)
        for name in before - nodes:
            self._services[name].discard(request)
            if not self._services[name]:
                del self._services[name]
        if nodes:
            self._nodes[request] = nodes
        else:
            self._nodes.pop(request, None)
        found = ((name, self._view.find("nodes", "", name)) for name in nodes if name)
        return {name: _zone(item) for name, item in found if item is not None}

    def enqueue(self, event: Event) -> Iterable[Request]:
        """The Services with Pods on a Node that was created or deleted, or is in another zone now."""
        previous = event.previous
        if previous is not None and not event.deleted and _zone(previous) == _zone(event.item):
            return ()
        return sorted(self._services.get(event.item.name, ()))


def _zone(node: Item) -> str:
    return (node.labels or {}).get(ZONE, "")
