"""The kind Network of the demo: its definition, an object, a class for it, and the controller.

The definition is in the v1beta1 form, without schema and subresources, as many examples still are; the class declares
the fields that the controller reads. In place of real networks there is a dictionary, and the status says so.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from kapi.api.access import is_deleting
from kapi.api.crd import CustomResource, Model, resource
from kapi.controller.reconcile import TerminalError

if TYPE_CHECKING:
    from kapi.api.keys import ObjectKey
    from kapi.api.meta import Object
    from kapi.controller.manager import Manager
    from kapi.controller.reconcile import Request

READY: Final = "Ready"
FAILED: Final = "Failed"

DEFINITION: Final[Object] = {
    "apiVersion": "apiextensions.k8s.io/v1beta1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "networks.samplecrd.k8s.io"},
    "spec": {
        "group": "samplecrd.k8s.io",
        "version": "v1",
        "names": {"kind": "Network", "plural": "networks"},
        "scope": "Namespaced",
    },
}

EXAMPLE: Final[Object] = {
    "apiVersion": "samplecrd.k8s.io/v1",
    "kind": "Network",
    "metadata": {"name": "example-network", "namespace": "default"},
    "spec": {"cidr": "192.168.0.0/16", "gateway": "192.168.0.1"},
}

_log = structlog.get_logger("kapi.demo")


class NetworkSpec(Model):
    """The desired network."""

    cidr: str = ""
    gateway: str = ""


class NetworkStatus(Model):
    """The state of the network."""

    phase: str = ""
    message: str = ""
    backend: str = ""


@resource("samplecrd.k8s.io/v1", status=False)
class Network(CustomResource, kw_only=True):
    """A network with an address range and a gateway."""

    spec: NetworkSpec = msgspec.field(default_factory=NetworkSpec)
    status: NetworkStatus = msgspec.field(default_factory=NetworkStatus)


class InMemoryNetworks:
    """A backend whose networks exist in this process only: enough to reconcile, with no effect outside."""

    name = "in memory, for demonstration"

    def __init__(self) -> None:
        self._networks: dict[ObjectKey, NetworkSpec] = {}

    def ensure(self, key: ObjectKey, spec: NetworkSpec) -> bool:
        """Create or change a network; returns True if anything changed."""
        changed = self._networks.get(key) != spec
        self._networks[key] = spec
        return changed

    def remove(self, key: ObjectKey) -> bool:
        """Remove a network; returns True if there was one."""
        return self._networks.pop(key, None) is not None

    def __len__(self) -> int:
        return len(self._networks)


class NetworkReconciler:
    """Creates, changes and removes the networks of a backend to match the objects, and updates their status.

    Level-based: it compares the object with the backend and does not depend on the event that triggered it.
    """

    def __init__(self, manager: Manager, backend: InMemoryNetworks) -> None:
        self._client = manager.client
        self._events = manager.recorder("samplecrd.k8s.io/network-controller")
        self._backend = backend

    async def reconcile(self, request: Request) -> None:
        """Reconcile one network."""
        network = await self._client.find(Network, request)
        if network is None or is_deleting(network):
            if self._backend.remove(request):
                _log.info("network removed", network=str(request))
            return
        problem = validate(network.spec)
        if problem:
            await self._report(network, NetworkStatus(phase=FAILED, message=problem, backend=self._backend.name))
            raise TerminalError(problem)
        if self._backend.ensure(request, network.spec):
            _log.info("network created", network=str(request), cidr=network.spec.cidr, gateway=network.spec.gateway)
        await self._report(network, NetworkStatus(phase=READY, backend=self._backend.name))

    async def _report(self, network: Network, status: NetworkStatus) -> None:
        if network.status == status:
            return
        patch = {"status": {"phase": status.phase, "message": status.message, "backend": status.backend}}
        await self._client.patch(network, patch)
        record = self._events.normal if status.phase == READY else self._events.warning
        record(network, status.phase, status.message or f"{network.spec.cidr} is ready ({status.backend})")


def validate(spec: NetworkSpec) -> str:
    """Return what is wrong with a spec; empty if it is valid."""
    try:
        network = ipaddress.ip_network(spec.cidr)
        if spec.gateway and ipaddress.ip_address(spec.gateway) not in network:
            return f"the gateway {spec.gateway} is not in {spec.cidr}"
    except ValueError as error:
        return str(error)
    return ""
