"""The controller set: runs the enabled built-in controllers in one manager, on the in-process transport."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import structlog

from kapi.controller.manager import LeadershipLost, Manager
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.certificates.approving import add_certificate_approving_controller
from kapi.controlplane.controllers.certificates.cleaner import add_certificate_cleaner_controller
from kapi.controlplane.controllers.certificates.signing import add_certificate_signing_controller
from kapi.controlplane.controllers.clusterroleaggregation import add_clusterrole_aggregation_controller
from kapi.controlplane.controllers.context import ControllerContext
from kapi.controlplane.controllers.cronjob.controller import add_cronjob_controller
from kapi.controlplane.controllers.disruption.controller import add_disruption_controller
from kapi.controlplane.controllers.endpoints.controller import add_endpoints_controller
from kapi.controlplane.controllers.endpointslice.controller import add_endpointslice_controller
from kapi.controlplane.controllers.endpointslicemirroring.controller import add_endpointslice_mirroring_controller
from kapi.controlplane.controllers.eventttl import add_event_ttl_controller
from kapi.controlplane.controllers.garbagecollector.collector import add_garbage_collector
from kapi.controlplane.controllers.identity import APISERVER, CONTROLLER_MANAGER, identity_of
from kapi.controlplane.controllers.kubernetesservice import add_kubernetes_service_controller
from kapi.controlplane.controllers.namespace.controller import add_namespace_controller
from kapi.controlplane.controllers.namespacepopulation import namespace_store
from kapi.controlplane.controllers.podgarbagecollector import add_pod_garbage_collector
from kapi.controlplane.controllers.resourcequota.controller import add_resourcequota_controller
from kapi.controlplane.controllers.rootcacertificatepublisher import add_root_ca_certificate_publisher
from kapi.controlplane.controllers.serviceaccount import add_serviceaccount_controller
from kapi.controlplane.controllers.serviceaccounttoken import add_serviceaccount_token_controller
from kapi.controlplane.controllers.servicecidr import add_service_cidr_controller
from kapi.controlplane.controllers.ttlafterfinished import add_ttl_after_finished_controller
from kapi.controlplane.controllers.validatingadmissionpolicystatus import (
    add_validatingadmissionpolicy_status_controller,
)
from kapi.controlplane.controllers.view import CacheView
from kapi.controlplane.controllers.volumeprotection.persistentvolume import (
    add_persistentvolume_protection_controller,
)
from kapi.controlplane.controllers.volumeprotection.persistentvolumeclaim import (
    add_persistentvolumeclaim_protection_controller,
)
from kapi.controlplane.controllers.volumeprotection.volumeattributesclass import (
    add_volumeattributesclass_protection_controller,
)
from kapi.controlplane.loopback import loopback_client
from kapi.server.transport.inprocess import InProcessTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from prometheus_client import CollectorRegistry

    from kapi.base.clock import Clock
    from kapi.client.client import Client
    from kapi.controller.manager import Leadership
    from kapi.controlplane.controllers.context import ControllerSettings
    from kapi.controlplane.controllers.identity import Identity
    from kapi.registry.catalog import Catalog
    from kapi.server.transport.message import Handler

    AddController = Callable[[ControllerContext], None]

AGENT: Final = "kube-controller-manager"
"""The field manager of the built-in controllers in managedFields, as in Kubernetes."""
STOP_SECONDS: Final = 5.0
LEASE: Final = "kapi-controllers"
"""The Lease of the leader. Not kube-controller-manager's: that program may run, too, with controllers of its own."""

