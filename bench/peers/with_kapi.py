"""Kapi: a manager with one controller, which reads each object from the cache, decoded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tally import NAMESPACE, STAMP, Tally

# The HTTP library, which would otherwise be imported with the first request; others import theirs at once.
import kapi.client.transport.httptransport  # noqa: F401
from kapi.api.builtin.core_v1 import Pod
from kapi.client.client import Client
from kapi.controller.manager import Manager

if TYPE_CHECKING:
    from kapi.controller.reconcile import Request


async def main() -> None:
    """Follow."""
    tally = Tally()
    async with Client.connect() as client:
        manager = Manager(client, namespace=NAMESPACE)
        pods = manager.informers.informer(Pod)

        async def reconcile(request: Request) -> None:
            pod = pods.lister.by_key(request)
            if pod is not None:
                tally.reconciled(request.name, pod.metadata.annotations[STAMP])

        manager.builder().for_(Pod).complete(reconcile)
        tally.wait_for_start()
        running = asyncio.create_task(manager.run())
        await pods.wait_for_sync()
        tally.synced()
        await running


asyncio.run(main())
