"""Accepting connections of one listening socket: how many may be in their TLS handshake, in all and per address.

asyncio's own server calls the protocol only after the handshake, and says nothing of one that fails, so connections
that never finish it could not be counted. Here each is a task from `accept` to the end of its handshake. TLS begins
with the first bytes from the client, so that silent connections cost a descriptor each, and for few of them in one turn
of the loop: a handshake is a millisecond or two of arithmetic, and a thousand may have been prepared to come at once.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from kapi.server.transport.limits import Limits

BACKLOG: Final = 1024
_AT_ONCE: Final = 64
"""Connections accepted before the loop serves others again."""
HANDSHAKES_PER_TURN: Final = 4
"""Handshakes that begin in one turn of the event loop."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE: Final = 0.5
"""Seconds without accepting after the system had no descriptor for a connection."""

log = logging.getLogger(__name__)


class Owner(Protocol):
    """The part of a server that its acceptors use."""

    @property
    def limits(self) -> Limits:
        """The limits of connections."""
        ...

    def close_idle(self) -> int:
        """Close some connections that have been idle for the longest; returns how many."""
        ...


class Acceptor:
    """Accepts on one socket until it is closed. Of handshakes that are too many, the oldest is dropped."""

    def __init__(
        self,
        owner: Owner,
        sock: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._owner = owner
        self._sock = sock
        self._protocol = protocol
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[asyncio.Task[None], str] = {}
        """The address of each connection whose handshake is not finished, the oldest first."""
        self._by_address: Counter[str] = Counter()
        self._pause: asyncio.TimerHandle | None = None
        self._ready: deque[asyncio.Future[None]] = deque()
        """Connections that wait for a turn to begin their handshake."""
        try:
            sock.listen(BACKLOG)
        except OSError:
            sock.close()
            raise
        self._loop.add_reader(sock, self._accept)

    @property
    def handshakes(self) -> int:
        """The number of connections whose handshake is not finished."""
        return len(self._handshakes)

    def close(self) -> None:
        """Stop accepting, and drop the connections whose handshake is not finished."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._sock)
        self._sock.close()
        if self._tls is not None:
            # Without TLS there is nothing to wait for; the server refuses such a connection.
            for task in self._handshakes:
                task.cancel()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                log.warning("cannot accept connections: %s", error)
                self._owner.close_idle()
                self._loop.remove_reader(self._sock)
                self._pause = self._loop.call_later(_PAUSE, self._resume)
                return
            self._begin(sock, address[0] if isinstance(address, tuple) else "unix")

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._sock, self._accept)

    def _begin(self, sock: socket.socket, address: str) -> None:
        limits = self._owner.limits
        if self._by_address[address] >= limits.handshakes_per_address:
            self._drop(next(task for task, other in self._handshakes.items() if other == address))
        elif len(self._handshakes) >= limits.handshakes:
            self._drop(next(iter(self._handshakes)))
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._connect(sock))
        self._handshakes[task] = address
        self._by_address[address] += 1
        task.add_done_callback(partial(self._ended, sock))

    def _drop(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        self._forget(task)

    def _ended(self, sock: socket.socket, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            # Also one that was cancelled before it began, in which case there is no transport to close it.
            sock.close()
        self._forget(task)

    def _forget(self, task: asyncio.Task[None]) -> None:
        """The handshake has ended, well or not; called again for one that was dropped."""
        address = self._handshakes.pop(task, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    async def _connect(self, sock: socket.socket) -> None:
        limits = self._owner.limits
        try:
            if self._tls is None:
                await self._loop.connect_accepted_socket(self._protocol, sock)
                return
            async with asyncio.timeout(limits.handshake_timeout):
                await self._first_bytes(sock)
                await self._turn()
            await self._loop.connect_accepted_socket(
                self._protocol,
                sock,
                ssl=self._tls,
                ssl_handshake_timeout=limits.handshake_timeout,
                ssl_shutdown_timeout=limits.shutdown_timeout,
            )
        except OSError as error:
            # The client sees its connection end, so it is not worth a warning. A timeout is an OSError as well.
            log.debug("TLS handshake failed: %s", error)
            sock.close()

    async def _first_bytes(self, sock: socket.socket) -> None:
        """Wait until the client has sent something, or has gone."""
        readable = self._loop.create_future()
        self._loop.add_reader(sock, _finish, readable)
        try:
            await readable
        finally:
            self._loop.remove_reader(sock)

    async def _turn(self) -> None:
        """Wait for a turn of the loop in which not too many handshakes begin."""
        if not self._ready:
            self._loop.call_soon(self._begin_some)
        waiter = self._loop.create_future()
        self._ready.append(waiter)
        await waiter

    def _begin_some(self) -> None:
        for _ in range(min(HANDSHAKES_PER_TURN, len(self._ready))):
            _finish(self._ready.popleft())
        if self._ready:
            self._loop.call_soon(self._begin_some)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
