"""The HTTP transport: aiohttp, its connections, and our own errors for its.

Nothing outside this module knows the HTTP library. It is imported when the first request is sent, because it is heavy
and programs that only look at a config have no use for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ssl
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from yarl import URL

from kapi.base.connecting import Connecting
from kapi.client.errors import (
    AnswerError,
    AnswerTooLarge,
    ConfigError,
    ConnectError,
    ConnectionLost,
    TransportError,
    TransportTimeout,
)
from kapi.client.transport.body import ACCEPTED_ENCODING, Body, too_large

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from kapi.client.config import ClientConfig

_HEADER_BYTES: Final = 64 * 1024
_HEADERS: Final = 128
_ERROR_BYTES: Final = 1024 * 1024
"""The most that is read of an answer that is no success; a Status is far shorter, a proxy's page may not be."""
_LAYERS: Final = 3
"""Of a connection: the socket, TLS, HTTP."""


class Reply:
    """A response. `content` is empty while the rest of the response is still to be read as a stream."""

    def __init__(self, response: aiohttp.ClientResponse, body: Body, content: bytes, base: str) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self.content_type = response.content_type
        self.content = content
        self._response = response
        self._body = body
        self._base = base

    def all_of(self, header: str) -> list[str]:
        """Every value of a header."""
        return self._response.headers.getall(header, [])

    def lines(self, max_bytes: int, idle_timeout: float | None) -> AsyncIterator[bytes]:
        """The rest of the answer, line by line."""
        return _lines(self._body, self._base, max_bytes, idle_timeout)

    async def abort(self) -> None:
        """Drop the connection of a reply that has not been read to its end.

        The connector aborts it; see there. Aborting here once more would be one call too many: on Python 3.11.2 a
        TLS transport that is aborted and then closed has no protocol left, and raises AttributeError.
        """
        self._response.close()
        await asyncio.sleep(0)  # the transport closes its socket in the loop's next iteration


class _Connector(aiohttp.TCPConnector):
    """Aborts a connection that cannot be used again, as after a cancelled request, instead of shutting TLS down.

    A TLS shutdown waits for the peer, and aiohttp does not wait for the shutdown: it forgets such a connection, and
    the socket would outlive the client and the event loop. The same holds for a connection that a cancelled request
    has begun; see `Connecting`.
    """

    def __init__(self) -> None:
        # Watches each hold a connection for as long as they last, so there is no useful limit.
        super().__init__(limit=0)
        self.connecting = Connecting()

    async def _wrap_create_connection(self, *args: Any, **kwargs: Any) -> Any:
        return await self.connecting.make(super()._wrap_create_connection(*args, **kwargs))

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        if should_close and protocol.transport is not None:
            protocol.transport.abort()
        super()._release(key, protocol, should_close=should_close)


class HTTPTransport:
    """A pool of connections to one server. Failures are raised as `TransportError`; an answer is never one."""

    def __init__(self, config: ClientConfig, proxy: str) -> None:
        self._config = config
        self._base = config.server.rstrip("/")
        self._proxy = URL(proxy) if proxy else None
        self._connector = _Connector()
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": config.user_agent, "Accept-Encoding": ACCEPTED_ENCODING},
            auto_decompress=False,  # `Body` does, within bounds
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=config.connect_timeout),
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
            max_headers=_HEADERS,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._connector.connecting.close()
        await self._session.close()
        # Connections that were aborted close their sockets in the loop's next iterations, one for each layer.
        for _ in range(_LAYERS):
            await asyncio.sleep(0)

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
        try:
            parsed = URL(url, encoded=True)
        except ValueError as error:
            raise ConfigError(f"the server's address {self._base!r} cannot be used: {error}") from None
        with _translated(self._base):
            response = await self._session.request(
                method,
                parsed,
                headers=headers,
                data=data,
                allow_redirects=False,
                # A context that was made anew is part of what a connection is looked up by, so old ones are left alone.
                ssl=tls if tls is not None else True,
                server_hostname=(self._config.tls_server_name or None) if tls else None,
                proxy=self._proxy,
            )
            try:
                body = Body(response.content.readany, response.headers.get("Content-Encoding", ""), self._base)
                content = await self._content(response, body, whole=whole)
            except BaseException:
                # What is left of the answer is not read, so the connection cannot be used again.
                response.close()
                raise
            return Reply(response, body, content, self._base)

    async def _content(self, response: aiohttp.ClientResponse, body: Body, *, whole: bool) -> bytes:
        if response.status >= 300:
            content = await body.beginning(_ERROR_BYTES)
            if not response.content.at_eof():
                response.close()
            return content
        if not whole:
            return b""
        bound = self._config.max_response_bytes
        if not body.is_compressed and (response.content_length or 0) > bound > 0 and response.method != "HEAD":
            raise too_large(self._base, bound)
        return await body.read(bound)


