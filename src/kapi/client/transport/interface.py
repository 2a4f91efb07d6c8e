"""What a `RESTClient` needs of whatever carries its requests: usually `transport`, over sockets.

Within a process that has a server in it, something else may carry them straight to that server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping


class Reply(Protocol):
    """What a server answered. `content` is empty while the rest of the answer is still to be read as a stream."""

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
        """Leave an answer that has not ended."""
        ...


class Transport(Protocol):
    """Brings requests to one server. Failures are raised as `TransportError`; an answer is never one."""

    async def close(self) -> None:
        """Let go of the server."""
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
        """One request, and what is answered: with its content if it is wanted `whole` or is no success."""
        ...
