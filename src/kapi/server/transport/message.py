"""Requests and responses as the pipeline sees them, free of sockets.

`serve.py` makes a `Request` of what a connection reads and writes out what the pipeline returns; the in-process
transport does the same without a socket. Nothing here parses or decides.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from kapi.api.user import User
    from kapi.server.transport.arrival import Arrival

log = logging.getLogger(__name__)


class Peer:
    """The other end of a connection, as far as the transport knows it.

    `certificates` are those the client has shown, in DER, its own first; TLS has checked that the client has the key,
    and nothing else. `local` is set only by the in-process transport: the name and groups it acts as.
    """

    __slots__ = ("address", "certificates", "identity", "local", "lost", "proxy")

    def __init__(
        self, address: str, certificates: tuple[bytes, ...] = (), local: tuple[str, tuple[str, ...]] | None = None
    ) -> None:
        self.address = address
        self.certificates = certificates
        self.local = local
        self.identity: Any = None
        """The user that the certificate names, and its end; set by authentication, at the first request."""
        self.proxy: Any = None
        """The same for a front proxy, whose headers name the user of each request."""
        self.lost: Callable[[], None] | None = None
        """Called by the transport when the connection is lost."""

    def when_lost(self, call: Callable[[], None] | None) -> None:
        """Have a function called when the connection is lost, instead of the one before; None for none."""
        self.lost = call


class Request:
    """One request. Header names are lower case; repeated headers are joined with `, `.

    Headers that name users and groups (`Impersonate-*`, `X-Remote-*`) are joined with a line feed, which no value has.

    `path` and `query` are as sent, not percent-decoded. `oversized` says that the body went over the limit and was
    not kept; the handler that needs the body answers 413.

    A request with a long body is handed to the handler once its headers are whole. Its body is read after
    `await request.arrival.wait(user)`, so that a client that may not send it does not make the server keep it.
    """

    __slots__ = ("arrival", "body", "headers", "method", "oversized", "path", "peer", "query")

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
        self.arrival: Arrival | None = None
        """Set while, or if, the body arrives after the handler was called."""


class Body:
    """A long body that is made while it is sent, so that no more than a piece of it is in memory."""

    length: int | None = None
    """Its size in bytes; None if that is known only at the end."""
    grown: Callable[[], None] | None = None
    """Set by the transport; called when `held` grows while no piece is asked for."""

    @property
    def held(self) -> int:
        """Bytes that are in memory for this body alone; what it shares with others does not count."""
        return 0

    def pieces(self) -> AsyncGenerator[bytes | memoryview, None]:
        """Yield the body; called once. A next piece is asked for when the peer has taken most of the last.

        ConnectionError drops the connection: the rest of the body is lost.
        """
        raise NotImplementedError

    def drop(self) -> None:
        """Release what the body holds, because it will not be sent; `pieces` is not called then."""


class Response:
    """An answer. `body` may come in parts, which are sent as they are without being joined first.

    The transport adds Date, the framing (Content-Length or Transfer-Encoding) and Connection; everything else is in
    `headers`. `user` is who is charged for a long body while the peer does not take it.
    """

    __slots__ = ("body", "headers", "status", "user")

    def __init__(
        self,
        status: int,
        headers: list[tuple[str, str]] | None = None,
        body: bytes | Sequence[bytes] | Body = b"",
        user: User | None = None,
    ) -> None:
        self.status = status
        self.headers = headers if headers is not None else []
        self.body = body
        self.user = user


class Stream(Protocol):
    """The sending end of a response without a length: a watch.

    `write` never waits and never blocks: it hands bytes to the transport. What the peer does not read piles up
    there and is counted by `pending`; a writer stops when `is_full`, and waits in `drain`.
    """

    @property
    def is_full(self) -> bool:
        """True while the send buffer is full."""
        ...

    @property
    def pending(self) -> int:
        """Bytes accepted by `write` and not yet taken by the peer's socket."""
        ...

    @property
    def closed(self) -> asyncio.Future[None]:
        """Done when the peer has gone, or `abort` was called, or the server is draining."""
        ...

    def write(self, data: bytes | memoryview) -> None:
        """Send one chunk; after the stream is closed this does nothing."""
        ...

    @property
    def framing(self) -> object:
        """Equal for streams that frame the same bytes in the same way."""
        ...

    def frame(self, data: bytes) -> bytes:
        """What `write` would send for some bytes that are not empty, to be sent to several streams."""
        ...

    def write_framed(self, framed: bytes) -> bool:
        """Send what `frame` of a stream of the same framing returned; returns True if the send buffer is full then."""
        ...

    async def drain(self) -> None:
        """Wait until the send buffer has space again, or the stream is closed."""
        ...

    def abort(self) -> None:
        """Drop the connection now, with what is pending."""
        ...


class Tunnel(Stream, Protocol):
    """Both ends of a connection that has left HTTP: what the peer sends is handed to `on_data`."""

    on_data: Callable[[bytes], None]

    def set_reading(self, wanted: bool) -> None:
        """Read what the peer sends, or let it wait."""
        ...


class StreamResponse:
    """A response without a length: headers first, then what `run` writes, until it returns.

    The pipeline has returned long before a stream ends. What must happen then (a seat released, an audit event of
    stage ResponseComplete) is added with `on_end`. The transport calls `end` once it has finished with the response,
    also when `run` raised, was cancelled, or never started because the client was gone.
    """

    __slots__ = ("_hooks", "headers", "run", "status")

    def __init__(self, status: int, headers: list[tuple[str, str]], run: Callable[[Stream], Awaitable[None]]) -> None:
        self.status = status
        self.headers = headers
        self.run = run
        self._hooks: list[Callable[[], None]] = []

    def on_end(self, hook: Callable[[], None]) -> None:
        """Call `hook` once when the stream has ended, however it ends; the last added is called first."""
        self._hooks.append(hook)

    def end(self) -> None:
        """Call the hooks that were not called yet. One that raises is logged and does not stop the others."""
        while self._hooks:
            hook = self._hooks.pop()
            try:
                hook()
            except Exception:
                log.exception("a hook at the end of a stream failed")


class UpgradeResponse(StreamResponse):
    """A response that ends HTTP on its connection: its headers, then bytes in both directions until `run` returns.

    A peer that has sent more than the request must not expect that to be taken for the other protocol. It gets 400.
    """

    __slots__ = ()

    def __init__(self, headers: list[tuple[str, str]], run: Callable[[Tunnel], Awaitable[None]]) -> None:
        super().__init__(101, headers, cast("Callable[[Stream], Awaitable[None]]", run))


class Handler(Protocol):
    """The function that a transport calls for each request. It never raises: failures are responses too."""

    async def __call__(self, request: Request) -> Response | StreamResponse:
        """Answer one request."""
        ...
