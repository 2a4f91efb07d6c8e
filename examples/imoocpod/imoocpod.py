"""ImoocPods: an operator that keeps a number of Pods alive, in the five steps of a reconcile.

Run it with `kapi run imoocpod:setup`, or with `python imoocpod.py --leader-elect`.
"""

from typing import Annotated

import msgspec

import kapi
from kapi import (
    Column,
    CustomResource,
    Manager,
    Model,
    NotFound,
    ObjectMeta,
    Result,
    Scale,
    is_deleting,
    resource,
    set_controller_reference,
)
from kapi.api.builtin.core_v1 import Container, Pod, PodSpec
from kapi.api.crd import Int32
from kapi.controller.objects.ownership import is_controlled_by

LABEL = "k8s.imooc.com/imoocpod"


class ImoocPodSpec(Model):
    """The Pods that are wanted."""

    replicas: Annotated[Int32, msgspec.Meta(ge=0, le=100)] = 1


class ImoocPodStatus(Model):
    """The Pods that there are."""

    replicas: Int32 = 0
    pod_names: list[str] = msgspec.field(default_factory=list[str])
    selector: str = ""
    """For `kubectl get --selector` and for autoscalers."""


@resource(
    "k8s.imooc.com/v1alpha1",
    plural="imoocpods",
    scale=Scale(selector=".status.selector"),
    columns=[
        Column("Desired", ".spec.replicas", type="integer"),
        Column("Current", ".status.replicas", type="integer"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    ],
)
class ImoocPod(CustomResource, kw_only=True):
    """So many Pods, all alike."""

    spec: ImoocPodSpec = msgspec.field(default_factory=ImoocPodSpec)
    status: ImoocPodStatus | None = None


class ImoocPodReconciler:
    """Makes the number of Pods the number that is wanted."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._events = manager.recorder("k8s.imooc.com/imoocpod")

    async def reconcile(self, wanted: ImoocPod) -> Result | None:
        # 1. Fetch the object. The builder has done so, because of the annotation above, and does not call for one
        # that is    gone. The Pods of one that is being deleted are left to the garbage collector: they have an owner
        # reference.
        if is_deleting(wanted):
            return None
        # 2. List its Pods by their label. A label can be set by anyone, so the owner reference is what counts.
        name, namespace = wanted.metadata.name or "", wanted.metadata.namespace or ""
        labelled = await self._client.list(Pod, namespace=namespace, labels={LABEL: name})
        owned = [pod for pod in labelled if is_controlled_by(pod, wanted)]
        # 3. Count those that are alive: Pending or Running, and not being deleted.
        alive = sorted(filter(is_alive, owned), key=_seniority)
        # 4. Update the status, if it differs.
        names = sorted(pod.metadata.name or "" for pod in alive)
        status = ImoocPodStatus(replicas=len(alive), pod_names=names, selector=f"{LABEL}={name}")
        if wanted.status != status:
            wanted.status = status
            await self._client.update_status(wanted)
        # 5. Delete what is too much, or create what is missing. Then look again: the result is counted, not assumed.
        surplus = alive[wanted.spec.replicas :]
        missing = wanted.spec.replicas - len(alive)
        for pod in surplus:
            await self._delete(wanted, pod)
        for _ in range(missing):
            await self._create(wanted)
        return Result(requeue=True) if surplus or missing > 0 else None

    async def _create(self, owner: ImoocPod) -> None:
        name, namespace = owner.metadata.name or "", owner.metadata.namespace or ""
        pod = Pod(
            metadata=ObjectMeta(generate_name=f"{name}-", namespace=namespace, labels={LABEL: name}),
            spec=PodSpec(containers=[Container(name="busybox", image="busybox", command=["sleep", "3600"])]),
        )
        set_controller_reference(owner, pod)
        made = await self._client.create(pod)
        self._events.normal(owner, "Created", f"created Pod {made.metadata.name}")

    async def _delete(self, owner: ImoocPod, pod: Pod) -> None:
        try:
            await self._client.delete(pod)
        except NotFound:
            return
        self._events.normal(owner, "Deleted", f"deleted Pod {pod.metadata.name}")


def is_alive(pod: Pod) -> bool:
    """Return True for a Pod that counts: one that has failed, succeeded or is being deleted does not."""
    phase = pod.status.phase if pod.status else None
    return phase in ("Pending", "Running") and not is_deleting(pod)


def _seniority(pod: Pod) -> tuple[bool, str, str]:
    """The order in which Pods are kept: those that run, and the oldest of them."""
    phase = pod.status.phase if pod.status else None
    return phase != "Running", pod.metadata.creation_timestamp or "", pod.metadata.name or ""


def setup(manager: Manager) -> None:
    manager.builder().for_(ImoocPod).owns(Pod).complete(ImoocPodReconciler(manager).reconcile)


if __name__ == "__main__":
    kapi.run(setup)
