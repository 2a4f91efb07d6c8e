"""Reconciles the Endpoints of every Service that selects Pods, and deletes them with the Service.

A Service is reconciled when it changes or is deleted, when a Pod that it selects (or selected) changes in a way that
shows in endpoints, and when another client changes its Endpoints. Endpoints whose Service was deleted before are found
when the controller starts.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from kapi.api.errors import ApiError, Conflict, Invalid, NotFound
from kapi.controller.reconcile import Result, TerminalError
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.context import request_for
from kapi.controlplane.controllers.endpoints.subsets import (
    OVER_CAPACITY,
    TRUNCATED,
    labels_of,
    same_subsets,
    subsets_of,
    truncated,
)
from kapi.controlplane.controllers.serviceendpoints.index import ServiceIndex
from kapi.controlplane.controllers.serviceendpoints.triggertime import TriggerTimes, stamp
from kapi.controlplane.controllers.writer import is_namespace_terminating

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.context import ControllerContext

ENDPOINTS: Final = "endpoints"
WORKERS: Final = 5
LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
"""The annotation of Endpoints that only serve leader election; they have no Service and need none."""


def add_endpoints_controller(context: ControllerContext) -> None:
    """Add the controller; see the module."""
    controller = EndpointsController(context)
    context.add(
        names.ENDPOINTS,
        controller,
        enqueue={
            "services": controller.index.enqueue_service,
            "pods": controller.index.enqueue_pod,
            ENDPOINTS: controller.enqueue_endpoints,
        },
        initial=controller.initial,
        workers=WORKERS,
    )


class EndpointsController:
    """Reconciles the Endpoints of Services."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._times = TriggerTimes()
        self._recorder = context.manager.recorder("endpoint-controller")
        self._writing: dict[Request, set[str]] = {}
        """The resourceVersions of Endpoints that were seen while they are being written."""
        self.index = ServiceIndex(context.view)

    def initial(self) -> Iterable[Request]:
        """Index what there is; all Services are reconciled, and all Endpoints, whose Service may have been deleted."""
        services = self.index.load()
        endpoints = [request_for(item) for item in self._context.view.items(ENDPOINTS)]
        return {*services, *endpoints}

    def enqueue_endpoints(self, event: Event) -> Iterable[Request]:
        """The Service that selects Pods and whose Endpoints another client changed."""
        request = request_for(event.item)
        seen = self._writing.get(request)
        if seen is not None:
            seen.add(str(event.item.revision))
            return ()
        return (request,) if request in self.index else ()

    async def reconcile(self, request: Request) -> Result | None:
        """Make the Endpoints of a Service what they should be."""
        service = self._context.view.get("services", *request)
        if service is None:
            self._times.forget(request)
            await self._delete(request)
            return None
        if request not in self.index:
            self._times.forget(request)
            return None
        pods = self.index.pods(request)
        time = self._times.next(request, service, pods)
        current = self._context.view.get(ENDPOINTS, *request)
        wanted = endpoints_of(service, subsets_of(service, pods), current)
        if current is not None and same_endpoints(current, wanted):
            return None
        stamp(wanted, time)
        return await self._write(request, wanted, is_new=current is None)

    async def _write(self, request: Request, wanted: Object, *, is_new: bool) -> Result | None:
        seen = self._writing[request] = set()
        try:
            if is_new:
                written = await self._context.writer.create(wanted)
            else:
                written = await self._context.writer.update(wanted)
        except Conflict:
            raise
        except ApiError as error:
            if is_new and is_namespace_terminating(error):
                return None
            self._record_failure(request, wanted, error, is_new=is_new)
            if isinstance(error, Invalid):
                raise TerminalError(str(error)) from error
            raise
        finally:
            del self._writing[request]
        return Result(requeue=True) if seen - {written["metadata"]["resourceVersion"]} else None

    async def _delete(self, request: Request) -> None:
        """Delete the Endpoints of a Service that was deleted, unless they serve leader election."""
        current = self._context.view.get(ENDPOINTS, *request)
        if current is None or LEADER in (current["metadata"].get("annotations") or {}):
            return
        with contextlib.suppress(NotFound):
            await self._context.writer.delete(current)

    def _record_failure(self, request: Request, wanted: Object, error: ApiError, *, is_new: bool) -> None:
        where = f"{request.namespace}/{request.name}"
        if is_new:
            note = f"Failed to create endpoint for service {where}: {error}"
            self._recorder.warning(wanted, "FailedToCreateEndpoint", note)
        else:
            self._recorder.warning(wanted, "FailedToUpdateEndpoint", f"Failed to update endpoint {where}: {error}")


def endpoints_of(service: Object, subsets: list[Object], current: Object | None) -> Object:
    """The Endpoints that a Service should have, as an update of the current ones."""
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    before = current["metadata"] if current is not None else {"name": name, "namespace": namespace}
    annotations = {key: value for key, value in (before.get("annotations") or {}).items() if key != OVER_CAPACITY}
    fitting, is_truncated = truncated(subsets)
    if is_truncated:
        annotations[OVER_CAPACITY] = TRUNCATED
    metadata = {**before, "labels": labels_of(service), "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": fitting}


def same_endpoints(one: Object, other: Object) -> bool:
    """Return True if two Endpoints are equal; other annotations are not compared."""
    before, after = one["metadata"], other["metadata"]
    return (
        (before.get("labels") or {}) == after["labels"]
        and _capacity(before) == _capacity(after)
        and same_subsets(one.get("subsets") or (), other["subsets"])
    )


def _capacity(metadata: Object) -> str | None:
    annotations: dict[str, str] = metadata.get("annotations") or {}
    return annotations.get(OVER_CAPACITY)
