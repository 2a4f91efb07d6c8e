"""The connections of `http` that are kept: by address, name and certificates, a bounded number, at most a minute."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.base.connecting import Connecting
from kapi.base.httpconnection import Connection
from kapi.base.outboundtls import has_other_name, shown_certificate

if TYPE_CHECKING:
    import ssl

IDLE_SECONDS: Final = 60.0
MAX_PER_SITE: Final = 100
"""Connections to one server. There is no limit in all: one that does not answer must not use up what others need."""


class Site(NamedTuple):
    """The server at the other end. A connection is used again for the same site only."""

    host: str
    port: int
    name: str
    """The name the server's certificate must have."""
    context: ssl.SSLContext | None
    """None: without TLS."""


class ConnectError(Exception):
    """There is no connection; `error` says why. `certificate` is one that was refused for its name."""

    def __init__(self, error: OSError, certificate: bytes = b"") -> None:
        super().__init__(str(error))
        self.error = error
        self.certificate = certificate


class _Kept:
    """The connections to one site."""

    def __init__(self) -> None:
        self.idle: list[Connection] = []
        self.in_use = 0
        self.waiting: deque[asyncio.Future[None]] = deque()

    def wake(self) -> None:
        """Let the next one in line look again."""
        while self.waiting:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


class Pool:
    """Connections, in use and idle. `take` and `release` come in pairs."""

    def __init__(self) -> None:
        self.is_closed = False
        self._sites: dict[Site, _Kept] = {}
        self._open: set[Connection] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._all_lost: asyncio.Future[None] | None = None
        self._connecting = Connecting()

    def take_idle(self, site: Site) -> Connection | None:
        """A connection that is idle; None if there is none, or it is not the caller's turn."""
        kept = self._sites.get(site)
        if kept is None or kept.in_use >= MAX_PER_SITE:
            return None
        while kept.idle:
            connection = kept.idle.pop()
            if connection.is_open:
                kept.in_use += 1
                return connection
        return None

    async def take(self, site: Site) -> Connection:
        """A connection that is idle, or a new one; its `idle_since` is 0 when it is new.

        Raises:
            ConnectError: it could not be made.
        """
        kept = self._sites.get(site)
        if kept is None:
            kept = self._sites[site] = _Kept()
        while kept.in_use >= MAX_PER_SITE:
            turn = asyncio.get_running_loop().create_future()
            kept.waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    kept.wake()
                raise
        connection = self.take_idle(site)
        if connection is not None:
            return connection
        kept.in_use += 1
        try:
            return await self._connect(site)
        except BaseException:
            self._leave(site, kept)
            raise

    def release(self, site: Site, connection: Connection) -> None:
        """Keep a connection, unless it is closed."""
        kept = self._sites[site]
        if connection.is_open and not self.is_closed:
            loop = asyncio.get_running_loop()
            connection.idle_since = loop.time()
            kept.idle.append(connection)
            if self._sweeping is None:
                self._sweeping = loop.call_later(IDLE_SECONDS, self._sweep)
        self._leave(site, kept)

    async def close(self) -> None:
        """Close all connections, and return when they are closed."""
        self.is_closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self._connecting.close()
        if self._open:
            self._all_lost = asyncio.get_running_loop().create_future()
            for connection in list(self._open):
                connection.close()
            await self._all_lost

    async def _connect(self, site: Site) -> Connection:
        loop = asyncio.get_running_loop()
        made = Connection(self._lost)
        failure: OSError | None = None
        try:
            name = site.name if site.context is not None else None
            await self._connecting.make(
                loop.create_connection(lambda: made, site.host, site.port, ssl=site.context, server_hostname=name)
            )
        except UnicodeError:
            # A host that is no name is not known either.
            raise ConnectError(socket.gaierror(socket.EAI_NONAME, "no such host")) from None
        except OSError as error:
            failure = error
        if failure is not None:
            try:
                raise await _refusal(failure, site) from None
            finally:
                # Its traceback refers to this frame.
                del failure
        if made.is_open:
            self._open.add(made)
            if self.is_closed:
                made.close()
        return made

    def _leave(self, site: Site, kept: _Kept) -> None:
        kept.in_use -= 1
        if kept.waiting:
            kept.wake()
        if not kept.idle:
            self._forget(site, kept)

    def _forget(self, site: Site, kept: _Kept) -> None:
        if not kept.in_use and not kept.idle and not kept.waiting and self._sites.get(site) is kept:
            del self._sites[site]

    def _lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        if self._all_lost is not None and not self._open and not self._all_lost.done():
            self._all_lost.set_result(None)

    def _sweep(self) -> None:
        """Close what was idle for long, and forget what is closed."""
        loop = asyncio.get_running_loop()
        self._sweeping = None
        until = loop.time() - IDLE_SECONDS
        for site, kept in list(self._sites.items()):
            for connection in kept.idle:
                if connection.idle_since <= until:
                    connection.close()
            kept.idle = [connection for connection in kept.idle if connection.is_open]
            self._forget(site, kept)
        if any(kept.idle for kept in self._sites.values()):
            self._sweeping = loop.call_later(IDLE_SECONDS / 2, self._sweep)


async def _refusal(error: OSError, site: Site) -> ConnectError:
    """Return what is told of a connection that could not be made. Awaited after `except`, for the compiled form."""
    if has_other_name(error):
        return ConnectError(error, await shown_certificate(site.host, site.port, site.name))
    return ConnectError(error)
