"""Several API servers on one etcd cluster, and what can go wrong with them: a site with faults.

Between every server and every member of etcd there is a TCP proxy, so that a connection can be refused, or be silent in
one direction or both, for one server alone. Processes are killed, stopped and continued by signals. Where this machine
allows it, every server has a wall clock that can be wrong, and every member has another one at each start, and a disk
that can be full.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import skewed_clock
from live_server import LiveServer
from skewed_clock import SkewedClock

import small_disk
from etcd_cluster import EtcdCluster
from kapi.storage.etcd.address import parse_address
from kapi.storage.etcd.storage import EtcdStorage
from peers import disks_can_be_slow

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from etcd_cluster import EtcdMember
    from kapi.storage.interface import Change

PATIENCE = 60.0
"""Seconds within which a fault has its effect. A guard, not a measurement."""
FULL_SECONDS = 10.0
"""Seconds for which a disk stays full at most."""
OPEN, REFUSED, SILENT, DEAF, MUTE = "open", "refused", "silent", "deaf", "mute"
"""The states of a proxy. Silent: nothing passes. Deaf: requests do not arrive. Mute: answers do not come back."""


class Proxy:
    """Passes bytes between one server and one member of etcd, or does not."""

    def __init__(self, member: EtcdMember) -> None:
        self._member = member
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._opened = asyncio.Event()
        self._opened.set()
        self.state = OPEN
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def set(self, state: str) -> None:
        """Change the state. What a silent proxy has read is passed on when it is open again, as after a lost route."""
        self.state = state
        if state == REFUSED:
            for writer in list(self._writers):
                writer.transport.abort()
        if state == OPEN:
            self._opened.set()
        else:
            self._opened.clear()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        far: asyncio.StreamWriter | None = None
        try:
            if self.state == REFUSED:
                return
            far_reader, far = await asyncio.open_connection("127.0.0.1", self._member.client_port)
            self._writers.add(far)
            done, pending = await asyncio.wait(
                [
                    asyncio.ensure_future(self._pass(reader, far, (SILENT, DEAF))),
                    asyncio.ensure_future(self._pass(far_reader, writer, (SILENT, MUTE))),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
            for other in pending:
                other.cancel()
            await asyncio.gather(*done, *pending, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for one in (writer, far):
                if one is not None:
                    self._writers.discard(one)
                    one.transport.abort()
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: tuple[str, ...]) -> None:
        while data := await reader.read(1 << 16):
            while self.state in held:
                await self._opened.wait()
            writer.write(data)
            await writer.drain()


class EtcdLog:
    """Every change in etcd from the beginning on, whatever is compacted meanwhile."""

    def __init__(self, storage: EtcdStorage) -> None:
        self.storage = storage
        self.changes: list[Change] = []
        self.reached = 0
        self._moved = asyncio.Event()

    @classmethod
    async def open(cls, endpoints: str) -> Self:
        storage = await EtcdStorage.open(parse_address(f"etcd://{endpoints}"))
        log = cls(storage)
        await storage.follow(0, log._take)
        return log

    def _take(self, revision: int, changes: Sequence[Change]) -> None:
        self.reached = revision
        self.changes += changes
        self._moved.set()

    async def pass_by(self, revisions: int) -> None:
        """Wait for so many revisions more than etcd has now; a server may know of changes before this log does."""
        wanted = await self.storage.latest() + revisions
        while self.reached < wanted:
            self._moved.clear()
            await self._moved.wait()

    async def complete(self) -> list[Change]:
        """Everything that etcd has now."""
        latest = await self.storage.latest()
        while self.reached < latest:
            self._moved.clear()
            await self._moved.wait()
        return self.changes


class ApiServer(LiveServer):
    """`kapi up` on a store in etcd, with the keys that all servers of the site share."""

    pki: Path

    @property
    def token(self) -> str:
        return (self.pki / "admin.token").read_text().strip()

    @property
    def context(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl.create_default_context(cafile=self.pki / "ca.crt")
        return self._context

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def gaps(self) -> int:
        """How many times it has read the store anew, over all its lives."""
        return self.log.count("the store is read anew")

    def pause(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)


class PlantedServer(ApiServer):
    """A server with a bug that `KAPI_PLANT` names, see `planted_server`."""

    module = "planted_server"


class Site:
    """A cluster of etcd and the API servers on it."""

    def __init__(
        self, folder: Path, *, servers: int = 2, members: int = 3, plant: str = "", options: tuple[str, ...] = ()
    ) -> None:
        self.etcd = EtcdCluster(members, disks=small_disk.is_possible(), syncs=True)
        self.folder = folder
        self.clocks: list[SkewedClock] = []
        """The clock of each server; none where clocks cannot be made wrong."""
        self.proxies: list[list[Proxy]] = []
        """The proxies of each server, one for each member."""
        self.servers: list[ApiServer] = []
        self.log: EtcdLog | None = None
        """Every write, as etcd itself tells it."""
        self._count = servers
        self._plant = plant
        self._options = options
        """Further options of the servers."""

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self.etcd.start)
            self.log = await EtcdLog.open(self.etcd.endpoints)
            for number in range(self._count):
                proxies = [Proxy(member) for member in self.etcd.members]
                for proxy in proxies:
                    await proxy.start()
                self.proxies.append(proxies)
                self.servers.append(self._server(number, ",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies)))
            # Together, unless a planted bug would stop one of two that create the same objects.
            for some in [[server] for server in self.servers] if self._plant else [self.servers]:
                await asyncio.gather(*(asyncio.to_thread(server.start) for server in some))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    def _server(self, number: int, endpoints: str) -> ApiServer:
        kind = PlantedServer if self._plant else ApiServer
        here = str(Path(__file__).parent)
        environment = {"KAPI_PLANT": self._plant, "PYTHONPATH": here} if self._plant else {}
        if skewed_clock.is_possible():
            clock = SkewedClock(self.folder / f"clock-{number}")
            self.clocks.append(clock)
            environment |= clock.environment
        pki = self.folder / "pki"
        server = kind(
            self.folder / f"server-{number}",
            *("--storage", f"etcd://{endpoints}", "--pki-dir", str(pki), "--history-seconds", "86400"),
            *self._options,
            environment=environment,
        )
        server.pki = pki
        return server

    async def __aexit__(self, *_: object) -> None:
        if self.log is not None:
            await self.log.storage.close()
        for server in self.servers:
            if server.is_running:
                with contextlib.suppress(ProcessLookupError):
                    server.resume()
            if server.process is not None and not server.process.stdout.closed:
                await asyncio.to_thread(server.kill)
        for proxy in (proxy for proxies in self.proxies for proxy in proxies):
            await proxy.close()
        await asyncio.to_thread(self.etcd.close)

    def leader(self) -> EtcdMember:
        """The member that leads etcd, as far as one of them knows."""
        return self.etcd.leader()

    def start_member(self, member: EtcdMember, dice: random.Random) -> None:
        """Start a member again, with a clock that is wrong by something else."""
        if skewed_clock.is_possible_for_members():
            member.skew = _skew(dice)
        self.etcd.start_member(member)


async def _pause(dice: random.Random, least: float, most: float) -> None:
    await asyncio.sleep(dice.uniform(least, most))


async def kill_server(site: Site, dice: random.Random) -> None:
    server = dice.choice(site.servers)
    await asyncio.to_thread(server.kill)
    await _pause(dice, 0.0, 1.0)
    await asyncio.to_thread(server.start)


async def restart_server(site: Site, dice: random.Random) -> None:
    server = dice.choice(site.servers)
    server.terminate()
    await asyncio.to_thread(server.wait)
    await asyncio.to_thread(server.start)


async def stop_server(site: Site, dice: random.Random) -> None:
    server = dice.choice(site.servers)
    server.pause()
    try:
        await _pause(dice, 0.3, 3.0)
    finally:
        server.resume()


async def kill_member(site: Site, dice: random.Random) -> None:
    member = dice.choice(site.etcd.members)
    await asyncio.to_thread(site.etcd.kill, member)
    await _pause(dice, 0.0, 2.0)
    site.start_member(member, dice)


async def kill_leader(site: Site, dice: random.Random) -> None:
    member = await asyncio.to_thread(site.leader)
    await asyncio.to_thread(site.etcd.kill, member)
    await _pause(dice, 0.5, 2.0)
    site.start_member(member, dice)


async def stop_leader(site: Site, dice: random.Random) -> None:
    member = await asyncio.to_thread(site.leader)
    site.etcd.pause(member)
    try:
        await _pause(dice, 1.0, 3.0)
    finally:
        site.etcd.resume(member)


async def lose_quorum(site: Site, dice: random.Random) -> None:
    members = dice.sample(site.etcd.members, 2)
    for member in members:
        site.etcd.pause(member)
    try:
        await _pause(dice, 0.5, 2.5)
    finally:
        for member in members:
            site.etcd.resume(member)


async def cut_connection(site: Site, dice: random.Random) -> None:
    """One server and one member do not reach each other, in one direction or in both."""
    proxy = dice.choice(dice.choice(site.proxies))
    await _cut([proxy], dice)


async def isolate_server(site: Site, dice: random.Random) -> None:
    await _cut(dice.choice(site.proxies), dice)


async def _cut(proxies: list[Proxy], dice: random.Random) -> None:
    state = dice.choice([REFUSED, SILENT, DEAF, MUTE])
    for proxy in proxies:
        proxy.set(state)
    try:
        await _pause(dice, 0.5, 3.0)
    finally:
        for proxy in proxies:
            proxy.set(OPEN)


async def outlast_history(site: Site, dice: random.Random) -> None:
    """One server reaches no member of etcd until what it misses has been compacted; it reads the store anew."""
    assert site.log is not None
    server = dice.choice(site.servers)
    proxies = site.proxies[site.servers.index(server)]
    before = server.gaps
    for proxy in proxies:
        proxy.set(REFUSED)
    try:
        async with asyncio.timeout(PATIENCE):
            await site.log.pass_by(30)
            await site.log.storage.compact(site.log.reached)
    finally:
        for proxy in proxies:
            proxy.set(OPEN)
    await _until(lambda: server.gaps > before)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 (what is waited for is in another process)
            await asyncio.sleep(0.02)


def _skew(dice: random.Random) -> int:
    """Seconds by which a clock is wrong: a little, or a lot."""
    return dice.choice([-1, 1]) * dice.choice([0, 1, 5, 60, 3600, 86400])


async def skew_clocks(site: Site, dice: random.Random) -> None:
    """The clock of each server jumps, and stays wrong."""
    for clock in site.clocks:
        clock.set(_skew(dice))


async def fill_disk(site: Site, dice: random.Random) -> None:
    """The disk of one member is full: it ends when it needs another block. It is started again when there is space.

    One whose store was compacted has free pages in its files, and may go on with these for thousands of writes.
    """
    member = dice.choice(site.etcd.members)
    assert member.disk is not None
    await asyncio.to_thread(member.disk.fill)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FULL_SECONDS):
                await _until(lambda: not member.is_running)
        await _pause(dice, 0.0, 2.0)
    finally:
        await asyncio.to_thread(member.disk.free)
    if not member.is_running:
        site.start_member(member, dice)


async def slow_disks(site: Site, dice: random.Random) -> None:
    """The disks of some members are slow for a while: a little, or slower than a leader may be."""
    chosen = dice.sample(site.etcd.members, dice.randint(1, len(site.etcd.members)))
    for member in chosen:
        member.slow_down(dice.choice([0.02, 0.2, 1.5]))
    try:
        await _pause(dice, 1.0, 3.0)
    finally:
        for member in chosen:
            member.slow_down(0.0)


async def refuse_servers(site: Site, dice: random.Random) -> None:
    """Every server in turn loses its connections to etcd, and makes new ones."""
    for proxies in site.proxies:
        for proxy in proxies:
            proxy.set(REFUSED)
        await asyncio.sleep(0.3)
        for proxy in proxies:
            proxy.set(OPEN)


async def nothing(site: Site, dice: random.Random) -> None:
    """No fault, for a moment."""
    await asyncio.sleep(0.1)


FAULTS: dict[str, Any] = {
    fault.__name__: fault
    for fault in (
        kill_server,
        restart_server,
        stop_server,
        kill_member,
        kill_leader,
        stop_leader,
        lose_quorum,
        cut_connection,
        isolate_server,
        outlast_history,
        *([skew_clocks] if skewed_clock.is_possible() else []),
        *([fill_disk] if small_disk.is_possible() else []),
        *([slow_disks] if disks_can_be_slow() else []),
    )
}
"""What can go wrong, by name. Some of it cannot be made to happen on every machine."""
