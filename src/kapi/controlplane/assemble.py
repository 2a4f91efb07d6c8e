"""The control plane, put together: store, cache, pipeline, transports, and the order in which they start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from kapi.base.clock import SystemClock
from kapi.base.log import ensure_configured
from kapi.controlplane import bootstrap
from kapi.controlplane.apiservices import ApiServiceRegistration
from kapi.controlplane.audit import auditor_for
from kapi.controlplane.authentication import Authentication
from kapi.controlplane.authorization import Authorization
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.namespacepopulation import namespace_populator, namespace_store
from kapi.controlplane.filewatch import FileWatch
from kapi.controlplane.flowcontrol import FlowSchemaStatus, ensure_flow_control
from kapi.controlplane.identitylease import IdentityLease
from kapi.controlplane.options import DRAIN_SECONDS, join_host_port
from kapi.controlplane.rbac.reconciliation import ensure_policy
from kapi.controlplane.supervisor import Supervisor
from kapi.controlplane.tokenuse import TokenUse
from kapi.registry.catalog import Catalog
from kapi.registry.custom.definitioncontroller import DefinitionController
from kapi.registry.kinds.core.service.repair import service_repair
from kapi.server.admission.certificates import certificate_plugins
from kapi.server.admission.chain import Admission
from kapi.server.admission.inuse import InUseProtection
from kapi.server.admission.lifecycle import NamespaceLifecycle
from kapi.server.flowcontrol.control import FlowControl
from kapi.server.flowcontrol.report import FlowControlMetrics
from kapi.server.pages.health import STORE, Health
from kapi.server.pages.metrics import Metrics
from kapi.server.pipeline import Pipeline
from kapi.server.routes import router
from kapi.server.services import Services
from kapi.server.transport.inprocess import InProcessTransport
from kapi.server.transport.serve import Server
from kapi.storage.compact import PROMISED_SECONDS, Compactor
from kapi.storage.memory import MemoryStorage
from kapi.storage.sqlite.scrub import Scrub
from kapi.storage.sqlite.storage import SqliteStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.base.http import Outbound
    from kapi.controlplane.options import Options
    from kapi.registry.custom.conversion import Converter
    from kapi.server.audit.auditor import Auditor
    from kapi.server.pages.health import Hook
    from kapi.storage.encryption.storage import ResourceProviders
    from kapi.storage.interface import Storage

COMPACTION_INTERVAL = 15.0
MAX_REVISIONS = 1_000_000
"""History beyond this many revisions is given up early, down to what clients are promised."""

_LOADED_HOOKS = ("start-apiextensions-informers", "crd-informer-synced", "storage-readiness")
"""Post-start hooks of kube-apiserver whose work is done here before the server listens."""
_STARTED_HOOKS = (
    "start-apiextensions-controllers",
    "start-system-namespaces-controller",
    "start-cluster-authentication-info-controller",
    "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector",
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "bootstrap-controller",
    "apiservice-registration-controller",
    "kube-apiserver-autoregistration",
)
"""Post-start hooks of kube-apiserver whose work is done while the server listens already."""

_log = structlog.get_logger("kapi.controlplane")


class ControlPlane:
    """One running control plane.

    `start` returns when requests are served and the system's objects exist. `failed` is done when the store has
    failed: the caller stops and exits non-zero. `stop` lets requests in flight finish, ends watches, and closes the
    store last.
    """

    def __init__(self, options: Options, *, clock: Clock | None = None) -> None:
        self.options = options
        self.clock = clock or SystemClock()
        self.metrics = Metrics()
        self.health = Health()
        self.supervisor = Supervisor(self.clock, self.health, self.metrics.scraped)
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.url = ""
        self._hooks: list[Hook] = []
        self._publications: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._outbound: Outbound | None = None
        self._authentication: Authentication | None = None
        self._authorization: Authorization | None = None
        self._controllers = options.controllers if options.controllers is not None else names.NAMES
        self._storage: Storage | None = None
        self._scrub: Scrub | None = None
        self._files = FileWatch(self.metrics.registry)
        self._server: Server | None = None
        self._auditor: Auditor | None = None
        self.catalog: Catalog
        self.transport: InProcessTransport

    async def start(self) -> None:
        """Open, load, listen, and create what must exist."""
        options = self.options
        self._auditor = auditor_for(options.audit, self.clock, self.metrics.registry)
        credentials = bootstrap.ensure_credentials(options)
        self._storage = storage = await self._open_storage()
        storage.on_failure = self._storage_failed
        self.catalog = catalog = Catalog(
            storage,
            self.clock,
            retention=options.history_seconds,
            converter_for=self._converter,
            service_cidrs=options.service_cidrs,
        )
        await catalog.load()
        repair = service_repair(catalog)
        await repair.repair_all()
        self.metrics.observe(catalog, self.health)
        uses = TokenUse(self.clock)
        self._authentication = authentication = Authentication(
            options.authentication, credentials, catalog, clock=self.clock, used=uses.note
        )
        services = self._services(catalog, authentication)
        if options.flow_control:
            services.flowcontrol = self._flow_control(catalog)
        self.metrics.observe_memory(services.memory)
        pipeline = Pipeline(services, router(services))
        self.transport = InProcessTransport(pipeline)
        uses.transport = self.transport
        authority = credentials.server_authorities()
        namespace_store(catalog).populate = namespace_populator(self.transport, self._controllers, authority)
        tls = authentication.server_context()
        self._server = server = Server(
            pipeline,
            host=options.host,
            port=options.port,
            tls=tls,
            unix=options.socket,
            memory=services.memory,
        )
        self.metrics.observe_connections(server)
        await server.start()
        services.address = join_host_port(options.public_host, server.port)
        self.url = f"https://{join_host_port(options.local_host, server.port)}"
        await ensure_policy(self.transport, catalog)
        await bootstrap.ensure_objects(
            self.transport, server.port, options.service_cidrs, authentication=authentication.published()
        )
        bootstrap.write_kubeconfig(options.kubeconfig_path, self.url, credentials)
        authentication.watch(self._files, tls, self._publish_authentication)
        self._supervise_server(storage)
        self.supervisor.run("memory", services.memory.keep_trimmed)
        self.supervisor.run("service-repair", repair.run)
        self.supervisor.run("controllers", partial(self._run_controllers, pipeline, credentials))
        await self._register(services.address)
        for hook in self._hooks:
            hook.done = True

    def _supervise_server(self, storage: Storage) -> None:
        """Start the tasks that keep the server itself going."""
        supervise = self.supervisor.run
        for name, run in (self._auditor.tasks if self._auditor is not None else {}).items():
            supervise(name, run)
        supervise("event-loop-lag", self.metrics.lag.run)
        supervise("file-watch", self._files.run)
        supervise("compaction", self._compactor(storage).run)
        if self._scrub is not None:
            supervise("store-integrity", self._scrub.run)
        supervise("watch-history", partial(self.catalog.hub.keep_trimmed, COMPACTION_INTERVAL))
        supervise("custom-resource-definitions", DefinitionController(self.catalog).run)

    async def _register(self, address: str) -> None:
        """Create the objects by which the cluster knows this server, and start the tasks that keep them current."""
        supervise = self.supervisor.run
        if self.options.flow_control:
            await ensure_flow_control(self.transport)
            supervise("flow-schema-status", FlowSchemaStatus(self.transport, self.catalog, self.clock).run)
        registration = ApiServiceRegistration(self.transport, self.catalog)
        await registration.register_built_in()
        supervise("apiservice-registration", registration.run)
        lease = IdentityLease(self.transport, address, self.clock)
        await lease.renew()
        supervise("identity-lease", lease.run)

    async def stop(self) -> None:
        """Stop serving, then close the store."""
        self._stopping = True
        if self._server is None:
            await self.supervisor.stop()
        else:
            # At the same time: a controller that waits for its own write must not keep clients from being drained.
            await asyncio.gather(self.supervisor.stop(), self._server.drain(DRAIN_SECONDS))
            await self._server.close()
        if hasattr(self, "transport"):
            await self.transport.close()
        if self._authentication is not None:
            await self._authentication.close()
        if self._outbound is not None:
            await self._outbound.close()
        if self._authorization is not None:
            await self._authorization.close()
        if self._auditor is not None:
            await self._auditor.close()
        if self._storage is not None:
            if hasattr(self, "catalog"):
                self.catalog.hub.close()
            await self._storage.close()

    async def _run_controllers(self, pipeline: Pipeline, credentials: bootstrap.Credentials) -> None:
        """Run the built-in controllers. Their framework is imported in a thread while the first requests are served."""
        await asyncio.to_thread(importlib.import_module, "kapi.controlplane.controllers.controllerset")
        from kapi.controlplane.controllers.context import ControllerSettings
        from kapi.controlplane.controllers.controllerset import ControllerSet, controllers_named

        settings = ControllerSettings(
            event_seconds=self.options.event_seconds,
            authority=credentials.server_authorities(),
            address=self.options.public_host,
            port=self._server.port if self._server is not None else 0,
            account_key=self.options.authentication.service_account_signing_key_file or credentials.account_key,
            authority_files=credentials.authority_files,
        )
        controllers = ControllerSet(
            pipeline,
            self.catalog,
            controllers_named(self._controllers),
            settings=settings,
            registry=self.metrics.scraped,
            clock=self.clock,
        )
        await controllers.run()

    def _publish_authentication(self, data: dict[str, str]) -> None:
        """Tell extension API servers how clients are authenticated, after a change of files."""
        task = asyncio.ensure_future(bootstrap.publish_authentication(self.transport, data))
        self._publications.add(task)
        task.add_done_callback(self._published)

    def _published(self, task: asyncio.Task[None]) -> None:
        self._publications.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("the ConfigMap extension-apiserver-authentication is not current", error=str(error))

    def _compactor(self, storage: Storage) -> Compactor:
        history = self.options.history_seconds
        return Compactor(
            storage,
            self.clock,
            retention=history,
            interval=min(COMPACTION_INTERVAL, history / 4),
            max_revisions=MAX_REVISIONS,
            floor=min(history, PROMISED_SECONDS),
        )

    def _flow_control(self, catalog: Catalog) -> FlowControl:
        control = FlowControl(catalog, self.options.requests_inflight)
        control.start()
        self.metrics.scraped.register(FlowControlMetrics(control))
        return control

    def _converter(self, name: str, conversion: Object) -> Converter:
        # Imported here: it is a good part of all imports, and most servers never call a webhook.
        from kapi.base.http import Outbound
        from kapi.server.webhooks.conversion import WebhookConverter

        if self._outbound is None:
            self._outbound = Outbound()
        return WebhookConverter(conversion, self._outbound, self.catalog)

    async def _open_storage(self) -> Storage:
        # Before the store is opened: a mistake in the configuration must not leave anything behind.
        config = self.options.encryption_config
        if config is None:
            return await self._open_backend()
        from kapi.storage.encryption.storage import EncryptedStorage

        providers = await asyncio.to_thread(_read_encryption, config)
        encrypted = EncryptedStorage(await self._open_backend(), providers)
        self._files.add("encryption", [config], lambda: encrypted.replace_providers(_read_encryption(config)))
        return encrypted

    async def _open_backend(self) -> Storage:
        if self.options.storage == "memory":
            return MemoryStorage()
        storage = await SqliteStorage.open(self.options.data_dir, observer=self.metrics)
        self._scrub = Scrub(storage, self.clock)
        self.metrics.observe_scrub(self._scrub)
        return storage

    def _services(self, catalog: Catalog, authentication: Authentication) -> Services:
        self._add_health_checks(catalog)
        lifecycle = NamespaceLifecycle(catalog)
        self._authorization = authorization = Authorization(self.options.authorization, catalog, clock=self.clock)
        return Services(
            catalog=catalog,
            clock=self.clock,
            authenticator=authentication.authenticator,
            token_issuer=authentication.token_issuer,
            authorizer=authorization.authorizer,
            # The escalation check is last: it is about the object that mutating admission has made.
            admission=Admission(
                [lifecycle, InUseProtection(), authorization.escalation_check],
                certificate_plugins(authorization.may_use_signer),
            ),
            health=self.health,
            metrics=self.metrics,
            auditor=self._auditor,
        )

    def _add_health_checks(self, catalog: Catalog) -> None:
        """Register the checks under kube-apiserver's names. Hooks are added in the order in which it lists them."""
        health = self.health
        health.add(STORE, self._storage_check)
        health.add("etcd-readiness", self._storage_check, readiness_only=True)
        # The caches are loaded before the server listens.
        health.add("informer-sync", lambda: None, readiness_only=True)
        for name in _LOADED_HOOKS:
            health.add_hook(name).done = True
        self._hooks = [health.add_hook(name) for name in _STARTED_HOOKS]
        health.add("stored-objects", catalog.hub.invalid.check, readiness_only=True)
        if self._scrub is not None:
            health.add("store-integrity", self._scrub.check, readiness_only=True)
        health.add("shutdown", lambda: "process is shutting down" if self._stopping else None, readiness_only=True)

    def _storage_check(self) -> str | None:
        return f"the store has failed: {self.failed.result()}" if self.failed.done() else None

    def _storage_failed(self, error: BaseException) -> None:
        _log.critical("storage failed, refusing writes and shutting down", error=str(error))
        if not self.failed.done():
            self.failed.set_result(error)


def _read_encryption(path: Path) -> ResourceProviders:
    # Imported here: ciphers take a while to import, and most servers do not use them.
    from kapi.controlplane.encryption import read_encryption

    return read_encryption(path)


async def serve(options: Options, stop: asyncio.Event, ready: Callable[[ControlPlane], None]) -> int:
    """Run a control plane until `stop` is set or its store fails; returns the exit status."""
    # A program that embeds a control plane and configures no logs gets them on standard error, from the first line on.
    ensure_configured()
    plane = ControlPlane(options)
    try:
        await plane.start()
        ready(plane)
        stopping = asyncio.ensure_future(stop.wait())
        waiting: list[asyncio.Future[Any]] = [stopping, plane.failed]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await stopping
    finally:
        await plane.stop()
    return 1 if plane.failed.done() else 0
