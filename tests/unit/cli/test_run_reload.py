"""`kapi run --reload`: a change of a file restarts the operator, and nothing is left behind."""

import asyncio
import contextlib
import os
import signal
import sys

import pytest

from kapi import Client
from live_plane import live_plane

OPERATOR = """
import os
from kapi import Manager
from kapi.api.meta import GroupVersionKind

def setup(manager: Manager) -> None:
    async def reconcile(request) -> None:
        print(f"VERSION saw {request}", flush=True)

    manager.builder().for_(GroupVersionKind("", "v1", "Secret")).complete(reconcile)
    print(f"VERSION is {os.getpid()}", flush=True)
"""
LEASE = ("coordination.k8s.io/v1", "Lease")


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with live_plane(tmp_path_factory.mktemp("plane")) as path:
        yield path


class Operator:
    """`kapi run --reload` in a folder, and the lines it writes."""

    def __init__(self, process):
        self.process = process

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, folder, kubeconfig, *options, **environment):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kapi", "run", "--reload", "op:setup", *options),
            cwd=folder,
            env={**os.environ, "KUBECONFIG": str(kubeconfig), **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(90):
                yield cls(process)
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    async def line(self, start):
        """Read until a line begins so; returns the rest of it."""
        while line := (await self.process.stdout.readline()).decode():
            if line.startswith(start):
                return line.removeprefix(start).strip()
            assert "waiting for a change" not in line
        raise AssertionError(f"the operator ended without a line {start!r}")

    async def end(self):
        """Read until every process that writes has ended; returns the exit status."""
        await self.process.stdout.read()
        return await self.process.wait()


def write(folder, version):
    (folder / "op.py").write_text(OPERATOR.replace("VERSION", version))


@pytest.mark.slow
def test_a_change_restarts_the_operator_with_the_lease_released(kubeconfig, tmp_path):
    async def main():
        write(tmp_path, "first")
        options = ("--leader-elect", "--leader-elect-resource-name", "reloaded")
        async with (
            Operator.running(tmp_path, kubeconfig, *options, WATCH_NAMESPACE="default") as operator,
            Client.connect(kubeconfig=kubeconfig) as client,
            asyncio.TaskGroup() as group,
        ):
            following = group.create_task(follow(client))
            first = await operator.line("first is ")
            await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})
            await operator.line("first saw default/a")
            write(tmp_path, "second")
            await operator.line("kapi run: op.py changed; restarting")
            second = await operator.line("second is ")
            await operator.line("second saw default/a")
            operator.process.send_signal(signal.SIGTERM)
            assert await operator.end() == 0
            # A lease that was not released would be taken over after 15 s only, without an empty holder between.
            assert await following == [first, "", second, ""]

    asyncio.run(main())


async def follow(client):
    """Return the changes of the lease's holder, by process id, until it was released twice."""
    holders = []
    async with client.watch(LEASE, namespace="default") as events:
        async for event in events:
            holder = (event.object["spec"].get("holderIdentity") or "").rpartition("_")[2]
            if event.object["metadata"]["name"] == "reloaded" and holders[-1:] != [holder]:
                holders.append(holder)
            if holders.count("") == 2:
                break
    return holders


@pytest.mark.slow
def test_a_program_that_cannot_be_imported_is_started_again_at_the_next_change(kubeconfig, tmp_path):
    async def main():
        (tmp_path / "op.py").write_text("raise ImportError('half a file')")
        async with Operator.running(tmp_path, kubeconfig) as operator:
            assert await operator.line("kapi run: ") == "half a file"
            assert await operator.line("kapi run: ") == "exited with status 2; waiting for a change"
            write(tmp_path, "whole")
            await operator.line("whole is ")
            operator.process.send_signal(signal.SIGINT)
            assert await operator.end() == 0

    asyncio.run(main())


@pytest.mark.slow
def test_the_operator_ends_when_the_command_is_killed(kubeconfig, tmp_path):
    async def main():
        write(tmp_path, "orphan")
        async with Operator.running(tmp_path, kubeconfig) as operator:
            await operator.line("orphan is ")
            operator.process.kill()
            # Its standard output is the operator's, too: it ends when both have.
            assert await operator.end() == -signal.SIGKILL

    asyncio.run(main())
