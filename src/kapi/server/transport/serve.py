"""Listening: sockets, TLS, and the way from running to stopped.

`Server` owns the listening sockets and knows every open connection. It decides nothing about requests; it hands them
to the handler through `connection`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import heapq
import logging
import os
import socket
import stat
from collections import Counter
from typing import TYPE_CHECKING, Final

from kapi.server.transport.acceptor import Acceptor
from kapi.server.transport.connection import Connection
from kapi.server.transport.limits import Limits
from kapi.server.transport.memory import MemoryAccount
from kapi.server.transport.readturns import ReadTurns

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from kapi.base.smallobjects import SmallObjects
    from kapi.server.transport.message import Handler

MANY: Final = 500
FEW: Final = 250
"""Connections from and up to which small objects are in the heap. Below that they take a few MiB."""

log = logging.getLogger(__name__)


class Server:
    """Serves a handler on a TCP address, a unix socket, or both.

    `start` returns once connections are accepted; `port` is then the real one. `drain` lets what has begun come to an
    end: requests that have been read are answered, streams end cleanly with what they have sent, idle connections
    close at once. After `close` nothing of the server is left: no socket, no task, no timer.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        host: str | None = None,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        unix: Path | None = None,
        limits: Limits | None = None,
        memory: MemoryAccount | None = None,
        shares_port: bool = False,
        small_objects: SmallObjects | None = None,
    ) -> None:
        if host is None and unix is None:
            raise ValueError("a server needs a host, a unix socket path, or both")
        self.handler = handler
        self.limits = limits or Limits()
        self.memory = memory or MemoryAccount(self.limits)
        self.reads = ReadTurns()
        self.draining = False
        self.retiring = False
        """True if every connection is closed with the response to its next request."""
        self._shares_port = shares_port
        self._small_objects = small_objects
        """Moved to the heap while there are `MANY` connections; None if the process belongs to another program."""
        self.port = port
        self._host = host
        self._tls = tls
        self._unix = unix
        self._acceptors: list[Acceptor] = []
        self._connections: dict[Connection, str] = {}
        """The open connections, by the address of the peer."""
        self._by_address: Counter[str] = Counter()
        self.closed_idle = 0
        """Idle connections that were closed for others."""
        self._empty: asyncio.Future[None] | None = None

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    @property
    def handshakes(self) -> int:
        """The number of connections whose TLS handshake is not finished."""
        return sum(acceptor.handshakes for acceptor in self._acceptors)

    async def start(self) -> None:
        """Listen. A failure leaves nothing behind."""
        try:
            if self._host is not None:
                await self._listen_tcp(self._host)
            if self._unix is not None:
                self._listen(_bind_unix(self._unix), None)
        except BaseException:
            await self.close()
            raise

    def retire(self) -> None:
        """Send clients elsewhere: each connection is closed with its next response, and new ones are still accepted.

        A connection that is closed while it is idle may have a request on its way, which its client then has to repeat.
        """
        self.retiring = True

    async def drain(self, grace: float) -> None:
        """Stop accepting, give what has begun up to `grace` seconds to end, then end it."""
        self._stop_listening()
        for connection in tuple(self._connections):
            connection.drain()
        await self._wait_until_empty(grace)
        if self._connections:
            log.warning("graceful shutdown timed out after %g s: closing %d connections", grace, len(self._connections))
        await self.close()

    async def close(self) -> None:
        """End everything now."""
        self._stop_listening()
        for connection in tuple(self._connections):
            connection.abort()
        await self._wait_until_empty(None)

    # What connections call.

    def admit(self, connection: Connection, address: str) -> bool:
        """Register a connection; returns False if there are too many in use, or the server is shutting down.

        An idle connection is closed for a new one: HTTP clients have to expect that of any idle connection.
        """
        limits = self.limits
        if self.draining:
            return False
        if self._by_address[address] >= limits.connections_per_address and not self.close_idle(address):
            return False
        if len(self._connections) + self.handshakes > limits.connections and not self.close_idle():
            return False
        self._connections[connection] = address
        self._by_address[address] += 1
        if len(self._connections) == MANY and self._small_objects is not None:
            self._small_objects.to_heap()
        return True

    def forget(self, connection: Connection) -> None:
        """The connection is gone."""
        address = self._connections.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]
            if self._small_objects is not None and self._small_objects.in_heap and len(self._connections) < FEW:
                self._small_objects.to_arenas()
                # A dictionary keeps the size it had.
                self._connections = dict(self._connections)
        if not self._connections and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    def close_idle(self, address: str = "") -> int:
        """Close the connections that have been idle for the longest, of one address or of all; returns how many.

        One in a hundred is closed at a time, because looking for them costs milliseconds.
        """
        idle = [
            (since, number, connection)
            for number, (connection, other) in enumerate(self._connections.items())
            if (since := connection.idle_since) is not None and (not address or other == address)
        ]
        chosen = heapq.nsmallest(len(idle) // 100 + 1, idle)
        for _, _, connection in chosen:
            connection.abort()
            self.forget(connection)
        self.closed_idle += len(chosen)
        return len(chosen)

    # Sockets.

    async def _listen_tcp(self, host: str) -> None:
        """Listen on every address of `host`, all on one port."""
        found = await asyncio.get_running_loop().getaddrinfo(
            host or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            try:
                sock = bind_tcp(family, (address[0], self.port, *address[2:]), shares_port=self._shares_port)
            except OSError as error:
                # A host name may stand for addresses this machine does not have, such as ::1 where IPv6 is off.
                if self._acceptors and error.errno in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                    continue
                raise
            self.port = sock.getsockname()[1]
            self._listen(sock, self._tls)

    def _listen(self, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        self._acceptors.append(Acceptor(self, sock, lambda: Connection(self), tls))

    def _stop_listening(self) -> None:
        self.draining = self.retiring = True
        for acceptor in self._acceptors:
            acceptor.close()
        if self._unix is not None and self._acceptors:
            self._unix.unlink(missing_ok=True)
        self._acceptors.clear()

    async def _wait_until_empty(self, seconds: float | None) -> None:
        if not self._connections:
            return
        self._empty = asyncio.get_running_loop().create_future()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._empty


def bind_tcp(family: int, address: tuple[str | int, ...], *, shares_port: bool = False) -> socket.socket:
    """A socket that is bound to an address, which other processes may bind, too, if they share the port."""
    # Named as TCP, because asyncio turns off Nagle's delay only on sockets that say so.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock


def _bind_unix(path: Path) -> socket.socket:
    """A unix socket only its owner can connect to. One left behind by a dead process is replaced."""
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode) and not _answers(path):
        path.unlink()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.bind(os.fspath(path))
        # Connecting fails before `listen`, so there is no moment in which other users could.
        path.chmod(0o600)
    except BaseException:
        sock.close()
        raise
    return sock


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(os.fspath(path)) != errno.ECONNREFUSED
