"""Ordinary Go programs on client-go and controller-runtime: an informer through restarts and a forced relist, protobuf
bodies, leader election, a manager. The programs are in tests/wire/go/peer."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from peers import PEERS, peer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi_process import Server

pytestmark = pytest.mark.peers

SECONDS = 90


def command(program: str) -> list[str]:
    return [str(peer(PEERS / "bin/peer", "peer")), program]


def environment(server: Server, namespace: str) -> dict[str, str]:
    return {**os.environ, "KUBECONFIG": str(server.kubeconfig), "NAMESPACE": namespace}


def run(program: str, server: Server, namespace: str = "default") -> list[str]:
    """The facts a program prints; it must succeed."""
    done = subprocess.run(
        command(program),
        env=environment(server, namespace),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


class Informer:
    """A running informer that takes commands on standard input."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, order: str = "") -> str:
        """Give an order and read the answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        if order:
            stdin.write(order + "\n")
            stdin.flush()
        line = stdout.readline().strip()
        assert line, f"no answer to {order!r}"
        return line


@contextmanager
def informer(server: Server) -> Iterator[Informer]:
    process = subprocess.Popen(
        command("informer"),
        env=environment(server, "default"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        follow = Informer(process)
        assert follow() == "synced"
        yield follow
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        with process:
            process.wait()


def test_an_informer_sees_every_add_update_and_delete(server):
    with informer(server) as follow:
        before = int(follow("verify").removeprefix("equal "))
        assert follow("create 0 30") == "created 30"
        assert follow("touch 0 20") == "touched 20"
        assert follow("delete 0 10") == "deleted 10"
        assert follow("verify") == f"equal {before + 20}"
        assert follow("seen") == f"adds {before + 30} updates 20 deletes 10 expired 0"


def test_an_informer_continues_after_a_restart_without_a_relist(server):
    with informer(server) as follow:
        before = int(follow("verify").removeprefix("equal "))
        assert follow("create 0 10") == "created 10"
        server.stop()
        server.start()
        assert follow("create 10 20") == "created 10"
        assert follow("touch 0 10") == "touched 10"
        assert follow("verify") == f"equal {before + 20}"
        assert follow("seen") == f"adds {before + 20} updates 10 deletes 0 expired 0"


def test_an_informer_relists_when_its_version_is_too_old(server):
    """While it cannot reach the server, the objects change and history is compacted away."""
    with informer(server) as follow:
        assert follow("create 0 10") == "created 10"
        before = int(follow("verify").removeprefix("equal ")) - 10
        server.stop()
        port, server.port = server.port, 0
        server.start("--history-seconds", "1")
        with informer(server) as other:
            assert other("create 10 15") == "created 5"
            assert other("touch 0 3") == "touched 3"
            assert other("delete 3 10") == "deleted 7"
            # Compaction looks at wall time between its rounds; it cannot be triggered from outside.
            time.sleep(4)
            assert other("verify") == f"equal {before + 8}"
        server.stop()
        server.port = port
        server.start()
        assert follow("verify") == f"equal {before + 8}"
        seen = follow("seen").split()
        # A relist delivers an update of every object, changed or not.
        assert seen[:6] == ["adds", str(before + 15), "updates", str(before + 3), "deletes", "7"]
        assert int(seen[7]) >= 1, "the server never said that the version was too old"


def test_typed_clients_may_send_protobuf(server):
    assert run("protobuf", server) == [
        "secret ok",
        "deployment ok",
        "cronjob ok",
        "role ok",
        "pod ok",
        'duplicate refused: roles.rbac.authorization.k8s.io "reader" already exists',
        "pods deleted 1",
        "protobuf bodies 10",
    ]


def test_leader_election_passes_leadership_to_the_next_candidate(shared_server):
    assert run("leader", shared_server) == ["leader one", "leader two", "transitions 1"]


def test_a_controller_runtime_manager_reconciles(server):
    assert run("manager", server) == ["mirrored 5", "healed"]
