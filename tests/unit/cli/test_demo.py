"""`kapi demo`: what happens is in its table, a second run undoes nothing, and errors name the option to change."""

import asyncio
import signal
import socket
import subprocess
import sys

import msgspec
import pytest

from kapi.base.clock import SystemClock
from kapi.cli.demo.network import Network, NetworkSpec, validate
from kapi.cli.demo.view import LiveTable
from kapi.client import Client, ClientConfig

NAMED = ["default/example-network", "192.168.0.0/16", "192.168.0.1"]


def kapi(*arguments):
    command = [sys.executable, "-m", "kapi", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


class Demo:
    """`kapi demo` in a process of its own, whose output is read line by line."""

    def __init__(self, data):
        self.kubeconfig = data / "admin.kubeconfig"
        command = [sys.executable, "-m", "kapi", *demo_arguments(data)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def line_with(self, text):
        """The next line that has a text in it."""
        return next(line for line in iter(self.process.stdout.readline, "") if text in line)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0

    def write(self, action):
        async def main():
            async with Client(ClientConfig.from_kubeconfig(self.kubeconfig), field_manager="alice") as client:
                await action(client)

        asyncio.run(main())


def demo_arguments(data):
    return ["demo", "--data-dir", str(data), "--bind", "127.0.0.1:0"]


async def _change_gateway(client):
    await client.patch(Network, {"spec": {"gateway": "192.168.0.9"}}, name="example-network", namespace="default")


async def _break_gateway(client):
    await client.patch(Network, {"spec": {"gateway": "10.0.0.1"}}, name="example-network", namespace="default")


async def _delete(client):
    await client.delete(Network, "example-network", namespace="default")


@pytest.mark.slow
def test_the_table_tells_what_happens_and_later_runs_keep_what_the_user_changed_or_deleted(tmp_path):
    data = tmp_path / "data"
    with Demo(data) as demo:
        assert demo.line_with("Ready at https://127.0.0.1:")
        columns = ["TIME", "NETWORK", "CIDR", "GATEWAY", "READY", "BACKEND", "WHAT", "HAPPENED"]
        assert demo.line_with("WHAT HAPPENED").split() == columns
        assert demo.line_with("created by kapi-demo").split()[1:4] == NAMED
        reconciled = demo.line_with("Reconciled: created network net-").split()
        assert reconciled[1:6] == [*NAMED, "True", "simulated"]
        assert demo.line_with(f"export KUBECONFIG={demo.kubeconfig}")
        assert demo.line_with("kubectl delete network example-network")
        listed = kapi("get", "networks", f"--kubeconfig={demo.kubeconfig}").stdout.split()
        assert listed[:6] == ["NAME", "CIDR", "GATEWAY", "READY", "REASON", "AGE"]
        assert listed[6:11] == ["example-network", *NAMED[1:], "True", "Reconciled"]
        demo.write(_change_gateway)
        assert demo.line_with("alice changed gateway from 192.168.0.1 to 192.168.0.9")
        assert "True" in demo.line_with("Reconciled: set the gateway to 192.168.0.9")
        demo.stop()
    with Demo(data) as demo:
        stored = demo.line_with("is stored already; the last time: Reconciled: set the gateway to 192.168.0.9").split()
        assert stored[1:6] == [*NAMED[:2], "192.168.0.9", "True", "simulated"]
        demo.line_with("Stop with Ctrl-C")
        demo.write(_break_gateway)
        assert "False" in demo.line_with("InvalidSpec: the gateway 10.0.0.1 is not in 192.168.0.0/16")
        demo.write(_delete)
        assert demo.line_with("deleted, and its network with it")
        demo.stop()
    again = kapi(*demo_arguments(data), "--once")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.endswith(
        "WHAT HAPPENED\nexample-network was deleted in an earlier run, and is not created again.\n"
    )


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


def test_a_change_in_the_same_second_is_told_of_the_one_who_made_it(capsys):
    def network(gateway, owners):
        fields = [
            {
                "manager": manager,
                "time": "2026-01-01T00:00:00Z",
                "fieldsV1": {"f:spec": {f"f:{name}": {} for name in names}},
            }
            for manager, names in owners.items()
        ]
        metadata = {"name": "n", "namespace": "default", "managedFields": fields}
        return msgspec.convert(
            {"metadata": metadata, "spec": {"cidr": "192.168.0.0/16", "gateway": gateway}, "status": {}}, Network
        )

    old = network("192.168.0.1", {"kapi-demo": ["cidr", "gateway"]})
    new = network("192.168.0.9", {"kapi-demo": ["cidr"], "alice": ["gateway"]})
    LiveTable(SystemClock()).on_update(old, new)
    assert "alice changed gateway from 192.168.0.1 to 192.168.0.9" in capsys.readouterr().out
