"""A controller put together by hand: informer, lister, work queue, workers. No builder, no manager.

kubectl apply -f examples/network/crd.yaml
python examples/network/controller.py --kubeconfig ~/.kube/config
kubectl apply -f examples/network/example-network.yaml
"""

import argparse
import asyncio
import logging
import signal

import msgspec

from kapi import Client, ClientConfig, CustomResource, Model, ObjectKey, SharedInformerFactory, resource
from kapi.controller.queue import QueueShutDown, RateLimitingQueue
from kapi.informer import Cached, SharedInformer

log = logging.getLogger("network-controller")


class NetworkSpec(Model):
    cidr: str = ""
    gateway: str = ""


@resource("samplecrd.k8s.io/v1", status=False)
class Network(CustomResource, kw_only=True):
    spec: NetworkSpec = msgspec.field(default_factory=NetworkSpec)


class Backend:
    """Stands in for whatever makes real networks. Both methods may be called again without harm."""

    def __init__(self) -> None:
        self.networks: dict[ObjectKey, NetworkSpec] = {}

    async def ensure(self, key: ObjectKey, spec: NetworkSpec) -> None:
        if self.networks.get(key) != spec:
            self.networks[key] = spec
            log.info("made %s: %s by %s", key, spec.cidr, spec.gateway)

    async def remove(self, key: ObjectKey) -> None:
        if self.networks.pop(key, None) is not None:
            log.info("removed %s", key)


class Controller:
    def __init__(self, networks: SharedInformer[Network], backend: Backend) -> None:
        self.lister = networks.lister
        self.synced = networks.wait_for_sync
        self.queue: RateLimitingQueue[ObjectKey] = RateLimitingQueue("Networks")
        self.backend = backend
        # The raw form: a handler needs a key and no more, so nothing is decoded for it.
        networks.add_raw_handler(self, name="network-controller")

    # Event handlers: whatever happened, all that is kept of it is which object to look at.

    def on_add(self, obj: Cached[Network], *, initial: bool) -> None:
        self.queue.add(obj.key)

    def on_update(self, old: Cached[Network], new: Cached[Network]) -> None:
        # A resync shows what is known already; two states of one object have two resourceVersions.
        if old.resource_version != new.resource_version:
            self.queue.add(new.key)

    def on_delete(self, obj: Cached[Network], *, stale: bool) -> None:
        # When the deletion itself was missed (`stale`), this is a tombstone: its key is right, its content may be old.
        self.queue.add(obj.key)

    async def run(self, workers: int, stop: asyncio.Event) -> None:
        """Work until told to stop; what is in the queue by then is finished first."""
        log.info("waiting for the cache")
        synced, stopped = asyncio.create_task(self.synced()), asyncio.create_task(stop.wait())
        await asyncio.wait([synced, stopped], return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            # A worker that saw half a cache would take what it does not find for deleted.
            log.info("starting %d workers", workers)
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self.run_worker())
                await stopped
                log.info("stopping")
                self.queue.shut_down()
        synced.cancel()

    async def run_worker(self) -> None:
        while await self.process_next_item():
            pass

    async def process_next_item(self) -> bool:
        """Take one key, handle it, and say how it went; False when there will be no more."""
        try:
            key = await self.queue.get()
        except QueueShutDown:
            return False
        try:
            await self.sync_handler(key)
        except Exception:
            # Again, but not at once: 5 ms from now, then 10, then 20, while other keys go on.
            self.queue.add_rate_limited(key)
            log.exception("%s failed and will be tried again", key)
        else:
            # No more tries are owed: its next failure starts from 5 ms.
            self.queue.forget(key)
        finally:
            # Only now may a worker have this key again.
            self.queue.done(key)
        return True

    async def sync_handler(self, key: ObjectKey) -> None:
        """Compare what is wanted with what is, and make it so. What led here is not asked."""
        network = self.lister.by_key(key)
        if network is None:
            await self.backend.remove(key)
        else:
            await self.backend.ensure(key, network.spec)


async def main(config: ClientConfig) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Client(config) as client:
        factory = SharedInformerFactory(client.rest, mapper=client.mapper)
        controller = Controller(factory.informer(Network), Backend())
        # Handlers are added before informers are started, so that they get every event.
        async with factory:
            await controller.run(2, stop)


if __name__ == "__main__":
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--kubeconfig", help="else $KUBECONFIG, ~/.kube/config, or the pod's account")
    flags.add_argument("--master", default="", help="the address of the server, instead of the kubeconfig's")
    given = flags.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    asyncio.run(main(ClientConfig.load(kubeconfig=given.kubeconfig, server=given.master)))
