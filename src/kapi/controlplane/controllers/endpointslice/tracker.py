"""Tracks the EndpointSlices of each Service that one controller manages, from commits, and writes them.

A controller need not reconcile because of its own writes, only because of those of others. So while it writes slices of
a Service, changes of that Service's slices are recorded instead of enqueued, and compared with what was written.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.api.errors import NotFound
from kapi.controller.reconcile import Request
from kapi.controlplane.controllers.endpointslice.plan import MANAGED_BY, SERVICE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item
    from kapi.controlplane.controllers.endpointslice.plan import Plan
    from kapi.controlplane.controllers.view import ObjectView
    from kapi.controlplane.controllers.writer import Writer

SLICES: Final = "endpointslices.discovery.k8s.io"
_DELETED: Final = ""


class Written(NamedTuple):
    """A slice and its resourceVersion after a write; empty after a deletion."""

    name: str
    version: str


class SliceTracker:
    """The slices of one managing controller, by Service."""

    def __init__(self, view: ObjectView, writer: Writer, manager: str) -> None:
        self._view = view
        self._writer = writer
        self._manager = manager
        self._slices: dict[Request, set[str]] = {}
        self._recording: dict[Request, list[Written]] = {}

    def load(self) -> list[Request]:
        """Index the slices there are; the requests for their Services."""
        self._slices.clear()
        for item in self._view.items(SLICES):
            request = self._service_of(item)
            if request is not None:
                self._slices.setdefault(request, set()).add(item.name)
        return list(self._slices)

    def of(self, request: Request) -> list[Object]:
        """The slices of a Service that are not being deleted, sorted by name; the caller's to change."""
        found = (self._view.get(SLICES, request.namespace, name) for name in sorted(self._slices.get(request, ())))
        return [each for each in found if each is not None and "deletionTimestamp" not in each["metadata"]]

    def enqueue(self, event: Event) -> Iterable[Request]:
        """The Service of a slice that another client changed, and the Service it belonged to before."""
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
        written = Written(item.name, _DELETED if event.deleted else str(item.revision))
        concerned = [before] if before == now else [before, now]
        return [request for request in concerned if request is not None and not self._is_recorded(request, written)]

    def _is_recorded(self, request: Request, written: Written) -> bool:
        seen = self._recording.get(request)
        if seen is None:
            return False
        seen.append(written)
        return True

    def _service_of(self, item: Item) -> Request | None:
        labels = item.labels
        if not labels or labels.get(MANAGED_BY) != self._manager:
            return None
        name = labels.get(SERVICE_NAME)
        return Request(item.namespace, name) if name else None

    # -- writing ------------------------------------------------------------------------------------------------------

    async def apply(self, request: Request, plan: Plan) -> bool:
        """Apply a plan to the slices of a Service; return True if another client wrote to them meanwhile."""
        seen = self._recording[request] = []
        own: set[Written] = set()
        try:
            for each in plan.create:
                own.add(_written(await self._writer.create(each)))
            for each in plan.update:
                own.add(_written(await self._writer.update(each)))
            for each in plan.delete:
                with contextlib.suppress(NotFound):
                    await self._writer.delete(each)
                own.add(Written(each["metadata"]["name"], _DELETED))
        finally:
            del self._recording[request]
        return not own.issuperset(seen)


def _written(obj: Object) -> Written:
    return Written(obj["metadata"]["name"], obj["metadata"]["resourceVersion"])
