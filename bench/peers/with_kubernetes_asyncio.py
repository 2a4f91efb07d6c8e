"""kubernetes_asyncio: list, then watch from there, into a dictionary."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp
from by_hand import Store
from kubernetes_asyncio import client, config, watch
from tally import NAMESPACE, STAMP, Tally


async def main() -> None:
    """Follow."""
    tally = Tally()
    store = Store(tally, lambda pod: pod.metadata.annotations[STAMP])
    await config.load_kube_config()
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        tally.wait_for_start()
        listed = await core.list_namespaced_pod(NAMESPACE)
        for pod in listed.items:
            store.put(pod.metadata.name, pod)
        tally.synced()
        version = listed.metadata.resource_version
        del listed
        worker = asyncio.create_task(store.work())
        while not worker.done():
            events = watch.Watch().stream(core.list_namespaced_pod, NAMESPACE, resource_version=version)
            # A server may close a slow watch; the client resumes from the last resourceVersion.
            with contextlib.suppress(aiohttp.ClientPayloadError):
                async for event in events:
                    pod = event["object"]
                    version = pod.metadata.resource_version
                    store.put(pod.metadata.name, pod)


asyncio.run(main())
