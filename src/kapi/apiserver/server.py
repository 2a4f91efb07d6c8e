"""An API server of one's own: the parts of Kapi's server, put together around your resources.

With a cluster, users are authenticated and authorized by it, and requests come through its aggregator. Without one, the
server is for development: it has no authentication and no authorization, speaks plain HTTP, and listens on loopback
addresses only.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from kapi.apiserver.backing import BackedStore, BackedStrategy
from kapi.apiserver.definitions import served_definition
from kapi.apiserver.handlers import router
from kapi.apiserver.observed import ObservedStore
from kapi.apiserver.registration import api_service, register
from kapi.apiserver.standalone import LoopbackOnly, is_loopback
from kapi.apiserver.stored import Stored
from kapi.base import loop
from kapi.base.clock import SystemClock
from kapi.base.log import ensure_configured
from kapi.base.tls import Authority, KeyPair, local_names, server_context, trust_clients_of
from kapi.registry.catalog import Catalog
from kapi.registry.custom.definitions import Rules
from kapi.server.admission.chain import Admission
from kapi.server.authn.authenticator import Authenticator
from kapi.server.authn.tokens import TokenSources
from kapi.server.authz.authorizer import Authorizer
from kapi.server.authz.fixed import AlwaysAllow
from kapi.server.filewatch import FileWatch
from kapi.server.pages.health import Health
from kapi.server.pages.metrics import Metrics
from kapi.server.pipeline import Pipeline
from kapi.server.services import Services
from kapi.server.supervisor import Supervisor
from kapi.server.transport.serve import Server
from kapi.storage.compact import Compactor
from kapi.storage.memory import MemoryStorage, Snapshot

if TYPE_CHECKING:
    import ssl
    from types import TracebackType
    from typing import Self

    from kapi.api.meta import GroupVersion, Object
    from kapi.apiserver.registration import ServiceReference
    from kapi.apiserver.resources import Resource
    from kapi.client.config import ClientConfig
    from kapi.client.rest import RESTClient
    from kapi.registry.resource import Resource as ServedResource
    from kapi.server.admission.chain import Plugin
    from kapi.storage.interface import Storage

DRAIN_SECONDS: Final = 10.0
TRIM_SECONDS: Final = 15.0
MAX_REVISIONS: Final = 1_000_000

_log = structlog.get_logger("kapi.apiserver")


class ApiServer:
    """An API server with your resources. Use it as a context manager, or call `run`.

    Args:
        resources: What is served.
        cluster: The cluster that authenticates and authorizes; None for development without one.
        host: The address to listen on. Without a cluster it must be a loopback address.
        port: The port; 0 for any that is free.
        service: The Service in front of this server, for its certificate and its APIServices.
        registers: Create or update the APIServices when the server starts.
        checks_namespaces: Refuse to create objects in namespaces that the cluster does not have, or is deleting.
        data_dir: A directory for the certificate, and for the SQLite store of `Stored` resources; None for neither.
        cert_file: The serving certificate, instead of one that the server makes and signs itself.
        key_file: Its key.
        ca_file: The authority of it, for `caBundle`.
    """

    def __init__(
        self,
        *resources: Resource[Any] | Stored,
        cluster: ClientConfig | None = None,
        host: str = "127.0.0.1",
        port: int = 8443,
        service: ServiceReference | None = None,
        registers: bool = False,
        checks_namespaces: bool = False,
        data_dir: Path | str | None = None,
        cert_file: Path | str | None = None,
        key_file: Path | str | None = None,
        ca_file: Path | str | None = None,
    ) -> None:
        if not resources:
            raise ValueError("an API server needs at least one resource")
        if cluster is None and not is_loopback(host):
            raise ValueError(f"{host}: without a cluster there is no authentication; listen on a loopback address")
        if registers and (cluster is None or service is None):
            raise ValueError("a server that registers itself needs a cluster and a service")
        if checks_namespaces and cluster is None:
            raise ValueError("namespaces can be checked in a cluster only")
        if (cert_file is None) is not (key_file is None):
            raise ValueError("cert_file and key_file belong together")
        self._resources = resources
        self._cluster = cluster
        self._host, self._port = host, port
        self._service = service
        self._registers = registers
        self._checks_namespaces = checks_namespaces
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._given = None if cert_file is None or key_file is None else KeyPair(Path(cert_file), Path(key_file))
        self._ca_file = None if ca_file is None else Path(ca_file)
        self._clock = SystemClock()
        self._health, self._metrics = Health(), Metrics()
        self._supervisor = Supervisor(self._clock, self._health, self._metrics.scraped)
        self._files = FileWatch(self._metrics.registry)
        self._rest: RESTClient | None = None
        self._tls: ssl.SSLContext | None = None
        self._server: Server | None = None
        self._opened = contextlib.AsyncExitStack()
        """What has to be closed, the last that was opened first."""
        self._authority = b""
        self._failed: asyncio.Future[BaseException] | None = None

    # -- running ----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; returns the exit status."""
        ensure_configured()
        return loop.run(self._run())

    async def _run(self) -> int:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with self:
            assert self._failed is not None
            stopping = asyncio.ensure_future(stop.wait())
            await asyncio.wait((stopping, self._failed), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            return 1 if self._failed.done() else 0

    async def start(self) -> None:
        """Open the store, read what the cluster publishes, listen, and register. A failure leaves nothing behind."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        self._failed = asyncio.get_running_loop().create_future()
        storage = await self._open_storage()
        self._opened.push_async_callback(storage.close)
        storage.on_failure = self._storage_failed
        self._catalog = catalog = Catalog(storage, self._clock, groups=())
        await catalog.load()
        self._opened.callback(catalog.hub.close)
        stores = [store for one in self._resources if (store := _serve(catalog, one)) is not None]
        for store in stores:
            await store.backing.start()
            self._opened.push_async_callback(store.backing.stop)
        if self._cluster is not None:
            self._rest = self._client(self._cluster)
            self._opened.push_async_callback(self._rest.close)
        self._opened.push_async_callback(self._supervisor.stop)
        self._metrics.observe(catalog, self._health)
        services = await self._services(catalog)
        self._metrics.observe_memory(services.memory)
        pipeline = Pipeline(services, router(services))
        self._server = server = Server(
            LoopbackOnly(pipeline) if self._cluster is None else pipeline,
            host=self._host,
            port=self._port,
            tls=self._tls,
            memory=services.memory,
        )
        self._metrics.observe_connections(server)
        await server.start()
        self._opened.push_async_callback(server.drain, DRAIN_SECONDS)
        services.address = self.url.partition("://")[2]
        supervise = self._supervisor.run
        for store in stores:
            if isinstance(store, ObservedStore):
                supervise(f"poll-{store.resource}", store.run)
        supervise("compaction", Compactor(storage, self._clock, max_revisions=MAX_REVISIONS).run)
        supervise("watch-history", partial(catalog.hub.keep_trimmed, TRIM_SECONDS))
        supervise("file-watch", self._files.run)
        supervise("event-loop-lag", self._metrics.lag.run)
        if self._registers:
            assert self._rest is not None
            await register(self._rest, self.api_services())
        _log.info("serving", url=self.url, groups=[str(one) for one in self.group_versions])

    async def stop(self) -> None:
        """Answer what has begun, then release everything."""
        await self._opened.aclose()

    @property
    def url(self) -> str:
        """The address of the running server, for clients on this machine."""
        assert self._server is not None
        host = f"[{self._host}]" if ":" in self._host else self._host
        host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - compared
        return f"{'http' if self._tls is None else 'https'}://{host}:{self._server.port}"

    # -- registration -----------------------------------------------------------------------------------------------

    @property
    def group_versions(self) -> list[GroupVersion]:
        """The group versions that are served."""
        return list(dict.fromkeys(resource.group_version for resource in self._catalog))

    @property
    def authority(self) -> bytes:
        """The PEM of the authority of the serving certificate; empty if it is not known."""
        return self._authority

    def api_services(self) -> list[Object]:
        """Return the APIServices of the running server, to be created in the cluster."""
        if self._service is None or self._server is None:
            raise ValueError("an APIService needs a running server and the service in front of it")
        service = self._service._replace(port=self._service.port or self._server.port)
        return [api_service(one, service, self._authority) for one in self.group_versions]

    # -- assembly ---------------------------------------------------------------------------------------------------

    async def _open_storage(self) -> Storage:
        if self._data_dir is not None and any(isinstance(one, Stored) for one in self._resources):
            from kapi.storage.sqlite.storage import SqliteStorage

            return await SqliteStorage.open(self._data_dir, observer=self._metrics)
        # Later than every revision that a process before this one can have given out, so that none means two things.
        return MemoryStorage.from_snapshot(Snapshot(time.time_ns() // 1000, ()))

    async def _services(self, catalog: Catalog) -> Services:
        if self._cluster is None:
            _log.warning("standalone: no TLS, no authentication, every client on this machine may do everything")
            authenticator, authorizer = Authenticator(TokenSources(())), Authorizer(AlwaysAllow())
        else:
            authenticator, authorizer = await self._delegate()
        self._health.add("etcd", self._storage_check)
        return Services(
            catalog=catalog,
            clock=self._clock,
            authenticator=authenticator,
            authorizer=authorizer,
            admission=Admission(self._plugins()),
            health=self._health,
            metrics=self._metrics,
        )

    def _plugins(self) -> dict[str, Plugin]:
        if not self._checks_namespaces:
            return {}
        from kapi.apiserver.namespaces import ClusterNamespaces

        assert self._rest is not None
        return {"NamespaceLifecycle": ClusterNamespaces(self._rest, self._clock)}

    def _client(self, cluster: ClientConfig) -> RESTClient:
        # Imported here: a server without a cluster has no use for the HTTP client.
        from kapi.client.rest import RESTClient

        return RESTClient(cluster)

    async def _delegate(self) -> tuple[Authenticator, Authorizer]:
        """Read what the cluster publishes, make the TLS context of it, and follow it."""
        from kapi.apiserver.delegation import CONFIG_MAP, Delegation

        assert self._rest is not None
        files, clients = self._certificate()

        def changed(authorities: bytes) -> None:
            clients.write_bytes(authorities)
            if self._tls is not None:
                trust_clients_of(self._tls, (clients,))

        delegation = Delegation(self._rest, self._clock, changed)
        await delegation.read()
        if not clients.exists():
            raise ValueError(f"the ConfigMap {CONFIG_MAP} of the cluster names no certificate authority")
        self._tls = tls = server_context(files, client_authorities=(clients,))
        self._files.add(
            "serving-certificate",
            (files.certificate, files.key),
            lambda: tls.load_cert_chain(files.certificate, files.key),
        )
        self._supervisor.run("cluster-authentication", delegation.follow)
        return delegation.authenticator, delegation.authorizer

    def _certificate(self) -> tuple[KeyPair, Path]:
        """Return the serving certificate, made if none was given, and the file of the authorities of clients."""
        directory = self._data_dir
        if directory is None:
            directory = Path(self._opened.enter_context(tempfile.TemporaryDirectory(prefix="kapi-apiserver-")))
        clients = directory / "pki" / "clients.crt"
        clients.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        clients.unlink(missing_ok=True)
        if self._given is not None:
            self._authority = b"" if self._ca_file is None else self._ca_file.read_bytes()
            return self._given, clients
        pki = directory / "pki"
        authority = Authority.ensure(KeyPair(pki / "ca.crt", pki / "ca.key"), "kapi-apiserver-ca")
        files = KeyPair(pki / "server.crt", pki / "server.key")
        names = () if self._service is None else self._service.host_names
        authority.ensure_server(files, (*names, *local_names(), self._host))
        self._authority = authority.files.certificate.read_bytes()
        return files, clients

    def _storage_failed(self, error: BaseException) -> None:
        _log.critical("storage failed, refusing writes and shutting down", error=str(error))
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(error)

    def _storage_check(self) -> str | None:
        failed = self._failed is not None and self._failed.done()
        return "the store has failed" if failed else None


def _serve(catalog: Catalog, given: Resource[Any] | Stored) -> BackedStore | None:
    """Serve a resource; returns its store if it has functions."""
    definition = served_definition(given.kinds if isinstance(given, Stored) else (given.kind,))
    name = definition["metadata"]["name"]
    if catalog.definitions.get(name) is not None:
        raise ValueError(f"{name} is given twice")
    if isinstance(given, Stored):
        catalog.definitions.serve_built_in(definition)
        return None
    given.check()
    rules = Rules(BackedStore if given.poll_seconds is None else ObservedStore, BackedStrategy)
    resources = catalog.definitions.serve_built_in(definition, rules)
    if len(resources) != 1:
        raise TypeError(f"{type(given).__name__}: expected a definition with one version")
    (resource,) = resources
    _restrict(resource, given)
    assert isinstance(resource.stored, BackedStore)
    resource.stored.connect(given)
    return resource.stored


def _restrict(resource: ServedResource, given: Resource[Any]) -> None:
    """Serve the verbs that a resource has functions for."""
    verbs = resource.verbs = given.verbs
    if "scale" in resource.subresources:
        raise TypeError(f"{type(given).__name__}: only Stored resources have the scale sub-resource")
    if "status" in resource.subresources and "update" not in verbs:
        del resource.subresources["status"]
