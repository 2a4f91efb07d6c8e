"""Other people's Python clients and kopf on custom kinds; the scripts are as their users would write them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from defined_kinds import DEFINITIONS

from peers import PEERS, peer

if TYPE_CHECKING:
    from kapi_process import Server

pytestmark = pytest.mark.peers

SCRIPTS = Path(__file__).parent / "clients"
SECONDS = 60


def use(script: str, server: Server, tmp_path: Path) -> list[str]:
    """The facts a script prints; it defines Lamps, works on them in a namespace of its own, and takes them away."""
    python = peer(PEERS / "clients/bin/python", "clients")
    done = subprocess.run(
        [
            *(python, "-W", "error::ResourceWarning", SCRIPTS / f"{script}.py"),
            *(script.replace("_", "-"), DEFINITIONS / "lamp.yaml"),
        ],
        env={"HOME": str(tmp_path), "KUBECONFIG": str(server.kubeconfig), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_the_official_client_works(shared_server, tmp_path):
    assert use("custom_kubernetes", shared_server, tmp_path) == [
        "established Lamp",
        "created a",
        "patched {'bulbs': 3, 'watts': 60}",
        "conflict Conflict",
        "invalid 422",
        "applied attic",
        "watched MODIFIED MODIFIED MODIFIED MODIFIED MODIFIED DELETED",
        "gone 404",
    ]


def test_lightkube_works(shared_server, tmp_path):
    assert use("custom_lightkube", shared_server, tmp_path) == [
        "established Lamp",
        "created a",
        "patched {'bulbs': 3, 'watts': 60}",
        "conflict Conflict",
        "strategic 415",
        "applied attic",
        "watched MODIFIED MODIFIED MODIFIED MODIFIED MODIFIED DELETED",
        "gone 404",
    ]


def test_kr8s_works(shared_server, tmp_path):
    assert use("custom_kr8s", shared_server, tmp_path) == [
        "established Lamp",
        "created a",
        "patched {'bulbs': 3, 'watts': 60}",
        "watched MODIFIED MODIFIED MODIFIED MODIFIED MODIFIED DELETED",
        "gone 404",
    ]


def test_an_operator_on_kopf_works(shared_server, tmp_path):
    assert use("custom_kopf", shared_server, tmp_path) == [
        "lit 10",
        "followed 10",
        "reported from 1 to 5",
        "switched off",
        "stopped 0",
    ]


def test_webhooks_on_kopf_register_themselves_and_are_called(shared_server, tmp_path):
    assert use("admission_kopf", shared_server, tmp_path) == ["labelled yes", "refused 418", "stopped 0"]
