"""The control plane, put together: store, cache, pipeline, transports, and the order in which they start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import socket
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from kapi.base import malloc
from kapi.base.clock import SystemClock
from kapi.base.log import ensure_configured
from kapi.base.smallobjects import SmallObjects
from kapi.controlplane import bootstrap
from kapi.controlplane.admission import Parts, admission_for
from kapi.controlplane.apiserviceavailability import ApiServiceAvailability
from kapi.controlplane.apiservices import ApiServiceRegistration
from kapi.controlplane.audit import auditor_for
from kapi.controlplane.authentication import Authentication
from kapi.controlplane.authenticationinfo import AuthenticationInfo
from kapi.controlplane.authorization import Authorization
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.livingservers import check_credentials
from kapi.controlplane.controllers.namespacepopulation import namespace_populator, namespace_store
from kapi.controlplane.controllers.view import CacheView
from kapi.controlplane.flowcontrol import FlowSchemaStatus, ensure_flow_control
from kapi.controlplane.identitylease import IdentityLease
from kapi.controlplane.options import DRAIN_SECONDS, join_host_port
from kapi.controlplane.rbac.reconciliation import ensure_policy
from kapi.controlplane.tokenuse import TokenUse, publish_tracking
from kapi.registry.catalog import Catalog
from kapi.registry.custom.definitioncontroller import DefinitionController
from kapi.registry.kinds.core.service.repair import service_repair
from kapi.server.admission.metrics import AdmissionMetrics
from kapi.server.aggregation.aggregator import Aggregator
from kapi.server.filewatch import FileWatch
from kapi.server.flowcontrol.control import FlowControl
from kapi.server.flowcontrol.report import FlowControlMetrics
from kapi.server.pages.etcdmetrics import EtcdMetrics
from kapi.server.pages.health import STORE, Health
from kapi.server.pages.metrics import Metrics
from kapi.server.pipeline import Pipeline
from kapi.server.routes import router
from kapi.server.services import Services
from kapi.server.supervisor import Supervisor
from kapi.server.transport.inprocess import InProcessTransport
from kapi.server.transport.serve import Server
from kapi.storage.compact import PROMISED_SECONDS, Compactor
from kapi.storage.etcd.address import SCHEME, parse_address
from kapi.storage.memory import MemoryStorage
from kapi.storage.snapshot.shared import check_finished
from kapi.storage.sqlite.scrub import Scrub
from kapi.storage.sqlite.storage import SqliteStorage

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.base.http import Outbound
    from kapi.controller.manager import Leadership
    from kapi.controller.webhook.functions import WebhookFunctions
    from kapi.controlplane.options import Options
    from kapi.registry.custom.conversion import Converter
    from kapi.server.admission.chain import Admission
    from kapi.server.admission.webhooks.functions import Function
    from kapi.server.audit.auditor import Auditor
    from kapi.server.pages.health import Hook
    from kapi.storage.encryption.storage import ResourceProviders
    from kapi.storage.etcd.monitor import EtcdMonitor
    from kapi.storage.interface import Storage

COMPACTION_INTERVAL = 15.0
RETIRE_SECONDS = 2.0
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
    "apiservice-discovery-controller",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "kube-apiserver-autoregistration",
)
"""Post-start hooks of kube-apiserver whose work is done while the server listens already."""

_log = structlog.get_logger("kapi.controlplane")


class ControlPlane:
    """One running control plane.

    `start` returns when requests are served and the system's objects exist. `failed` is done when the store has
    failed: the caller stops and exits non-zero. `stop` lets requests in flight finish, ends watches, and closes the
    store last.

    With `storage` that store is used instead of the one that the options name. If it `is_populated`, it holds what a
    control plane of this version has created in it, and the system's objects are not looked for again. The functions of
    `webhooks` review requests in the admission chain, as webhooks do, without HTTP.
    """

    def __init__(
        self,
        options: Options,
        *,
        clock: Clock | None = None,
        storage: Storage | None = None,
        is_populated: bool = False,
        webhooks: WebhookFunctions | None = None,
    ) -> None:
        self.options = options
        self._webhooks = webhooks
        self._given_storage = storage
        self._is_populated = is_populated
        self.clock = clock or SystemClock()
        self.metrics = Metrics()
        self.health = Health()
        self.supervisor = Supervisor(self.clock, self.health, self.metrics.scraped)
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.url = ""
        self._hooks: list[Hook] = []
        self._stopping = False
        self._outbound: Outbound | None = None
        self._authentication: Authentication | None = None
        self._authorization: Authorization | None = None
        self._controllers = options.controllers if options.controllers is not None else names.NAMES
        self._storage: Storage | None = None
        self._scrub: Scrub | None = None
        self._monitor: EtcdMonitor | None = None
        self._files = FileWatch(self.metrics.registry)
        self._server: Server | None = None
        self._lease: IdentityLease | None = None
        self._auditor: Auditor | None = None
        self._credentials: bootstrap.Credentials
        self._services: Services
        self._aggregator: Aggregator | None = None
        self._pipeline: Pipeline
        self._authentication_info: AuthenticationInfo
        self.catalog: Catalog
        self.transport: InProcessTransport

    async def start(self) -> None:
        """Open, load, listen, and create what must exist."""
        options = self.options
        self._auditor = auditor_for(options.audit, self.clock, self.metrics.registry)
        self._credentials = credentials = bootstrap.ensure_credentials(options)
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
        self._services = services = self._make_services(catalog, authentication)
        self._aggregator = services.aggregator = self._make_aggregator(catalog, credentials)
        if options.flow_control:
            services.flowcontrol = self._flow_control(catalog)
        self.metrics.observe_memory(services.memory)
        self._pipeline = pipeline = Pipeline(services, router(services))
        self.transport = InProcessTransport(pipeline)
        self._authentication_info = AuthenticationInfo(self.transport, catalog, authentication.published)
        uses.transport = self.transport
        if options.shares_store:
            check_credentials(CacheView(catalog), self.clock.now(), credentials.fingerprint())
        authority = credentials.server_authorities()
        namespace_store(catalog).populate = namespace_populator(self.transport, self._controllers, authority)
        tls = await self._open_port() if options.listen else None
        if not self._is_populated:
            await self._populate(authentication)
        if tls is not None:
            self._announce_port(tls)
        self._supervise_server(storage)
        self.supervisor.run("service-repair", repair.run)
        await self._register(services.address)
        # Last: the import of their framework takes turns with whatever else runs.
        self.supervisor.run("controllers", partial(self._run_controllers, pipeline, credentials))
        for hook in self._hooks:
            hook.done = True

    async def listen(self) -> None:
        """Listen on the address of the options and write the admin's kubeconfig, if that was not done by `start`."""
        if self._server is None:
            self._announce_port(await self._open_port())
            self.supervisor.run("file-watch", self._files.run)

    async def _open_port(self) -> ssl.SSLContext:
        """Serve requests over TLS; returns the context to serve with."""
        assert self._authentication is not None
        tls = self._authentication.server_context()
        self._server = server = Server(
            self._pipeline,
            host=self.options.host,
            port=self.options.port,
            tls=tls,
            unix=self.options.socket,
            memory=self._services.memory,
            shares_port=self.options.shares_port,
            small_objects=SmallObjects() if self.options.listen else None,
        )
        self.metrics.observe_connections(server)
        await server.start()
        self._services.address = join_host_port(self.options.public_host, server.port)
        self.url = f"https://{join_host_port(self.options.local_host, server.port)}"
        return tls

    def _announce_port(self, tls: ssl.SSLContext) -> None:
        """Write the kubeconfig of the admin, and follow the files that TLS is served with."""
        assert self._authentication is not None
        bootstrap.write_kubeconfig(self.options.kubeconfig_path, self.url, self._credentials)
        self._authentication.watch(self._files, tls, self._authentication_info.changed)

    async def _populate(self, authentication: Authentication) -> None:
        """Create the objects that every cluster has."""
        await ensure_policy(self.transport, self.catalog)
        port = self._server.port if self._server is not None else self.options.port
        await bootstrap.ensure_objects(
            self.transport, port, self.options.service_cidrs, authentication=authentication.published()
        )
        await publish_tracking(self.transport, self.clock.now())

    def _supervise_server(self, storage: Storage) -> None:
        """Start the tasks that keep the server itself going."""
        supervise = self.supervisor.run
        for name, run in (self._auditor.tasks if self._auditor is not None else {}).items():
            supervise(name, run)
        if self.options.listen:
            supervise("event-loop-lag", self.metrics.lag.run)
            supervise("file-watch", self._files.run)
            # Without a port, the process and its memory belong to another program.
            supervise("memory", malloc.keep_trimmed)
        supervise("compaction", self._compactor(storage).run)
        if self._scrub is not None:
            supervise("store-integrity", self._scrub.run)
        if self._monitor is not None:
            supervise("etcd-monitor", self._monitor.run)
        supervise("watch-history", partial(self.catalog.hub.keep_trimmed, COMPACTION_INTERVAL))
        supervise("custom-resource-definitions", DefinitionController(self.catalog).run)

    async def _register(self, address: str) -> None:
        """Create the objects by which the cluster knows this server, and start the tasks that keep them current."""
        supervise = self.supervisor.run
        if self.options.flow_control:
            if not self._is_populated:
                await ensure_flow_control(self.transport)
            supervise("flow-schema-status", FlowSchemaStatus(self.transport, self.catalog, self.clock).run)
        supervise("cluster-authentication-info", self._authentication_info.run)
        registration = ApiServiceRegistration(self.transport, self.catalog)
        if not self._is_populated:
            await registration.register_built_in()
        supervise("apiservice-registration", registration.run)
        assert self._aggregator is not None
        availability = ApiServiceAvailability(
            self.transport, self.catalog, self._aggregator, self.clock, self.metrics.scraped
        )
        supervise("apiservice-availability", availability.run)
        for name, run in self._aggregator.tasks.items():
            supervise(name, run)
        self._lease = lease = IdentityLease(
            self.transport,
            address,
            self.clock,
            worker=self.options.worker,
            shares_store=self.options.shares_store,
            credentials=self._credentials.fingerprint() if self.options.shares_store else "",
        )
        await lease.renew()
        supervise("identity-lease", lease.run)

    async def retire(self) -> None:
        """Fail readiness and send clients elsewhere; requests are served until `stop`."""
        self._stopping = True
        if self._server is not None:
            self._server.retire()
        if self._lease is not None and self.options.shares_store:
            # The store may be why the server stops. Then the Lease expires.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETIRE_SECONDS):
                    await self._lease.retire()

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
        if self._aggregator is not None:
            self._aggregator.upstreams.close()
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
        from kapi.controlplane.controllers.controllerset import LEASE, ControllerSet, controllers_named

        settings = ControllerSettings(
            event_seconds=self.options.event_seconds,
            authority=credentials.server_authorities(),
            address=self.options.public_host,
            port=self._server.port if self._server is not None else 0,
            account_key=self.options.authentication.service_account_signing_key_file or credentials.account_key,
            shares_store=self.options.shares_store,
            authority_files=credentials.authority_files,
        )
        controllers = ControllerSet(
            pipeline,
            self.catalog,
            controllers_named(self._controllers),
            settings=settings,
            registry=self.metrics.scraped,
            clock=self.clock,
            leadership=self._leadership(LEASE) if self.options.shares_store else None,
        )
        if not self.options.listen:
            await controllers.run()
            return
        # CEL is needed by definitions with rules only, and the first of them should not wait for it on the event loop.
        # Not `gather` with the controllers: when it is cancelled it ends with the thread's future, and `stop` would
        # close the store while reconciles are still being finished.
        importing = asyncio.ensure_future(asyncio.to_thread(importlib.import_module, "kapi.schema.rules.checks"))
        try:
            await controllers.run()
        finally:
            importing.cancel()

    def _leadership(self, lease: str) -> Leadership:
        from kapi.controller.manager import Leadership

        address = self._services.address or f"process {os.getpid()}"
        return Leadership(lease, bootstrap.SYSTEM_NAMESPACE, f"{socket.gethostname()}_{address}_{uuid.uuid4()}")

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

    def _make_aggregator(self, catalog: Catalog, credentials: bootstrap.Credentials) -> Aggregator:
        names = self.options.authentication.proxy_headers
        certificate = credentials.front_proxy
        aggregator = Aggregator(catalog, self.options.service_overrides, certificate, names)
        aggregator.start()
        if certificate is not None:
            files = (certificate.certificate, certificate.key)
            self._files.add("proxy-client-certificate", files, aggregator.upstreams.reload)
        return aggregator

    def _flow_control(self, catalog: Catalog) -> FlowControl:
        control = FlowControl(catalog, self.options.requests_inflight)
        control.start()
        self.metrics.scraped.register(FlowControlMetrics(control))
        return control

    def _outbound_client(self) -> Outbound:
        # Imported here: it is a good part of all imports, and most servers never call a webhook.
        from kapi.base.http import Outbound

        if self._outbound is None:
            self._outbound = Outbound()
        return self._outbound

    def _converter(self, name: str, conversion: Object) -> Converter:
        from kapi.server.webhooks.conversion import WebhookConverter

        overrides = self.options.service_overrides
        return WebhookConverter(conversion, self._outbound_client(), self.catalog, overrides=overrides)

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
        if self._given_storage is not None:
            return self._given_storage
        if self.options.storage == "memory":
            return MemoryStorage()
        if self.options.storage.startswith(SCHEME):
            return await self._open_etcd()
        storage = await SqliteStorage.open(self.options.data_dir, observer=self.metrics)
        self._scrub = Scrub(storage, self.clock)
        self.metrics.observe_scrub(self._scrub)
        return storage

    async def _open_etcd(self) -> Storage:
        # Imported here: most servers do not use it.
        from kapi.storage.etcd.monitor import EtcdMonitor
        from kapi.storage.etcd.storage import EtcdStorage

        storage = await EtcdStorage.open(parse_address(self.options.storage))
        await check_finished(storage)
        self._monitor = EtcdMonitor(storage)
        self.metrics.scraped.register(EtcdMetrics(self._monitor))
        return storage

    def _make_services(self, catalog: Catalog, authentication: Authentication) -> Services:
        self._add_health_checks(catalog)
        self._authorization = authorization = Authorization(self.options.authorization, catalog, clock=self.clock)
        authorization.watch(self._files)
        return Services(
            catalog=catalog,
            clock=self.clock,
            authenticator=authentication.authenticator,
            token_issuer=authentication.token_issuer,
            authorizer=authorization.authorizer,
            admission=self._admission(catalog, authorization),
            health=self.health,
            metrics=self.metrics,
            auditor=self._auditor,
        )

    def _admission(self, catalog: Catalog, authorization: Authorization) -> Admission:
        parts = Parts(
            catalog,
            self.clock,
            authorization.authorizer,
            authorization.may_use_signer,
            self._outbound_client,
            self.metrics.registry,
            service_overrides=self.options.service_overrides,
            functions=self._admission_functions(),
        )
        metrics = AdmissionMetrics()
        self.metrics.scraped.register(metrics)
        # The escalation check is last: it is about the object that mutating admission has made.
        last = ("EscalationCheck", authorization.escalation_check)
        return admission_for(self.options.admission, parts, last, metrics=metrics)

    def _admission_functions(self) -> Sequence[Function]:
        if self._webhooks is None:
            return ()
        # Imported here: it brings the framework for operators, which a server does not need to start.
        from kapi.controlplane.inprocesswebhooks import in_process

        return in_process(self._webhooks)

    def _add_health_checks(self, catalog: Catalog) -> None:
        """Register the checks under kube-apiserver's names. Hooks are added in the order in which it lists them."""
        health = self.health
        health.add(STORE, self._storage_check)
        health.add("etcd-readiness", self._storage_readiness, readiness_only=True)
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

    def _storage_readiness(self) -> str | None:
        # Without a quorum of etcd the server serves reads that may be old, and recovers by itself: no restart helps.
        reason = self._storage_check()
        return reason if reason or self._monitor is None else self._monitor.check()

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
        if not plane.failed.done():
            await plane.retire()
            await asyncio.wait([plane.failed], timeout=options.shutdown_delay)
    finally:
        await plane.stop()
    return 1 if plane.failed.done() else 0
