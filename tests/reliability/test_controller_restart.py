"""The server is killed under a controller: in the end the controller has made exactly what the server holds.

The controller is the one of `examples/network` that is put together by hand; its backend fails now and then. Writers go on
through the kill as programs do, by trying again. The controller is not notified of the restart.
"""

import asyncio
import sys
from pathlib import Path

import pytest
import yaml
from live_server import LiveServer

from kapi import Client, NotFound, ObjectMeta
from kapi.api.errors import ServiceUnavailable
from kapi.client import DELETED
from kapi.client.errors import TransportError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "network"
sys.path.append(str(EXAMPLE))

from network_controller import controller  # noqa: E402
from network_controller.kind import Network, NetworkSpec  # noqa: E402
from network_controller.simulated import Simulated  # noqa: E402

DEFINITION = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
NETWORKS = 50
UPDATES = 500
WRITERS = 10
DOOMED = 10
FAILS_EVERY = 25
SECONDS = 180
"""For all of it, the restart included: a guard."""


class Progress:
    """A counter of progress with which callers wait for a number of steps."""

    def __init__(self):
        self._changed = asyncio.Event()

    def step(self):
        self._changed.set()

    async def until(self, condition):
        while not condition():
            self._changed.clear()
            await self._changed.wait()


class UnreliableBackend(Simulated):
    """Networks in memory. Every so many calls one fails: by turns without having done anything, and after it has."""

    def __init__(self):
        super().__init__()
        self.progress = Progress()
        self.calls = self.failures = 0

    async def ensure(self, wanted):
        return await self._perform(super().ensure, wanted)

    async def delete(self, uid, namespace, network_id=""):
        return await self._perform(super().delete, uid, namespace, network_id)

    async def _perform(self, action, *arguments):
        self.calls += 1
        fails = self.calls % FAILS_EVERY == 0
        result = await action(*arguments) if not fails or self.failures % 2 else None
        self.progress.step()
        if fails:
            self.failures += 1
            raise OSError("the backend is out of order")
        return result

    @property
    def made(self):
        return {one.wanted.name: (one.wanted.cidr, one.wanted.gateway) for one in self.networks.values()}


class Writers:
    """Programs that change networks; they try again when the server does not answer, once there is one."""

    def __init__(self, client):
        self.client = client
        self.server_is_up = asyncio.Event()
        self.server_is_up.set()
        self.progress = Progress()
        self.acknowledged = self.interrupted = self.in_flight = 0

    async def update(self, names, rounds):
        for number in range(1, rounds + 1):
            for name in names:
                patch = {"spec": {"gateway": f"10.0.0.{number}"}}
                await self._insist(lambda name=name, patch=patch: self.client.patch(Network, patch, name=name))
                self.acknowledged += 1
                self.progress.step()

    async def delete(self, names):
        for name in names:
            await self._insist(lambda name=name: self.client.delete(Network, name))

    async def _insist(self, request):
        tries = 0
        while True:
            tries += 1
            await self.server_is_up.wait()
            self.in_flight += 1
            self.progress.step()
            try:
                return await request()
            except (TransportError, ServiceUnavailable):
                self.interrupted += 1
            except NotFound:
                # The first try may have been heard and its answer lost.
                assert tries > 1
                return None
            finally:
                self.in_flight -= 1


def network(name):
    spec = NetworkSpec(cidr="10.0.0.0/8", gateway="10.0.0.0")
    return Network(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


async def write_through_a_kill(server, writers, names, doomed):
    """All updates and deletions, with the server killed and started again in the middle; updates done at the kill."""
    shares = [names[number::WRITERS] for number in range(WRITERS)]
    async with asyncio.TaskGroup() as group:
        for share in shares:
            group.create_task(writers.update(share, UPDATES // NETWORKS))
        await writers.progress.until(lambda: writers.acknowledged >= UPDATES // 2)
        # Some deletions are heard of before the end, some are asked for when it comes, some after it.
        deleting = [group.create_task(writers.delete(doomed[number::WRITERS])) for number in range(WRITERS)]
        await asyncio.wait(deleting, return_when=asyncio.FIRST_COMPLETED)
        # Requests that were committed together are answered together. The next ones must be on their way.
        await writers.progress.until(lambda: writers.in_flight > 0)
        writers.server_is_up.clear()
        server.kill()
        at_kill = writers.acknowledged
        await asyncio.to_thread(server.start)
        writers.server_is_up.set()
    return at_kill


async def run(server):
    names = [f"n{number}" for number in range(NETWORKS)]
    doomed = [f"d{number}" for number in range(DOOMED)]
    stop = asyncio.Event()
    async with Client.connect(kubeconfig=server.directory / "admin.kubeconfig", field_manager="tests") as client:
        await client.apply(yaml.safe_load((EXAMPLE / "crd.yaml").read_text()))
        await client.wait_for(DEFINITION, "networks.samplecrd.k8s.io", "condition=Established")
        for name in [*names, *doomed]:
            await client.create(network(name))
        backend, writers = UnreliableBackend(), Writers(client)
        running = asyncio.create_task(controller.run(client, backend, stop, backoff=0.005))
        await backend.progress.until(lambda: len(backend.networks) == NETWORKS + DOOMED)
        at_kill = await write_through_a_kill(server, writers, names, doomed)
        wanted = dict.fromkeys(names, ("10.0.0.0/8", f"10.0.0.{UPDATES // NETWORKS}"))
        # No client writes the networks any more, so the controller must converge.
        await backend.progress.until(lambda: backend.made == wanted)
        for name in doomed:
            await client.wait_for(Network, name, DELETED, namespace="default", timeout=SECONDS)
        held = {one.metadata.name: (one.spec.cidr, one.spec.gateway) for one in await client.list(Network)}
        assert held == wanted
        stop.set()
        await running
        assert backend.made == wanted, "what was in the queue when it stopped changed something"
    return at_kill, writers, backend


@pytest.mark.slow
def test_a_controller_reconciles_across_server_kills(tmp_path):
    async def bounded():
        async with asyncio.timeout(SECONDS):
            return await run(server)

    server = LiveServer(tmp_path / "data")
    # Every commit takes a moment, so that no request that is in flight at the kill has been answered.
    server.environment = {"KAPI_FAILPOINTS": "storage.before_commit=sleep:0.02"}
    with server:
        at_kill, writers, backend = asyncio.run(bounded())
    print(
        f"\n{writers.acknowledged} updates, {at_kill} before the kill, {writers.interrupted} tries in vain; "
        f"{backend.calls} reconciles, {backend.failures} of them failed"
    )
    assert writers.acknowledged == UPDATES
    # The figure counts only if the server was killed under load, and the backend did fail.
    assert UPDATES // 2 <= at_kill < UPDATES
    assert writers.interrupted
    assert backend.failures
