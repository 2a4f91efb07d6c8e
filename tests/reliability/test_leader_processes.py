"""Leaders that are killed and leaders that are frozen, in processes of their own: at no time do two of them write.

Every write is a change of one object, so the server's history of it is the order in which everybody acted, whatever the
processes believe of themselves.
"""

import asyncio
import contextlib
import itertools
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from leader_worker import CLOCK, LEDGER, LOST
from live_server import LiveServer

from kapi import Client, ObjectMeta
from kapi.api.builtin.core_v1 import ConfigMap

WORKER = Path(__file__).with_name("leader_worker.py")
SECONDS = 25
"""For all of it: a guard. Two leases of two seconds run out meanwhile."""


class Write(NamedTuple):
    revision: int
    writer: str
    count: int


class Ledger:
    """All writes in the order in which the server made them."""

    def __init__(self, events):
        self._events = events
        self.writes = []

    async def next(self):
        """The next write, as soon as it has been made."""
        event = await anext(self._events)
        obj = event.object
        write = Write(int(obj.metadata.resource_version), obj.data["writer"], int(obj.data["count"]))
        self.writes.append(write)
        return write

    async def until(self, writer, writes=1):
        """Read until so many further writes were made by any process."""
        while writes:
            writes -= (await self.next()).writer == writer


class Processes:
    """Managers that want to lead, by identity."""

    def __init__(self, kubeconfig):
        self._kubeconfig = kubeconfig
        self._all = {}

    async def start(self, identity):
        self._all[identity] = await asyncio.create_subprocess_exec(
            sys.executable, str(WORKER), str(self._kubeconfig), identity, stderr=asyncio.subprocess.PIPE
        )

    def signal(self, identity, number):
        self._all[identity].send_signal(number)

    async def ended(self, identity):
        """The exit status and the last words of one that comes to its end."""
        process = self._all[identity]
        words = (await process.stderr.read()).decode()
        return await process.wait(), words

    async def kill_all(self):
        for process in self._all.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        for process in self._all.values():
            await process.communicate()


def config_map(name):
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))


@contextlib.asynccontextmanager
async def ledger(client):
    made = await client.create(config_map(LEDGER))
    await client.create(config_map(CLOCK))
    selection = {"metadata.name": LEDGER}
    since = made.metadata.resource_version
    async with client.watch(ConfigMap, namespace="default", fields=selection, resource_version=since) as events:
        yield Ledger(events)


async def take_turns(writes, processes):
    """A leads and is killed; B leads and is frozen until C leads; B is thawed. What became of B."""
    await processes.start("a")
    await writes.until("a", 3)
    await processes.start("b")
    await writes.until("a", 3)
    processes.signal("a", signal.SIGKILL)
    await writes.until("b", 3)
    await processes.start("c")
    # Right after a write, when it has time to wait for the next: freezing it between its decision to write and the
    # sending is the one case that no lease can help with.
    await writes.until("b", 1)
    processes.signal("b", signal.SIGSTOP)
    await writes.until("c", 3)
    processes.signal("b", signal.SIGCONT)
    status, words = await processes.ended("b")
    # Whatever b sent before its end has been answered, and is in the history before these.
    await writes.until("c", 3)
    return status, words


async def run(server):
    kubeconfig = server.directory / "admin.kubeconfig"
    processes = Processes(kubeconfig)
    try:
        async with asyncio.timeout(SECONDS), Client.connect(kubeconfig=kubeconfig) as client, ledger(client) as writes:
            status, words = await take_turns(writes, processes)
            return writes.writes, status, words
    finally:
        await processes.kill_all()


@pytest.mark.slow
def test_only_the_elected_leader_writes_and_a_suspended_leader_never_writes_again(tmp_path):
    with LiveServer(tmp_path / "data") as server:
        writes, status, words = asyncio.run(run(server))
    turns = [
        (writer, [write.count for write in turn]) for writer, turn in itertools.groupby(writes, lambda w: w.writer)
    ]
    print(f"\n{len(writes)} writes: {', '.join(f'{len(counts)} by {writer}' for writer, counts in turns)}")
    assert [writer for writer, _ in turns] == ["a", "b", "c"], "each leads once, and none writes in another's time"
    assert all(counts == list(range(1, len(counts) + 1)) for _, counts in turns), "no write is missing in the history"
    assert [write.revision for write in writes] == sorted({write.revision for write in writes})
    assert status == LOST, words
