"""The controller of Vpc."""

import os
from typing import ClassVar

from kapi import Finalizers, Manager, ObjectKey, Request, Result, set_condition
from kapi.api.access import labels_of, uid_of
from kapi.api.builtin.core_v1 import Pod
from kapi.controller.permissions import Permissions
from kapi.controller.predicate import generation_changed

from vpc.api.vpc_v1 import Vpc, VpcStatus
from vpc.backends.contract import Backend, BackendError, divide
from vpc.backends.simulated import Simulated

FINALIZER = "network.example.com/vpc"
LABEL = "network.example.com/vpc"
RESYNC_SECONDS = 30.0
"""How often a network is looked at that nothing has changed: the kernel's networks can be changed by others."""


class VpcReconciler:
    """Makes actual state agree with every Vpc."""

    PERMISSIONS: ClassVar[Permissions] = [
        {
            Vpc: ["get", "list", "watch", "patch"],
            (Vpc, "status"): ["update"],
            Pod: ["list", "watch"],
            "events.events.k8s.io": ["create", "patch"],
        }
    ]
    """The rights that this controller needs: `make manifests` writes the role, `make rbac` compares it with the tests."""

    def __init__(self, manager: Manager, backend: Backend) -> None:
        self.client = manager.client
        self.clock = manager.clock
        self.recorder = manager.recorder("network.example.com/vpc")
        self.backend = backend
        self.finalizers = Finalizers(manager.client)
        self.finalizers.register(FINALIZER)(self._delete_network)

    @classmethod
    def setup(cls, manager: Manager, backend: Backend | None = None) -> None:
        """Add the controller to a manager."""
        (
            manager.builder()
            .for_(Vpc, generation_changed)
            .watches(Pod, _vpc_of)
            .with_options(workers=4)
            .complete(cls(manager, backend or backend_of_environment()).reconcile)
        )

    async def reconcile(self, vpc: Vpc) -> Result | None:
        """Reconcile one object: called when its spec or one of its Pods has changed, every so often, and after an error."""
        if await self.finalizers.finalize(vpc):
            return None
        spec = vpc.spec
        try:
            subnets = divide(spec.cidrblock, spec.subnetnum)
        except ValueError as error:
            # Trying again would not help: it is reconciled when it has been changed.
            await self._report(vpc, False, "InvalidSpec", str(error), 0)
            return None
        try:
            done = await self.backend.ensure(uid_of(vpc), subnets)
        except BackendError as error:
            await self._report(vpc, False, "BackendFailed", str(error), vpc.status.subnetnum if vpc.status else 0)
            raise
        if done:
            self.recorder.normal(vpc, "Reconciled", "; ".join(done))
        await self._report(vpc, True, "Reconciled", f"{spec.vpcname} has {len(subnets)} subnets", len(subnets))
        return Result(requeue_after=RESYNC_SECONDS)

    async def _report(self, vpc: Vpc, ready: bool, reason: str, message: str, subnetnum: int) -> None:
        """Write the status, if it differs."""
        key, generation = ObjectKey.of(vpc), vpc.metadata.generation or 0
        pods = await self.client.list(Pod, namespace=key.namespace, labels={LABEL: key.name})
        before = vpc.status or VpcStatus()
        facts = (sorted(pod.metadata.name or "" for pod in pods), subnetnum, self.backend.name, generation)
        is_news = facts != (before.pod_names, before.subnetnum, before.backend, before.observed_generation)
        vpc.status = before
        before.pod_names, before.subnetnum, before.backend, before.observed_generation = facts
        is_news |= set_condition(
            vpc, "Ready", ready, reason=reason, message=message, observed_generation=generation, clock=self.clock
        )
        if is_news:
            await self.client.update_status(vpc)
            if not ready:
                self.recorder.warning(vpc, reason, message)

    async def _delete_network(self, vpc: Vpc) -> None:
        if await self.backend.delete(uid_of(vpc)):
            self.recorder.normal(vpc, "Deleted", f"deleted the network {vpc.spec.vpcname}")


def backend_of_environment() -> Backend:
    """Return the backend that VPC_BACKEND names: `linux`, or, unless it is set, `simulated`."""
    name = os.environ.get("VPC_BACKEND", Simulated.name)
    if name == Simulated.name:
        return Simulated()
    if name == "linux":
        # pyroute2 is needed from here on only.
        from vpc.backends.linux import Linux

        return Linux()
    raise ValueError(f"VPC_BACKEND is {name!r}: expected simulated or linux")


def _vpc_of(pod: Pod) -> list[Request]:
    """Return the Vpc that a Pod belongs to."""
    name = labels_of(pod).get(LABEL)
    return [ObjectKey(pod.metadata.namespace or "", name)] if name else []
