"""The interface between `RESTClient` and its transport, which is usually `httptransport`, over sockets.

A process with a server in it may use a transport that calls the server directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping


class Reply(Protocol):
    """A response. `content` is empty while the rest of the response is still to be read as a stream."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; case does not count."""
        ...

    @property
    def content_type(self) -> str:
        """The media type, without parameters."""
        ...

    @property
    def content(self) -> bytes:
        """The body."""
        ...

    def all_of(self, header: str) -> list[str]:
        """Every value of a header."""
        ...

    def lines(self, max_bytes: int, idle_timeout: float | None) -> AsyncIterator[bytes]:
        """The rest of the answer, line by line, as `RESTClient.stream` promises them."""
        ...

    async def abort(self) -> None:
        """Drop a response that has not been read to its end."""
        ...


class Transport(Protocol):
    """Sends requests to one server. Failures are raised as `TransportError`; a response is never one."""

    async def close(self) -> None:
        """Close the connections."""
        ...

    async def send(
        self,
        method: str,
        url: str,
        headers: list[tuple[str, str]],
        data: bytes | None,
        *,
        tls: ssl.SSLContext | None,
        whole: bool,
    ) -> Reply:
        """Send one request and return the reply: with its content if `whole`, or if it is no success."""
        ...
