"""The client of the API server in the same process."""

import asyncio

import pytest

from api_client import CM, Api, cm
from controller_api import with_controllers
from kapi.api.errors import NotFound
from kapi.client.errors import ConnectionLost
from kapi.controlplane.loopback import loopback_client
from virtual_time import run


def test_the_loopback_client_creates_reads_and_watches():
    @with_controllers()
    async def check(api):
        client = loopback_client(api.transport, agent="an-agent")
        await client.create(cm("a", data={"x": "1"}))
        made = await client.get(("v1", "ConfigMap"), "a")
        assert made["metadata"]["managedFields"][0]["manager"] == "an-agent"
        with pytest.raises(NotFound, match='configmaps "b" not found'):
            await client.get(("v1", "ConfigMap"), "b")
        async with client.watch(("v1", "ConfigMap"), resource_version=made["metadata"]["resourceVersion"]) as events:
            await client.delete(("v1", "ConfigMap"), "a")
            event = await anext(events)
            assert (event.type, event.object["metadata"]["name"]) == ("DELETED", "a")

    check()


def test_a_dropped_stream_is_a_lost_connection():
    async def main():
        api = Api()
        await api.start()
        client = loopback_client(api.transport, agent="slow")
        async with client.rest.stream("/api/v1/configmaps", query={"watch": "true"}) as lines:
            await api.made(CM, cm("a"))
            assert await anext(lines)
            await asyncio.sleep(1)
            (watcher,) = api.catalog.store("configmaps").cache._watchers
            watcher.outlet.abort()
            with pytest.raises(ConnectionLost):
                _ = [line async for line in lines]
        await api.stop()

    run(main())
