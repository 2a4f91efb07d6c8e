"""The kind Network of the demo: its definition, an object, a class for it, and the controller.

The definition is in the v1beta1 form, without schema and subresources, as many examples still are; the class declares
the fields that the controller reads. In place of real networks there is a dictionary, and the status says `simulated`.
The controller of `examples/network` is the same for an OpenStack Neutron, and writes the same status, so that its
definition can take the place of this one.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import structs

from kapi.api.access import is_deleting
from kapi.api.builtin.meta_v1 import Condition
from kapi.api.crd import CustomResource, Model, resource
from kapi.api.errors import NotFound
from kapi.controller.objects.conditions import FALSE, TRUE, find_condition, is_true, set_condition

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.controller.manager import Manager
    from kapi.controller.reconcile import Request

READY: Final = "Ready"
SIMULATED: Final = "simulated"

DEFINITION: Final[Object] = {
    "apiVersion": "apiextensions.k8s.io/v1beta1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "networks.samplecrd.k8s.io"},
    "spec": {
        "group": "samplecrd.k8s.io",
        "version": "v1",
        "names": {"kind": "Network", "plural": "networks"},
        "scope": "Namespaced",
        "additionalPrinterColumns": [
            {"name": "CIDR", "type": "string", "JSONPath": ".spec.cidr"},
            {"name": "Gateway", "type": "string", "JSONPath": ".spec.gateway"},
            {"name": "Ready", "type": "string", "JSONPath": '.status.conditions[?(@.type=="Ready")].status'},
            {"name": "Reason", "type": "string", "JSONPath": '.status.conditions[?(@.type=="Ready")].reason'},
            {"name": "Age", "type": "date", "JSONPath": ".metadata.creationTimestamp"},
        ],
    },
}

EXAMPLE: Final[Object] = {
    "apiVersion": "samplecrd.k8s.io/v1",
    "kind": "Network",
    "metadata": {"name": "example-network", "namespace": "default"},
    "spec": {"cidr": "192.168.0.0/16", "gateway": "192.168.0.1"},
}


class NetworkSpec(Model):
    """The desired network."""

    cidr: str = ""
    gateway: str = ""


class NetworkStatus(Model):
    """The state of the network."""

    backend: str = ""
    network_id: str = msgspec.field(default="", name="networkID")
    conditions: list[Condition] = msgspec.field(default_factory=list[Condition])


@resource("samplecrd.k8s.io/v1", status=False)
class Network(CustomResource, kw_only=True):
    """A network with an address range and a gateway."""

    spec: NetworkSpec = msgspec.field(default_factory=NetworkSpec)
    status: NetworkStatus = msgspec.field(default_factory=NetworkStatus)


def ready_condition(network: Network) -> Condition | None:
    """Return the condition Ready of a network, or None before there is one."""
    return find_condition(network.status.conditions, READY)


class SimulatedNetworks:
    """Networks that exist in this process only, by the UID of their object: enough to reconcile."""

    def __init__(self) -> None:
        self._networks: dict[str, tuple[str, NetworkSpec]] = {}

    def ensure(self, network: Network) -> tuple[str, str]:
        """Create or change a network; returns its id, and what was done."""
        uid, spec = network.metadata.uid or "", network.spec
        found = self._networks.get(uid)
        number, before = found or (network.status.network_id or f"net-{uid[:8]}", None)
        self._networks[uid] = number, spec
        if before is None:
            return number, f"created network {number} with subnet {spec.cidr}"
        if before.cidr != spec.cidr:
            return number, f"replaced subnet {before.cidr} by {spec.cidr}"
        if before.gateway != spec.gateway:
            return number, f"set the gateway to {spec.gateway or 'none'}"
        return number, ""

    def retain(self, uids: set[str]) -> int:
        """Delete the networks of all other objects; returns how many."""
        gone = self._networks.keys() - uids
        for uid in gone:
            del self._networks[uid]
        return len(gone)

    def __len__(self) -> int:
        return len(self._networks)


class NetworkReconciler:
    """Creates, changes and deletes simulated networks to match the objects, and updates their status.

    Level-based: it compares the objects with the networks and does not depend on the event that triggered it.
    """

    def __init__(self, manager: Manager, networks: SimulatedNetworks) -> None:
        self._client = manager.client
        self._events = manager.recorder("samplecrd.k8s.io/network-controller")
        self._networks = networks

    async def reconcile(self, request: Request) -> None:
        """Reconcile one network."""
        network = await self._client.find(Network, request)
        if network is None or is_deleting(network):
            # The key says nothing of the UID, and another object may have had the name in between.
            self._networks.retain({one.metadata.uid or "" for one in await self._client.list(Network)})
            return
        problem = validate(network.spec)
        if problem:
            # Not raised: trying again would not help, and the condition says what would.
            await self._report(network, network.status.network_id, FALSE, "InvalidSpec", problem)
            return
        number, done = self._networks.ensure(network)
        if done or not is_true(network.status.conditions, READY):
            message = done or f"network {number} has subnet {network.spec.cidr}"
            await self._report(network, number, TRUE, "Reconciled", message)

    async def _report(self, network: Network, number: str, status: str, reason: str, message: str) -> None:
        conditions = [structs.replace(one) for one in network.status.conditions]
        if not set_condition(conditions, READY, status, reason=reason, message=message):
            return
        fields = NetworkStatus(backend=SIMULATED, network_id=number, conditions=conditions)
        patch = {"metadata": {"uid": network.metadata.uid}, "status": msgspec.to_builtins(fields)}
        try:
            await self._client.patch_status(network, patch)
        except NotFound:
            # The definition of this demo has no status subresource; one that took its place may have.
            await self._client.patch(network, patch)
        record = self._events.normal if status == TRUE else self._events.warning
        record(network, reason, message)


def validate(spec: NetworkSpec) -> str:
    """Return what is wrong with a spec; empty if it is valid."""
    try:
        network = ipaddress.ip_network(spec.cidr)
        if spec.gateway and ipaddress.ip_address(spec.gateway) not in network:
            return f"the gateway {spec.gateway} is not in {spec.cidr}"
    except ValueError as error:
        return str(error)
    return ""
