"""kubernetes_asyncio: create, list, watch, patch, delete."""

import asyncio
import sys

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.exceptions import ApiException


async def main(namespace: str) -> None:
    await config.load_kube_config()
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        await core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=namespace)))
        secret = client.V1Secret(metadata=client.V1ObjectMeta(name="s"), string_data={"password": "hidden"})
        created = await core.create_namespaced_secret(namespace, secret)
        assert created.data == {"password": "aGlkZGVu"}, created.data
        assert created.type == "Opaque"
        print("created", created.metadata.name)

        listed = await core.list_namespaced_secret(namespace, field_selector="metadata.name=s")
        assert len(listed.items) == 1

        seen = []
        changing = asyncio.create_task(change(core, namespace))
        async with watch.Watch() as watcher:
            async for event in watcher.stream(
                core.list_namespaced_secret,
                namespace,
                resource_version=listed.metadata.resource_version,
                timeout_seconds=20,
            ):
                seen.append((event["type"], (event["object"].metadata.labels or {}).get("step")))
                if event["type"] == "DELETED":
                    break
        await changing
        assert seen == [("MODIFIED", "1"), ("MODIFIED", "2"), ("DELETED", "2")], seen
        print("watched", *(kind for kind, _ in seen))
        status = 200
        try:
            await core.read_namespaced_secret("s", namespace)
        except ApiException as error:
            status = error.status
        assert status == 404
        print("gone", status)


async def change(core: client.CoreV1Api, namespace: str) -> None:
    for step in ("1", "2"):
        await core.patch_namespaced_secret("s", namespace, {"metadata": {"labels": {"step": step}}})
    await core.delete_namespaced_secret("s", namespace)


asyncio.run(main(sys.argv[1]))
