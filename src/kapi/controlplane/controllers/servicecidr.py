"""The service-cidr-controller: the finalizer and the Ready condition of ServiceCIDRs.

A ServiceCIDR that is being deleted keeps its finalizer while it is the only one that contains the address of some
Service. Its condition Ready is False then, so that no further address is allocated from it; the other ServiceCIDRs are
ready. Reads the view; writes finalizers and conditions.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from typing import TYPE_CHECKING, Final

from kapi.api.errors import Conflict, NotFound
from kapi.api.meta import format_time, is_deleting, parse_time
from kapi.controller.objects.finalizer import add_finalizer, discard_finalizer, has_finalizer
from kapi.controller.reconcile import Request, Result
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.context import request_for
from kapi.registry.kinds.core.service.records import ALLOCATOR, MANAGED_BY_LABEL, networks_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item
    from kapi.controlplane.controllers.context import ControllerContext
    from kapi.registry.kinds.core.service.ranges import AddressRange

SERVICE_CIDRS: Final = "servicecidrs.networking.k8s.io"
ADDRESSES: Final = "ipaddresses.networking.k8s.io"
FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"

GRACE_SECONDS: Final = 10.0
"""How long a ServiceCIDR stays after its deletion began: other servers may not know of it yet and allocate from it."""
SLICE: Final = 1000
"""Addresses that are compared before other tasks have their turn."""

_READY: Final = ("True", "", "Kubernetes Service CIDR is ready")
_BLOCKED: Final = (
    "False",
    "Terminating",
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
)
_MARK: Final = b'"deletionTimestamp":"'


def add_service_cidr_controller(context: ControllerContext) -> None:
    """Add the controller of ServiceCIDRs."""
    controller = ServiceCIDRController(context)
    context.add(
        names.SERVICE_CIDR,
        controller,
        enqueue={SERVICE_CIDRS: controller.enqueue_all, ADDRESSES: controller.enqueue_terminating},
        initial=context.all_of(SERVICE_CIDRS),
    )


class ServiceCIDRController:
    """Reconciles ServiceCIDRs."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def enqueue_all(self, event: Event) -> Iterable[Request]:
        """Requests for all ServiceCIDRs, of which there are few: one may contain another."""
        return map(request_for, self._context.view.items(SERVICE_CIDRS))

    def enqueue_terminating(self, event: Event) -> Iterable[Request]:
        """Requests for the ServiceCIDRs whose deletion an IPAddress may block or unblock."""
        if not _is_allocated(event.item) or (event.previous is not None and not event.deleted):
            return ()
        return [request_for(item) for item in self._context.view.items(SERVICE_CIDRS) if _MARK in item.body]

    async def reconcile(self, request: Request) -> Result | None:
        """Add the finalizer and the condition, or remove the finalizer when no address needs the range."""
        found = self._context.view.get(SERVICE_CIDRS, *request)
        if found is None:
            return None
        # Conflict: it was changed since it was read, and that change has enqueued it again.
        with contextlib.suppress(NotFound, Conflict):
            if is_deleting(found):
                return await self._reconcile_deletion(found)
            if add_finalizer(found, FINALIZER):
                await self._context.writer.update(found)
            await self._set_condition(found, _READY)
        return None

    async def _reconcile_deletion(self, service_cidr: Object) -> Result | None:
        if not has_finalizer(service_cidr, FINALIZER):
            return None
        if not await self._can_delete(service_cidr):
            await self._set_condition(service_cidr, _BLOCKED)
            return None
        now = self._context.clock.now()
        begun = parse_time(service_cidr["metadata"]["deletionTimestamp"]) or now
        left = GRACE_SECONDS - (now - begun).total_seconds()
        if left > 0:
            return Result(requeue_after=left)
        discard_finalizer(service_cidr, FINALIZER)
        await self._context.writer.update(service_cidr)
        return None

    async def _can_delete(self, service_cidr: Object) -> bool:
        """Return True if every address in the range is also in another one."""
        view = self._context.view
        name = service_cidr["metadata"]["name"]
        others = [
            one
            for item in view.items(SERVICE_CIDRS)
            if item.name != name
            for one in networks_of(view.decode(SERVICE_CIDRS, item))
        ]
        own = networks_of(service_cidr)
        if all(any(_contains(other, one) for other in others) for one in own):
            return True
        for index, item in enumerate(view.items(ADDRESSES)):
            if index % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            if not _is_allocated(item) or not any(item.name in one for one in own):
                continue
            if not any(item.name in one for one in others):
                return False
        return True

    async def _set_condition(self, service_cidr: Object, wanted: tuple[str, str, str]) -> None:
        conditions = (service_cidr.get("status") or {}).get("conditions") or ()
        ready: Object = next((one for one in conditions if one.get("type") == "Ready"), {})
        if (ready.get("status"), ready.get("reason", ""), ready.get("message")) == wanted:
            return
        status, reason, message = wanted
        condition = {
            "type": "Ready",
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": format_time(self._context.clock.now()),
        }
        resource = self._context.view.of_kind(service_cidr["apiVersion"], service_cidr["kind"])
        assert resource is not None
        applied = {
            "apiVersion": service_cidr["apiVersion"],
            "kind": service_cidr["kind"],
            "metadata": {"name": service_cidr["metadata"]["name"]},
            "status": {"conditions": [condition]},
        }
        client = self._context.writer.resource(resource)
        await client.apply(applied, field_manager=names.SERVICE_CIDR, force=True, subresource="status")


def _contains(outer: AddressRange, inner: AddressRange) -> bool:
    """Return True if a network contains another, or is the same."""
    wide, narrow = outer.network, inner.network
    if isinstance(wide, ipaddress.IPv4Network) and isinstance(narrow, ipaddress.IPv4Network):
        return narrow.subnet_of(wide)
    if isinstance(wide, ipaddress.IPv6Network) and isinstance(narrow, ipaddress.IPv6Network):
        return narrow.subnet_of(wide)
    return False


def _is_allocated(item: Item) -> bool:
    """Return True for the IPAddress of a Service; those of other controllers do not keep a ServiceCIDR."""
    return (item.labels or {}).get(MANAGED_BY_LABEL) == ALLOCATOR
