"""kr8s: a watch from the beginning, which shows first what is there, into a dictionary.

Its list does not say which version it is of, so there is no watching on from a list.
"""

from __future__ import annotations

import asyncio

import kr8s.asyncio
from by_hand import Store
from tally import NAMESPACE, STAMP, Tally


async def main() -> None:
    """Follow."""
    tally = Tally()
    store = Store(tally, lambda pod: pod.raw["metadata"]["annotations"][STAMP])
    api = await kr8s.asyncio.api()
    tally.wait_for_start()
    worker = asyncio.create_task(store.work())
    has_synced = False
    while not worker.done():
        async for _, pod in api.watch("pods", namespace=NAMESPACE):
            store.put(pod.name, pod)
            if not has_synced and len(store) == tally.objects:
                has_synced = True
                tally.synced()


asyncio.run(main())
