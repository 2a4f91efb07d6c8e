"""lightkube: a watch that retries on errors, as it offers; there is no cache."""

import asyncio

from lightkube import AsyncClient
from lightkube.resources.core_v1 import ConfigMap
from lightkube.types import on_error_retry

import report


async def main() -> None:
    report.show()
    async with AsyncClient() as client:
        async for kind, obj in client.watch(ConfigMap, namespace="default", on_error=on_error_retry):
            report.heard(kind, obj.metadata.name, obj.metadata.resourceVersion)


asyncio.run(main())
