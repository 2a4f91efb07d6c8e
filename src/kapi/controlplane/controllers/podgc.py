"""Ends pods that nobody else will end.

A pod that is deleted with a grace period is removed by the kubelet that runs it. Where its node does not exist there is
no kubelet, and the pod would stay for ever. So when its grace is over, such a pod is marked as failed and removed; at
once, if it was never given to a node, or if its node is out of service.

One deliberate difference from Kubernetes: pods that nobody has deleted are never touched, though their node does not
exist. Here pods are often made without nodes, to see what a controller does with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.errors import Conflict, NotFound
from kapi.api.meta import format_time, parse_time
from kapi.api.patch.mergepatch import STRATEGIC_MERGE_PATCH
from kapi.controller.reconcile import Request, Result

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item
    from kapi.controlplane.controllers.house import House

NAME: Final = "pod-garbage-collector-controller"
WORKERS: Final = 8

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_ENDED: Final = ("Succeeded", "Failed")
_MARK: Final = b',"deletionTimestamp":"'


def collect_pods(house: House) -> None:
    """The part: see the module."""
    collector = _Collector(house)
    house.add(
        NAME,
        collector.reconcile,
        hear={"pods": collector.hear_pod, "nodes": collector.hear_node},
        initial=collector.initial,
        workers=WORKERS,
    )


class _Collector:
    """The reconciler of pods that are being deleted."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._on: dict[str, set[Request]] = {}
        """Pods left to a node that is there; looked at again when something happens to it."""

    def initial(self) -> list[Request]:
        """Pods whose deletion was begun."""
        return [_request(item) for item in self._house.inventory.items("pods") if _MARK in item.body]

    def hear_pod(self, event: Event) -> Iterable[Request]:
        """Pods that are being deleted; perhaps some that have an annotation of that name."""
        return (_request(event.item),) if not event.deleted and _MARK in event.item.body else ()

    def hear_node(self, event: Event) -> Iterable[Request]:
        """The pods that were left to the node."""
        return self._on.pop(event.item.name, ())

    async def reconcile(self, request: Request) -> Result | None:
        """Remove a pod, if it is its time and nobody else does."""
        pod = self._house.inventory.get("pods", *request)
        if pod is None or "deletionTimestamp" not in pod["metadata"]:
            return None
        node = pod["spec"].get("nodeName", "")
        condition = None
        if node:
            found = self._house.inventory.get("nodes", "", node)
            if found is not None and not _is_out_of_service(found):
                self._on.setdefault(node, set()).add(request)
                return None
            if found is None:
                seconds = self._grace_left(pod)
                if seconds > 0:
                    return Result(requeue_after=seconds)
                condition = self._disrupted(pod)
        return await self._remove(pod, condition)

    def _grace_left(self, pod: Object) -> float:
        now = self._house.clock.now()
        ends = parse_time(pod["metadata"]["deletionTimestamp"]) or now
        return (ends - now).total_seconds()

    def _disrupted(self, pod: Object) -> Object:
        """The condition that says why the pod failed."""
        condition: Object = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": format_time(self._house.clock.now()),
        }
        generation = pod["metadata"].get("generation")
        return {**condition, "observedGeneration": generation} if generation else condition

    async def _remove(self, pod: Object, condition: Object | None) -> Result | None:
        metadata = pod["metadata"]
        path, rest = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", self._house.client.rest
        try:
            if pod.get("status", {}).get("phase") not in _ENDED:
                patch = {"metadata": {"uid": metadata["uid"]}, "status": _failed(pod, condition)}
                await rest.send("PATCH", f"{path}/status", body=patch, content_type=STRATEGIC_MERGE_PATCH)
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
            await rest.send("DELETE", path, body={"kind": "DeleteOptions", "apiVersion": "v1", **options})
        except NotFound:
            pass
        except Conflict:
            return Result(requeue=True)  # it is another pod by now: look at that
        return None


def _request(item: Item) -> Request:
    return Request(item.namespace, item.name)


def _failed(pod: Object, condition: Object | None) -> Object:
    status: Object = {"phase": "Failed"}
    generation = pod["metadata"].get("generation")
    if generation:
        status["observedGeneration"] = generation
    if condition is not None:
        status["conditions"] = [condition]
    return status


def _is_out_of_service(node: Object) -> bool:
    """Whether somebody has said that a node which is not ready will not come back."""
    taints = node.get("spec", {}).get("taints", ())
    conditions = node.get("status", {}).get("conditions", ())
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return not ready and any(taint.get("key") == OUT_OF_SERVICE for taint in taints)
