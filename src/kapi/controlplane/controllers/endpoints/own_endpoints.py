"""The endpoints of the Service `kubernetes` in `default`: this server itself, where it can be reached.

That Service has no selector, so no controller of Services fills it; the API server does. There is one server, so its
address is the only one.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import NotFound
from kapi.controller.reconcile import Request, Result
from kapi.controlplane.controllers.endpoints.lists import ENDPOINTS
from kapi.controlplane.controllers.endpoints.mirrored import SKIP
from kapi.controlplane.controllers.endpoints.packing import SERVICE_NAME
from kapi.controlplane.controllers.endpoints.slicebook import SLICES
from kapi.registry.kinds.fieldrules import endpoint_ip

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.controlplane.controllers.house import House

CONTROLLER: Final = "kubernetes-service"
SERVICE: Final = Request("default", "kubernetes")
_ENDPOINTS_PATH: Final = f"/api/v1/namespaces/{SERVICE.namespace}/endpoints"
_SLICES_PATH: Final = f"/apis/discovery.k8s.io/v1/namespaces/{SERVICE.namespace}/endpointslices"


def keep_own_endpoints(house: House) -> None:
    """Keep the Endpoints and the EndpointSlice of the Service `kubernetes`.

    Nothing is kept if the server's address cannot be in endpoints, as a loopback address: nobody but this machine could
    use it.
    """
    address = house.settings.address
    if endpoint_ip("address", address):
        return
    keeper = OwnEndpoints(house, address, house.settings.port)
    house.add(
        CONTROLLER,
        keeper,
        hear={ENDPOINTS: _if_ours, SLICES: _if_ours},
        initial=lambda: (SERVICE,),
    )


def _if_ours(event: Event) -> Iterable[Request]:
    item = event.item
    return (SERVICE,) if item.name == SERVICE.name and item.namespace == SERVICE.namespace else ()


class OwnEndpoints:
    """The reconciler."""

    def __init__(self, house: House, address: str, port: int) -> None:
        self._house = house
        self._endpoints = own_endpoints(address, port)
        self._slice = own_slice(address, port)

    async def reconcile(self, request: Request) -> Result | None:
        """Put back what is not as it should be; labels of others on Endpoints stay."""
        current = self._house.inventory.get(ENDPOINTS, *SERVICE)
        labels = (current or {"metadata": {}})["metadata"].get("labels") or {}
        metadata = {**self._endpoints["metadata"], "labels": {**labels, SKIP: "true"}}
        await self._put(_ENDPOINTS_PATH, {**self._endpoints, "metadata": metadata}, current, ("subsets",))
        current = self._house.inventory.get(SLICES, *SERVICE)
        if current is not None and current["addressType"] != self._slice["addressType"]:
            # The type of a slice cannot be changed.
            with contextlib.suppress(NotFound):
                await self._house.client.rest.request("DELETE", f"{_SLICES_PATH}/{SERVICE.name}")
            current = None
        await self._put(_SLICES_PATH, self._slice, current, ("endpoints", "ports"))
        return None

    async def _put(self, path: str, wanted: Object, current: Object | None, fields: tuple[str, ...]) -> None:
        if current is None:
            await self._house.client.rest.request("POST", path, body=wanted)
            return
        metadata = {**current["metadata"], "labels": wanted["metadata"]["labels"]}
        if metadata != current["metadata"] or any(current.get(field) != wanted[field] for field in fields):
            body = {**wanted, "metadata": metadata}
            await self._house.client.rest.request("PUT", f"{path}/{SERVICE.name}", body=body)


def own_endpoints(address: str, port: int) -> Object:
    """The Endpoints of the Service `kubernetes`."""
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": SERVICE.name, "namespace": SERVICE.namespace, "labels": {SKIP: "true"}},
        "subsets": [{"addresses": [{"ip": address}], "ports": [_port(port)]}],
    }


def own_slice(address: str, port: int) -> Object:
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