CONTROLLERS: Final[Mapping[str, AddController]] = {
    names.GARBAGE_COLLECTOR: add_garbage_collector,
    names.NAMESPACE: add_namespace_controller,
    names.SERVICEACCOUNT: add_serviceaccount_controller,
    names.ROOT_CA_CERTIFICATE_PUBLISHER: add_root_ca_certificate_publisher,
    names.POD_GARBAGE_COLLECTOR: add_pod_garbage_collector,
    names.SERVICEACCOUNT_TOKEN: add_serviceaccount_token_controller,
    names.ENDPOINTSLICE: add_endpointslice_controller,
    names.ENDPOINTS: add_endpoints_controller,
    names.ENDPOINTSLICE_MIRRORING: add_endpointslice_mirroring_controller,
    names.RESOURCEQUOTA: add_resourcequota_controller,
    names.TTL_AFTER_FINISHED: add_ttl_after_finished_controller,
    names.CRONJOB: add_cronjob_controller,
    names.EVENT_TTL: add_event_ttl_controller,
    names.PERSISTENTVOLUMECLAIM_PROTECTION: add_persistentvolumeclaim_protection_controller,
    names.PERSISTENTVOLUME_PROTECTION: add_persistentvolume_protection_controller,
    names.VOLUMEATTRIBUTESCLASS_PROTECTION: add_volumeattributesclass_protection_controller,
    names.DISRUPTION: add_disruption_controller,
    names.SERVICE_CIDR: add_service_cidr_controller,
    names.CLUSTERROLE_AGGREGATION: add_clusterrole_aggregation_controller,
    names.CERTIFICATE_SIGNING: add_certificate_signing_controller,
    names.CERTIFICATE_APPROVING: add_certificate_approving_controller,
    names.CERTIFICATE_CLEANER: add_certificate_cleaner_controller,
    names.VALIDATINGADMISSIONPOLICY_STATUS: add_validatingadmissionpolicy_status_controller,
}
"""The function that adds each controller to a context, by name."""
_NAMES: Final = {add: name for name, add in CONTROLLERS.items()}

_log = structlog.get_logger("kapi.controllers")


def controllers_named(enabled: Collection[str]) -> list[AddController]:
    """The functions that add the enabled controllers, and the one that no option disables."""
    return [add_kubernetes_service_controller, *(add for name, add in CONTROLLERS.items() if name in enabled)]


class ControllerSet:
    """The built-in controllers of one server.

    With a `leadership` the controllers run while this process holds its Lease: they start when it is acquired, and no
    request of theirs is sent once it is lost. Without one this process always leads, and no Lease is written: so it is
    on a store that no other server shares.
    """

    def __init__(
        self,
        handler: Handler,
        catalog: Catalog,
        controllers: Iterable[AddController],
        *,
        settings: ControllerSettings,
        registry: CollectorRegistry,
        clock: Clock,
        leadership: Leadership | None = None,
    ) -> None:
        self._handler = handler
        self._catalog = catalog
        self._controllers = list(controllers)
        self._settings = settings
        self._registry = registry
        self._clock = clock
        self._leadership = leadership

    async def run(self) -> None:
        """Run the controllers until cancelled; reconciles in progress may then finish, for `STOP_SECONDS`.

        A failure that a controller cannot keep to one key ends all of them and is raised: the supervisor starts them
        again. When the Lease is lost, they are started again here, to wait for the next term.
        """
        while True:
            try:
                await self._run_once()
            except LeadershipLost as lost:
                _log.warning("leadership lost; controllers stopped", reason=str(lost))
            else:
                return

    async def _run_once(self) -> None:
        """Run a manager with all controllers until it fails or loses its leadership."""
        async with contextlib.AsyncExitStack() as resources:
            # The Lease is not that of kube-controller-manager, whose role allows it to write that one only.
            client = self._client(CONTROLLER_MANAGER if self._leadership is None else APISERVER, resources)
            manager = Manager(
                client, namespace="", leadership=self._leadership, clock=self._clock, registry=self._registry
            )
            view, populating = CacheView(self._catalog), namespace_store(self._catalog).populating
            for add in self._controllers:
                own = self._client(identity_of(_NAMES.get(add, "")), resources)
                charges = self._catalog.charges
                add(
                    ControllerContext(
                        manager, view, self._settings, rest=own.rest, populating=populating, charges=charges
                    )
                )
            await _run_manager(manager)

    def _client(self, identity: Identity, resources: contextlib.AsyncExitStack) -> Client:
        """Return a client that acts as a user: no credentials, no connection, and no cost but that of the request."""
        transport = InProcessTransport(self._handler, *identity)
        resources.push_async_callback(transport.close)
        client = loopback_client(transport, agent=AGENT, clock=self._clock)
        resources.push_async_callback(client.close)
        return client


async def _run_manager(manager: Manager) -> None:
    """Run a manager; when this is cancelled, stop it first, and cancel it if it does not stop in time.

    A webhook that does not answer must not keep the server from stopping. Whatever is left undone is found again by the
    next start, as after a kill.
    """
    running = asyncio.ensure_future(manager.run(signals=False))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        manager.stop()
        _, late = await asyncio.wait([running], timeout=STOP_SECONDS)
        for task in late:
            _log.warning("graceful stop of controllers timed out", seconds=STOP_SECONDS)
            task.cancel()
            await asyncio.wait([task], timeout=STOP_SECONDS)
        raise
