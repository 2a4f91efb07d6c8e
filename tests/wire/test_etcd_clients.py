"""kubectl, Helm and client-go on a server whose store is etcd: a few of their tests, unchanged, and what etcd's faults
look like to a client."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
import test_go_clients
import test_helm
import test_kubectl_reading
import test_kubectl_writing
from kapi_process import Server

from conftest import UNPUBLISHED, Kubectl, running
from etcd_cluster import PROGRAM, EtcdCluster
from peers import PEERS, peer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.peers

_numbers = itertools.count()

three = test_kubectl_reading.three
helm = test_helm.helm

test_informer_after_a_restart = test_go_clients.test_an_informer_continues_after_a_restart_without_a_relist
test_informer_whose_version_is_too_old = test_go_clients.test_an_informer_relists_when_its_version_is_too_old
test_a_release_is_upgraded_and_rolled_back = test_helm.test_a_release_is_upgraded_and_rolled_back
test_a_watch_prints_changes_as_they_come = test_kubectl_reading.test_a_watch_prints_changes_as_they_come
test_lists_are_sorted_and_paged = test_kubectl_reading.test_lists_are_sorted_and_paged
test_a_replace_with_an_old_version_is_refused = test_kubectl_writing.test_a_replace_with_an_old_version_is_refused
test_a_finalizer_delays_deletion = test_kubectl_writing.test_a_finalizer_delays_deletion


def storage(cluster: EtcdCluster, parameters: str = "") -> tuple[str, str]:
    return "--storage", f"etcd://{cluster.endpoints}/clients/{next(_numbers)}{parameters}"


@pytest.fixture
def server(etcd: EtcdCluster, tmp_path: Path) -> Iterator[Server]:
    with running(tmp_path, *storage(etcd)) as server:
        yield server


@pytest.fixture(scope="module")
def shared_server(etcd: EtcdCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server"), UNPUBLISHED, *storage(etcd)) as server:
        yield server


@pytest.fixture
def kubectl() -> Kubectl:
    return Kubectl(peer(PEERS / "bin/kubectl", "kubectl"), 36)


@pytest.fixture
def kubectl_server(shared_server: Server) -> Path:
    return shared_server.kubeconfig


class Client:
    """Raw requests by kubectl; an error is the Status that it prints."""

    def __init__(self, server: Server) -> None:
        self._command = [str(peer(PEERS / "bin/kubectl", "kubectl")), "--kubeconfig", str(server.kubeconfig)]

    def __call__(self, *arguments: str, given: str = "") -> str:
        done = subprocess.run(
            [*self._command, *arguments], input=given, capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout + done.stderr

    def get(self, path: str) -> str:
        return self("get", "--raw", path)

    def until(self, path: str, wanted: str) -> None:
        deadline = time.monotonic() + 60
        while wanted not in (answer := self.get(path)):
            assert time.monotonic() < deadline, answer
            time.sleep(0.1)


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
READY = "/readyz/etcd-readiness"


def config_map(name: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})


def test_a_server_without_a_quorum_of_etcd_serves_old_reads_and_recovers_by_itself(tmp_path: Path) -> None:
    peer(PROGRAM, "etcd")
    cluster = EtcdCluster(3).start()
    server = Server(tmp_path, storage(cluster, "?timeout=4"))
    try:
        server.start()
        client = Client(server)
        client("create", "--raw", CONFIG_MAPS, "-f", "-", given=config_map("a"))
        client.until(READY, "ok")
        for member in cluster.members[1:]:
            cluster.kill(member)
        assert '"name":"a"' in client.get(f"{CONFIG_MAPS}/a?resourceVersion=0")
        assert '"name":"a"' in client.get(f"{CONFIG_MAPS}?resourceVersion=0")
        assert "etcd: no answer in time" in client.get(f"{CONFIG_MAPS}/a")
        assert "etcd: no answer in time" in client("create", "--raw", CONFIG_MAPS, "-f", "-", given=config_map("b"))
        client.until(READY, "etcd cannot be read")
        for member in cluster.members[1:]:
            cluster.start_member(member)
        client.until(f"{CONFIG_MAPS}/a", '"name":"a"')
        client.until(READY, "ok")
        assert '"name":"c"' in client("create", "--raw", CONFIG_MAPS, "-f", "-", given=config_map("c"))
        assert '"name":"c"' in client.get(f"{CONFIG_MAPS}/c")
    finally:
        server.kill()
        cluster.close()
