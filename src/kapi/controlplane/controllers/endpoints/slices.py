"""The controller of EndpointSlices: those of every Service that selects Pods are as its Pods are.

A Service's slices are looked at when it changes, when a Pod that it selects (or selected) changes in a way that shows,
when a Node comes, goes or changes its zone, and when somebody else wrote one of them. Slices of a Service that is gone
are the garbage collector's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.errors import ApiError, Conflict, Forbidden, Invalid
from kapi.controller.reconcile import Request, Result, TerminalError
from kapi.controlplane.controllers.endpoints.index import ServiceIndex
from kapi.controlplane.controllers.endpoints.packing import MANAGER, plan_slices
from kapi.controlplane.controllers.endpoints.slicebook import SLICES, SliceBook
from kapi.controlplane.controllers.endpoints.triggers import TriggerTimes, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item
    from kapi.controlplane.controllers.endpoints.facts import PodFacts
    from kapi.controlplane.controllers.endpoints.packing import Plan
    from kapi.controlplane.controllers.house import House

NAME: Final = "endpointslice-controller"
ZONE: Final = "topology.kubernetes.io/zone"
WORKERS: Final = 5
_NAMED_PODS: Final = 20
"""More would not fit into an event."""


def slice_endpoints(house: House) -> None:
    """Keep the EndpointSlices of Services that select Pods."""
    keeper = SliceKeeper(house)
    house.add(
        NAME,
        keeper,
        hear={
            "services": keeper.index.hear_service,
            "pods": keeper.index.hear_pod,
            "nodes": keeper.nodes.hear,
            SLICES: keeper.book.hear,
        },
        initial=keeper.load,
        workers=WORKERS,
    )


class SliceKeeper:
    """The reconciler."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._times = TriggerTimes()
        self._recorder = house.manager.recorder("endpoint-slice-controller")
        self._complaints: dict[Request, str] = {}
        """What was last said about each Service that cannot have all its Pods in slices."""
        self.index = ServiceIndex(house.inventory)
        self.book = SliceBook(house.inventory, MANAGER)
        self.nodes = NodesInUse(house)

    def load(self) -> Iterable[Request]:
        """Take in what there is; all Services are looked at."""
        self.book.load()
        return self.index.load()

    async def reconcile(self, request: Request) -> Result | None:
        """Make the slices of a Service as they should be."""
        service = self._house.inventory.get("services", *request) if request in self.index else None
        if service is None:
            self._times.forget(request)
            self._complaints.pop(request, None)
            self.nodes.use(request, ())
            return None
        pods = self.index.pods(request)
        zones = self.nodes.use(request, pods)
        time = self._times.next(request, service, pods)
        plan = plan_slices(service, pods, zones, self.book.of(request))
        self._complain(request, service, plan)
        if not plan:
            return None
        try:
            return await self._write(request, service, plan, time)
        except Conflict:
            raise
        except Invalid as error:
            self._failed(service, str(error))
            raise TerminalError(str(error)) from error
        except ApiError as error:
            self._failed(service, str(error))
            raise

    async def _write(self, request: Request, service: Object, plan: Plan, time: str) -> Result | None:
        if "deletionTimestamp" in service["metadata"]:
            # The garbage collector would chase them.
            plan.create.clear()
        for each in (*plan.create, *plan.update):
            stamp(each, time)
        try:
            disturbed = await self.book.write(self._house, request, plan)
        except Forbidden as error:
            if not is_namespace_going(error):
                raise
            return None
        return Result(requeue=True) if disturbed else None

    def _complain(self, request: Request, service: Object, plan: Plan) -> None:
        """Say which Pods are left out for want of their Nodes; once, as long as nothing changes about that."""
        where = f"{request.namespace}/{request.name}"
        sentences = [
            f"skipping Pod {pod.name} for Service {where}: Node {pod.node} Not Found"
            for pod in plan.stranded[:_NAMED_PODS]
        ]
        text = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
        if sentences and self._complaints.get(request) != text:
            self._failed(service, text)
        if sentences:
            self._complaints[request] = text
        else:
            self._complaints.pop(request, None)

    def _failed(self, service: Object, why: str) -> None:
        where = f"{service['metadata']['namespace']}/{service['metadata']['name']}"
        note = f"Error updating Endpoint Slices for Service {where}: {why}"
        self._recorder.warning(service, "FailedToUpdateEndpointSlices", note)


class NodesInUse:
    """Which Services have Pods on which Nodes, as of the last time each was looked at."""

    def __init__(self, house: House) -> None:
        self._store = house.inventory.catalog.store("nodes")
        self._services: dict[str, set[Request]] = {}
        self._nodes: dict[Request, frozenset[str]] = {}

    def use(self, request: Request, pods: Sequence[PodFacts]) -> dict[str, str]:
        """Note which Nodes the Pods of a Service are on; the zones of those that exist."""
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
        found = ((name, self._store.find("", name)) for name in nodes if name)
        return {name: _zone(item) for name, item in found if item is not None}

    def hear(self, event: Event) -> Iterable[Request]:
        """The Services with Pods on a Node that came, went, or is in another zone now."""
        previous = event.previous
        if previous is not None and not event.deleted and _zone(previous) == _zone(event.item):
            return ()
        return tuple(self._services.get(event.item.name, ()))


def _zone(node: Item) -> str:
    return (node.labels or {}).get(ZONE, "")


def is_namespace_going(error: ApiError) -> bool:
    """Whether something was refused because its namespace is being deleted: then it need not be tried again."""
    causes = (error.details or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