async def _lines(body: Body, base: str, max_bytes: int, idle_timeout: float | None) -> AsyncIterator[bytes]:
    """The lines of a stream. aiohttp's own reader stops at 128 KiB, and watch events are longer than that."""
    unfinished = bytearray()
    async with contextlib.aclosing(body.pieces()) as pieces:
        while True:
            with _translated(base):
                piece = await _next_piece(pieces, base, idle_timeout)
            if not piece:
                break
            lines = piece.split(b"\n")
            rest = lines.pop()
            if lines and unfinished:
                lines[0] = bytes(unfinished) + lines[0]
                unfinished.clear()
            for line in lines:
                if len(line) > max_bytes > 0:
                    raise _line_too_long(base, max_bytes)
                if line:
                    yield line
            unfinished += rest
            if len(unfinished) > max_bytes > 0:
                raise _line_too_long(base, max_bytes)
    if unfinished.strip():
        raise AnswerError(f"{base} ended the stream in the middle of a line")


def _line_too_long(base: str, max_bytes: int) -> AnswerTooLarge:
    return AnswerTooLarge(f"{base} sent a line of more than {max_bytes} bytes (max_event_bytes)")


async def _next_piece(pieces: AsyncIterator[bytes], base: str, idle_timeout: float | None) -> bytes:
    """The next piece of a stream; empty at its end."""
    if idle_timeout is None:
        return await anext(pieces, b"")
    idle = asyncio.timeout(idle_timeout)
    try:
        async with idle:
            return await anext(pieces, b"")
    except TimeoutError:
        if not idle.expired():
            raise
        raise TransportTimeout(f"{base} sent nothing on a stream for {idle_timeout:g} s") from None


@contextlib.contextmanager
def _translated(base: str) -> Iterator[None]:
    """Our errors for aiohttp's."""
    try:
        yield
    except aiohttp.ClientConnectorError as error:
        raise _connect_error(base, error) from None
    except aiohttp.ConnectionTimeoutError:
        raise ConnectError(f"connecting to {base} took too long", host=_host(base)) from None
    except aiohttp.ClientHttpProxyError as error:
        raise ConnectError(f"the proxy on the way to {base} refused: {error.status} {error.message}") from None
    except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
        why = str(error) or type(error).__name__
        raise ConnectionLost(f"the connection to {base} broke: {why}") from None
    except aiohttp.ClientResponseError as error:
        raise AnswerError(f"{base} sent a response that breaks HTTP: {error.message}") from None
    except aiohttp.ClientError as error:
        why = str(error) or type(error).__name__
        raise TransportError(f"the connection to {base} failed: {why}") from None


def _connect_error(base: str, error: aiohttp.ClientConnectorError) -> ConnectError:
    host = _host(base)
    if isinstance(error, (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError)):
        return ConnectError(_tls_trouble(host, getattr(error, "certificate_error", None) or error.os_error), host=host)
    refused = isinstance(error.os_error, ConnectionRefusedError) or error.os_error.errno == errno.ECONNREFUSED
    why = "connection refused" if refused else error.os_error.strerror or str(error.os_error)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return ConnectError(f"connecting to the proxy {error.host}:{error.port} failed: {why}", host=host)
    return ConnectError(f"connecting to {base} failed: {why}", host=host, refused=refused)


def _tls_trouble(host: str, error: BaseException) -> str:
    """Return why the TLS handshake failed, without OpenSSL's file names and line numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server at {host} could not be trusted: {error.verify_message}"
    reason = getattr(error, "reason", None) or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return f"the server at {host} does not speak TLS; is its address http:// rather than https://?"
    return f"TLS with {host} failed: {reason.replace('_', ' ').lower()}"


def _host(base: str) -> str:
    return base.split("//", 1)[-1].split("/", 1)[0]
