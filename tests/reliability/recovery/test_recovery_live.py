"""An informer on a real server that is killed, and started again, in the middle of what it follows."""

import asyncio
import contextlib
from random import Random

import pytest

from kapi.api.builtin.core_v1 import ConfigMap
from kapi.api.errors import ApiError
from kapi.api.meta import GroupVersionResource
from kapi.client import ClientConfig, ClientError, DynamicClient, RESTClient
from kapi.informer import Handlers, Pace, SharedInformerFactory
from kapi.informer.backoff import Delays
from reliability.live_server import LiveServer

CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
KILLS = 3
WRITERS = 4
PATIENCE = 60


async def write(objects, number, stop):
    """Create, change and delete objects at random until stopped; failed requests are retried."""
    random = Random(number)
    while not stop.is_set():
        name = f"w{number}-{random.randrange(8)}"
        with contextlib.suppress(ApiError, ClientError):
            await random.choice(
                [
                    lambda name: objects.create({"metadata": {"name": name}, "data": {"v": "0"}}),
                    lambda name: objects.patch(name, {"data": {"v": str(random.random())}}),
                    lambda name: objects.patch(name, {"data": {"w": str(random.random())}}),
                    objects.delete,
                ]
            )(name)


class Believer:
    """Event handlers that keep the objects they were notified of, and nothing else."""

    def __init__(self):
        self.known = {}
        self.seen = {}

    def handlers(self):
        return Handlers(on_add=self.add, on_update=self.update, on_delete=self.delete)

    def _is_later(self, obj):
        assert obj.revision > self.seen.get(obj.key, 0)
        self.seen[obj.key] = obj.revision

    def add(self, obj):
        assert obj.key not in self.known
        self._is_later(obj)
        self.known[obj.key] = obj.resource_version

    def update(self, old, new):
        assert self.known[old.key] == old.resource_version
        self._is_later(new)
        self.known[new.key] = new.resource_version

    def delete(self, obj):
        del self.known[obj.key]


@pytest.mark.slow
def test_the_informer_store_is_exact_after_any_server_failure(tmp_path, caplog):
    async def main(server, config):
        pace = Pace(delays=Delays(first=0.05, longest=0.5))
        async with RESTClient(config) as rest, SharedInformerFactory(rest, pace=pace) as factory:
            informer, believer = factory.informer(ConfigMap, namespace="default"), Believer()
            informer.add_raw_handler(believer.handlers())
            objects, stop = DynamicClient(rest).resource(CONFIG_MAPS, "default"), asyncio.Event()
            writers = [asyncio.create_task(write(objects, number, stop)) for number in range(WRITERS)]
            for _ in range(KILLS):
                await until_seen(believer, 100)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await until_seen(believer, 100)
            stop.set()
            await asyncio.gather(*writers)
            await until_equal(objects, informer, believer)
            assert informer.reflector.last_error is None

    with LiveServer(tmp_path / "data") as server:
        config = ClientConfig.from_kubeconfig(tmp_path / "data" / "admin.kubeconfig")
        asyncio.run(main(server, config))
    assert "handler" not in caplog.text


async def until_seen(believer, more):
    """Wait until the handler has heard of so many more revisions."""
    goal = max(believer.seen.values(), default=0) + more
    async with asyncio.timeout(PATIENCE):
        while max(believer.seen.values(), default=0) < goal:  # noqa: ASYNC110 - the handler is the thing under test
            await asyncio.sleep(0.01)


async def until_equal(objects, informer, believer):
    page = await objects.list()
    expected = {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in page["items"]}
    cache = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while cache != expected or {key.name: version for key, version in believer.known.items()} != expected:
                await asyncio.sleep(0.01)
                cache = {obj.key.name: obj.resource_version for obj in informer.lister.cached.list()}
    assert cache == expected
    assert {key.name: version for key, version in believer.known.items()} == expected
