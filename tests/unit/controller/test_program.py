"""Operators as programs: `kapi run module:name` and `kapi.run`, in processes of their own."""

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kapi import Client
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.cli.main import run as run_command
from kapi.client import ConfigError
from kapi.controller.program import _address, _leadership, _program_name, add_options
from live_plane import live_plane

OPERATOR = '''
"""An operator for tests."""

import asyncio

import kapi
from kapi import Manager
from kapi.api.builtin.core_v1 import ConfigMap

async def reconcile(config: ConfigMap) -> None:
    if config.metadata.name == "program":
        print("reconciled", manager_of.namespaces, manager_of.live.field_manager, sorted(manager_of.ports), flush=True)

async def setup(manager: Manager) -> None:
    global manager_of
    manager_of = manager
    manager.builder().for_(ConfigMap).complete(reconcile)

not_a_setup = 5

if __name__ == "__main__":
    kapi.run(setup)
'''


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with live_plane(tmp_path_factory.mktemp("plane")) as path:
        yield path


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "networks.py").write_text(OPERATOR)
    return tmp_path


FLAGS = [
    "--namespace=default",
    "--leader-elect",
    "--metrics-bind-address=127.0.0.1:0",
    "--health-probe-bind-address=127.0.0.1:0",
    "--profile-bind-address=127.0.0.1:0",
]


@pytest.mark.parametrize(
    "command", [["-m", "kapi", "run", "networks:setup"], ["networks.py"]], ids=["kapi run", "kapi.run"]
)
def test_an_operator_runs_with_the_flags_it_is_given(kubeconfig, folder, command):
    async def main():
        operator = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            f"--kubeconfig={kubeconfig}",
            *FLAGS,
            cwd=folder,
            env={key: value for key, value in os.environ.items() if key != "KUBECONFIG"},
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            async with Client.connect(kubeconfig=kubeconfig) as client, asyncio.timeout(60):
                with contextlib.suppress(Exception):
                    await client.delete(ConfigMap, "program", namespace="default")
                await client.create(
                    {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "metadata": {"name": "program", "namespace": "default"},
                    }
                )
                line = (await operator.stdout.readline()).decode()
                assert line == "reconciled ('default',) networks ['metrics', 'probes', 'profile']\n"
                lease = await client.get(("coordination.k8s.io/v1", "Lease"), "networks", namespace="default")
                assert str(operator.pid) in lease["spec"]["holderIdentity"]
        finally:
            operator.send_signal(signal.SIGTERM)
            assert await operator.wait() == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("networks", "'networks': expected MODULE:NAME, such as operator:setup"),
        ("nowhere:setup", "No module named 'nowhere'"),
        ("networks:nothing", "module 'networks' has no attribute 'nothing'"),
        ("networks:not_a_setup", "networks:not_a_setup: expected a function that takes a Manager"),
    ],
)
def test_what_cannot_be_run_is_named_in_one_line(folder, target, said):
    done = subprocess.run(
        [sys.executable, "-m", "kapi", "run", target],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"kapi run: {said}")
    assert done.stderr.count("\n") == 1


def test_a_server_that_cannot_be_found_is_one_line_and_a_status(folder):
    done = subprocess.run(
        [sys.executable, "networks.py", f"--kubeconfig={folder}/missing"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(ConfigError.__name__)
    assert "missing" in done.stderr
    assert done.stderr.count("\n") == 1


def test_profile_pages_are_refused_at_an_address_that_other_machines_reach(folder, capsys):
    with pytest.raises(SystemExit, match="2"):
        run_command(["run", "networks:setup", "--profile-bind-address=:6060"])
    assert "--profile-bind-address: profile pages at '0.0.0.0': expected a loopback address" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "name"),
    [("networks.py", "networks"), ("/site/vpc_operator/__main__.py", "vpc_operator"), ("", "operator")],
)
def test_a_program_is_named_after_its_file_or_its_package(path, name):
    assert _program_name(Path(path)) == name


def test_the_lease_has_a_name_that_a_lease_can_have():
    parser = argparse.ArgumentParser()
    add_options(parser)
    client = SimpleNamespace(namespace="default")
    assert _leadership(parser.parse_args(["--leader-elect"]), client, "Vpc_operator").name == "vpc-operator"


def test_addresses_are_read_as_kubernetes_components_read_them():
    assert _address("0") is None
    assert _address(":8080") == ("0.0.0.0", 8080)
    assert _address("127.0.0.1:8081") == ("127.0.0.1", 8081)
    assert _address("[::1]:8081") == ("::1", 8081)
    with pytest.raises(SystemExit):
        run_command(["run", "a:b", "--metrics-bind-address=host"])
