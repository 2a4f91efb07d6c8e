"""The controller put together by hand: informer, lister, work queue, workers. No builder, no manager."""

import asyncio
import logging
from collections.abc import Sequence

from kapi import Client, EventRecorder, ObjectKey, SharedInformerFactory, TerminalError
from kapi.api.meta import GroupVersionResource
from kapi.client.dynamic import DynamicClient
from kapi.controller.queue import QueueShutDown, RateLimitingQueue
from kapi.controller.queue.ratelimit import ItemExponential
from kapi.informer import Cached, SharedInformer

from .backend import Backend, BackendError
from .kind import Network
from .sweep import Sweeper
from .sync import NetworkSync

EVENTS = GroupVersionResource("events.k8s.io", "v1", "events")

log = logging.getLogger("network-controller")


class Controller:
    """Queues the key of every Network that changes, and makes a pass over each key in the queue.

    `resync` is the number of seconds after which an object is looked at again although nothing has changed: the
    networks can be changed by others, and Neutron does not tell.
    """

    def __init__(
        self, networks: SharedInformer[Network], sync: NetworkSync, *, resync: float = 60.0, backoff: float = 0.5
    ) -> None:
        self.lister = networks.lister
        self.synced = networks.wait_for_sync
        # Neutron is not asked again 5 ms after it failed, which is the default of work queues.
        self.queue: RateLimitingQueue[ObjectKey] = RateLimitingQueue("Networks", limiter=ItemExponential(backoff, 60.0))
        self.sync = sync
        self.resync = resync
        # The raw form: a handler needs a key and no more, so nothing is decoded for it.
        networks.add_raw_handler(self, name="network-controller")

    # Event handlers: whatever happened, all that is kept of it is which object to look at.

    def on_add(self, obj: Cached[Network], *, initial: bool) -> None:
        self.queue.add(obj.key)

    def on_update(self, old: Cached[Network], new: Cached[Network]) -> None:
        # Two states of one object have two resourceVersions, and a resync shows one state twice. The generation tells
        # more: it changes with the spec and with a deletion, and not with what the controller itself writes.
        if old.generation != new.generation:
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
        """Take one key, handle it, and decide when it is handled again; returns False when there will be no more."""
        try:
            key = await self.queue.get()
        except QueueShutDown:
            return False
        try:
            await self.sync_handler(key)
        except TerminalError as error:
            self.queue.forget(key)
            log.error("%s cannot be reconciled before it is changed: %s", key, error)  # noqa: TRY400 - it says it all
        except BackendError as error:
            if error.retry_after:
                self.queue.add_after(key, error.retry_after)
            else:
                self.queue.add_rate_limited(key)
            log.warning("%s: %s: %s", key, error.reason, error)
        except Exception:
            # Again, but not at once: later with every failure, while other keys go on.
            self.queue.add_rate_limited(key)
            log.exception("%s failed and will be tried again", key)
        else:
            # No more tries are owed: its next failure starts from the shortest delay.
            self.queue.forget(key)
        finally:
            # Only now may a worker have this key again.
            self.queue.done(key)
        return True

    async def sync_handler(self, key: ObjectKey) -> None:
        """Compare what is wanted with what is, and make it so. What led here is not asked."""
        network = self.lister.by_key(key)
        if network is None:
            # It has been deleted, and was not before its finalizer was removed: nothing is left to do.
            return
        await self.sync.sync(network)
        self.queue.add_after(key, self.resync)


async def run(
    client: Client,
    backend: Backend,
    stop: asyncio.Event,
    namespaces: Sequence[str] = (),
    resync: float = 60.0,
    backoff: float = 0.5,
    sweep: float = 300.0,
) -> None:
    """Put everything together, and work until told to stop; all times are in seconds."""
    factory = SharedInformerFactory(client.rest, mapper=client.mapper, namespace=",".join(namespaces))
    sweeper = Sweeper(client, backend, sweep, namespaces)
    events = DynamicClient(client.rest)
    async with (
        EventRecorder(
            lambda namespace: events.resource(EVENTS, namespace), "samplecrd.k8s.io/network-controller"
        ) as recorder,
        asyncio.TaskGroup() as group,
    ):
        sync = NetworkSync(client, recorder, backend)
        controller = Controller(factory.informer(Network), sync, resync=resync, backoff=backoff)
        group.create_task(sweeper.run())
        # Handlers are added before informers are started, so that they get every event.
        async with factory:
            await controller.run(4, stop)
        sweeper.stop()
