"""The pod garbage collector: removes terminating Pods that no kubelet will remove.

A Pod that is deleted with a grace period is removed by the kubelet that runs it. Where its node does not exist there is
no kubelet, and the Pod would stay for ever. So when its grace period is over, such a Pod is marked as failed and
removed; at once, if it was never scheduled, or if its node is out of service.

One deliberate difference from Kubernetes: Pods that are not being deleted are never touched, though their node does not
exist. Here Pods are often created without nodes, to see what a controller does with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.errors import Conflict, NotFound
from kapi.api.meta import format_time, parse_time
from kapi.api.patch.mergepatch import STRATEGIC_MERGE_PATCH
from kapi.controller.reconcile import Request, Result
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.context import request_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.controlplane.controllers.context import ControllerContext

WORKERS: Final = 8

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_TERMINAL_PHASES: Final = ("Succeeded", "Failed")
_DELETION_TIMESTAMP: Final = b',"deletionTimestamp":"'


def add_pod_garbage_collector(context: ControllerContext) -> None:
    """Add the controller; see the module."""
    collector = PodGarbageCollector(context)
    context.add(
        names.POD_GARBAGE_COLLECTOR,
        collector,
        enqueue={"pods": collector.enqueue_pod, "nodes": collector.enqueue_node},
        initial=collector.initial,
        workers=WORKERS,
    )


class PodGarbageCollector:
    """Reconciles terminating Pods."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._on_node: dict[str, set[Request]] = {}
        """Pods left to the kubelet of a node that exists, by node; enqueued again when the node changes."""

    def initial(self) -> list[Request]:
        """Pods that were terminating when the controller started."""
        return [request_for(item) for item in self._context.view.items("pods") if _DELETION_TIMESTAMP in item.body]

    def enqueue_pod(self, event: Event) -> Iterable[Request]:
        """Terminating Pods, and perhaps some that have an annotation of that name."""
        return (request_for(event.item),) if not event.deleted and _DELETION_TIMESTAMP in event.item.body else ()

    def enqueue_node(self, event: Event) -> Iterable[Request]:
        """The terminating Pods that were left to the node."""
        return sorted(self._on_node.pop(event.item.name, ()))

    async def reconcile(self, request: Request) -> Result | None:
        """Remove a terminating Pod if its node cannot."""
        pod = self._context.view.get("pods", *request)
        if pod is None or "deletionTimestamp" not in pod["metadata"]:
            return None
        node_name = pod["spec"].get("nodeName", "")
        condition = None
        if node_name:
            node = self._context.view.get("nodes", "", node_name)
            if node is not None and not _is_out_of_service(node):
                self._on_node.setdefault(node_name, set()).add(request)
                return None
            if node is None:
                seconds = self._grace_seconds_left(pod)
                if seconds > 0:
                    return Result(requeue_after=seconds)
                condition = self._disruption_condition(pod)
        return await self._remove(pod, condition)

    def _grace_seconds_left(self, pod: Object) -> float:
        now = self._context.clock.now()
        end = parse_time(pod["metadata"]["deletionTimestamp"]) or now
        return (end - now).total_seconds()

    def _disruption_condition(self, pod: Object) -> Object:
        """The condition that explains why the Pod failed."""
        condition: Object = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": format_time(self._context.clock.now()),
        }
        generation = pod["metadata"].get("generation")
        return {**condition, "observedGeneration": generation} if generation else condition

    async def _remove(self, pod: Object, condition: Object | None) -> Result | None:
        metadata = pod["metadata"]
        resource = self._context.view.of_kind("v1", "Pod")
        assert resource is not None
        pods = self._context.writer.resource(resource, metadata["namespace"])
        try:
            if pod.get("status", {}).get("phase") not in _TERMINAL_PHASES:
                patch = {"metadata": {"uid": metadata["uid"]}, "status": _failed_status(pod, condition)}
                await pods.patch(metadata["name"], patch, STRATEGIC_MERGE_PATCH, subresource="status")
            await self._context.writer.delete(pod, grace_period=0)
        except NotFound:
            pass
        except Conflict:
            return Result(requeue=True)  # another Pod has the name now: reconcile that one
        return None


def _failed_status(pod: Object, condition: Object | None) -> Object:
    status: Object = {"phase": "Failed"}
    generation = pod["metadata"].get("generation")
    if generation:
        status["observedGeneration"] = generation
    if condition is not None:
        status["conditions"] = [condition]
    return status


def _is_out_of_service(node: Object) -> bool:
    """Return True if a node is not ready and has the out-of-service taint: it will not come back."""
    taints = node.get("spec", {}).get("taints", ())
    conditions = node.get("status", {}).get("conditions", ())
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return not ready and any(taint.get("key") == OUT_OF_SERVICE for taint in taints)
