"""Requests to one API server: a path, a query and a body in, a decoded answer or an error out.

`RESTClient` knows HTTP and Status and nothing of resources; discovery and the dynamic client are built on it. It owns
the connections, so one per config and event loop is enough, and it must be closed. aiohttp stays behind this module:
what callers see are our own errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from kapi.client.credentials import Credentials, tls_context
from kapi.client.errors import (
    AnswerError,
    ConfigError,
    ConnectError,
    TransportError,
    TransportTimeout,
    error_from_status,
    error_from_text,
)
from kapi.codec import json
from kapi.codec.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from kapi.api.errors import ApiError
    from kapi.base.clock import Clock
    from kapi.client.config import ClientConfig

JSON: Final = "application/json"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA: Final = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"

MAX_LINE_BYTES: Final = 32 * 1024 * 1024
"""The longest watch event we read: far more than an object can be, far less than memory."""

RETRIES: Final = 5
MAX_RETRY_SECONDS: Final = 30.0
_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_ASKED_TO_WAIT: Final = frozenset({429, 503})
_HEADER_BYTES: Final = 64 * 1024

_log = logging.getLogger("kapi.client")


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def decoded(self) -> Any:
        """The body as JSON; None when it is empty."""
        return _decode(self.body) if self.body else None


class RESTClient:
    """A connection pool to one server, used as `async with RESTClient(config) as client`.

    An answer that is not a success is raised as the `ApiError` of its Status. Requests that can be repeated without
    harm are repeated when the server asks to wait (429 or 503 with Retry-After); nothing else is, because only the
    caller knows what a second try means. Redirects are refused: they would carry credentials to somebody the config
    does not name.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        on_warning: Callable[[str], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.config = config
        self._base = config.server.rstrip("/")
        self._credentials = Credentials(config, clock=clock)
        self._tls = tls_context(config)
        self._on_warning = on_warning or (lambda text: _log.warning("%s", text))
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; streams that are open end."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109 - covers all tries and what is raised is ours
    ) -> Any:
        """One request; the decoded answer. See `send`."""
        answer = await self.send(
            method, path, query=query, body=body, content_type=content_type, accept=accept, timeout=timeout
        )
        return answer.decoded()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109 - covers all tries and what is raised is ours
    ) -> Answer:
        """One request; the answer as it came.

        `path` is absolute and already escaped. Query values that are None are left out. A body that is not bytes is
        sent as JSON. `timeout` is in seconds, covers every try, and is the config's unless given.
        """
        async with self._deadline(f"{method} {path}", timeout):
            response = await self._tries(method, path, query, body, content_type, accept)
            with _translated(self._base):
                return Answer(response.status, response.headers, await response.read())

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        accept: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109 - for the opening only
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """GET an endless answer, line by line. Entered once the server has said yes; `timeout` covers only that."""
        async with self._deadline(f"GET {path}", timeout):
            response = await self._tries("GET", path, query, None, JSON, accept)
        try:
            yield _lines(response.content, self._base, max_line_bytes)
        finally:
            await _cut(response)

    @contextlib.asynccontextmanager
    async def _deadline(self, what: str, timeout: float | None) -> AsyncIterator[None]:  # noqa: ASYNC109
        seconds = self.config.timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise TransportTimeout(f"{what}: no answer from {self._base} within {seconds:g} s") from None

    async def _tries(
        self, method: str, path: str, query: Mapping[str, Any] | None, body: Any, content_type: str, accept: str
    ) -> aiohttp.ClientResponse:
        """A response that says yes; repeated as often as the server may ask for it."""
        url = self._url(path, query)
        headers: list[tuple[str, str]] = [("Accept", accept)]
        data: bytes | None = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.encode(body)
            headers.append(("Content-Type", content_type))
        for attempt in range(RETRIES + 1):
            with _translated(self._base):
                response = await self._once(method, url, headers, data)
            if response.status < 300:
                self._warn(response)
                return response
            with _translated(self._base):
                content = await response.read()
            error = self._error(response, content)
            delay = _retry_after(response)
            if attempt == RETRIES or delay is None or method not in _IDEMPOTENT:
                raise error
            await asyncio.sleep(delay)
        raise AssertionError("unreachable: the last try raises")

    async def _once(
        self, method: str, url: URL, headers: list[tuple[str, str]], data: bytes | None
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = self._new_session()
        return await self._session.request(
            method,
            url,
            headers=[*headers, *self._credentials.headers()],
            data=data,
            allow_redirects=False,
            server_hostname=(self.config.tls_server_name or None) if self._tls else None,
            proxy=self.config.proxy or None,
        )

    def _new_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            # Watches each hold a connection for as long as they last, so there is no useful limit.
            connector=aiohttp.TCPConnector(ssl=self._tls if self._tls is not None else True, limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": self.config.user_agent},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.config.connect_timeout),
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )

    def _url(self, path: str, query: Mapping[str, Any] | None) -> URL:
        if not path.startswith("/") or any(character in "?#\\" or character <= " " for character in path):
            raise ValueError(f"{path!r} is not an absolute, escaped path")
        pairs = {key: _query_text(value) for key, value in (query or {}).items() if value is not None}
        text = self._base + path + ("?" + urlencode(pairs, quote_via=quote, safe="") if pairs else "")
        try:
            return URL(text, encoded=True)
        except ValueError as error:
            raise ConfigError(f"the server's address {self._base!r} cannot be used: {error}") from None

    def _error(self, response: aiohttp.ClientResponse, content: bytes) -> ApiError | TransportError:
        if 300 <= response.status < 400:
            target = response.headers.get("Location", "nowhere")
            return AnswerError(f"{self._base} answered with a redirect to {target}, which is not followed")
        if response.content_type == JSON:
            with contextlib.suppress(DecodeError):  # a proxy's idea of JSON; the HTTP status still counts
                status = json.decode(content)
                if isinstance(status, dict) and status.get("kind") == "Status":
                    return error_from_status(status, response.status)
        return error_from_text(response.status, content.decode("utf-8", "replace"))

    def _warn(self, response: aiohttp.ClientResponse) -> None:
        for header in response.headers.getall("Warning", ()):
            text = _warning_text(header)
            if text:
                self._on_warning(text)


def _decode(body: bytes) -> Any:
    try:
        return json.decode(body)
    except DecodeError as error:
        raise AnswerError(f"the answer is not JSON: {error}") from None


def _query_text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    """Seconds the server asks us to wait; None when it does not ask."""
    text = response.headers.get("Retry-After", "")
    if response.status not in _ASKED_TO_WAIT or not text.isascii() or not text.isdigit():
        return None
    return min(float(text[:9]), MAX_RETRY_SECONDS)


def _warning_text(header: str) -> str:
    """The text of `299 - "text"`; other warnings are of HTTP caches and concern nobody here."""
    code, _, rest = header.partition(" ")
    _, _, quoted = rest.partition(" ")
    if code != "299" or not quoted.startswith('"'):
        return ""
    text, characters = "", iter(quoted[1:])
    for character in characters:
        if character == '"':
            break
        text += next(characters, "") if character == "\\" else character
    return text


async def _cut(response: aiohttp.ClientResponse) -> None:
    """Leave an answer that has not ended. A polite TLS farewell could outlast the event loop, so there is none."""
    connection = response.connection
    transport = connection.transport if connection else None
    response.close()
    if transport is not None:
        transport.abort()
        await asyncio.sleep(0)  # the transport lets go of its socket in the loop's next round


async def _lines(content: aiohttp.StreamReader, base: str, max_bytes: int) -> AsyncIterator[bytes]:
    """The lines of a stream. aiohttp's own reader stops at 128 KiB, and watch events are longer than that."""
    buffer = bytearray()
    while True:
        with _translated(base):
            chunk = await content.readany()
        if not chunk:
            break
        searched = len(buffer)
        buffer += chunk
        start = 0
        while (end := buffer.find(b"\n", max(start, searched))) >= 0:
            if end > start:
                yield bytes(buffer[start:end])
            start = end + 1
        del buffer[:start]
        if len(buffer) > max_bytes:
            raise AnswerError(f"{base} sent a line of more than {max_bytes} bytes")
    if buffer.strip():
        raise AnswerError(f"{base} ended the stream in the middle of a line")


@contextlib.contextmanager
def _translated(base: str) -> Iterator[None]:
    """Our errors for aiohttp's."""
    try:
        yield
    except aiohttp.ClientConnectorError as error:
        raise _connect_error(base, error) from None
    except aiohttp.ConnectionTimeoutError:
        raise ConnectError(f"connecting to {base} took too long", host=_host(base)) from None
    except aiohttp.ClientError as error:
        why = str(error) or type(error).__name__
        raise TransportError(f"the connection to {base} failed: {why}") from None


def _connect_error(base: str, error: aiohttp.ClientConnectorError) -> ConnectError:
    host = _host(base)
    if isinstance(error, (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError)):
        why = getattr(error, "certificate_error", None) or error.os_error
        return ConnectError(f"the server at {host} could not be trusted: {why}", host=host)
    refused = isinstance(error.os_error, ConnectionRefusedError) or error.os_error.errno == errno.ECONNREFUSED
    why = "connection refused" if refused else error.os_error.strerror or str(error.os_error)
    return ConnectError(f"connecting to {base} failed: {why}", host=host, refused=refused)


def _host(base: str) -> str:
    return base.split("//", 1)[-1].split("/", 1)[0]
