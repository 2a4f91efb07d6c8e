"""Deletes networks whose object is gone: a create that was carried out after its controller had been given up.

The backend is asked first and the API server second, without a cache: a UID is never used again, so an object that is
not there after its network was seen has been deleted.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from kapi import ApiError, Client
from kapi.api.access import uid_of
from kapi.client.client import ALL_NAMESPACES
from kapi.client.errors import ClientError

from .backend import Backend, BackendError
from .kind import Network

log = logging.getLogger("network-controller")


async def sweep(client: Client, backend: Backend, namespaces: Sequence[str] = ()) -> int:
    """Delete the networks of objects that are gone, only those of `namespaces` if any are given; returns how many."""
    found = {owner for owner in await backend.owners() if not namespaces or owner.namespace in namespaces}
    if not found:
        return 0
    uids: set[str] = set()
    for namespace in namespaces or (ALL_NAMESPACES,):
        uids |= {uid_of(one) for one in await client.list_metadata(Network, namespace=namespace)}
    orphans = [owner for owner in found if owner.uid not in uids]
    for owner in orphans:
        await backend.delete(owner.uid, owner.namespace)
        log.warning("deleted the network of object %s in %s, which is gone", owner.uid, owner.namespace)
    return len(orphans)


class Sweeper:
    """Sweeps at once and then every so many seconds, until stopped; a manager runs it in the process that leads."""

    name = "sweep"
    needs_leader_election = True

    def __init__(self, client: Client, backend: Backend, seconds: float, namespaces: Sequence[str] = ()) -> None:
        self._client = client
        self._backend = backend
        self._seconds = seconds
        self._namespaces = namespaces
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Sweep until `stop`; a sweep that fails is made again the next time."""
        while not self._stopped.is_set():
            try:
                await sweep(self._client, self._backend, self._namespaces)
            except (BackendError, ApiError, ClientError) as error:
                log.warning("sweep failed: %s", error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._stopped.wait()

    def stop(self) -> None:
        """End after the sweep that is being made."""
        self._stopped.set()
