"""`kapi demo`: the story from an empty folder to a network that is ready, and what it says when it cannot be told."""

import socket
import subprocess
import sys

import pytest

from kapi.cli.demo.network import NetworkSpec, judge


def kapi(*arguments):
    command = [sys.executable, "-c", "from kapi.cli.entry import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.slow
def test_the_story_ends_well_and_can_be_told_again(tmp_path):
    for _ in range(2):
        told = kapi("demo", "--once", "--data-dir", str(tmp_path / "data"), "--bind", "127.0.0.1:0")
        assert told.returncode == 0, told.stderr
        assert told.stdout.startswith("Ready at https://127.0.0.1:")
        *_, head, row = told.stdout.rstrip().splitlines()
        assert head.split() == ["NAMESPACE", "NAME", "CIDR", "GATEWAY", "PHASE", "BACKEND"]
        assert row.split()[:5] == ["default", "example-network", "192.168.0.0/16", "192.168.0.1", "Ready"]
        assert "in memory" in row


def test_an_address_in_use_is_one_line_and_a_failure(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        told = kapi("demo", "--once", "--storage", "memory", "--data-dir", str(tmp_path), "--bind", bind)
    assert told.returncode == 1
    assert told.stderr.startswith("kapi: ")
    assert "Traceback" not in told.stderr


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
def test_wishes_that_cannot_be_fulfilled_are_told_why(cidr, gateway, problem):
    assert judge(NetworkSpec(cidr=cidr, gateway=gateway)) == problem
