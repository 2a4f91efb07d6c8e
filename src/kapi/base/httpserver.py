"""A small HTTP/1.1 server for programs that others call: requests with bodies, over TLS, on kept connections.

One coroutine function answers every request. Heads, bodies, connections and all waiting are bounded; what is no proper
request is refused and its connection closed. Bodies come with a Content-Length: a chunked one is refused (411). At
shutdown no connection is accepted, idle ones are closed at once, and requests in flight are answered, within limits.

The TLS context is handed in and stays the caller's: a certificate loaded into it counts for connections from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import structlog

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Mapping

HEAD_BYTES: Final = 16 * 1024

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    411: "Length Required",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    504: "Gateway Timeout",
}
_TEXT: Final = "text/plain; charset=utf-8"
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_log = structlog.get_logger("kapi.base")


class Request(NamedTuple):
    """A request. Names of headers are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class Response(NamedTuple):
    """A response."""

    status: int
    body: bytes
    content_type: str = _TEXT


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server; times are in seconds."""

    body_bytes: int = 10 * 1024 * 1024
    connections: int = 128
    """Connections beyond these are closed as they come."""
    idle: float = 90.0
    """Between two requests on one connection, and before the first."""
    read: float = 30.0
    """For a request to come in, from its first byte."""
    answer: float = 30.0
    """For a request to be answered, and for the answer to be sent."""
    handshake: float = 10.0


class Refused(Exception):
    """A request that this server does not accept; the connection is closed after this response."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.response = Response(status, f"{why}\n".encode())


class _Head(NamedTuple):
    method: str
    target: str
    version: str
    headers: Mapping[str, str]

    @property
    def keeps_alive(self) -> bool:
        words = {word.strip().lower() for word in self.headers.get("connection", "").split(",")}
        return "close" not in words and (self.version == "HTTP/1.1" or "keep-alive" in words)


class HTTPServer:
    """Answers requests with `handler`. Used as `async with`; `port` is the real one once it has started.

    A handler that raises is a 500 and a line in the log; one that takes too long is cancelled and a 504.
    """

    def __init__(
        self,
        handler: Callable[[Request], Awaitable[Response]],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        context: ssl.SSLContext | None = None,
        limits: Limits | None = None,
        grace: float = 10.0,
    ) -> None:
        self._handler = handler
        self._host = host
        self.port = port
        self._context = context
        self._limits = limits or Limits()
        self._grace = grace
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], _Connection] = {}
        self._closing = False

    async def __aenter__(self) -> Self:
        secured = self._context is not None
        self._server = await asyncio.start_server(
            self._serve,
            self._host,
            self.port,
            limit=HEAD_BYTES,
            ssl=self._context,
            ssl_handshake_timeout=self._limits.handshake if secured else None,
            ssl_shutdown_timeout=1.0 if secured else None,
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is None:
            return
        self._closing = True
        self._server.close()
        for connection in self._connections.values():
            connection.end_if_idle()
        if self._connections:
            await asyncio.wait(list(self._connections), timeout=self._grace)
        stragglers = list(self._connections)
        for task in stragglers:
            task.cancel()
        await asyncio.gather(*stragglers, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or self._closing or len(self._connections) >= self._limits.connections:
            writer.transport.abort()
            return
        connection = self._connections[task] = _Connection(reader, writer, self._limits)
        try:
            while not self._closing and await self._exchange(connection):
                pass
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # The peer left, or was too slow.
        except asyncio.CancelledError:
            # The only one who cancels these tasks is `__aexit__`, when patience is over (or the loop, at its own end).
            writer.transport.abort()
        finally:
            del self._connections[task]
            await connection.close()

    async def _exchange(self, connection: _Connection) -> bool:
        """Answer one request; returns True if another may follow."""
        try:
            head = await connection.head()
            if head is None:
                return False
            request = await connection.request(head)
        except Refused as refused:
            await connection.send(refused.response, keep=False)
            return False
        response = await self._answer(request)
        keep = head.keeps_alive and not self._closing
        await connection.send(response, keep=keep, with_body=request.method != "HEAD")
        return keep

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


class _Connection:
    """One peer: its requests in order. `is_idle` while nothing of a request has come."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: Limits) -> None:
        self._reader = reader
        self._writer = writer
        self._limits = limits
        self.is_idle = True

    def end_if_idle(self) -> None:
        if self.is_idle:
            self._writer.transport.abort()

    async def head(self) -> _Head | None:
        """The next request's head, or None when the peer is done."""
        self.is_idle = True
        async with asyncio.timeout(self._limits.idle):
            first = await self._reader.read(1)
        if not first:
            return None
        self.is_idle = False
        try:
            async with asyncio.timeout(self._limits.read):
                rest = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise Refused(431, f"the head is larger than {HEAD_BYTES} bytes") from None
        except TimeoutError:
            raise Refused(408, "the request took too long") from None
        return _parsed((first + rest)[:-4])

    async def request(self, head: _Head) -> Request:
        """The request with its body."""
        path, _, query = head.target.partition("?")
        size = _body_size(head.headers, self._limits.body_bytes)
        if size and head.headers.get("expect", "").lower() == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            async with asyncio.timeout(self._limits.read):
                body = await self._reader.readexactly(size)
        except TimeoutError:
            raise Refused(408, "the request took too long") from None
        return Request(head.method, path, query, head.headers, body)

    async def send(self, response: Response, *, keep: bool, with_body: bool = True) -> None:
        head = (
            f"HTTP/1.1 {response.status} {_REASONS.get(response.status, 'Unknown')}\r\n"
            f"Content-Type: {response.content_type}\r\n"
            f"Content-Length: {len(response.body)}\r\n"
            f"Connection: {'keep-alive' if keep else 'close'}\r\n\r\n"
        )
        async with asyncio.timeout(self._limits.answer):
            self._writer.write(head.encode("latin-1") + (response.body if with_body else b""))
            await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(2.0):
                await self._writer.wait_closed()


def _parsed(data: bytes) -> _Head:
    lines = data.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.1", "HTTP/1.0") or not parts[1].startswith("/"):
        raise Refused(400, "not an HTTP/1 request")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or not _TOKEN.issuperset(name):
            raise Refused(400, "a header line is malformed")
        name, value = name.lower(), value.strip(" \t")
        if name in headers and name in ("content-length", "transfer-encoding", "host"):
            # Two answers to how long a body is, or to whom it is sent, are how requests are smuggled.
            raise Refused(400, f"{name} is given twice")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return _Head(parts[0], parts[1], parts[2], headers)


def _body_size(headers: Mapping[str, str], limit: int) -> int:
    text = headers.get("content-length")
    if "transfer-encoding" in headers:
        raise Refused(*((400, "a length and a transfer encoding") if text else (411, "a Content-Length is needed")))
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise Refused(400, "the Content-Length is no number")
    # By its digits first: a number of thousands of digits is not worth reading.
    digits = text.lstrip("0") or "0"
    if len(digits) > 18 or int(digits) > limit:
        raise Refused(413, f"the body is larger than {limit} bytes")
    return int(digits)
