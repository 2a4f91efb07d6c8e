"""The endpoints of the Service `kubernetes` in `default`: the address of this server.

That Service has no selector, so no endpoints controller fills it; in Kubernetes, too, the API server does it itself.
There is one server, so its address is the only one. Several servers would have to share the list by Leases, as
kube-apiserver's endpoint reconciler does; it must not be under leader election, as each knows its own address only.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import NotFound
from kapi.controller.reconcile import Request, Result
from kapi.controlplane.controllers.endpoints.controller import ENDPOINTS
from kapi.controlplane.controllers.endpointslice.plan import SERVICE_NAME
from kapi.controlplane.controllers.endpointslice.tracker import SLICES
from kapi.controlplane.controllers.endpointslicemirroring.mirror import SKIP_MIRROR
from kapi.registry.kinds.fieldrules import endpoint_ip

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.controlplane.controllers.context import ControllerContext

NAME: Final = "kubernetes-service"
SERVICE: Final = Request("default", "kubernetes")


def add_kubernetes_service_controller(context: ControllerContext) -> None:
    """Add the controller of the Endpoints and the EndpointSlice of the Service `kubernetes`.

    None is added if the server's address is not allowed in endpoints, such as a loopback address: only clients on this
    machine could use it.
    """
    address = context.settings.address
    if endpoint_ip("address", address):
        return
    controller = KubernetesServiceController(context, address, context.settings.port)
    context.add(
        NAME,
        controller,
        enqueue={ENDPOINTS: _enqueue, SLICES: _enqueue},
        initial=lambda: (SERVICE,),
        needs_leader_election=False,
    )


def _enqueue(event: Event) -> Iterable[Request]:
    item = event.item
    return (SERVICE,) if item.name == SERVICE.name and item.namespace == SERVICE.namespace else ()


class KubernetesServiceController:
    """Reconciles the Endpoints and the EndpointSlice of the Service `kubernetes`."""

    def __init__(self, context: ControllerContext, address: str, port: int) -> None:
        self._context = context
        self._endpoints = kubernetes_endpoints(address, port)
        self._slice = kubernetes_slice(address, port)

    async def reconcile(self, request: Request) -> Result | None:
        """Restore both objects; other labels on the Endpoints stay."""
        view, writer = self._context.view, self._context.writer
        current = view.get(ENDPOINTS, *SERVICE)
        labels = (current or {"metadata": {}})["metadata"].get("labels") or {}
        metadata = {**self._endpoints["metadata"], "labels": {**labels, SKIP_MIRROR: "true"}}
        await self._ensure({**self._endpoints, "metadata": metadata}, current, ("subsets",))
        current = view.get(SLICES, *SERVICE)
        if current is not None and current["addressType"] != self._slice["addressType"]:
            # The address type of a slice is immutable.
            with contextlib.suppress(NotFound):
                await writer.delete(current)
            current = None
        await self._ensure(self._slice, current, ("endpoints", "ports"))
        return None

    async def _ensure(self, wanted: Object, current: Object | None, fields: tuple[str, ...]) -> None:
        if current is None:
            await self._context.writer.create(wanted)
            return
        metadata = {**current["metadata"], "labels": wanted["metadata"]["labels"]}
        if metadata != current["metadata"] or any(current.get(field) != wanted[field] for field in fields):
            await self._context.writer.update({**wanted, "metadata": metadata})


def kubernetes_endpoints(address: str, port: int) -> Object:
    """The Endpoints of the Service `kubernetes`."""
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": SERVICE.name, "namespace": SERVICE.namespace, "labels": {SKIP_MIRROR: "true"}},
        "subsets": [{"addresses": [{"ip": address}], "ports": [_port(port)]}],
    }


def kubernetes_slice(address: str, port: int) -> Object:
    """The EndpointSlice of the Service `kubernetes`."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": SERVICE.name, "namespace": SERVICE.namespace, "labels": {SERVICE_NAME: SERVICE.name}},
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [_port(port)],
    }


def _port(number: int) -> dict[str, Any]:
    return {"name": "https", "port": number, "protocol": "TCP"}
