"""API servers on one etcd, behind a load balancer, are restarted one after the other: no request fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from balancer import Balancer
from live_server import Disconnected, Line
from recorded_load import PATH, prepare
from shared_site import Site

from etcd_cluster import PROGRAM
from peers import peer

if TYPE_CHECKING:
    from pathlib import Path

    from live_server import Reply
    from shared_site import ApiServer

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

DELAY = "5s"
"""Much more than the balancer needs to find out, also on a machine that is busy."""
CLIENTS = 6
WATCHERS = 3
ENOUGH = 20
"""Requests that each client makes before the next server is restarted."""


class Client:
    """A client that keeps its connection, as long as the server lets it, and is never without a request."""

    def __init__(self, balancer: Balancer, number: int) -> None:
        self._balancer = balancer
        self._name = f"c-{number}"
        self._line: Line | None = None
        self.statuses: Counter[int] = Counter()
        self.failures: list[str] = []
        self.done = asyncio.Event()
        """Set after each request."""

    async def run(self) -> None:
        """Create, read, replace, list and delete a ConfigMap, again and again."""
        try:
            while True:
                with contextlib.suppress(Disconnected):
                    await self._round()
        finally:
            self._leave()

    async def _round(self) -> None:
        one = f"{PATH}/{self._name}"
        created = await self._request("POST", PATH, {"metadata": {"name": self._name}, "data": {"v": "1"}})
        if created.status == 201:
            await self._request("PUT", one, {**created.json, "data": {"v": "2"}})
        await self._request("GET", one)
        await self._request("GET", PATH)
        await self._request("DELETE", one)

    async def _request(self, method: str, path: str, body: Any = None) -> Reply:
        try:
            if self._line is None:
                self._line = await Line.open(self._balancer)
            reply = await self._line.request(method, path, body)
        except Disconnected as error:
            self.failures.append(f"{method} {path}: {error}")
            self._leave()
            raise
        self.statuses[reply.status] += 1
        if reply.status >= 400:
            self.failures.append(f"{method} {path}: {reply.status} {reply.body[:200]!r}")
        if reply.headers.get("connection") == "close":
            self._leave()
        self.done.set()
        return reply

    def _leave(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    async def progress(self) -> None:
        """Wait until it has made some requests more."""
        wanted = self.statuses.total() + ENOUGH
        while self.statuses.total() < wanted:
            self.done.clear()
            await self.done.wait()


class Watching:
    """A client that watches, and when its watch has ended goes on from where it was."""

    def __init__(self, balancer: Balancer, since: int) -> None:
        self._balancer = balancer
        self.since = since
        self.events: list[tuple[int, str]] = []
        self.arrived = asyncio.Event()
        self.watches = 0
        self.failures: list[str] = []

    async def run(self) -> None:
        while True:
            self.watches += 1
            try:
                line = await Line.open(self._balancer)
                try:
                    async for event in line.watch(f"{PATH}?watch=true&resourceVersion={self.since}"):
                        self._take(event)
                finally:
                    line.close()
            except Disconnected as error:
                self.failures.append(str(error))

    def _take(self, event: dict[str, Any]) -> None:
        if event["type"] == "ERROR":
            self.failures.append(str(event))
            return
        self.since = int(event["object"]["metadata"]["resourceVersion"])
        self.events.append((self.since, event["type"]))
        self.arrived.set()

    async def until(self, revision: int) -> None:
        """Wait until it has seen a revision, and forget what is later."""
        while self.since < revision:
            self.arrived.clear()
            await self.arrived.wait()
        self.events = [event for event in self.events if event[0] <= revision]


async def restart(balancer: Balancer, server: ApiServer, *, asks: bool) -> None:
    server.terminate()
    if asks:
        await balancer.until(server, is_ready=False)
    assert await asyncio.to_thread(server.wait) == 0
    await asyncio.to_thread(server.start)
    if asks:
        await balancer.until(server, is_ready=True)


async def roll(folder: Path, *, asks: bool, restarts: int) -> tuple[list[Client], list[Watching], Balancer]:
    """Restart servers in turn under load; what the clients have seen."""
    options = ("--shutdown-delay-duration", DELAY if asks else "0s")
    async with (
        Site(folder, servers=2, members=1, options=options) as site,
        Balancer(site.servers, asks=asks) as balancer,
    ):
        revision = await prepare(site.servers[0])
        clients = [Client(balancer, number) for number in range(CLIENTS)]
        watching = [Watching(balancer, revision) for _ in range(WATCHERS)]
        async with asyncio.timeout(250), asyncio.TaskGroup() as group:
            working = [group.create_task(client.run()) for client in clients]
            watches = [group.create_task(one.run()) for one in watching]
            await asyncio.gather(*(client.progress() for client in clients))
            for number in range(restarts):
                await restart(balancer, site.servers[number], asks=asks)
                await asyncio.gather(*(client.progress() for client in clients))
            for task in working:
                task.cancel()
            line = await Line.open(site.servers[0])
            reply = await line.request("POST", PATH, {"metadata": {"name": "the-end"}, "data": {}})
            line.close()
            end = int(reply.json["metadata"]["resourceVersion"])
            await asyncio.gather(*(one.until(end) for one in watching))
            for task in watches:
                task.cancel()
    return clients, watching, balancer


def test_no_request_fails_while_servers_are_restarted_in_turn(tmp_path: Path) -> None:
    peer(PROGRAM, "etcd")
    clients, watching, balancer = asyncio.run(roll(tmp_path, asks=True, restarts=2))
    statuses: Counter[int] = sum((client.statuses for client in clients), Counter())
    print(f"\n{statuses.total()} requests, {sum(one.watches for one in watching)} watches")
    assert [failure for client in clients for failure in client.failures] == []
    assert statuses.keys() == {200, 201}
    # All of the clients were at both servers, and left them because they were told to.
    assert min(balancer.connections.values()) >= CLIENTS // 2
    assert balancer.connections.total() > CLIENTS + WATCHERS
    # Watches ended as they should, went on at the other server, and missed and repeated nothing.
    assert [failure for one in watching for failure in one.failures] == []
    assert all(one.watches >= 2 for one in watching)
    revisions = [revision for revision, _ in watching[0].events]
    assert revisions == sorted(set(revisions))
    assert all(one.events == watching[0].events for one in watching)


def test_requests_fail_behind_a_balancer_that_does_not_ask_for_readiness(tmp_path: Path) -> None:
    """The control: with the same load, failures are seen."""
    peer(PROGRAM, "etcd")
    clients, _, _ = asyncio.run(roll(tmp_path, asks=False, restarts=1))
    assert [failure for client in clients for failure in client.failures] != []
