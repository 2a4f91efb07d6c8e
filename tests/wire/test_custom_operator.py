"""A Go operator on a custom kind, with controller-runtime: installed and uninstalled as test environments do it. The
program is tests/wire/go/peer/operator.go."""

from __future__ import annotations

import os
import subprocess

import pytest
from defined_kinds import DEFINITIONS

from peers import PEERS, peer

pytestmark = pytest.mark.peers

SECONDS = 90


def test_an_operator_follows_its_kind_from_installation_to_removal(shared_server):
    done = subprocess.run(
        [peer(PEERS / "bin/peer", "peer"), "operator"],
        env={
            **os.environ,
            "KUBECONFIG": str(shared_server.kubeconfig),
            "NAMESPACE": "default",
            "DEFINITION": str(DEFINITIONS / "garden.yaml"),
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "installed gardens.green.example.com",
        "tended 50",
        "on clay 25",
        "invalid 2",
        "healed",
        "watched again true, listed again 0",
        "left 40",
        "left 0",
        "uninstalled",
    ]
