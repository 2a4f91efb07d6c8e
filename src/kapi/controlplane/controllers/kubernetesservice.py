"""The endpoints of the Service `kubernetes` in `default`: the addresses of the API servers.

That Service has no selector, so no endpoints controller fills it; in Kubernetes, too, the API server does it itself. A
server alone writes its own address. Servers that share a store write the addresses of all that are alive, by their
Leases. Every one of them does it, leader or not: they come to the same result, and an address that is missing would
last until the next leader is elected.
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
from kapi.controlplane.controllers.livingservers import LEASES, LivingServers, Server, is_identity
from kapi.registry.kinds.fieldrules import endpoint_ip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.controlplane.controllers.context import ControllerContext
    from kapi.controlplane.controllers.source import Enqueue

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
    controller = KubernetesServiceController(context, Server(address, context.settings.port))
    enqueue: dict[str, Enqueue] = {ENDPOINTS: _enqueue, SLICES: _enqueue}
    if context.settings.shares_store:
        enqueue[LEASES] = _enqueue_for_lease
    context.add(
        NAME,
        controller,
        enqueue=enqueue,
        initial=lambda: (SERVICE,),
        needs_leader_election=False,
    )


def _enqueue(event: Event) -> Iterable[Request]:
    item = event.item
    return (SERVICE,) if item.name == SERVICE.name and item.namespace == SERVICE.namespace else ()


def _enqueue_for_lease(event: Event) -> Iterable[Request]:
    return (SERVICE,) if is_identity(event.item) else ()


class KubernetesServiceController:
    """Reconciles the Endpoints and the EndpointSlice of the Service `kubernetes`."""

    def __init__(self, context: ControllerContext, own: Server) -> None:
        self._context = context
        self._own = own
        self._living = LivingServers(context.view, context.clock)

    async def reconcile(self, request: Request) -> Result | None:
        """Restore both objects, and come back when a server may have ended."""
        if not self._context.settings.shares_store:
            await self._restore([self._own])
            return None
        servers, seconds = self._living.find()
        published = sorted(server for server in servers if _is_published(server, self._own))
        if published:
            await self._restore(published)
        return Result(requeue_after=seconds)

    async def _restore(self, servers: Sequence[Server]) -> None:
        """Restore both objects; other labels on the Endpoints stay."""
        view, writer = self._context.view, self._context.writer
        endpoints, slice_ = kubernetes_endpoints(servers), kubernetes_slice(servers)
        current = view.get(ENDPOINTS, *SERVICE)
        labels = (current or {"metadata": {}})["metadata"].get("labels") or {}
        metadata = {**endpoints["metadata"], "labels": {**labels, SKIP_MIRROR: "true"}}
        await self._ensure({**endpoints, "metadata": metadata}, current, ("subsets",))
        current = view.get(SLICES, *SERVICE)
        if current is not None and current["addressType"] != slice_["addressType"]:
            # The address type of a slice is immutable.
            with contextlib.suppress(NotFound):
                await writer.delete(current)
            current = None
        await self._ensure(slice_, current, ("endpoints", "ports"))

    async def _ensure(self, wanted: Object, current: Object | None, fields: tuple[str, ...]) -> None:
        if current is None:
            await self._context.writer.create(wanted)
            return
        metadata = {**current["metadata"], "labels": wanted["metadata"]["labels"]}
        if metadata != current["metadata"] or any(current.get(field) != wanted[field] for field in fields):
            await self._context.writer.update({**wanted, "metadata": metadata})


def _is_published(server: Server, own: Server) -> bool:
    """Return True for addresses that endpoints may have, of the IP family of this server."""
    return not endpoint_ip("address", server.host) and (":" in server.host) == (":" in own.host)


def kubernetes_endpoints(servers: Sequence[Server]) -> Object:
    """The Endpoints of the Service `kubernetes`."""
    ports = sorted({server.port for server in servers})
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": SERVICE.name, "namespace": SERVICE.namespace, "labels": {SKIP_MIRROR: "true"}},
        "subsets": [{"addresses": _addresses(servers, port), "ports": [_port(port)]} for port in ports],
    }


def _addresses(servers: Sequence[Server], port: int) -> list[dict[str, str]]:
    return [{"ip": server.host} for server in servers if server.port == port]


def kubernetes_slice(servers: Sequence[Server]) -> Object:
    """The EndpointSlice of the Service `kubernetes`. A slice has one port: the lowest, if servers have several."""
    port = min(server.port for server in servers)
    hosts = [server.host for server in servers if server.port == port]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": SERVICE.name, "namespace": SERVICE.namespace, "labels": {SERVICE_NAME: SERVICE.name}},
        "addressType": "IPv6" if ":" in hosts[0] else "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}} for host in hosts],
        "ports": [_port(port)],
    }


def _port(number: int) -> dict[str, Any]:
    return {"name": "https", "port": number, "protocol": "TCP"}
