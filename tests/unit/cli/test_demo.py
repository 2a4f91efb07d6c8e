"""`kapi demo`: from an empty folder to a network that is ready, again without undoing changes, and its errors."""

import asyncio
import signal
import socket
import subprocess
import sys

import pytest

from kapi.cli.demo.network import Network, NetworkSpec, validate
from kapi.client import Client, ClientConfig


def kapi(*arguments):
    command = [sys.executable, "-m", "kapi", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.slow
def test_the_example_becomes_ready_and_a_second_run_keeps_what_the_user_changed(tmp_path):
    arguments = ["demo", "--data-dir", str(tmp_path / "data"), "--bind", "127.0.0.1:0"]
    process = subprocess.Popen([sys.executable, "-m", "kapi", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith("Ready at https://127.0.0.1:")
        lines = iter(process.stdout.readline, "")
        row = next(line for line in lines if line.startswith("default"))
        assert row.split()[:5] == ["default", "example-network", "192.168.0.0/16", "192.168.0.1", "Ready"]
        asyncio.run(_change_gateway(tmp_path / "data" / "admin.kubeconfig"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()
    again = kapi(*arguments, "--once")
    assert (again.returncode, again.stderr) == (0, "")
    *_, head, row = again.stdout.rstrip().splitlines()
    assert head.split() == ["NAMESPACE", "NAME", "CIDR", "GATEWAY", "PHASE", "BACKEND"]
    assert row.split()[:5] == ["default", "example-network", "192.168.0.0/16", "192.168.0.9", "Ready"]


async def _change_gateway(kubeconfig):
    async with Client(ClientConfig.from_kubeconfig(kubeconfig)) as client:
        await client.patch(Network, {"spec": {"gateway": "192.168.0.9"}}, name="example-network", namespace="default")


def test_an_address_in_use_is_reported_with_the_option_to_change(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        finished = kapi("demo", "--once", "--storage", "memory", "--data-dir", str(tmp_path), "--bind", bind)
    assert finished.returncode == 1
    assert finished.stderr == f"kapi: {bind} is in use; choose another port: --bind 127.0.0.1:0\n"


@pytest.mark.parametrize(
    ("cidr", "gateway", "problem"),
    [
        ("192.168.0.0/16", "192.168.0.1", ""),
        ("192.168.0.0/16", "", ""),
        ("10.0.0.0/8", "192.168.0.1", "the gateway 192.168.0.1 is not in 10.0.0.0/8"),
        ("10.0.0.1/8", "", "10.0.0.1/8 has host bits set"),
        ("nonsense", "", "'nonsense' does not appear to be an IPv4 or IPv6 network"),
        ("10.0.0.0/8", "nonsense", "'nonsense' does not appear to be an IPv4 or IPv6 address"),
    ],
)
def test_a_spec_that_is_not_valid_is_explained(cidr, gateway, problem):
    assert validate(NetworkSpec(cidr=cidr, gateway=gateway)) == problem
