"""Connections to another API server, for a proxy: HTTP/1.1 over TLS, one request at a time on each connection.

A response is handed on while it arrives. What its reader has not taken stays below `BUFFER` bytes: then the connection
is not read, and the other server has to wait. What else was considered: `kapi.base.http`, for the calls of this server
itself. It reads whole answers, of a bounded size.

Nothing that comes on a connection without having been asked for is read as a response: the connection is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING, Final, cast

import httptools

from kapi.base.outboundtls import certificate_reason, os_reason, tls_reason

if TYPE_CHECKING:
    from collections.abc import Callable

BUFFER: Final = 256 * 1024
"""Bytes of a response that may wait for their reader before the connection is not read any more."""
HEAD_BYTES: Final = 1024 * 1024
"""The longest head of a response, which is that of Go's client."""
CONNECT_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 90.0
"""The time after which a connection that is not used is closed, as Go's client does."""
MAX_IDLE: Final = 100
"""Connections to one address that are kept while they are not used."""

_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))
_SWITCHING: Final = 101
_REPEATABLE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class UpstreamError(Exception):
    """The other server cannot be reached, or its response cannot be read; the text is that of Go's client."""


class ClientGone(UpstreamError):
    """The client of this server has disconnected while it waited for the other server."""


class UpstreamResponse:
    """A response, of which at least the head has arrived.

    `read` returns the next bytes of the body. Call `close` when done; a connection whose response was not read to its
    end is dropped by it.
    """

    __slots__ = ("_connection", "_ended", "_error", "_parts", "_size", "_waiter", "headers", "length", "status")

    def __init__(self, connection: UpstreamConnection, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._connection: UpstreamConnection | None = connection
        self.status = status
        self.headers = headers
        """The headers in the order in which they came, as bytes."""
        self.length: int | None = None
        """The length of the body; None if that is known only at its end."""
        self._parts: list[bytes] = []
        self._size = 0
        self._ended = False
        self._error: UpstreamError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def connection(self) -> UpstreamConnection:
        """The connection, for a response that has ended HTTP on it."""
        assert self._connection is not None
        return self._connection

    @property
    def is_whole(self) -> bool:
        """True if the body has arrived to its end."""
        return self._ended and self._error is None

    def take(self) -> bytes:
        """Return the bytes that have arrived and were not returned yet."""
        parts = self._parts
        if not parts:
            return b""
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self._parts = []
        if self._size >= BUFFER and self._connection is not None:
            self._connection.resume()
        self._size = 0
        return data

    async def read(self, seconds: float | None = None) -> bytes:
        """Return the next bytes, nothing at the end; UpstreamError if the body is cut off or nothing comes in time."""
        while not self._parts and not self._ended:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(seconds):
                    await self._waiter
            except TimeoutError:
                raise UpstreamError("the response was not continued in time") from None
            finally:
                self._waiter = None
        if self._parts:
            return self.take()
        if self._error is not None:
            raise self._error
        return b""

    def close(self) -> None:
        """Give the connection back if the response was read to its end; drop it if not."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release(self)
        self._parts.clear()

    def fail(self, error: UpstreamError) -> None:
        """End the response with an error; what has arrived can still be read."""
        if not self._ended:
            self._error = error
            self.finish()

    # Called by the connection.

    def feed(self, data: bytes) -> None:
        """Add bytes of the body."""
        self._parts.append(data)
        before = self._size
        self._size += len(data)
        if self._size >= BUFFER > before and self._connection is not None:
            self._connection.pause()
        self._wake()

    def finish(self) -> None:
        """The body is complete."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class UpstreamConnection(asyncio.Protocol):
    """One connection to another server."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._head: asyncio.Future[UpstreamResponse] | None = None
        """Done when the head of the response has arrived; None while no request was sent."""
        self._response: UpstreamResponse | None = None
        self._arrived: UpstreamResponse | None = None
        """The response whose head was completed by the bytes that are being parsed."""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_size = 0
        self._bodiless = False
        self._wants_upgrade = False
        self._switched: UpstreamResponse | None = None
        """The response with which the connection has left HTTP."""
        self.on_full: Callable[[bool], None] | None = None
        """Called with True when the send buffer is full, and with False when it has space again."""
        self._is_chunked = False
        self._reusable = False
        self._is_paused = False
        self.has_answered = False
        """True if any byte of the present response has arrived."""
        self.is_lost = False
        self.idle_since = 0.0

    # -- sending ------------------------------------------------------------------------------------------------------

    async def send(self, method: str, message: bytes, *, upgrade: bool = False) -> UpstreamResponse:
        """Send a request and wait for the head of its response. A cancelled request drops the connection."""
        self._wants_upgrade = upgrade
        head: asyncio.Future[UpstreamResponse] = asyncio.get_running_loop().create_future()
        self._head = head
        self._bodiless = method == "HEAD"
        self.has_answered = self._reusable = False
        self._transport.write(message)
        try:
            return await head
        finally:
            if not head.done() or head.cancelled() or head.exception() is not None:
                self.drop()

    def write(self, data: bytes) -> None:
        """Send bytes of another protocol."""
        if not self.is_lost:
            self._transport.write(data)

    def pause_writing(self) -> None:
        """The send buffer is full."""
        if self.on_full is not None:
            self.on_full(True)

    def resume_writing(self) -> None:
        """The send buffer has space again."""
        if self.on_full is not None:
            self.on_full(False)

    def abandon(self) -> None:
        """End the wait for the head of a response: its client is gone."""
        if self._head is not None and not self._head.done():
            self._head.set_exception(ClientGone("the client has disconnected"))

    def release(self, response: UpstreamResponse) -> None:
        """The reader of a response is done with it."""
        if response is self._response:
            self._response = self._head = None
            if response.is_whole and self._reusable and not self.is_lost:
                self._upstream.keep(self)
                return
        self.drop()

    def drop(self) -> None:
        """Close the connection now."""
        self._reusable = False
        self._transport.abort()

    def pause(self) -> None:
        """Do not read: the reader of the response has enough."""
        if not self.is_lost:
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._is_paused and not self.is_lost:
            self._is_paused = False
            self._transport.resume_reading()

    # -- what the event loop calls ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TLS is agreed on."""
        self._transport = cast("asyncio.Transport", transport)
        raw = transport.get_extra_info("socket")
        if raw is not None:
            _keep_alive(raw)

    def data_received(self, data: bytes) -> None:
        """Input from the other server."""
        if self._head is None:
            # A response that nothing asked for. It must not become the answer to the next request.
            self.drop()
            return
        self.has_answered = True
        if self._switched is not None:
            self._switched.feed(data)
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._switch(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._fail(UpstreamError("net/http: HTTP/1.x transport connection broken: malformed HTTP response"))
            return
        if self._response is None:
            self._head_size += len(data)
            if self._head_size > HEAD_BYTES:
                self._fail(UpstreamError(f"net/http: server response headers exceeded {HEAD_BYTES} bytes; aborted"))
        elif self._arrived is not None:
            # After everything that came with the head was parsed: a short response is whole when its reader is woken.
            response, self._arrived = self._arrived, None
            if not self._head.done():
                self._head.set_result(response)

    def _switch(self, rest: bytes) -> None:
        """End HTTP on this connection, if that was asked for and the response says so."""
        if self._parser.get_status_code() != _SWITCHING or not self._wants_upgrade:
            self._fail(UpstreamError("invalid upgrade response"))
            return
        response = UpstreamResponse(self, _SWITCHING, self._headers)
        self._switched = self._response = self._arrived = response
        if rest:
            response.feed(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self.is_lost = True
        self._upstream.forget(self)
        response = self._response
        if response is not None and exc is None and response.length is None and not self._is_chunked:
            response.finish()  # A body without a length ends with the connection.
        reason = "EOF" if exc is None or not isinstance(exc, OSError) else f"read tcp: read: {os_reason(exc)}"
        self._fail(UpstreamError(reason if response is None else "unexpected EOF"))
        # A reference cycle, and a TLS transport holds large buffers.
        del self._parser

    # -- what the parser calls ----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A response begins."""
        if self._response is not None:
            raise UpstreamError("two responses to one request")
        self._headers = []
        self._head_size = 0
        self._is_chunked = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or one trailer; trailers are ignored."""
        if self._response is None:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is whole. Interim responses (100, 103) are skipped."""
        status = self._parser.get_status_code()
        if status < 200:
            return
        response = UpstreamResponse(self, status, self._headers)
        for name, value in self._headers:
            key = name.lower()
            if key == b"content-length":
                response.length = int(value)
            elif key == b"transfer-encoding":
                self._is_chunked = True
        self._response = self._arrived = response
        if self._bodiless:
            # The parser expects the body that the length announces, so it cannot be used again.
            response.finish()

    def on_body(self, data: bytes) -> None:
        """Some of the body."""
        if self._response is not None:
            self._response.feed(data)

    def on_message_complete(self) -> None:
        """The response is whole."""
        if self._response is not None:
            self._reusable = self._parser.should_keep_alive()
            self._response.finish()

    def _fail(self, error: UpstreamError) -> None:
        if self._response is not None:
            self._response.fail(error)
        if self._head is not None and not self._head.done():
            if self._arrived is not None:
                self._head.set_result(self._arrived)
            else:
                self._head.set_exception(error)
        self._arrived = None
        if not self.is_lost:
            self.drop()


class Upstream:
    """The connections to one address, verified in one way. Requests may be sent at the same time."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext, server_name: str) -> None:
        self._address = address
        self._context = context
        self._server_name = server_name
        self._idle: list[UpstreamConnection] = []
        self._used: set[UpstreamConnection] = set()

    async def send(
        self,
        method: str,
        message: bytes,
        *,
        upgrade: bool = False,
        on_lost: Callable[[Callable[[], None] | None], None] | None = None,
    ) -> UpstreamResponse:
        """Send a request, return its response once the head of it has arrived; UpstreamError if there is none.

        A connection that was kept may have been closed by the other side at this very moment. Then a request that can
        be repeated without harm is sent on another one, unless a part of a response came. `on_lost` is called with
        the function to call when the client is gone. With `upgrade`, a response of status 101 ends HTTP on the
        connection, which is `UpstreamResponse.connection` then.
        """
        while True:
            connection = self._reused()
            is_reused = connection is not None
            if connection is None:
                connection = await self._connect()
            self._used.add(connection)
            if on_lost is not None:
                on_lost(connection.abandon)
            try:
                return await connection.send(method, message, upgrade=upgrade)
            except ClientGone:
                raise
            except UpstreamError:
                if not is_reused or connection.has_answered or method not in _REPEATABLE:
                    raise
            finally:
                if on_lost is not None:
                    on_lost(None)

    def keep(self, connection: UpstreamConnection) -> None:
        """Keep a connection for the next request."""
        self._used.discard(connection)
        if len(self._idle) >= MAX_IDLE:
            connection.drop()
            return
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def forget(self, connection: UpstreamConnection) -> None:
        """A connection is closed."""
        self._used.discard(connection)
        with contextlib.suppress(ValueError):
            self._idle.remove(connection)

    def close_idle(self, seconds: float = 0.0) -> bool:
        """Close the connections that were not used for so long; returns True if none is left."""
        until = asyncio.get_running_loop().time() - seconds
        for connection in [one for one in self._idle if one.idle_since <= until]:
            self._idle.remove(connection)
            connection.drop()
        return not self._idle and not self._used

    def close(self) -> None:
        """Close all connections."""
        self.close_idle()
        for connection in list(self._used):
            connection.drop()

    def _reused(self) -> UpstreamConnection | None:
        # The one that was used last: the others can grow old and be closed.
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_lost:
                return connection
        return None

    async def _connect(self) -> UpstreamConnection:
        host, port = self._address
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: UpstreamConnection(self),
                    host,
                    port,
                    ssl=self._context,
                    server_hostname=self._server_name,
                )
        except (OSError, ValueError) as error:
            raise UpstreamError(self._reason(error)) from None
        return connection

    def _reason(self, error: Exception) -> str:
        """Return why there is no connection, as Go's client says it."""
        host, port = self._address
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if isinstance(error, TimeoutError):
            return f"dial tcp {address}: i/o timeout"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"tls: failed to verify certificate: x509: {certificate_reason(error, self._server_name)}"
        if isinstance(error, ssl.SSLError):
            return tls_reason(error)
        if isinstance(error, socket.gaierror):
            return f"dial tcp: lookup {host}: no such host"
        if isinstance(error, ConnectionResetError) or not getattr(error, "errno", None):
            return "EOF"
        assert isinstance(error, OSError)
        return f"dial tcp {address}: connect: {os_reason(error)}"


def _keep_alive(raw: socket.socket) -> None:
    """Have the kernel notice that the other machine is gone: a watch may be silent for a long time."""
    with contextlib.suppress(OSError, AttributeError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
