"""The controller that shows hand-written Endpoints as EndpointSlices, for those who read only these.

It is for Services without a selector. Endpoints that say so (`skip-mirror`), that elect a leader, or that have no such
Service are not shown; slices that showed them before go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.errors import Forbidden
from kapi.controller.reconcile import Request, Result
from kapi.controlplane.controllers.endpoints.facts import has_selector
from kapi.controlplane.controllers.endpoints.lists import ENDPOINTS, LEADER
from kapi.controlplane.controllers.endpoints.mirrored import MANAGER, MAX_MIRRORED, SKIP, mirror_of, plan_mirror
from kapi.controlplane.controllers.endpoints.packing import Plan
from kapi.controlplane.controllers.endpoints.slicebook import SLICES, SliceBook
from kapi.controlplane.controllers.endpoints.slices import WORKERS, is_namespace_going

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.controlplane.controllers.endpoints.mirrored import Mirror
    from kapi.controlplane.controllers.house import House

NAME: Final = "endpointslice-mirroring-controller"


def mirror_endpoints(house: House) -> None:
    """Keep EndpointSlices of Endpoints that no controller wrote."""
    keeper = MirrorKeeper(house)
    house.add(
        NAME,
        keeper,
        hear={"services": keeper.hear_service, ENDPOINTS: keeper.hear_endpoints, SLICES: keeper.book.hear},
        initial=keeper.load,
        workers=WORKERS,
    )


class MirrorKeeper:
    """The reconciler."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._recorder = house.manager.recorder("endpoint-slice-mirroring-controller")
        self._plain: set[Request] = set()
        """Services without a selector."""
        self.book = SliceBook(house.inventory, MANAGER)

    def load(self) -> Iterable[Request]:
        """Take in what there is: Services without a selector, and slices that may be for none any more."""
        self._plain = {
            Request(item.namespace, item.name)
            for item in self._house.inventory.items("services")
            if not has_selector(item)
        }
        return {*self._plain, *self.book.load()}

    def hear_service(self, event: Event) -> Iterable[Request]:
        """A Service that has no selector, or had none."""
        request = Request(event.item.namespace, event.item.name)
        was_plain = request in self._plain
        is_plain = not event.deleted and not has_selector(event.item)
        if is_plain == was_plain:
            return ()
        if is_plain:
            self._plain.add(request)
        else:
            self._plain.discard(request)
        return (request,)

    def hear_endpoints(self, event: Event) -> Iterable[Request]:
        """Endpoints of a Service without a selector."""
        request = Request(event.item.namespace, event.item.name)
        return (request,) if request in self._plain else ()

    async def reconcile(self, request: Request) -> Result | None:
        """Make the slices that show Endpoints as they should be."""
        slices = self.book.of(request)
        endpoints = self._house.inventory.get(ENDPOINTS, *request) if request in self._plain else None
        if endpoints is None or not _is_shown(endpoints):
            plan = Plan(delete=slices)
        else:
            mirror = mirror_of(endpoints)
            self._complain(endpoints, mirror)
            plan = plan_mirror(endpoints, mirror, slices)
            if "deletionTimestamp" in endpoints["metadata"]:
                plan.create.clear()
        if not plan:
            return None
        try:
            disturbed = await self.book.write(self._house, request, plan)
        except Forbidden as error:
            if not is_namespace_going(error):
                raise
            return None
        return Result(requeue=True) if disturbed else None

    def _complain(self, endpoints: Object, mirror: Mirror) -> None:
        if mirror.invalid:
            note = f"Skipped {mirror.invalid} invalid IP addresses when mirroring to EndpointSlices"
            self._recorder.warning(endpoints, "InvalidIPAddress", note)
        if mirror.skipped > mirror.invalid:
            note = (
                f"A max of {MAX_MIRRORED} addresses can be mirrored to EndpointSlices per Endpoints subset. "
                f"{mirror.skipped} addresses were skipped"
            )
            self._recorder.warning(endpoints, "TooManyAddressesToMirror", note)


def _is_shown(endpoints: Object) -> bool:
    metadata = endpoints["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return labels.get(SKIP) != "true" and LEADER not in annotations
