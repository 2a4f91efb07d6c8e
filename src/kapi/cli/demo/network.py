"""The Network of the story: its definition in the form of old, an object, a class for it, and the controller.

The definition has no schema and no sub-resources, as definitions had when this story was first told; the class says
what we expect in it. What stands in for real networks is a dictionary in memory, and says so.
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
    """What is wanted."""

    cidr: str = ""
    gateway: str = ""


class NetworkStatus(Model):
    """What there is."""

    phase: str = ""
    message: str = ""
    backend: str = ""


@resource("samplecrd.k8s.io/v1", status=False)
class Network(CustomResource, kw_only=True):
    """A network with an address range and a gateway."""

    spec: NetworkSpec = msgspec.field(default_factory=NetworkSpec)
    status: NetworkStatus = msgspec.field(default_factory=NetworkStatus)


class InMemoryNetworks:
    """Networks that exist in this process only: enough to reconcile, nothing to route packets with."""

    name = "in memory: no packet will ever pass"

    def __init__(self) -> None:
        self._networks: dict[ObjectKey, NetworkSpec] = {}

    def ensure(self, key: ObjectKey, spec: NetworkSpec) -> bool:
        """Make the network what is wanted; whether that changed anything."""
        changed = self._networks.get(key) != spec
        self._networks[key] = spec
        return changed

    def remove(self, key: ObjectKey) -> bool:
        """Take the network away; whether there was one."""
        return self._networks.pop(key, None) is not None

    def __len__(self) -> int:
        return len(self._networks)


class NetworkReconciler:
    """Makes the networks of a backend what the objects say, and the objects say how it went.

    Level-based: it looks at what is, never at what happened, so it can be called as often as anybody likes.
    """

    def __init__(self, manager: Manager, backend: InMemoryNetworks) -> None:
        self._client = manager.client
        self._events = manager.recorder("samplecrd.k8s.io/network-controller")
        self._backend = backend

    async def reconcile(self, request: Request) -> None:
        """Bring one network in line."""
        network = await self._client.find(Network, request)
        if network is None or is_deleting(network):
            if self._backend.remove(request):
                _log.info("network removed", network=str(request))
            return
        problem = judge(network.spec)
        if problem:
            await self._report(network, NetworkStatus(phase=FAILED, message=problem, backend=self._backend.name))
            raise TerminalError(problem)
        if self._backend.ensure(request, network.spec):
            _log.info("network made", network=str(request), cidr=network.spec.cidr, gateway=network.spec.gateway)
        await self._report(network, NetworkStatus(phase=READY, backend=self._backend.name))

    async def _report(self, network: Network, status: NetworkStatus) -> None:
        if network.status == status:
            return
        patch = {"status": {"phase": status.phase, "message": status.message, "backend": status.backend}}
        await self._client.patch(network, patch)
        tell = self._events.normal if status.phase == READY else self._events.warning
        tell(network, status.phase, status.message or f"{network.spec.cidr} is there ({status.backend})")


def judge(spec: NetworkSpec) -> str:
    """What is wrong with the wish; nothing when it can be fulfilled."""
    try:
        network = ipaddress.ip_network(spec.cidr)
        if spec.gateway and ipaddress.ip_address(spec.gateway) not in network:
            return f"the gateway {spec.gateway} is not in {spec.cidr}"
    except ValueError as error:
        return str(error)
    return ""
