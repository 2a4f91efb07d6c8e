"""The upstream k8s.io/sample-apiserver behind Kapi: discovery, kubectl, watches, its own admission, dead and back."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from etcd_cluster import PROGRAM, EtcdCluster
from kapi.base.tls import Authority, KeyPair
from peers import PEERS, peer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kapi_process import Server

pytestmark = pytest.mark.peers

SECONDS = 60
NAME = "v1alpha1.wardle.example.com"
FLUNDERS = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders"
HOST = "api.wardle.svc"

RIGHTS = """
apiVersion: v1
kind: Namespace
metadata: {name: wardle}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: apiserver, namespace: wardle}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: wardle:system:auth-delegator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:auth-delegator}
subjects: [{kind: ServiceAccount, name: apiserver, namespace: wardle}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: wardle-auth-reader, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{kind: ServiceAccount, name: apiserver, namespace: wardle}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: aggregated-apiserver}
rules:
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, watch, list]
- apiGroups: [admissionregistration.k8s.io, flowcontrol.apiserver.k8s.io]
  resources: ["*"]
  verbs: [get, watch, list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: aggregated-apiserver}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: aggregated-apiserver}
subjects: [{kind: ServiceAccount, name: apiserver, namespace: wardle}]
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: wardle}
spec: {type: ExternalName, externalName: localhost}
"""


class SampleServer:
    """The sample-apiserver, as the ServiceAccount wardle/apiserver and with no more rights than it needs."""

    def __init__(self, folder: Path, kapi: Server, etcd: str) -> None:
        self._folder = folder
        self._kapi = kapi
        self._etcd = etcd
        self._kubectl = peer(PEERS / "bin/kubectl", "kubectl")
        self._program = peer(PEERS / "bin/sample-apiserver", "sample-apiserver")
        self._process: subprocess.Popen[str] | None = None
        self._files = KeyPair(folder / "server.crt", folder / "server.key")
        self.authority = KeyPair(folder / "ca.crt", folder / "ca.key")
        Authority.ensure(self.authority, "wardle").ensure_server(self._files, [HOST])
        self.port = 0

    def run(self, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the admin."""
        command = [str(self._kubectl), f"--kubeconfig={self._kapi.kubeconfig}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, input=text, timeout=SECONDS, check=False)

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Return what kubectl prints; it must succeed."""
        done = self.run(*arguments, text=text)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def until(self, wanted: str, *arguments: str) -> str:
        """Run kubectl until it prints a text; returns what it prints."""
        end = time.monotonic() + SECONDS
        while wanted not in (done := self.run(*arguments)).stdout:
            assert time.monotonic() < end, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def watch(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a kubectl that watches."""
        command = [str(self._kubectl), f"--kubeconfig={self._kapi.kubeconfig}", *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def start(self) -> None:
        """Start it on a free port, and register that port."""
        config = self._folder / "apiserver.kubeconfig"
        if not config.exists():
            self._write_kubeconfig(config)
        command = [str(self._program), f"--etcd-servers=http://{self._etcd}"]
        command += [f"--{kind}kubeconfig={config}" for kind in ("", "authentication-", "authorization-")]
        command += [f"--tls-cert-file={self._files.certificate}", f"--tls-private-key-file={self._files.key}"]
        with (self._folder / "apiserver.log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.kubectl("apply", "-f", "-", text=json.dumps(self._api_service()))

    def _write_kubeconfig(self, path: Path) -> None:
        user = {"token": self.kubectl("create", "token", "apiserver", "--namespace=wardle").strip()}
        admin = json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))
        path.write_text(json.dumps({**admin, "users": [{"name": admin["users"][0]["name"], "user": user}]}))

    def _api_service(self) -> dict[str, object]:
        return {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": NAME},
            "spec": {
                "group": "wardle.example.com",
                "version": "v1alpha1",
                "service": {"namespace": "wardle", "name": "api", "port": self.port},
                "caBundle": base64.b64encode(self.authority.certificate.read_bytes()).decode(),
                "groupPriorityMinimum": 1000,
                "versionPriority": 15,
            },
        }

    def wait_for(self, status: str) -> None:
        """Wait until the APIService is available, or is not."""
        self.kubectl("wait", f"--for=condition=Available={status}", f"apiservice/{NAME}", f"--timeout={SECONDS}s")

    def kill(self) -> None:
        """End the process at once."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with process:
                process.wait()

    def ask(self, *, token: str = "", headers: dict[str, str] | None = None) -> int:
        """Ask the server itself, not through Kapi; returns the status."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        connection = http.client.HTTPSConnection(HOST, self.port, timeout=SECONDS)
        raw = socket.create_connection(("127.0.0.1", self.port), SECONDS)
        connection.sock = context.wrap_socket(raw, server_hostname=HOST)
        try:
            own = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request("GET", FLUNDERS, headers={**own, **(headers or {})})
            return connection.getresponse().status
        finally:
            connection.close()


@pytest.fixture
def sample(server: Server, tmp_path: Path) -> Iterator[SampleServer]:
    peer(PROGRAM, "etcd")
    for tool in ("kubectl", "sample-apiserver"):
        peer(PEERS / "bin" / tool, tool)
    etcd = EtcdCluster().start()
    sample = SampleServer(tmp_path, server, etcd.endpoints)
    try:
        sample.kubectl("apply", "-f", "-", text=RIGHTS)
        sample.start()
        sample.wait_for("true")
        yield sample
    finally:
        sample.kill()
        etcd.close()


def flunder(name: str, **labels: str) -> str:
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return json.dumps({"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "metadata": metadata})


def test_sample_apiserver_is_served_as_if_it_were_kapi(sample: SampleServer) -> None:
    kubectl = sample.kubectl
    # Discovery and OpenAPI are read when the server has become available.
    resources = sample.until("flunders", "api-resources", "--api-group=wardle.example.com", "-o", "name").split()
    assert resources == ["fischers.wardle.example.com", "flunders.wardle.example.com"]
    sample.until("FlunderSpec", "explain", "flunders")

    kubectl("create", "-f", "-", text=flunder("one"))
    assert kubectl("get", "flunders").split("\n")[1].startswith("one ")
    kubectl("label", "flunder/one", "colour=red")
    kubectl("patch", "flunder/one", "--type=merge", "-p", '{"spec":{"reference":"two"}}')
    kubectl("apply", "--server-side", "-f", "-", text=flunder("two", colour="red"))
    names = kubectl("get", "flunders", "-l", "colour=red", "-o", "name").split()
    assert names == ["flunder.wardle.example.com/one", "flunder.wardle.example.com/two"]

    _watch_arrives_while_it_happens(sample)
    _admission_is_that_of_the_other_server(sample)
    _rights_are_checked_on_both_sides(sample)

    sample.kill()
    down = sample.run("get", "flunders")
    assert "the server is currently unable to handle the request" in down.stderr
    sample.wait_for("false")
    assert "deployments.apps" in kubectl("api-resources", "-o", "name").split()
    assert "FlunderSpec" in kubectl("get", "--raw", "/openapi/v3/apis/wardle.example.com/v1alpha1")
    sample.start()
    sample.wait_for("true")
    sample.until("flunder.wardle.example.com/two", "get", "flunders", "-o", "name")
    kubectl("delete", "flunders", "--all")


def _watch_arrives_while_it_happens(sample: SampleServer) -> None:
    with sample.watch("get", "flunders", "-w", "-o", "name") as watch:
        assert watch.stdout is not None
        try:
            seen = {watch.stdout.readline().strip() for _ in range(2)}
            sample.kubectl("create", "-f", "-", text=flunder("three"))
            assert watch.stdout.readline().strip() == "flunder.wardle.example.com/three"
            assert seen == {"flunder.wardle.example.com/one", "flunder.wardle.example.com/two"}
        finally:
            watch.kill()


def _admission_is_that_of_the_other_server(sample: SampleServer) -> None:
    fischer = {"kind": "Fischer", "metadata": {"name": "f"}, "disallowedFlunders": ["banned"]}
    sample.kubectl("create", "-f", "-", text=json.dumps({"apiVersion": "wardle.example.com/v1alpha1", **fischer}))
    end = time.monotonic() + SECONDS
    while True:
        # The plug-in has an informer, which needs a moment to hear of the Fischer.
        refused = sample.run("create", "-f", "-", "--dry-run=server", text=flunder("banned"))
        if refused.returncode or time.monotonic() > end:
            break
    assert "this name may not be used, please change the resource name" in refused.stderr


def _rights_are_checked_on_both_sides(sample: SampleServer) -> None:
    refused = sample.run("get", "flunders", "--as=alice")
    assert 'User "alice" cannot list resource "flunders"' in refused.stderr
    sample.kubectl("create", "serviceaccount", "reader")
    token = sample.kubectl("create", "token", "reader").strip()
    # The server asks Kapi who has this token, and what its user may do.
    assert sample.ask(token=token) == 403
    sample.kubectl("create", "clusterrole", "flunder-reader", "--verb=list", "--resource=flunders.wardle.example.com")
    sample.kubectl(
        "create", "clusterrolebinding", "r", "--clusterrole=flunder-reader", "--serviceaccount=default:reader"
    )
    end = time.monotonic() + SECONDS
    while (status := sample.ask(token=token)) == 403 and time.monotonic() < end:
        time.sleep(0.5)  # It remembers for a few seconds that it was refused.
    assert status == 200
    # Headers of a front proxy count for nothing without its certificate.
    assert sample.ask(headers={"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}) == 403
