"""The examples do what the documentation says, against a control plane over real sockets."""

import asyncio
import os
import pathlib
import signal
import sys

from kapi import Client
from live_plane import live_plane

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPERATOR = ROOT / "examples" / "first_operator.py"


def test_the_operator_in_the_readme_is_the_one_in_the_examples():
    source = OPERATOR.read_text().split('"""\n', 1)[1].strip()
    assert source in (ROOT / "README.md").read_text()


def test_the_first_operator_reports_added_and_deleted_objects(tmp_path):
    async def main(kubeconfig):
        operator = await asyncio.create_subprocess_exec(
            sys.executable,
            str(OPERATOR),
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            async with Client.connect(kubeconfig=kubeconfig, field_manager="tests") as client, asyncio.timeout(60):
                definition = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
                await client.wait_for(definition, "greetings.example.com", "condition=Established", timeout=30)
                greeting = {
                    "apiVersion": "example.com/v1",
                    "kind": "Greeting",
                    "metadata": {"name": "first", "namespace": "default"},
                    "spec": {"whom": "world"},
                }
                await client.create(greeting)
                assert await _said(operator, "default/first: hello, world")
                await client.delete(("example.com/v1", "Greeting"), "first", namespace="default")
                assert await _said(operator, "default/first: gone")
        finally:
            operator.send_signal(signal.SIGTERM)
            assert await operator.wait() == 0

    with live_plane(tmp_path) as kubeconfig:
        asyncio.run(main(kubeconfig))


async def _said(operator, text):
    """Read what the operator says until it is this."""
    while line := (await operator.stdout.readline()).decode():
        if line.strip() == text:
            return True
    return False
