"""Kapi: a shared informer with a handler; its view is the cache."""

import asyncio

import report
from kapi import Client, SharedInformerFactory
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.informer import Handlers


def report_event(kind: str, obj: ConfigMap) -> None:
    report.heard(kind, obj.metadata.name, obj.metadata.resource_version)


async def main() -> None:
    async with Client.connect() as client, SharedInformerFactory(client.rest) as factory:
        informer = factory.informer(ConfigMap, namespace="default")
        informer.add_handler(
            Handlers(
                on_add=lambda obj: report_event("ADDED", obj),
                on_update=lambda _, obj: report_event("MODIFIED", obj),
                on_delete=lambda obj: report_event("DELETED", obj),
            )
        )
        report.show(lambda: {obj.key.name: obj.resource_version for obj in informer.lister.cached.list()})
        await asyncio.Event().wait()


asyncio.run(main())
