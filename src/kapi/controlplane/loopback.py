"""A client of the API server in the same process, without a connection: what the built-in controllers write with.

A request passes the same pipeline as any client's: it is authenticated (as the user of the transport), authorized,
admitted and answered, with the same errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.base.version import VERSION
from kapi.client.client import Client
from kapi.client.config import ClientConfig
from kapi.client.errors import AnswerError, AnswerTooLarge, ConnectionLost
from kapi.client.rest import RESTClient

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping

    from kapi.base.clock import Clock
    from kapi.server.transport import inprocess
    from kapi.server.transport.inprocess import InProcessTransport

SERVER: Final = "http://in-process"
"""The server address in the client's configuration; nothing is ever sent to it."""


def loopback_client(transport: InProcessTransport, *, agent: str, clock: Clock | None = None) -> Client:
    """A client of the server in this process. `agent` is its field manager."""
    config = ClientConfig(SERVER, user_agent=f"{agent}/{VERSION}")
    loopback = Loopback(transport, config.user_agent)
    # Warnings are for the users of a client; there are none here.
    return Client(rest=RESTClient(config, on_warning=lambda _: None, clock=clock, transport=loopback))


class Loopback:
    """Carries the requests of a `RESTClient` to a server in the same process.

    The transport belongs to the caller: it is not closed with the client.
    """

    def __init__(self, transport: InProcessTransport, user_agent: str) -> None:
        self._transport = transport
        self._user_agent = user_agent

    async def close(self) -> None:
        """Do nothing: no connection is held."""

    async def send(
        self,
        method: str,
        url: str,
        headers: list[tuple[str, str]],
        data: bytes | None,
        *,
        tls: ssl.SSLContext | None,
        whole: bool,
    ) -> _Reply:
        """Send a request to the server and return its reply."""
        sent = {"user-agent": self._user_agent, **{name.lower(): value for name, value in headers}}
        reply = await self._transport.request(method, url.removeprefix(SERVER), sent, data or b"")
        content = await reply.read() if whole or reply.status >= 300 else b""
        return _Reply(reply, content)


class _Reply:
    """The reply of the server."""

    def __init__(self, reply: inprocess.Reply, content: bytes) -> None:
        self.status = reply.status
        self.content = content
        self._reply = reply

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, the last of each name, with names as HTTP usually writes them."""
        return {name.title(): value for name, value in self._reply.headers}

    @property
    def content_type(self) -> str:
        """The media type."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip()

    def all_of(self, header: str) -> list[str]:
        """Every value of a header."""
        wanted = header.lower()
        return [value for name, value in self._reply.headers if name.lower() == wanted]

    async def lines(self, max_bytes: int, idle_timeout: float | None) -> AsyncIterator[bytes]:
        """The lines of a stream. It cannot stall without ending, so `idle_timeout` is not used."""
        rest = b""
        try:
            async for chunk in self._reply:
                *whole, rest = (rest + chunk if rest else chunk).split(b"\n")
                for line in whole:
                    if line:
                        yield line
                if len(rest) > max_bytes > 0:
                    raise AnswerTooLarge(f"the server sent a line of more than {max_bytes} bytes")
        except ConnectionResetError as error:
            raise ConnectionLost(str(error)) from None
        if rest.strip():
            raise AnswerError("the server ended the stream in the middle of a line")

    async def abort(self) -> None:
        """End the stream."""
        await self._reply.aclose()
