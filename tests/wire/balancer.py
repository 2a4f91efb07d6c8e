"""A TCP load balancer as one is put in front of API servers: it asks each of them for /readyz, and knows nothing else.

A connection goes to one server for its whole life. New ones go round the servers whose last answer was 200. There is no
second attempt: a connection to a server that refuses it is a failure that the client sees.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from typing import TYPE_CHECKING, Self

from live_server import Disconnected, Line

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from shared_site import ApiServer

INTERVAL = 0.2
"""Seconds between two questions for /readyz."""


class Balancer:
    """Passes connections on to servers that are ready. With `asks` False it does not ask, and passes them to any."""

    def __init__(self, servers: Sequence[ApiServer], *, asks: bool = True) -> None:
        self._servers = servers
        self._asks = asks
        self.ready: set[ApiServer] = set(servers)
        self.changed = asyncio.Event()
        """Set when the servers that are ready have changed."""
        self.connections: Counter[ApiServer] = Counter()
        """How many connections were passed to each server."""
        self.port = 0
        self._turns = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def token(self) -> str:
        return self._servers[0].token

    @property
    def context(self) -> ssl.SSLContext:
        return self._servers[0].context

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        if self._asks:
            self._tasks = {asyncio.ensure_future(self._ask(server)) for server in self._servers}
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask(self, server: ApiServer) -> None:
        while True:
            is_ready = await _is_ready(server)
            if is_ready != (server in self.ready):
                (self.ready.add if is_ready else self.ready.remove)(server)
                self.changed.set()
            await asyncio.sleep(INTERVAL)

    async def until(self, server: ApiServer, *, is_ready: bool) -> None:
        """Wait until a server is ready, or is not, as far as the balancer knows."""
        while (server in self.ready) != is_ready:
            self.changed.clear()
            await self.changed.wait()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        choice = [server for server in self._servers if server in self.ready]
        far: asyncio.StreamWriter | None = None
        try:
            server = choice[next(self._turns) % len(choice)]
            self.connections[server] += 1
            far_reader, far = await asyncio.open_connection("127.0.0.1", server.port)
            await asyncio.gather(_pass(reader, far), _pass(far_reader, writer))
        except OSError:
            pass
        finally:
            for one in (writer, far):
                if one is not None:
                    one.transport.abort()
            self._tasks.discard(task)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on in one direction, and then its end."""
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _is_ready(server: ApiServer) -> bool:
    try:
        line = await Line.open(server)
    except Disconnected:
        return False
    try:
        return bool((await line.request("GET", "/readyz", headers={"Connection": "close"})).status == 200)
    except Disconnected:
        return False
    finally:
        line.close()
