"""Runs the parts of housekeeping that were asked for, in one manager on the in-process transport."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from kapi.controller.manager import Manager
from kapi.controlplane.controllers.disruption.controller import count_disruptions
from kapi.controlplane.controllers.endpoints.lists import list_endpoints
from kapi.controlplane.controllers.endpoints.mirrors import mirror_endpoints
from kapi.controlplane.controllers.endpoints.own_endpoints import keep_own_endpoints
from kapi.controlplane.controllers.endpoints.slices import slice_endpoints
from kapi.controlplane.controllers.eventttl import expire_events
from kapi.controlplane.controllers.furnish import keep_accounts, publish_authority
from kapi.controlplane.controllers.garbagecollector.collector import collect_garbage
from kapi.controlplane.controllers.house import House
from kapi.controlplane.controllers.inventory import Inventory
from kapi.controlplane.controllers.namespace import empty_namespaces
from kapi.controlplane.controllers.podgc import collect_pods
from kapi.controlplane.controllers.resourcequota.controller import count_quotas
from kapi.controlplane.controllers.serviceaccounttoken import issue_tokens
from kapi.controlplane.controllers.ttlafterfinished import remove_finished
from kapi.controlplane.controllers.volumeprotection import protect_claims, protect_classes, protect_volumes
from kapi.controlplane.loopback import loopback_client
from kapi.server.transport.inprocess import InProcessTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from prometheus_client import CollectorRegistry

    from kapi.base.clock import Clock
    from kapi.controlplane.controllers.house import Settings
    from kapi.registry.catalog import Catalog
    from kapi.server.transport.message import Handler

    Part = Callable[[House], None]

USER: Final = "system:kube-controller-manager"
AGENT: Final = "kube-controller-manager"
"""Who housekeeping is in managedFields: what tools know from elsewhere."""
STOP_SECONDS: Final = 5.0
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0

PARTS: Final[Mapping[str, Part]] = {
    "garbage-collector-controller": collect_garbage,
    "namespace-controller": empty_namespaces,
    "serviceaccount-controller": keep_accounts,
    "root-ca-certificate-publisher-controller": publish_authority,
    "pod-garbage-collector-controller": collect_pods,
    "serviceaccount-token-controller": issue_tokens,
    "endpointslice-controller": slice_endpoints,
    "endpoints-controller": list_endpoints,
    "endpointslice-mirroring-controller": mirror_endpoints,
    "resourcequota-controller": count_quotas,
    "ttl-after-finished-controller": remove_finished,
    "event-expiry-controller": expire_events,
    "persistentvolumeclaim-protection-controller": protect_claims,
    "persistentvolume-protection-controller": protect_volumes,
    "volumeattributesclass-protection-controller": protect_classes,
    "disruption-controller": count_disruptions,
}
"""What puts each controller together, by its name."""

_log = structlog.get_logger("kapi.housekeeping")


def parts_of(enabled: Collection[str]) -> list[Part]:
    """What puts the controllers of these names together, and what a server does of itself whatever is switched off."""
    return [keep_own_endpoints, *(part for name, part in PARTS.items() if name in enabled)]


async def keep_house(
    handler: Handler,
    catalog: Catalog,
    parts: Iterable[Part],
    *,
    settings: Settings,
    registry: CollectorRegistry,
    clock: Clock,
) -> None:
    """Run parts of housekeeping until cancelled; what they are at is then brought to its end, if that comes soon.

    A failure that a controller cannot keep to one key ends all of them, and is a mistake of ours. They are then started
    anew, after a pause: a server that does not collect should not need somebody to notice.
    """
    parts = list(parts)
    pause = FIRST_PAUSE
    while True:
        transport = InProcessTransport(handler, USER)
        client = loopback_client(transport, agent=AGENT, clock=clock)
        manager = Manager(client, namespace="", clock=clock, registry=registry)
        house = House(manager, Inventory(catalog), settings)
        started = clock.monotonic()
        try:
            for part in parts:
                part(house)
            await _run(manager)
        except Exception:
            if clock.monotonic() - started > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            _log.exception("housekeeping has failed and is started again", seconds=pause)
        finally:
            await client.close()
            await transport.close()
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


async def _run(manager: Manager) -> None:
    """Run a manager; when this is cancelled, the manager comes to its end first, or is left to the event loop's.

    What somebody else keeps waiting, such as a webhook that does not answer, must not keep the server from stopping.
    Whatever is left undone is found again by the next start, as after a kill.
    """
    running = asyncio.ensure_future(manager.run(signals=False))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        manager.stop()
        _, late = await asyncio.wait([running], timeout=STOP_SECONDS)
        for task in late:
            _log.warning("housekeeping is stopped in the middle of something")
            task.cancel()
            await asyncio.wait([task], timeout=STOP_SECONDS)
        raise
