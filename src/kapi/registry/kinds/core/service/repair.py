"""Repair of what is stored about cluster IPs and node ports, like the repair controllers of kube-apiserver.

A Service and what says which addresses and ports it holds are committed together, so they differ only where something
else wrote: an older version that kept no such records, or a client that deleted an IPAddress object. The repair creates
what is missing when the server starts, before it accepts requests, and an IPAddress that is deleted later at once.

Every commit compares what it was decided on. A repair that cannot be done is logged: it never keeps a server from
starting.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from kapi.registry.kinds.core.service.ranges import cluster_ips, node_ports
from kapi.registry.kinds.core.service.records import canonical, owner_of
from kapi.registry.kinds.core.service.services import ServiceStrategy
from kapi.storage.interface import (
    MAX_OPERATIONS,
    Check,
    OutcomeUnknown,
    RevisionMismatch,
    StorageBusy,
    StorageUnreachable,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kapi.base.clock import Clock
    from kapi.cache.watchcache import Event, Item
    from kapi.registry.catalog import Catalog
    from kapi.registry.kinds.core.service.records import ServiceRecords
    from kapi.registry.store import Store
    from kapi.storage.interface import Operation

ATTEMPTS: Final = 5
"""The number of times a repair is retried after another server was faster."""
BATCH: Final = MAX_OPERATIONS // 2
"""IPAddress objects per commit, each with a comparison of its Service."""
RETRY_SECONDS: Final = 1.0

_PART: Final = "registry.kinds.core.service.repair"

_log = structlog.get_logger("kapi.registry")


def service_repair(catalog: Catalog) -> ServiceRepair:
    """The repair of a server."""
    services = catalog.store("services")
    assert isinstance(services.strategy, ServiceStrategy)
    addresses = catalog.store("ipaddresses.networking.k8s.io")
    return ServiceRepair(services.strategy.records, services, addresses, catalog.clock)


class ServiceRepair:
    """Creates missing IPAddress objects and reservations of node ports. `services` and `addresses` are the stores."""

    def __init__(self, records: ServiceRecords, services: Store, addresses: Store, clock: Clock) -> None:
        self._records = records
        self._services = services
        self._addresses = addresses
        self._clock = clock
        self._deleted: asyncio.Queue[Item] = asyncio.Queue()
        self._is_restart = False

    # -- at the start -----------------------------------------------------------------------------------------------

    async def repair_all(self) -> None:
        """Make the records agree with the stored Services; what cannot be repaired is logged."""
        try:
            await self._until_committed(self._repair_ports)
            await self._until_committed(self._repair_addresses)
        except Exception:
            # Whatever was stored, the server has to start. Services work without the records; uniqueness suffers.
            _log.exception("records of cluster IPs and node ports could not be repaired")

    async def _until_committed(self, repair: Callable[[], Awaitable[None]]) -> None:
        for _ in range(ATTEMPTS):
            try:
                await repair()
            except RevisionMismatch:
                await self._services.catch_up()
            except (StorageBusy, StorageUnreachable, OutcomeUnknown):
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return
        _log.warning("records of cluster IPs or node ports could not be repaired", attempts=ATTEMPTS)

    async def _repair_ports(self) -> None:
        """Write the reservations anew where they are not what the Services hold."""
        held: dict[int, str] = {}
        for item in self._services.cache.items():
            with self._services.hub.invalid.guard(item.key, _PART):
                service = self._services.decode(item)
                owner = owner_of(service)
                for port in node_ports(service):
                    if held.setdefault(port, owner) != owner:
                        _log.warning("a node port is held by two Services", port=port, services=[held[port], owner])
        operations = self._records.replace_ports(held)
        if operations:
            _log.info("reservations of node ports are repaired", records=len(operations))
        for start in range(0, len(operations), MAX_OPERATIONS):
            await self._services.storage.commit(operations[start : start + MAX_OPERATIONS])

    async def _repair_addresses(self) -> None:
        """Create the IPAddress objects that Services lack."""
        missing: dict[str, Item] = {}
        for item in self._services.cache.items():
            with self._services.hub.invalid.guard(item.key, _PART):
                service = self._services.decode(item)
                for address in map(canonical, cluster_ips(service)):
                    if not self._records.is_free(address):
                        continue
                    if address in missing:
                        _log.warning("a cluster IP is held by two Services", address=address, service=owner_of(service))
                    missing.setdefault(address, item)
        if missing:
            _log.info("IPAddress objects of Services are created", count=len(missing))
        pairs = list(missing.items())
        for start in range(0, len(pairs), BATCH):
            batch = pairs[start : start + BATCH]
            checks = {item.key: Check(item.key, item.revision) for _, item in batch}
            await self._services.storage.commit([*(self._creation(*pair) for pair in batch), *checks.values()])

    def _creation(self, address: str, item: Item) -> Operation:
        return self._records.take_address(address, self._services.decode(item), self._clock.now())

    # -- later ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Restore every IPAddress object that is deleted while its Service holds the address, until cancelled."""
        self._addresses.cache.listen(self._heard)
        try:
            if self._is_restart:
                await self.repair_all()  # of what was deleted while nothing listened
            self._is_restart = True
            while True:
                item = await self._deleted.get()
                await self._until_committed(partial(self._restore, item))
        finally:
            self._addresses.cache.unlisten(self._heard)

    def _heard(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.deleted:
                self._deleted.put_nowait(event.item)

    async def _restore(self, item: Item) -> None:
        parent = self._addresses.decode(item).get("spec", {}).get("parentRef") or {}
        service = self._services.find(parent.get("namespace", ""), parent.get("name", ""))
        if service is None or parent.get("resource") != "services" or parent.get("group"):
            return
        held = map(canonical, cluster_ips(self._services.decode(service)))
        if item.name not in held or not self._records.is_free(item.name):
            return
        _log.warning("an IPAddress object was deleted while a Service holds the address", address=item.name)
        check = Check(service.key, service.revision)
        await self._services.storage.commit([self._creation(item.name, service), check])
