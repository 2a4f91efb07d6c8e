"""Where the peers are, a server for each, and a terminal with a kubectl in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kapi_process import Server
from recovery.table import PRINTED

from etcd_cluster import PROGRAM, EtcdCluster
from peers import PEERS, peer
from transcript import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator


UNPUBLISHED = "--controllers=-root-ca-certificate-publisher-controller"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubeconfig",
        type=Path,
        help="Run the kubectl sessions against this control plane instead of one of our own, to check what they expect.",
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a process of pytest-xdist: hand the table over to the process that prints."""
    config = session.config
    if PRINTED in config.stash and hasattr(config, "workeroutput"):
        config.workeroutput["recovery"] = config.stash[PRINTED]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take the table from the process that ran the test."""
    table = getattr(node, "workeroutput", {}).get("recovery")
    if table is not None:
        node.config.stash[PRINTED] = table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table of how clients recover, whether or not output is captured."""
    if PRINTED in config.stash:
        terminalreporter.section("recovery")
        terminalreporter.write_line(config.stash[PRINTED])


@pytest.fixture(scope="session")
def etcd() -> Iterator[EtcdCluster]:
    """A cluster of one member. Nothing else writes to it: tests count revisions."""
    peer(PROGRAM, "etcd")
    cluster = EtcdCluster().start()
    yield cluster
    cluster.close()


@dataclass(frozen=True)
class Kubectl:
    """A kubectl to test with."""

    path: Path
    minor: int


def _kubectl(source: str) -> Kubectl:
    if source == "found":
        found = shutil.which("kubectl")
        if found is None:
            pytest.skip("kubectl: none is installed on this machine")
        path = Path(found)
    elif source == "debian":
        path = peer(PEERS / "kubectl-debian/usr/bin/kubectl", "kubectl-debian")
    else:
        path = peer(PEERS / "bin/kubectl", "kubectl")
    shown = subprocess.run(
        [path, "version", "--client", "-o", "json"], capture_output=True, text=True, check=True
    ).stdout
    version = re.search(r'"gitVersion": "v1\.(\d+)\.', shown)
    assert version is not None, shown
    return Kubectl(path, int(version[1]))


@contextmanager
def running(directory: Path, *options: str) -> Iterator[Server]:
    """A server for the length of a block; at its end it must stop cleanly."""
    server = Server(directory, options)
    server.start()
    try:
        yield server
        server.stop()
    finally:
        server.kill()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own, which it may stop and start again."""
    with running(tmp_path) as server:
        yield server


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests that keep to their namespace."""
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="session", params=["1.36", "found", "debian"])
def kubectl(request: pytest.FixtureRequest) -> Kubectl:
    """Each kubectl in turn: the newest, the one on this machine, and Debian's, which is from 2021."""
    return _kubectl(request.param)


@pytest.fixture(scope="session")
def kubectl_server(
    kubectl: Kubectl, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The kubeconfig of a server that only this kubectl uses, so that cluster-wide names do not collide.

    Nothing is put into the ConfigMaps of its namespaces that the sessions did not put there.
    """
    given = request.config.getoption("--kubeconfig")
    if given is not None:
        yield given.resolve()
        return
    with running(tmp_path_factory.mktemp("server"), UNPUBLISHED) as server:
        yield server.kubeconfig


@pytest.fixture
def terminal(kubectl: Kubectl, kubectl_server: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Terminal:
    """A terminal in an empty directory and home, with a namespace of the test's own as kubectl's default."""
    home = tmp_path / "home"
    programs = tmp_path / "bin"
    work = tmp_path / "work"
    for directory in (home / ".kube", programs, work):
        directory.mkdir(parents=True)
    (programs / "kubectl").symlink_to(kubectl.path)
    config = shutil.copy(kubectl_server, home / ".kube" / "config")
    environment = {
        "HOME": str(home),
        "KUBECONFIG": str(config),
        "PATH": f"{programs}:{os.defpath}:/usr/local/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "KUBECTL_KUBERC": "false",
    }
    namespace = _namespace(request.node)
    terminal = Terminal(work, environment, kubectl.minor, namespace)
    terminal.output(f"kubectl create namespace {namespace}")
    terminal.output(f"kubectl config set-context --current --namespace={namespace}")
    return terminal


def _namespace(test: pytest.Item) -> str:
    """A namespace named after the test, and its own also where tests of several modules and kubectls share a server."""
    readable = test.name.partition("[")[0].removeprefix("test_").replace("_", "-")
    return f"{readable[:50].rstrip('-')}-{zlib.crc32(test.nodeid.encode()):08x}"
