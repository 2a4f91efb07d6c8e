"""kubectl on API servers of one's own, behind Kapi: the examples, which register themselves."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kapi_process import Server

from peers import PEERS, peer

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.peers

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = 60
TOP_PODS = """\
NAME   CPU(cores)   MEMORY(bytes)
web    250m         96Mi
"""
TOP_NODES = """\
NAME     CPU(cores)   CPU(%)   MEMORY(bytes)   MEMORY(%)
worker   1500m        37%      2048Mi          25%
"""


class Session:
    """kubectl as an administrator, and the example servers that were started."""

    def __init__(self, directory: Path, kubeconfig: Path, kubectl: Path) -> None:
        self.directory = directory
        self.kubeconfig = kubeconfig
        self.environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(directory)}
        self.kubectl = kubectl

    def run(self, *arguments: str, given: str | None = None) -> str:
        """Return what kubectl prints, without spaces at the ends of lines."""
        command = [self.kubectl, *arguments]
        done = subprocess.run(
            command, env=self.environment, input=given, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())

    def refused(self, *arguments: str) -> str:
        """Return the error that kubectl prints."""
        command = [self.kubectl, *arguments]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode != 0
        return done.stderr

    @contextmanager
    def example(self, name: str, *arguments: str) -> Iterator[None]:
        """Run an example behind a Service of its name, and wait until the cluster has found it."""
        folder = name.replace("_", "-")
        self.run("create", "service", "externalname", folder, "--external-name", "localhost")
        program = [sys.executable, str(EXAMPLES / folder / f"{name}.py"), *arguments, "--port", "0"]
        log = (self.directory / f"{name}.log").open("w+")
        process = subprocess.Popen([*program, "--kubeconfig", str(self.kubeconfig)], stderr=log)
        try:
            for service in self._registered(process, Path(log.name)):
                self.run("wait", "--for=condition=Available", f"apiservice/{service}", f"--timeout={SECONDS}s")
            yield
        finally:
            process.terminate()
            assert process.wait(SECONDS) == 0
            log.close()
            self.run("delete", "service", folder)

    def _registered(self, process: subprocess.Popen[bytes], log: Path) -> list[str]:
        """Wait until a server has registered itself; returns the names of its APIServices."""
        until = time.monotonic() + SECONDS
        while (found := re.search(r"serving .*groups=\"?(\[.*\])", log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        versions = (name.split("/") for name in re.findall(r"'([^']+)'", found[1]))
        return [f"{version}.{group}" for group, version in versions]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Session]:
    kubectl = peer(PEERS / "bin/kubectl", "kubectl")
    directory = tmp_path_factory.mktemp("aggregated")
    given = request.config.getoption("--kubeconfig")
    if given is not None:
        yield Session(directory, given.resolve(), kubectl)
        return
    server = Server(directory)
    server.start()
    try:
        yield Session(directory, server.kubeconfig, kubectl)
        server.stop()
    finally:
        server.kill()


def test_kubectl_top_shows_posted_samples(session):
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "worker"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}},
    }
    session.run("create", "-f", "-", given=json.dumps(node))
    with session.example("metrics_api"):
        session.run("create", "-f", str(EXAMPLES / "metrics-api/samples.yaml"))
        assert session.run("top", "pods") == TOP_PODS
        assert session.run("top", "nodes") == TOP_NODES
        assert session.run("top", "pod", "web", "--containers").split("\n")[1].split() == [
            "web",
            "nginx",
            "200m",
            "64Mi",
        ]
        assert session.run("get", "pods.metrics.k8s.io", "-o", "name") == "podmetrics.metrics.k8s.io/web\n"
    assert "ServiceUnavailable" in session.refused("get", "--raw", "/apis/metrics.k8s.io/v1beta1/pods")


def autoscaled() -> str:
    """A Deployment of one pod, which asks for a tenth of a core and runs, and what scales it by half of that."""
    requests = {"requests": {"cpu": "100m"}}
    spec = {"containers": [{"name": "nginx", "image": "nginx", "resources": requests}]}
    labels = {"app": "scaled"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    target = {"type": "Utilization", "averageUtilization": 50}
    objects = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "scaled"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
        },
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "scaled-1", "labels": labels}, "spec": spec},
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "scaled"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "scaled"},
                "maxReplicas": 5,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            },
        },
        {
            "apiVersion": "samples.example.com/v1",
            "kind": "Sample",
            "metadata": {"generateName": "sample-"},
            "spec": {
                "pod": "scaled-1",
                "labels": labels,
                "containers": [{"name": "nginx", "usage": {"cpu": "150m", "memory": "64Mi"}}],
            },
        },
    ]
    return "\n---\n".join(map(json.dumps, objects))


@contextmanager
def autoscaling(session: Session) -> Iterator[None]:
    """kube-controller-manager with the one controller that reads metrics; it needs no nodes."""
    program = Path(os.environ.get("KUBEBUILDER_ASSETS", "")) / "kube-controller-manager"
    if not os.access(program, os.X_OK):
        pytest.skip("KUBEBUILDER_ASSETS names no folder with kube-controller-manager")
    flags = ["--controllers=horizontal-pod-autoscaler-controller", "--leader-elect=false", "--secure-port=0"]
    flags += [f"--horizontal-pod-autoscaler-{name}" for name in ("sync-period=1s", "initial-readiness-delay=0s")]
    with (session.directory / "kube-controller-manager.log").open("w") as log:
        process = subprocess.Popen([program, f"--kubeconfig={session.kubeconfig}", *flags], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait()


def test_the_horizontal_pod_autoscaler_of_kubernetes_scales_by_posted_samples(session):
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [ready]}
    with autoscaling(session), session.example("metrics_api"):
        session.run("create", "-f", "-", given=autoscaled())
        session.run(
            "patch", "pod", "scaled-1", "--subresource=status", "--type=merge", "-p", json.dumps({"status": status})
        )
        session.run("wait", "--for=jsonpath={.spec.replicas}=3", "deployment/scaled", f"--timeout={SECONDS}s")
        used = "jsonpath={.status.currentMetrics[0].resource.current.averageUtilization}"
        assert session.run("get", "hpa", "scaled", "-o", used) == "150\n"


def test_kubectl_reads_and_writes_a_database(session):
    database = session.directory / "library.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE books (isbn TEXT PRIMARY KEY, title TEXT NOT NULL, copies INTEGER)")
        connection.execute("INSERT INTO books VALUES ('9780131103627', 'The C Programming Language', 2)")
    with session.example("sqlite_api", str(database)):
        assert session.run("get", "books").split("\n")[1].split() == [
            "9780131103627",
            "The",
            "C",
            "Programming",
            "Language",
            "2",
        ]
        book = {
            "apiVersion": "db.example.com/v1",
            "kind": "Book",
            "metadata": {"name": "new"},
            "spec": {"title": "New"},
        }
        assert session.run("create", "-f", "-", given=json.dumps(book)) == "book.db.example.com/new created\n"
        assert "AlreadyExists" in session.refused("create", "-f", str(_written(session, book)))
        session.run("patch", "book", "new", "--type=merge", "-p", '{"spec":{"copies":7}}')
        session.run("apply", "--server-side", "-f", str(_written(session, book)))
        assert session.run("get", "book", "new", "-o", "jsonpath={.spec.copies}") == "7\n"
        assert "books.db.example.com is forbidden" in session.refused("get", "books", "--as", "stranger")
        assert "title" in session.run("explain", "books.spec")
        _watch(session, database)
        assert session.run("delete", "book", "new").startswith('book.db.example.com "new" deleted')
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT isbn, copies FROM books").fetchall() == [("9780131103627", 9)]


def _written(session: Session, obj: object) -> Path:
    path = session.directory / "object.json"
    path.write_text(json.dumps(obj))
    return path


def _watch(session: Session, database: Path) -> None:
    """See a change of another program in a watch, which begins with the list that it prints first."""
    command = [session.kubectl, "get", "books", "--watch", "--no-headers", "--field-selector", "metadata.name!=new"]
    with subprocess.Popen(command, env=session.environment, stdout=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None
            assert watching.stdout.readline().split()[-1] == "2"
            with closing(sqlite3.connect(database)) as connection, connection:
                connection.execute("UPDATE books SET copies = 9 WHERE copies = 2")
            assert watching.stdout.readline().split()[-1] == "9"
        finally:
            watching.kill()
