"""The client lane on the server lane, without a socket between them: what runs in the control plane asks it like this.

A request goes through the same pipeline as everybody's: it is authenticated (as the user of the transport), authorised,
admitted and answered, with the same errors. Only bytes and connections are spared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.base.version import VERSION
from kapi.client.client import Client
from kapi.client.config import ClientConfig
from kapi.client.errors import AnswerError, ConnectionLost
from kapi.client.rest import RESTClient

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping

    from kapi.base.clock import Clock
    from kapi.server.transport import inprocess
    from kapi.server.transport.inprocess import InProcessTransport

SERVER: Final = "http://in-process"
"""Stands where an address would; nothing is ever sent to it."""


def loopback_client(transport: InProcessTransport, *, agent: str, clock: Clock | None = None) -> Client:
    """A client of the server in this process. `agent` is who it is in managedFields."""
    config = ClientConfig(SERVER, user_agent=f"{agent}/{VERSION}")
    loopback = Loopback(transport, config.user_agent)
    # What is deprecated is for people to know; a server need not tell itself.
    return Client(rest=RESTClient(config, on_warning=lambda _: None, clock=clock, transport=loopback))


class Loopback:
    """Carries the requests of a `RESTClient` to a server in the same process.

    The transport belongs to whoever made it: it is not closed with the client.
    """

    def __init__(self, transport: InProcessTransport, user_agent: str) -> None:
        self._transport = transport
        self._user_agent = user_agent

    async def close(self) -> None:
        """Nothing is held."""

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
        """Have a request answered."""
        sent = {"user-agent": self._user_agent, **{name.lower(): value for name, value in headers}}
        reply = await self._transport.request(method, url.removeprefix(SERVER), sent, data or b"")
        content = await reply.read() if whole or reply.status >= 300 else b""
        return _Reply(reply, content)


class _Reply:
    """What the server answered."""

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
        """The lines of a stream. It cannot fall silent without ending, so it may pause as long as it likes."""
        rest = b""
        try:
            async for chunk in self._reply:
                *whole, rest = (rest + chunk if rest else chunk).split(b"\n")
                for line in whole:
                    if line:
                        yield line
                if len(rest) > max_bytes:
                    raise AnswerError(f"the server sent a line of more than {max_bytes} bytes")
        except ConnectionResetError as error:
            raise ConnectionLost(str(error)) from None
        if rest.strip():
            raise AnswerError("the server ended the stream in the middle of a line")

    async def abort(self) -> None:
        """Leave the stream."""
        await self._reply.aclose()
