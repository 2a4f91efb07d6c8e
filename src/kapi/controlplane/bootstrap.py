"""What must exist before anybody can use the server: keys, certificates, the admin's kubeconfig, and a few objects.

Everything here is made once and found again on the next start; nothing a user changed is put back.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from kapi.api.meta import is_deleting
from kapi.api.patch.mergepatch import APPLY_PATCH, MERGE_PATCH
from kapi.base.tls import Authority, KeyPair, ensure_private_key, local_names, service_names, write_private
from kapi.codec import json, yaml
from kapi.registry.kinds.core.service.ranges import DEFAULT_SERVICE_CIDR, AddressRange
from kapi.registry.kinds.core.service.records import DEFAULT_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kapi.api.meta import Object
    from kapi.controlplane.options import Options
    from kapi.server.transport.inprocess import InProcessTransport

MASTERS = "system:masters"
ADMIN = "kubernetes-admin"
DEFAULT_NAMESPACE = "default"
_SERVICE_CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
SYSTEM_NAMESPACES = (DEFAULT_NAMESPACE, "kube-system", "kube-public", "kube-node-lease")


_log = structlog.get_logger("kapi.controlplane")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where the keys are, and the admin's token."""

    authority: Path
    server: KeyPair
    admin: KeyPair
    token: str
    account_key: Path
    """What tokens of service accounts are signed with."""


class BootstrapError(Exception):
    """The server cannot be brought up; the text says why."""


def ensure_credentials(options: Options) -> Credentials:
    """Find or make the CA, the server's and the admin's certificates, and the admin's token."""
    options.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory = options.data_dir / "pki"
    directory.mkdir(mode=0o700, exist_ok=True)
    ca = KeyPair(directory / "ca.crt", directory / "ca.key")
    server = KeyPair(directory / "server.crt", directory / "server.key")
    admin = KeyPair(directory / "admin.crt", directory / "admin.key")
    authority = Authority.ensure(ca, "kapi")
    names = [
        *local_names(),
        *service_names("kubernetes", "default", "cluster.local"),
        first_address(options.service_cidrs),
    ]
    if options.host not in ("0.0.0.0", "::"):  # noqa: S104 (a comparison, not a bind)
        names.append(options.host)
    authority.ensure_server(server, names)
    authority.ensure_client(admin, ADMIN, (MASTERS,))
    ensure_private_key(directory / "sa.key")
    return Credentials(ca.certificate, server, admin, _token(directory / "admin.token"), directory / "sa.key")


def _token(path: Path) -> str:
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32).encode())
    return path.read_text().strip()


def write_kubeconfig(path: Path, url: str, credentials: Credentials) -> None:
    """Write the admin's kubeconfig, with everything in it, readable by its owner only."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "kapi", "cluster": {"server": url, "certificate-authority-data": _data(credentials.authority)}}
        ],
        "users": [
            {
                "name": ADMIN,
                "user": {
                    "client-certificate-data": _data(credentials.admin.certificate),
                    "client-key-data": _data(credentials.admin.key),
                },
            }
        ],
        "contexts": [{"name": "kapi", "context": {"cluster": "kapi", "user": ADMIN}}],
        "current-context": "kapi",
        "preferences": {},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, yaml.encode(config))


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


# -- objects --------------------------------------------------------------------------------------------------------


def first_address(service_cidrs: Sequence[str]) -> str:
    """The cluster IP of the Service `kubernetes`: the first address of the primary range."""
    return AddressRange(service_cidrs[0]).first


async def ensure_objects(
    transport: InProcessTransport, port: int, service_cidrs: Sequence[str] = (DEFAULT_SERVICE_CIDR,)
) -> None:
    """Create what every cluster has, all at once; what is there already stays as it is."""
    work = [_ensure_default(transport, port, service_cidrs)]
    work += [_ensure_namespace(transport, name) for name in SYSTEM_NAMESPACES if name != DEFAULT_NAMESPACE]
    for name, value, description in _PRIORITY_CLASSES:
        body = {"metadata": {"name": name}, "value": value, "description": description}
        work.append(_ensure(transport, "/apis/scheduling.k8s.io/v1/priorityclasses", body))
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if outcome is not None:
            raise outcome


async def _ensure_default(transport: InProcessTransport, port: int, service_cidrs: Sequence[str]) -> None:
    """The default namespace, the range of cluster IPs, and the Service of the server."""
    await _ensure_namespace(transport, DEFAULT_NAMESPACE)
    await _ensure_service_cidr(transport, service_cidrs)
    try:
        service = _service(port, first_address(service_cidrs))
        await _ensure(transport, f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/services", service)
    except BootstrapError as error:
        # Its address may have been given to another object while the Service was deleted. Clients can work without it.
        _log.warning("the Service kubernetes cannot be created", error=str(error))


async def _ensure_service_cidr(transport: InProcessTransport, service_cidrs: Sequence[str]) -> None:
    """The ServiceCIDR `kubernetes` of `--service-cluster-ip-range`, ready, as kube-apiserver makes it.

    One that exists is not changed, except that a second IP family is added.
    """
    path = f"{_SERVICE_CIDRS}/{DEFAULT_NAME}"
    await _ensure(transport, _SERVICE_CIDRS, {"metadata": {"name": DEFAULT_NAME}, "spec": {"cidrs": [*service_cidrs]}})
    found = await transport.request("GET", path)
    current: Object = json.decode(await found.read())
    stored = current["spec"]["cidrs"]
    if stored == [service_cidrs[0]] != [*service_cidrs]:
        change: Object = {"spec": {"cidrs": [*service_cidrs]}}
        await _send(transport, "PATCH", path, change, MERGE_PATCH)
    elif stored != [*service_cidrs]:
        _log.warning("the ServiceCIDR kubernetes is not --service-cluster-ip-range", cidrs=stored)
    conditions = (current.get("status") or {}).get("conditions") or ()
    if is_deleting(current) or any(one.get("type") == "Ready" for one in conditions):
        return
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "",
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
    await _send(transport, "PATCH", f"{path}/status?{options}", status, APPLY_PATCH)


_PRIORITY_CLASSES = (
    ("system-cluster-critical", 2_000_000_000, "For pods the cluster needs, which may move between nodes."),
    ("system-node-critical", 2_000_001_000, "For pods a node needs, which must not be moved from it."),
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
    await _ensure(transport, "/api/v1/namespaces", {"metadata": {"name": name}})


async def _ensure(transport: InProcessTransport, path: str, body: Object) -> None:
    name = body["metadata"]["name"]
    found = await transport.request("GET", f"{path}/{name}")
    await found.read()
    if found.status == 200:
        return
    await _send(transport, "POST", path, body)


async def _send(
    transport: InProcessTransport, method: str, path: str, body: Object, content_type: str = "application/json"
) -> None:
    answer = await transport.request(method, path, {"content-type": content_type}, json.encode(body))
    text = await answer.read()
    if answer.status not in (200, 201, 409):
        raise BootstrapError(f"{method} {path} was answered with {answer.status}: {text.decode()}")
