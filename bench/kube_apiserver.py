"""kube-apiserver and etcd, from the folder that KUBEBUILDER_ASSETS names.

They are started the way controller-runtime's test environment starts them, except that etcd writes durably, as it does
in a cluster and as Kapi does. Certificates are made here, so that the load comes in by client certificate on both sides
and is authorised by RBAC.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.client import Address
from bench.table import KUBE_APISERVER
from bench.target import HOST, Process, Running, free_port, stopped_on_error, wait_listening, wait_ready
from kapi.base.tls import Authority, KeyPair

VARIABLE = "KUBEBUILDER_ASSETS"
PROGRAMS = ("etcd", "kube-apiserver")
MANAGER = "kube-controller-manager"
"""Not needed but for what it does by itself; the test environment's folder has none."""


def find() -> tuple[KubeApiserver | None, str]:
    """Return kube-apiserver with etcd, or None and the reason."""
    named = os.environ.get(VARIABLE)
    if not named:
        return None, f"{VARIABLE} is not set"
    folder = Path(named)
    missing = [name for name in PROGRAMS if not os.access(folder / name, os.X_OK)]
    if missing:
        return None, f"{VARIABLE} names a folder without {' and '.join(missing)}"
    return KubeApiserver(folder), ""


class KubeApiserver:
    """kube-apiserver, one or several, and etcd."""

    name = KUBE_APISERVER

    def __init__(self, assets: Path, *, servers: int = 1) -> None:
        self._assets = assets
        self._servers = servers

    @property
    def etcd(self) -> Path:
        """The program of etcd."""
        return self._assets / "etcd"

    def versions(self) -> dict[str, str]:
        """Return the versions of both programs."""
        versions = {}
        for name in PROGRAMS:
            command = [str(self._assets / name), "--version"]
            output = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout
            versions[name] = output.strip().partition("\n")[0]
        return versions

    def several(self, servers: int) -> KubeApiserver:
        """The same with so many API servers on one etcd."""
        return KubeApiserver(self._assets, servers=servers)

    def with_manager(self) -> Managed | None:
        """The same with its controller manager, if the folder has one."""
        return Managed(self._assets) if os.access(self._assets / MANAGER, os.X_OK) else None

    admission: tuple[str, ...] = ("--disable-admission-plugins=ServiceAccount",)
    """Service account admission is off, because no controller creates the accounts."""

    def start(self, folder: Path) -> Running:
        pairs = certificates(folder / "pki")
        etcd_port, *ports = [free_port() for _ in range(1 + self._servers)]
        address = Address(
            HOST,
            ports[0],
            str(pairs["ca"].certificate),
            str(pairs["admin"].certificate),
            str(pairs["admin"].key),
            ports[1:],
        )
        began = time.perf_counter()
        etcd = Process(etcd_command(self._assets / "etcd", folder / "etcd", etcd_port), folder / "etcd.log")
        processes = [etcd]
        with stopped_on_error(processes):
            # The API server looks for etcd once a second; starting it too early would count against it.
            wait_listening(etcd_port, etcd)
            for port in ports:
                command = apiserver_command(self._assets / "kube-apiserver", folder, pairs, etcd_port, port)
                processes.append(Process([*command, *self.admission], folder / "kube-apiserver.log"))
                wait_ready(replace(address, port=port), processes)
        return Running(address, processes, began)


class Managed(KubeApiserver):
    """kube-apiserver, etcd and the garbage collector of the controller manager."""

    def start(self, folder: Path) -> Running:
        running = super().start(folder)
        address, config = running.address, folder / "manager.kubeconfig"
        config.write_text(json.dumps(kubeconfig(address)))
        command = manager_command(self._assets / MANAGER, config)
        return Running(address, [*running.processes, Process(command, folder / f"{MANAGER}.log")], time.perf_counter())


def kubeconfig(address: Address) -> dict[str, Any]:
    """Write the kubeconfig of the controller manager, as the administrator."""
    cluster = {"server": f"https://{address.host}:{address.port}", "certificate-authority": address.authority}
    user = {"client-certificate": address.certificate, "client-key": address.key}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": "bench", "user": user}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "current-context": "bench",
    }


def manager_command(program: Path, config: Path) -> list[str]:
    """The garbage collector alone, and without the limit on requests that would be all one measures (20 a second)."""
    return [
        str(program),
        f"--kubeconfig={config}",
        "--controllers=garbage-collector-controller",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=100000",
        "--kube-api-burst=100000",
    ]


def certificates(folder: Path) -> dict[str, KeyPair]:
    """An authority, a server, an administrator, and a key that signs service account tokens."""
    names = ("ca", "server", "admin", "service-account")
    pairs = {name: KeyPair(folder / f"{name}.crt", folder / f"{name}.key") for name in names}
    authority = Authority.ensure(pairs["ca"], "bench-ca")
    authority.ensure_server(pairs["server"], ("localhost", HOST))
    authority.ensure_client(pairs["admin"], "bench-admin", ("system:masters",))
    authority.ensure_client(pairs["service-account"], "service-account")
    return pairs


def etcd_command(program: Path, data: Path, port: int) -> list[str]:
    """One member, plain HTTP on the loopback interface, durable."""
    url = f"http://{HOST}:{port}"
    return [
        str(program),
        f"--data-dir={data}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        "--listen-peer-urls=http://localhost:0",
        "--log-level=warn",
    ]


def apiserver_command(program: Path, folder: Path, pairs: dict[str, KeyPair], etcd_port: int, port: int) -> list[str]:
    """TLS, client certificates, RBAC."""
    return [
        str(program),
        f"--etcd-servers=http://{HOST}:{etcd_port}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'pki'}",
        f"--tls-cert-file={pairs['server'].certificate}",
        f"--tls-private-key-file={pairs['server'].key}",
        f"--client-ca-file={pairs['ca'].certificate}",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pairs['service-account'].certificate}",
        f"--service-account-signing-key-file={pairs['service-account'].key}",
        "--service-cluster-ip-range=10.0.0.0/24",
    ]
