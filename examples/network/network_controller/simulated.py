"""A backend whose networks are entries of a dictionary: enough to reconcile, with no effect outside this process."""

import dataclasses
import uuid

from .backend import Actual, InUse, Owner, Wanted


@dataclasses.dataclass(slots=True)
class SimulatedNetwork:
    """A network of the simulated cloud."""

    wanted: Wanted
    network_id: str
    subnet_id: str
    ports: int = 0


class Simulated:
    """Networks in memory."""

    name = "simulated"

    def __init__(self) -> None:
        self.networks: dict[str, SimulatedNetwork] = {}
        """The networks by the UID of their object."""

    async def ensure(self, wanted: Wanted) -> Actual:
        """Create what is missing and repair what differs."""
        wanted = dataclasses.replace(wanted, network_id="")
        found = self.networks.get(wanted.uid)
        if found is None:
            found = SimulatedNetwork(wanted, str(uuid.uuid4()), str(uuid.uuid4()))
            self.networks[wanted.uid] = found
            return Actual(found.network_id, found.subnet_id, ("created the network", f"created subnet {wanted.cidr}"))
        before, found.wanted = found.wanted, wanted
        changes: list[str] = []
        if before.cidr != wanted.cidr:
            found.subnet_id = str(uuid.uuid4())
            changes.append(f"replaced subnet {before.cidr} by {wanted.cidr}")
        elif before.gateway != wanted.gateway:
            changes.append(f"set the gateway to {wanted.gateway or 'none'}")
        return Actual(found.network_id, found.subnet_id, tuple(changes))

    async def delete(self, uid: str, namespace: str, network_id: str = "") -> bool:
        """Delete the network of an object; returns True if there was one."""
        found = self.networks.get(uid)
        if found is not None and found.ports:
            raise InUse(f"network {found.network_id} has {found.ports} ports")
        return self.networks.pop(uid, None) is not None

    async def owners(self) -> set[Owner]:
        """Return the objects that there are networks for."""
        return {Owner(uid, found.wanted.namespace) for uid, found in self.networks.items()}
