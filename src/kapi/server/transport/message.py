"""Requests and responses as the pipeline sees them, free of sockets.

`serve.py` makes a `Request` of what a connection reads and writes out what the pipeline returns; the in-process
transport does the same without a socket. Nothing here parses or decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Sequence


class Peer:
    """Who is at the other end of a connection, as far as the transport can tell.

    `certificate` is the client certificate in DER, already verified against our client CA by the TLS layer, or
    None. `local` is set only by the in-process transport: the name and groups it acts as.
    """

    __slots__ = ("address", "certificate", "identity", "local")

    def __init__(
        self, address: str, certificate: bytes | None = None, local: tuple[str, tuple[str, ...]] | None = None
    ) -> None:
        self.address = address
        self.certificate = certificate
        self.local = local
        self.identity: object = None
        """A slot for authentication to remember what the certificate says, once per connection."""


class Request:
    """One request, whole. Header names are lower case; repeated headers are joined with `, `.

    `path` and `query` are as sent, not percent-decoded. `oversized` says that the body went over the limit and was
    not kept; the handler that needs the body answers 413.
    """

    __slots__ = ("body", "headers", "method", "oversized", "path", "peer", "query")

    def __init__(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        peer: Peer | None = None,
        *,
        oversized: bool = False,
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers if headers is not None else {}
        self.body = body
        self.peer = peer or Peer("in-process")
        self.oversized = oversized


class Response:
    """A whole answer. `body` may come in parts, which are sent as they are without being joined first.

    The transport adds Date, Content-Length and Connection; everything else is in `headers`.
    """

    __slots__ = ("body", "headers", "status")

    def __init__(
        self,
        status: int,
        headers: list[tuple[str, str]] | None = None,
        body: bytes | Sequence[bytes] = b"",
    ) -> None:
        self.status = status
        self.headers = headers if headers is not None else []
        self.body = body


class Stream(Protocol):
    """The sending end of a response without a length: a watch.

    `write` never waits and never blocks: it hands bytes to the transport. What the peer does not read piles up
    there and is counted by `pending`; whoever writes decides when that is too much and calls `abort`.
    """

    @property
    def pending(self) -> int:
        """Bytes accepted by `write` and not yet taken by the peer's socket."""
        ...

    @property
    def closed(self) -> asyncio.Future[None]:
        """Done when the peer has gone, or `abort` was called, or the server is draining."""
        ...

    def write(self, data: bytes) -> None:
        """Send one chunk; after the stream is closed this does nothing."""
        ...

    async def drain(self) -> None:
        """Wait until the transport has room again (or the stream is closed)."""
        ...

    def abort(self) -> None:
        """Drop the connection now, with what is pending."""
        ...


class StreamResponse:
    """An answer that goes on: headers now, then whatever `run` writes; the response ends when `run` returns."""

    __slots__ = ("headers", "run", "status")

    def __init__(self, status: int, headers: list[tuple[str, str]], run: Callable[[Stream], Awaitable[None]]) -> None:
        self.status = status
        self.headers = headers
        self.run = run


class Handler(Protocol):
    """What a transport calls for each request. It never raises: failures are responses too."""

    async def __call__(self, request: Request) -> Response | StreamResponse:
        """Answer one request."""
        ...
