"""The operators of the documentation run as it says, and its pages show them as they are."""

import asyncio
import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from kapi import Client, NotFound
from kapi.api.builtin.core_v1 import ConfigMap, PersistentVolumeClaim
from kapi.client import DELETED
from live_plane import live_plane
from type_checks import mypy

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PACKAGES = ("network/network_controller", "imoocpod")
PAGES = {
    "gateways.py": "docs/how-to/operators.md",
    "teams.py": "docs/how-to/operators.md",
    "volumes.py": "docs/how-to/from-kopf.md",
    "guestbooks.py": "docs/how-to/from-controller-runtime.md",
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_the_example(name):
    source = (EXAMPLES / name).read_text().split('"""\n', 1)[1].strip()
    assert f"```python\n{source}\n```" in (ROOT / PAGES[name]).read_text()


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with live_plane(tmp_path_factory.mktemp("plane")) as path:
        yield path


def with_operator(kubeconfig, name, definition, test):
    """Run an operator by `kapi run`, and a test once its kind is defined."""

    async def main():
        operator = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kapi", "run", f"{name}:setup"),
            cwd=EXAMPLES,
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            async with Client.connect(kubeconfig=kubeconfig, field_manager="tests") as client, asyncio.timeout(60):
                kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
                await client.wait_for(kind, definition, "condition=Established", timeout=60)
                await test(client, operator)
        finally:
            operator.send_signal(signal.SIGTERM)
            assert await operator.wait() == 0

    asyncio.run(main())


def custom(api_version, kind, name, **spec):
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def test_gateways_are_configured_follow_their_secrets_and_are_cleaned_up(kubeconfig):
    async def test(client, operator):
        gateway, secret = ("example.com/v1", "Gateway"), ("v1", "Secret")
        await client.create(custom(*gateway, "edge", host="a.example", secret="tls"))

        async def settings(has_secret):
            await client.wait_for(
                ConfigMap,
                "edge",
                lambda one: one.data == {"host": "a.example", "has-secret": str(has_secret)},
                namespace="default",
                timeout=60,
            )

        await settings(has_secret=False)
        await client.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "tls", "namespace": "default", "labels": {"gateways": "yes"}},
            }
        )
        await settings(has_secret=True)
        await client.wait_for(
            gateway, "edge", lambda one: one.get("status") == {"address": "192.0.2.1"}, namespace="default"
        )
        await client.delete(gateway, "edge", namespace="default")
        await client.wait_for(gateway, "edge", DELETED, namespace="default", timeout=60)
        assert await operator.stdout.readline() == b"deleted the record of a.example\n"
        await client.wait_for(ConfigMap, "edge", DELETED, namespace="default", timeout=60)
        with contextlib.suppress(NotFound):
            await client.delete(secret, "tls", namespace="default")

    with_operator(kubeconfig, "gateways", "gateways.example.com", test)


def test_volumes_get_a_claim_and_an_event(kubeconfig):
    async def test(client, operator):
        volume = ("kopf.dev/v1", "EphemeralVolumeClaim")
        await client.create(custom(*volume, "wrong"))
        await client.create(custom(*volume, "data", size="1Gi"))
        claim = await client.wait_for(PersistentVolumeClaim, "data", lambda one: True, namespace="default", timeout=60)
        assert claim.spec.resources.requests == {"storage": "1Gi"}
        await client.wait_for(volume, "data", lambda one: one.get("status") == {"claim": "data"}, namespace="default")
        assert await client.find(PersistentVolumeClaim, "wrong", namespace="default") is None
        # What is there is shown first.
        async with client.watch(("events.k8s.io/v1", "Event"), namespace="default") as events:
            async for event in events:
                if event.object["regarding"]["name"] == "data" and event.object["reason"] == "Created":
                    assert event.object["note"] == "claim data created"
                    break

    with_operator(kubeconfig, "volumes", "ephemeralvolumeclaims.kopf.dev", test)


def test_guestbooks_have_a_config_map_that_comes_back(kubeconfig):
    async def test(client, operator):
        book = ("webapp.example.com/v1", "Guestbook")
        await client.create(custom(*book, "a"))
        await client.wait_for(
            book, "a", lambda one: one.get("status") == {"entries": 3}, namespace="default", timeout=60
        )
        made = await client.get(ConfigMap, "a", namespace="default")
        assert made.data == {"size": "3"}
        await client.delete(made)
        await client.wait_for(
            ConfigMap, "a", lambda one: one.metadata.uid != made.metadata.uid, namespace="default", timeout=60
        )

    with_operator(kubeconfig, "guestbooks", "guestbooks.webapp.example.com", test)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_examples_pass_mypy_and_pyright_strictly():
    pytest.importorskip("pyright", reason="pyright is not installed here: make venv")
    patterns = ("*.py", "*-api/*.py", *(f"{name}/*.py" for name in PACKAGES))
    files = sorted(str(path) for pattern in patterns for path in EXAMPLES.glob(pattern))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    for done in (
        mypy(EXAMPLES, *files),
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False),
    ):
        assert done.returncode == 0, done.stdout + done.stderr
