"""kr8s: a watch; there is no cache."""

import asyncio

import kr8s.asyncio

import report


async def main() -> None:
    report.show()
    api = await kr8s.asyncio.api()
    async for kind, obj in api.watch("configmaps", namespace="default"):
        report.heard(kind, obj.name, obj.metadata.resourceVersion)


asyncio.run(main())
