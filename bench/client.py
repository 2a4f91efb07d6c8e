"""A small HTTP/1.1 client for the load generator: raw TLS connections, no futures between request and answer.

It must cost less than the servers it measures, so a connection is one asyncio protocol with llhttp behind it, and the
next request is written in the callback that ends the last answer.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import httptools

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_turns = itertools.count()


class LoadError(Exception):
    """A request failed; the text is the actual response."""


@dataclass(frozen=True)
class Address:
    """The address of a server and the credentials for it. Paths are PEM files.

    Several servers of one control plane have a port each and take turns: every connection goes to the next one.
    """

    host: str
    port: int
    authority: str
    certificate: str = ""
    key: str = ""
    other_ports: Sequence[int] = ()

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports of all servers."""
        return (self.port, *self.other_ports)

    def context(self) -> ssl.SSLContext:
        """The client's side of TLS: checks the server, shows the client certificate if there is one."""
        context = ssl.create_default_context(cafile=self.authority)
        context.set_alpn_protocols(["http/1.1"])
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key)
        return context


class Connection(asyncio.Protocol):
    """One connection. Subclasses say what to do with an answer.

    `ended` is done when the connection's work is; it carries the error if there was one.
    """

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            # What our own callbacks raise arrives wrapped.
            self.fail(error.__context__ or error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(LoadError(f"the server closed the connection ({exc})"))

    def end(self) -> None:
        """This connection has done its part."""
        if not self.ended.done():
            self.ended.set_result(None)

    def fail(self, error: BaseException) -> None:
        """This connection cannot go on."""
        if not self.ended.done():
            self.ended.set_exception(error)

    def close(self) -> None:
        """Hang up."""
        self.end()
        self.transport.close()


class Caller(Connection):
    """Sends requests one after the other, as fast as they are answered, until `following` has no more.

    The time of each answer is appended to `times`.
    """

    def __init__(self, following: Callable[[bytes], bytes | None], times: list[float], *, keeps: bool = False) -> None:
        super().__init__()
        self._following = following
        self._times = times
        self._keeps = keeps
        self._parts: list[bytes] = []
        self.received = 0
        self._sent = 0.0

    def start(self) -> None:
        """Send the first request."""
        self._send(b"")

    def _send(self, last: bytes) -> None:
        data = self._following(last)
        if data is None:
            self.end()
            return
        self._parts = []
        self._sent = perf_counter()
        self.transport.write(data)

    def on_body(self, body: bytes) -> None:
        self.received += len(body)
        if self._keeps or self._parser.get_status_code() >= 300:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        now = perf_counter()
        status = self._parser.get_status_code()
        body = b"".join(self._parts)
        if status >= 300:
            self.fail(LoadError(f"answered {status}: {body[:300].decode(errors='replace')}"))
            return
        self._times.append(now - self._sent)
        self._send(body)


class Asker(Connection):
    """Asks one thing at a time; what an answer means is for the one who asked."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()

    async def ask(self, data: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        self._parts = []
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(data)
        return await self._answer

    async def demand(self, data: bytes) -> bytes:
        """The body of the answer; whatever is not a success is an error."""
        status, body = await self.ask(data)
        if status >= 300:
            raise LoadError(f"answered {status}: {body[:300].decode(errors='replace')}")
        return body

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        if not self._answer.done():
            self._answer.set_result((self._parser.get_status_code(), b"".join(self._parts)))

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        if not self._answer.done():
            self._answer.set_exception(error)

    def close(self) -> None:
        self._answer.cancel()
        super().close()


async def asker(address: Address, context: ssl.SSLContext | None = None) -> Asker:
    """Open a connection to ask on."""
    made = await connect(address, context or address.context(), Asker)
    assert isinstance(made, Asker)
    return made


async def connect(address: Address, context: ssl.SSLContext, make: Callable[[], Connection]) -> Connection:
    """Open a connection to a server, the next one if there are several."""
    loop = asyncio.get_running_loop()
    port = address.ports[next(_turns) % len(address.ports)]
    _, protocol = await loop.create_connection(make, address.host, port, ssl=context)
    return protocol


async def call(address: Address, data: bytes) -> bytes:
    """One request on a connection of its own; returns the body."""
    connection = await asker(address)
    try:
        return await connection.demand(data)
    finally:
        connection.close()
