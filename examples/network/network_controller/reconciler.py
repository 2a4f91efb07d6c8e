"""The same controller with a manager, which brings cache, queue, workers, leader election, metrics and probes."""

from kapi import Manager, Request, Result
from kapi.controller.predicate import generation_changed
from kapi.controller.queue.ratelimit import ItemExponential

from .backend import Backend, BackendError
from .kind import Network
from .sweep import Sweeper
from .sync import NetworkSync


class NetworkReconciler:
    """Makes a pass over each Network that changes, and again every `resync` seconds."""

    def __init__(self, manager: Manager, backend: Backend, *, resync: float = 60.0) -> None:
        self._client = manager.client
        self._sync = NetworkSync(manager.client, manager.recorder("samplecrd.k8s.io/network-controller"), backend)
        self._resync = resync

    async def reconcile(self, request: Request) -> Result | None:
        network = await self._client.find(Network, request)
        if network is None:
            return None
        try:
            await self._sync.sync(network)
        except BackendError as error:
            if not error.retry_after:
                raise
            return Result(requeue_after=error.retry_after)
        # The networks can be changed by others, and Neutron does not tell.
        return Result(requeue_after=self._resync)


def setup(
    manager: Manager, backend: Backend, *, resync: float = 60.0, backoff: float = 0.5, sweep: float = 300.0
) -> None:
    """Add the controller and the sweep to a manager; all times are in seconds."""
    (
        manager.builder()
        # Not for what the controller itself writes into the status.
        .for_(Network, generation_changed)
        .with_options(workers=4, rate_limiter=ItemExponential(backoff, 60.0))
        .complete(NetworkReconciler(manager, backend, resync=resync))
    )
    manager.add(Sweeper(manager.live, backend, sweep, manager.namespaces))
