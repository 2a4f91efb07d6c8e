"""Which EndpointSlices each Service has, of one manager: kept from the commit feed, with an ear for who wrote them.

A controller need not look again because of what it wrote itself, only because of what others did. So while it writes
for a Service, what is heard of that Service's slices is noted instead of queued, and compared with what was written.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.api.errors import NotFound
from kapi.controller.reconcile import Request
from kapi.controlplane.controllers.endpoints.packing import MANAGED_BY, SERVICE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item
    from kapi.controlplane.controllers.endpoints.packing import Plan
    from kapi.controlplane.controllers.house import House
    from kapi.controlplane.controllers.inventory import Inventory

SLICES: Final = "endpointslices.discovery.k8s.io"
_GONE: Final = ""


class Written(NamedTuple):
    """A slice and the version it was given; none when it was deleted."""

    name: str
    version: str


class SliceBook:
    """The slices of one manager, by Service."""

    def __init__(self, inventory: Inventory, manager: str) -> None:
        self._inventory = inventory
        self._manager = manager
        self._slices: dict[Request, set[str]] = {}
        self._noting: dict[Request, list[Written]] = {}

    def load(self) -> list[Request]:
        """Take in the slices there are; the keys of their Services."""
        self._slices.clear()
        for item in self._inventory.items(SLICES):
            request = self._service_of(item)
            if request is not None:
                self._slices.setdefault(request, set()).add(item.name)
        return list(self._slices)

    def of(self, request: Request) -> list[Object]:
        """The slices of a Service that are not being deleted, by name; yours to change."""
        found = (self._inventory.get(SLICES, request.namespace, name) for name in sorted(self._slices.get(request, ())))
        return [each for each in found if each is not None and "deletionTimestamp" not in each["metadata"]]

    def hear(self, event: Event) -> Iterable[Request]:
        """The Services of a slice that somebody else changed: the one it is of, and the one it was of."""
        item, previous = event.item, event.previous
        now = None if event.deleted else self._service_of(item)
        before = None if previous is None else self._service_of(previous)
        if before is not None and before != now:
            names = self._slices.get(before, set())
            names.discard(item.name)
            if not names:
                self._slices.pop(before, None)
        if now is not None:
            self._slices.setdefault(now, set()).add(item.name)
        heard = Written(item.name, _GONE if event.deleted else str(item.revision))
        return [request for request in {before, now} if request is not None and not self._is_noted(request, heard)]

    def _is_noted(self, request: Request, heard: Written) -> bool:
        notes = self._noting.get(request)
        if notes is None:
            return False
        notes.append(heard)
        return True

    def _service_of(self, item: Item) -> Request | None:
        labels = item.labels
        if not labels or labels.get(MANAGED_BY) != self._manager:
            return None
        name = labels.get(SERVICE_NAME)
        return Request(item.namespace, name) if name else None

    # -- writing ------------------------------------------------------------------------------------------------------

    async def write(self, house: House, request: Request, plan: Plan) -> bool:
        """Do what is planned for the slices of a Service; whether somebody else wrote to them meanwhile."""
        path = f"/apis/discovery.k8s.io/v1/namespaces/{request.namespace}/endpointslices"
        rest = house.client.rest
        notes = self._noting[request] = []
        mine: set[Written] = set()
        try:
            for each in plan.create:
                mine.add(_written(await rest.request("POST", path, body=each)))
            for each in plan.update:
                mine.add(_written(await rest.request("PUT", f"{path}/{each['metadata']['name']}", body=each)))
            for each in plan.delete:
                metadata = each["metadata"]
                options = {"preconditions": {"uid": metadata["uid"]}}
                with contextlib.suppress(NotFound):
                    await rest.request("DELETE", f"{path}/{metadata['name']}", body=options)
                mine.add(Written(metadata["name"], _GONE))
        finally:
            del self._noting[request]
        return not mine.issuperset(notes)


def _written(obj: Object) -> Written:
    return Written(obj["metadata"]["name"], obj["metadata"]["resourceVersion"])
