"""The files and objects that exist before the server is ready: keys, certificates, a kubeconfig, system objects.

They are created at the first start and found again at the next; a user's changes are not reverted.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import fcntl
import hashlib
import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from kapi.api.meta import is_deleting
from kapi.api.patch.mergepatch import APPLY_PATCH, MERGE_PATCH
from kapi.base.tls import (
    Authority,
    KeyPair,
    ensure_private_key,
    local_names,
    server_context,
    service_names,
    write_private,
)
from kapi.codec import json
from kapi.registry.kinds.core.service.ranges import DEFAULT_SERVICE_CIDR, AddressRange
from kapi.registry.kinds.core.service.records import DEFAULT_NAME

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence
    from pathlib import Path

    from kapi.api.meta import Object
    from kapi.controlplane.authenticationoptions import AuthenticationOptions
    from kapi.controlplane.options import Options
    from kapi.server.transport.inprocess import InProcessTransport

MASTERS = "system:masters"
ADMIN = "kubernetes-admin"
FRONT_PROXY = "front-proxy-client"
"""The common name of the certificate that this server shows to extension API servers, unless one is given."""
DEFAULT_NAMESPACE = "default"
_SERVICE_CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
SYSTEM_NAMESPACE = "kube-system"
AUTHENTICATION_CONFIG = "extension-apiserver-authentication"

_AGENT = {"user-agent": "kube-apiserver"}
"""The field manager of what is written here is that of kube-apiserver."""


_log = structlog.get_logger("kapi.controlplane")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The paths of keys and certificates, and the admin's token."""

    authority: Path
    """The certificate of this server's own CA, which issues the admin's certificate."""
    server: KeyPair
    admin: KeyPair
    token: str
    account_key: Path
    """The key that signs tokens of service accounts."""
    front_proxy_authority: Path
    """The certificate of the CA that issues `front_proxy`: extension API servers trust it and no other client does."""
    front_proxy: KeyPair | None
    """What this server shows to extension API servers; None if the options name a CA but no certificate of it."""
    is_server_issued: bool
    """True if the CA has issued the server's certificate; False if it was given."""

    @property
    def authority_files(self) -> KeyPair:
        """The files of this server's own CA."""
        return KeyPair(self.authority, self.authority.with_suffix(".key"))

    def fingerprint(self) -> str:
        """Return a hash of the CA's certificate and of the key of service accounts: equal for servers that share them.

        Certificates and tokens that one of them has issued are accepted by all.
        """
        digest = hashlib.sha256(self.authority.read_bytes() + self.account_key.read_bytes())
        return digest.hexdigest()[:32]

    def server_authorities(self) -> bytes:
        """Return the PEM of the certificates with which clients verify this server."""
        own = self.authority.read_bytes()
        if self.is_server_issued:
            return own
        # The issuer of a given certificate is not known; what came with it is trusted as it is.
        return own.rstrip() + b"\n" + self.server.certificate.read_bytes()


class BootstrapError(Exception):
    """The server cannot be started; the text says why."""


def ensure_credentials(options: Options) -> Credentials:
    """Find or create the CA, the server's and the admin's certificates, and the admin's token."""
    options.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    options.pki_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Servers that share the folder may start at the same time.
    with _locked(options.pki_path):
        return _ensure_credentials(options, options.pki_path, options.data_dir / "pki")


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _ensure_credentials(options: Options, directory: Path, own: Path) -> Credentials:
    """Do what `ensure_credentials` does: `own` is the folder of what only this server uses."""
    ca = KeyPair(directory / "ca.crt", directory / "ca.key")
    server = KeyPair(own / "server.crt", own / "server.key")
    admin = KeyPair(directory / "admin.crt", directory / "admin.key")
    authority = Authority.ensure(ca, "kapi")
    names = [
        *local_names(),
        *service_names("kubernetes", "default", "cluster.local"),
        first_address(options.service_cidrs),
    ]
    if not options.binds_all:
        names.append(options.host)
    if options.advertise_address:
        names.append(options.advertise_address)
    names += options.serving_names
    if options.serving_files is None:
        authority.ensure_server(server, names)
    else:
        server = options.serving_files
        check_serving_files(server)
    authority.ensure_client(admin, ADMIN, (MASTERS,))
    ensure_private_key(directory / "sa.key")
    token = _token(directory / "admin.token")
    return Credentials(
        ca.certificate,
        server,
        admin,
        token,
        directory / "sa.key",
        *_front_proxy(directory, options.authentication),
        is_server_issued=options.serving_files is None,
    )


