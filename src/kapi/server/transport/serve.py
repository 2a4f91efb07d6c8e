"""Listening: sockets, TLS, and the way from running to stopped.

`Server` owns the listening sockets and knows every open connection. It decides nothing about requests; it hands them
to the handler through `connection`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import stat
from typing import TYPE_CHECKING

from kapi.server.transport.connection import Connection
from kapi.server.transport.limits import Limits
from kapi.server.transport.memory import MemoryAccount

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from kapi.server.transport.message import Handler

BACKLOG = 1024

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
    ) -> None:
        if host is None and unix is None:
            raise ValueError("a server needs a host, a unix socket path, or both")
        self.handler = handler
        self.limits = limits or Limits()
        self.memory = memory or MemoryAccount(self.limits)
        self.draining = False
        self.port = port
        self._host = host
        self._tls = tls
        self._unix = unix
        self._listeners: list[asyncio.Server] = []
        self._connections: set[Connection] = set()
        self._empty: asyncio.Future[None] | None = None

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    async def start(self) -> None:
        """Listen. A failure leaves nothing behind."""
        try:
            if self._host is not None:
                await self._listen_tcp(self._host)
            if self._unix is not None:
                await self._listen(_bind_unix(self._unix), None)
        except BaseException:
            await self.close()
            raise

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

    def admit(self, connection: Connection) -> bool:
        """Register a connection; returns False if there are too many, or the server is shutting down."""
        if self.draining or len(self._connections) >= self.limits.connections:
            return False
        self._connections.add(connection)
        return True

    def forget(self, connection: Connection) -> None:
        """The connection is gone."""
        self._connections.discard(connection)
        if not self._connections and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    # Sockets.

    async def _listen_tcp(self, host: str) -> None:
        """Listen on every address of `host`, all on one port."""
        found = await asyncio.get_running_loop().getaddrinfo(
            host or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            try:
                sock = _bind_tcp(family, (address[0], self.port, *address[2:]))
            except OSError as error:
                # A host name may stand for addresses this machine does not have, such as ::1 where IPv6 is off.
                if self._listeners and error.errno in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                    continue
                raise
            self.port = sock.getsockname()[1]
            await self._listen(sock, self._tls)

    async def _listen(self, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        listener = await asyncio.get_running_loop().create_server(
            lambda: Connection(self),
            sock=sock,
            ssl=tls,
            backlog=BACKLOG,
            ssl_handshake_timeout=self.limits.handshake_timeout if tls else None,
            ssl_shutdown_timeout=self.limits.shutdown_timeout if tls else None,
        )
        self._listeners.append(listener)

    def _stop_listening(self) -> None:
        self.draining = True
        for listener in self._listeners:
            listener.close()
        if self._unix is not None and self._listeners:
            self._unix.unlink(missing_ok=True)
        self._listeners.clear()

    async def _wait_until_empty(self, seconds: float | None) -> None:
        if not self._connections:
            return
        self._empty = asyncio.get_running_loop().create_future()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._empty


def _bind_tcp(family: int, address: tuple[str | int, ...]) -> socket.socket:
    # Named as TCP, because asyncio turns off Nagle's delay only on sockets that say so.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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
