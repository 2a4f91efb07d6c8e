"""One of several manager processes: while it leads, it writes its name and a count into the ledger, ten times a second.

Usage: leader_worker.py KUBECONFIG IDENTITY. Ends with status 3 when it has lost its lease.
"""

import asyncio
import sys

from kapi import Client, Leadership, Manager, Request, Result
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.controller.manager import LeadershipLost

LOST = 3
CLOCK = "clock"
LEDGER = "ledger"
PAUSE = 0.1
LEASE_SECONDS = 2.0


async def main(kubeconfig: str, identity: str) -> None:
    lease = Leadership(
        "ledger-writers", "default", identity, lease_seconds=LEASE_SECONDS, renew_seconds=1.2, retry_seconds=0.2
    )
    async with Client.connect(kubeconfig=kubeconfig, field_manager=identity) as client:
        manager = Manager(client, namespace="default", leadership=lease)
        count = 0

        async def reconcile(request: Request) -> Result | None:
            nonlocal count
            if request.name != CLOCK:
                return None
            count += 1
            # Without a resourceVersion: the server accepts this from any process, so only the lease prevents two writers.
            patch = {"data": {"writer": identity, "count": str(count)}}
            await manager.live.patch(ConfigMap, patch, name=LEDGER, namespace="default")
            return Result(requeue_after=PAUSE)

        manager.builder().for_(ConfigMap).complete(reconcile)
        await manager.run()


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except LeadershipLost as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(LOST)
