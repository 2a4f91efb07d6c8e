"""Networks that are entries of a dictionary: enough to reconcile, with no effect outside this process."""

from collections.abc import Sequence

from vpc.backends.contract import Subnet


class Simulated:
    """Networks in memory."""

    name = "simulated"

    def __init__(self) -> None:
        self.networks: dict[str, list[Subnet]] = {}

    async def ensure(self, uid: str, subnets: Sequence[Subnet]) -> list[str]:
        """Make the network of an object have exactly these subnets; returns what was done."""
        before, wanted = self.networks.get(uid), list(subnets)
        self.networks[uid] = wanted
        return [] if before == wanted else [f"made {len(wanted)} subnets"]

    async def delete(self, uid: str) -> bool:
        """Delete the network of an object; returns True if there was one."""
        return self.networks.pop(uid, None) is not None
