"""kubernetes_asyncio: a watch; there is no cache."""

import asyncio

from kubernetes_asyncio import client, config, watch

import report


async def main() -> None:
    await config.load_kube_config()
    report.show()
    async with client.ApiClient() as api, watch.Watch() as watcher:
        core = client.CoreV1Api(api)
        async for event in watcher.stream(core.list_namespaced_config_map, namespace="default"):
            report.heard(event["type"], event["object"].metadata.name, event["object"].metadata.resource_version)


asyncio.run(main())
