"""cloudcoil: an informer of its cache, with handlers; its view is what the informer lists."""

import asyncio

from cloudcoil.client import Config
from cloudcoil.models.kubernetes.core.v1 import ConfigMap

import report


def report_event(kind: str, obj: ConfigMap) -> None:
    report.heard(kind, obj.metadata.name, obj.metadata.resource_version)


async def main() -> None:
    config = Config(cache=True)
    async with config:
        informer = config.cache.get_informer(ConfigMap, sync=False)
        informer.on_add(lambda obj: report_event("ADDED", obj))
        informer.on_update(lambda _, obj: report_event("MODIFIED", obj))
        informer.on_delete(lambda obj: report_event("DELETED", obj))
        report.show(lambda: {obj.metadata.name: obj.metadata.resource_version for obj in informer.list()})
        await asyncio.Event().wait()


asyncio.run(main())
