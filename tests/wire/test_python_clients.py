"""Other people's Python clients, each in a script as its users would write it; the scripts assert, the tests compare."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peers import PEERS, peer

if TYPE_CHECKING:
    from kapi_process import Server

pytestmark = pytest.mark.peers

SCRIPTS = Path(__file__).parent / "clients"
SECONDS = 60


def use(client: str, server: Server, tmp_path: Path) -> str:
    """Run the script of one client with a namespace and a home of its own."""
    python = peer(PEERS / "clients/bin/python", "clients")
    done = subprocess.run(
        [python, "-W", "error::ResourceWarning", SCRIPTS / f"use_{client}.py", client.replace("_", "-")],
        env={"HOME": str(tmp_path), "KUBECONFIG": str(server.kubeconfig), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_official_client_works(shared_server, tmp_path):
    assert use("kubernetes", shared_server, tmp_path).splitlines() == [
        "created a",
        "patched {'k': '2'}",
        "conflict Conflict",
        "scaled 3",
        "watched MODIFIED MODIFIED MODIFIED DELETED",
        "dynamic ok",
        "gone 404",
    ]


def test_kubernetes_asyncio_works(shared_server, tmp_path):
    assert use("kubernetes_asyncio", shared_server, tmp_path).splitlines() == [
        "created s",
        "watched MODIFIED MODIFIED DELETED",
        "gone 404",
    ]


def test_lightkube_works(shared_server, tmp_path):
    assert use("lightkube", shared_server, tmp_path).splitlines() == [
        "created a",
        "patched {'k': '2', 'l': '3'}",
        "conflict Conflict",
        "scaled 4",
        "watched MODIFIED MODIFIED DELETED",
        "gone 404",
    ]


def test_kr8s_works(shared_server, tmp_path):
    assert use("kr8s", shared_server, tmp_path).splitlines() == [
        "server v1.36.0",
        "created a",
        "patched {'k': '2', 'l': '3'}",
        "scaled 2",
        "watched MODIFIED MODIFIED MODIFIED MODIFIED DELETED",
        "gone 404",
    ]