def _front_proxy(directory: Path, options: AuthenticationOptions) -> tuple[Path, KeyPair | None]:
    """Return the CA of front proxies, and the certificate of this one; both are created unless the options name them.

    It is another CA than that of clients, because a certificate of it entitles its holder to name any user.
    """
    if options.requestheader_client_ca_file is not None:
        return options.requestheader_client_ca_file, options.proxy_client_files
    ca = KeyPair(directory / "front-proxy-ca.crt", directory / "front-proxy-ca.key")
    client = KeyPair(directory / "front-proxy-client.crt", directory / "front-proxy-client.key")
    Authority.ensure(ca, "kapi-front-proxy").ensure_client(client, FRONT_PROXY)
    return ca.certificate, client


def check_serving_files(files: KeyPair) -> None:
    """Refuse a certificate and a key that TLS cannot be served with."""
    for path in (files.certificate, files.key):
        try:
            path.read_bytes()
        except OSError as error:
            raise BootstrapError(f"{path}: {error.strerror}") from None
    try:
        server_context(files)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error) or "no certificate or key in PEM"
        raise BootstrapError(f"{files.certificate}, {files.key}: TLS cannot be served with them: {reason}") from None


def _token(path: Path) -> str:
    if not path.exists():
        # Hexadecimal: a token that begins with a dash would not be taken for the value of an option.
        write_private(path, secrets.token_hex(32).encode())
    return path.read_text().strip()


def write_kubeconfig(path: Path, url: str, credentials: Credentials) -> None:
    """Write the admin's kubeconfig, with everything in it, readable by its owner only."""
    cluster = {
        "server": url,
        "certificate-authority-data": base64.b64encode(credentials.server_authorities()).decode(),
    }
    write_user_kubeconfig(path, cluster, ADMIN, credentials.admin)


def write_user_kubeconfig(path: Path, cluster: dict[str, str], name: str, files: KeyPair) -> None:
    """Write the kubeconfig of a user with a client certificate, readable by its owner only."""
    user = {"client-certificate-data": _data(files.certificate), "client-key-data": _data(files.key)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, _kubeconfig(cluster, name, user).encode())


def _kubeconfig(cluster: dict[str, str], name: str, user: dict[str, str]) -> str:
    """Return a kubeconfig of one cluster and one user.

    Not by `codec/yaml`: a first start would import PyYAML for this file alone. A string of JSON is one of YAML.
    """

    def fields(values: dict[str, str]) -> str:
        return "".join(f"    {key}: {json.encode(value).decode()}\n" for key, value in sorted(values.items()))

    quoted = json.encode(name).decode()
    return (
        "apiVersion: v1\n"
        f"clusters:\n- cluster:\n{fields(cluster)}  name: kapi\n"
        f"contexts:\n- context:\n    cluster: kapi\n    user: {quoted}\n  name: kapi\n"
        "current-context: kapi\n"
        "kind: Config\n"
        "preferences: {}\n"
        f"users:\n- name: {quoted}\n  user:\n{fields(user)}"
    )


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


# -- objects --------------------------------------------------------------------------------------------------------


def first_address(service_cidrs: Sequence[str]) -> str:
    """The cluster IP of the Service `kubernetes`: the first address of the primary range."""
    return AddressRange(service_cidrs[0]).first


async def ensure_objects(
    transport: InProcessTransport,
    port: int,
    service_cidrs: Sequence[str] = (DEFAULT_SERVICE_CIDR,),
    *,
    authentication: dict[str, str] | None = None,
) -> None:
    """Create the objects that every cluster has; what exists stays as it is, but for what describes this server.

    `port` is the port of this server, `authentication` what extension API servers are told.
    """
    work: list[Coroutine[None, None, object]] = [
        _ensure_default(transport, port, service_cidrs),
        _ensure_system(transport, authentication or {}),
    ]
    work += [_ensure_namespace(transport, name) for name in ("kube-public", "kube-node-lease")]
    for name, value, description in _PRIORITY_CLASSES:
        body = {"metadata": {"name": name}, "value": value, "description": description}
        work.append(ensure_object(transport, "/apis/scheduling.k8s.io/v1/priorityclasses", body))
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


