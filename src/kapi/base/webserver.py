"""The web server of metrics, probes and webhooks: aiohttp's, with limits, deadlines and a graceful shutdown.

One coroutine function answers every request. Bodies, connections and all waiting are bounded; compressed bodies are
handed on as they are. At shutdown no connection is accepted, idle ones are closed at once, and requests in progress
are answered, within limits.

The TLS context is handed in and stays the caller's: a certificate loaded into it counts for connections from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final, Self

import structlog
from aiohttp import web

from kapi.base.webhandler import Limits, Request, Response

if TYPE_CHECKING:
    import ssl

    from kapi.base.webhandler import Handler

_CLOSE_SECONDS: Final = 2.0
"""For what is left of the answers to be sent at shutdown."""

_log = structlog.get_logger("kapi.base")


class WebServer:
    """Answers requests with `handler`. Used as `async with`; `port` is the real one once it has started.

    A handler that raises is a 500 and a line in the log; one that takes too long is cancelled and a 504. A client that
    disconnects does not cancel the handler.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        context: ssl.SSLContext | None = None,
        limits: Limits | None = None,
        grace: float = 10.0,
    ) -> None:
        self.port = port
        self._handler = handler
        self._host = host
        self._context = context
        self._limits = limits or Limits()
        self._grace = grace
        self._connections = _Connections(self._limits.connections)
        self._requests: set[asyncio.Task[Any]] = set()
        self._is_closing = False

    async def __aenter__(self) -> Self:
        is_secure = self._context is not None
        self._server = web.Server(self._serve)
        # Not a TCPSite: it has no option for the time a handshake may take.
        self._listener = await asyncio.get_running_loop().create_server(
            self._connection,
            self._host,
            self.port,
            ssl=self._context,
            ssl_handshake_timeout=self._limits.handshake if is_secure else None,
            ssl_shutdown_timeout=_CLOSE_SECONDS / 2 if is_secure else None,
        )
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._is_closing = True
        self._listener.close()
        self._connections.limit = 0  # Handshakes that are not complete yet.
        self._server.pre_shutdown()  # Ends idle connections.
        # aiohttp waits for a request once, and then as long again; cancelled after the first time, it ends there.
        cancellation = asyncio.get_running_loop().call_later(self._grace, self._cancel_requests)
        try:
            await self._server.shutdown(self._grace)
        finally:
            cancellation.cancel()
            self._cancel_requests()  # There are some only if the shutdown itself was cancelled.
        await self._connections.close()

    def _connection(self) -> _Connection:
        return _Connection(
            self._server,
            self._connections,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=self._limits.idle,
            lingering_time=self._limits.linger,
            auto_decompress=False,
            access_log=None,
        )

    def _cancel_requests(self) -> None:
        for task in self._requests:
            task.cancel()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if isinstance(request.protocol, _Connection):
            request.protocol.request_arrived()
        if (task := asyncio.current_task()) is not None:
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)
        try:
            body = await self._body(request)
        except _Refused as refused:
            response = _response(refused.response)
            response.force_close()
        else:
            asked = Request(request.method, request.path, request.headers, body, request.query)
            response = _response(await self._answer(asked))
        if self._is_closing:
            response.force_close()
        await self._send(request, response)
        return response

    async def _body(self, request: web.BaseRequest) -> bytes:
        try:
            async with asyncio.timeout(self._limits.read):
                return await self._read(request)
        except TimeoutError:
            raise _Refused(408, "the request took too long") from None
        except (web.RequestPayloadError, ConnectionError):
            raise _Refused(400, "the body is malformed or incomplete") from None

    async def _read(self, request: web.BaseRequest) -> bytes:
        # Not `request.read()`: whether a body of just the limit is too large depends on aiohttp's version.
        limit = self._limits.body_bytes
        body = bytearray()
        size = request.content_length or 0
        if size <= limit and request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while size <= limit:
            if not (chunk := await request.content.readany()):
                return bytes(body)
            body += chunk
            size = len(body)
        raise _Refused(413, f"the body is larger than {limit} bytes")

    async def _answer(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(self._limits.answer) as deadline:
                return await self._handler(request)
        except Exception as error:
            if isinstance(error, TimeoutError) and deadline.expired():
                _log.warning("request timed out", path=request.path)
                return Response(504, b"the answer took too long\n")
            _log.exception("request failed", path=request.path)
            return Response(500, b"internal error\n")

    async def _send(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Send a response here rather than leave it to aiohttp, which waits for a client that does not read."""
        try:
            async with asyncio.timeout(self._limits.answer):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass  # The client has disconnected; aiohttp finds out in the same way.


class _Refused(Exception):
    """A request that this server does not accept; the connection is closed after this response."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.response = Response(status, f"{why}\n".encode())


def _response(response: Response) -> web.Response:
    headers = {"Content-Type": response.content_type}
    return web.Response(status=response.status, body=response.body, headers=headers)


class _Connections:
    """The established connections of a server; aiohttp has no limit on them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._transports: dict[_Connection, asyncio.Transport] = {}
        self._none_left = asyncio.Event()

    def add(self, connection: _Connection, transport: asyncio.Transport) -> bool:
        """Add a connection unless there are too many; returns True if it was added."""
        if len(self._transports) >= self.limit:
            return False
        self._transports[connection] = transport
        self._none_left.clear()
        return True

    def remove(self, connection: _Connection) -> None:
        self._transports.pop(connection, None)
        if not self._transports:
            self._none_left.set()

    async def close(self) -> None:
        """Wait for connections that are being closed, and cut off those whose clients do not read."""
        if self._transports:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._none_left.wait()
        for transport in list(self._transports.values()):
            transport.abort()


class _Connection(web.RequestHandler):
    """A connection of aiohttp's server that counts, and that is closed if no request arrives."""

    __slots__ = ("_counted", "_first_request")

    def __init__(self, server: web.Server, connections: _Connections, **options: Any) -> None:
        super().__init__(server, **options)
        self._counted = connections
        self._first_request: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if self._counted.add(self, transport):
            super().connection_made(transport)
            # aiohttp before 3.14.1 has a deadline for the next request, and none for the first.
            loop = asyncio.get_running_loop()
            self._first_request = loop.call_later(self.keepalive_timeout, self.force_close)
        else:
            transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.request_arrived()
        self._counted.remove(self)
        super().connection_lost(exc)

    def request_arrived(self) -> None:
        """Lift the deadline of the first request."""
        if self._first_request is not None:
            self._first_request.cancel()
            self._first_request = None

    def log_exception(self, *args: Any, **options: Any) -> None:
        """Log one line: mostly these are malformed requests, and clients could fill the log with tracebacks."""
        _log.warning(args[0] % args[1:], error=str(options.get("exc_info")))
