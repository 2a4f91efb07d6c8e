"""lightkube: list, then watch from there, into a dictionary."""

from __future__ import annotations

import asyncio

from by_hand import Store
from lightkube import AsyncClient
from lightkube.resources.core_v1 import Pod
from tally import NAMESPACE, STAMP, Tally


async def main() -> None:
    """Follow."""
    tally = Tally()
    store = Store(tally, lambda pod: pod.metadata.annotations[STAMP])
    client = AsyncClient(namespace=NAMESPACE)
    tally.wait_for_start()
    listed = client.list(Pod)
    async for pod in listed:
        store.put(pod.metadata.name, pod)
    tally.synced()
    version = listed.resourceVersion
    worker = asyncio.create_task(store.work())
    async for _, pod in client.watch(Pod, resource_version=version):
        store.put(pod.metadata.name, pod)
    await worker


asyncio.run(main())