async def _ensure_default(transport: InProcessTransport, port: int, service_cidrs: Sequence[str]) -> None:
    """Ensure the default namespace, the range of cluster IPs, and the Service `kubernetes`, whose target is `port`."""
    await _ensure_namespace(transport, DEFAULT_NAMESPACE)
    await _ensure_service_cidr(transport, service_cidrs)
    path = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/services"
    service = _service(port, first_address(service_cidrs))
    try:
        found = await ensure_object(transport, path, service)
        if found is not None and [one.get("targetPort") for one in found["spec"]["ports"]] != [port]:
            change = {"spec": {"ports": service["spec"]["ports"]}}
            await send(transport, "PATCH", f"{path}/kubernetes", change, MERGE_PATCH)
    except BootstrapError as error:
        # Its address may have been given to another object while the Service was deleted. Clients can work without it.
        _log.warning("the Service kubernetes cannot be created", error=str(error))


async def _ensure_system(transport: InProcessTransport, authentication: dict[str, str]) -> None:
    """Ensure kube-system, and in it what extension API servers need to authenticate clients."""
    await _ensure_namespace(transport, SYSTEM_NAMESPACE)
    if authentication:
        await publish_authentication(transport, authentication)


async def publish_authentication(transport: InProcessTransport, data: dict[str, str]) -> None:
    """Ensure that the ConfigMap extension-apiserver-authentication says how this server authenticates clients."""
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps"
    found = await ensure_object(transport, path, {"metadata": {"name": AUTHENTICATION_CONFIG}, "data": data})
    if found is not None and (found.get("data") or {}).items() >= data.items():
        return
    if found is not None:
        await send(transport, "PATCH", f"{path}/{AUTHENTICATION_CONFIG}", {"data": data}, MERGE_PATCH)


async def _ensure_service_cidr(transport: InProcessTransport, service_cidrs: Sequence[str]) -> None:
    """The ServiceCIDR `kubernetes` of `--service-cluster-ip-range`, ready, as kube-apiserver makes it.

    One that exists is not changed, except that a second IP family is added.
    """
    path = f"{_SERVICE_CIDRS}/{DEFAULT_NAME}"
    await ensure_object(
        transport, _SERVICE_CIDRS, {"metadata": {"name": DEFAULT_NAME}, "spec": {"cidrs": [*service_cidrs]}}
    )
    found = await transport.request("GET", path)
    current: Object = json.decode(await found.read())
    stored = current["spec"]["cidrs"]
    if stored == [service_cidrs[0]] != [*service_cidrs]:
        change: Object = {"spec": {"cidrs": [*service_cidrs]}}
        await send(transport, "PATCH", path, change, MERGE_PATCH)
    elif stored != [*service_cidrs]:
        _log.warning("the ServiceCIDR kubernetes is not --service-cluster-ip-range", cidrs=stored)
    conditions = (current.get("status") or {}).get("conditions") or ()
    if is_deleting(current) or any(one.get("type") == "Ready" for one in conditions):
        return
    condition = {
        "type": "Ready",
        "status": "True",
        "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": current["metadata"]["creationTimestamp"],
    }
    status = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": DEFAULT_NAME},
        "status": {"conditions": [condition]},
    }
    options = "fieldManager=kubernetes-service-cidr-controller&force=true"
    await send(transport, "PATCH", f"{path}/status?{options}", status, APPLY_PATCH)


_PRIORITY_CLASSES = (
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
)


def _service(port: int, address: str) -> Object:
    return {
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": address,
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        },
    }


async def _ensure_namespace(transport: InProcessTransport, name: str) -> None:
    await ensure_object(transport, "/api/v1/namespaces", {"metadata": {"name": name}})


async def ensure_object(transport: InProcessTransport, path: str, body: Object) -> Object | None:
    """Create an object unless it exists; returns the one that exists, None if it was created."""
    name = body["metadata"]["name"]
    found = await transport.request("GET", f"{path}/{name}")
    answer = await found.read()
    if found.status == 200:
        existing: Object = json.decode(answer)
        return existing
    await send(transport, "POST", path, body)
    return None


async def send(
    transport: InProcessTransport, method: str, path: str, body: Object, content_type: str = "application/json"
) -> None:
    """Make one write of the control plane; a conflict means that another writer was faster, and is no error."""
    answer = await transport.request(method, path, {"content-type": content_type, **_AGENT}, json.encode(body))
    text = await answer.read()
    if answer.status not in (200, 201, 409):
        raise BootstrapError(f"{method} {path} was answered with {answer.status}: {text.decode()}")
