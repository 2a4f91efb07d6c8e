"""The controller of Endpoints: those of every Service that selects Pods are as its Pods are, and go with the Service.

A Service's Endpoints are looked at when it changes or goes, when a Pod that it selects (or selected) changes in a way
that shows, and when somebody else wrote them. Endpoints without a Service are found when the controller starts.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from kapi.api.errors import ApiError, Conflict, Invalid, NotFound
from kapi.controller.reconcile import Request, Result, TerminalError
from kapi.controlplane.controllers.endpoints.index import ServiceIndex
from kapi.controlplane.controllers.endpoints.slices import WORKERS, is_namespace_going
from kapi.controlplane.controllers.endpoints.subsets import (
    OVER_CAPACITY,
    TRUNCATED,
    labels_of,
    same_subsets,
    subsets_of,
    truncated,
)
from kapi.controlplane.controllers.endpoints.triggers import TriggerTimes, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.controlplane.controllers.house import House

NAME: Final = "endpoints-controller"
ENDPOINTS: Final = "endpoints"
LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
"""The annotation of Endpoints that only serve to elect a leader; they have no Service and need none."""


def list_endpoints(house: House) -> None:
    """Keep the Endpoints of Services that select Pods."""
    keeper = ListKeeper(house)
    house.add(
        NAME,
        keeper,
        hear={
            "services": keeper.index.hear_service,
            "pods": keeper.index.hear_pod,
            ENDPOINTS: keeper.hear_endpoints,
        },
        initial=keeper.load,
        workers=WORKERS,
    )


class ListKeeper:
    """The reconciler."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._times = TriggerTimes()
        self._recorder = house.manager.recorder("endpoint-controller")
        self._writing: dict[Request, set[str]] = {}
        """The versions that were heard of Endpoints while we write them."""
        self.index = ServiceIndex(house.inventory)

    def load(self) -> Iterable[Request]:
        """Take in what there is; all Services are looked at, and all Endpoints, which may have lost theirs."""
        services = self.index.load()
        endpoints = [Request(item.namespace, item.name) for item in self._house.inventory.items(ENDPOINTS)]
        return {*services, *endpoints}

    def hear_endpoints(self, event: Event) -> Iterable[Request]:
        """Somebody else changed the Endpoints of a Service that selects Pods."""
        request = Request(event.item.namespace, event.item.name)
        heard = self._writing.get(request)
        if heard is not None:
            heard.add(str(event.item.revision))
            return ()
        return (request,) if request in self.index else ()

    async def reconcile(self, request: Request) -> Result | None:
        """Make the Endpoints of a Service as they should be."""
        service = self._house.inventory.get("services", *request)
        if service is None:
            self._times.forget(request)
            await self._delete(request)
            return None
        if request not in self.index:
            self._times.forget(request)
            return None
        pods = self.index.pods(request)
        time = self._times.next(request, service, pods)
        current = self._house.inventory.get(ENDPOINTS, *request)
        wanted = endpoints_of(service, subsets_of(service, pods), current)
        if current is not None and same_endpoints(current, wanted):
            return None
        stamp(wanted, time)
        return await self._write(request, wanted, is_new=current is None)

    async def _write(self, request: Request, wanted: Object, *, is_new: bool) -> Result | None:
        path = _path(request)
        heard = self._writing[request] = set()
        try:
            if is_new:
                made = await self._house.client.rest.request("POST", path, body=wanted)
            else:
                made = await self._house.client.rest.request("PUT", f"{path}/{request.name}", body=wanted)
        except Conflict:
            raise
        except ApiError as error:
            if is_new and is_namespace_going(error):
                return None
            self._failed(request, wanted, error, is_new=is_new)
            if isinstance(error, Invalid):
                raise TerminalError(str(error)) from error
            raise
        finally:
            del self._writing[request]
        return Result(requeue=True) if heard - {made["metadata"]["resourceVersion"]} else None

    async def _delete(self, request: Request) -> None:
        """The Service is gone; so are its Endpoints, unless they elect a leader."""
        current = self._house.inventory.get(ENDPOINTS, *request)
        if current is None or LEADER in (current["metadata"].get("annotations") or {}):
            return
        options = {"preconditions": {"uid": current["metadata"]["uid"]}}
        with contextlib.suppress(NotFound):
            await self._house.client.rest.request("DELETE", f"{_path(request)}/{request.name}", body=options)

    def _failed(self, request: Request, wanted: Object, error: ApiError, *, is_new: bool) -> None:
        where = f"{request.namespace}/{request.name}"
        if is_new:
            note = f"Failed to create endpoint for service {where}: {error}"
            self._recorder.warning(wanted, "FailedToCreateEndpoint", note)
        else:
            self._recorder.warning(wanted, "FailedToUpdateEndpoint", f"Failed to update endpoint {where}: {error}")


def _path(request: Request) -> str:
    return f"/api/v1/namespaces/{request.namespace}/endpoints"


def endpoints_of(service: Object, subsets: list[Object], current: Object | None) -> Object:
    """The Endpoints of a Service as they should be, in the place of those there are."""
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    before = current["metadata"] if current is not None else {"name": name, "namespace": namespace}
    annotations = {key: value for key, value in (before.get("annotations") or {}).items() if key != OVER_CAPACITY}
    fitting, is_less = truncated(subsets)
    if is_less:
        annotations[OVER_CAPACITY] = TRUNCATED
    metadata = {**before, "labels": labels_of(service), "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": fitting}


def same_endpoints(one: Object, other: Object) -> bool:
    """Whether Endpoints are as they should be; what else is annotated does not matter."""
    before, after = one["metadata"], other["metadata"]
    return (
        (before.get("labels") or {}) == after["labels"]
        and _capacity(before) == _capacity(after)
        and same_subsets(one.get("subsets") or (), other["subsets"])
    )


def _capacity(metadata: Object) -> str | None:
    annotations: dict[str, str] = metadata.get("annotations") or {}
    return annotations.get(OVER_CAPACITY)
