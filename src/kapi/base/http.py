"""Outbound HTTPS: one request to another server, with a time limit, a size limit, and a verified certificate.

For calls a server makes on its own account. Connections are kept per destination and authority. Redirects are not
followed, since they may lead to a server that was not configured; proxies, cookies and compression are not used, and
nothing of a body is ever logged. Errors read as those of Go's client, because that is what people search for.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
from yarl import URL

from kapi.base.clock import SystemClock

if TYPE_CHECKING:
    from types import SimpleNamespace

IDLE_SECONDS = 60.0
MAX_PER_HOST = 100
MAX_CONTEXTS = 256
"""Certificate authorities whose parsed form is kept."""
READ_SIZE = 65536

_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "Accept-Encoding": "identity",
    "User-Agent": "kapi",
}
_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21, 27})
_OUT_OF_DATE = frozenset({9, 10})
_OTHER_NAME = frozenset({62, 64})
"""OpenSSL's numbers for why a certificate is refused."""


class Endpoint(NamedTuple):
    """An address to call, and the certificate to expect there."""

    url: str
    """The URL to call; messages name it."""
    authority: bytes = b""
    """The PEM of the CAs that may have signed the server's certificate; empty: those this machine trusts."""
    address: tuple[str, int] | None = None
    """The address to connect to, when it is not that of the URL. The certificate must still be for the URL."""
    server_name: str = ""
    """The name the server's certificate must have, when it is not that of the URL."""
    certificate: bytes = b""
    """The PEM of the certificate and key this side shows; empty for none."""
    token: str = ""
    """The bearer token to send; empty for none."""


class Answer(NamedTuple):
    """A response."""

    status: int
    content_type: str
    body: bytes


class OutboundError(Exception):
    """The call did not bring an answer; the text says why and holds no secrets."""


class Outbound:
    """Makes calls. Close it when done; calls after that, and those under way, fail."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[tuple[bytes, bytes], ssl.SSLContext] = {}
        self._closed = False

    async def post(self, endpoint: Endpoint, body: bytes, *, seconds: float, limit: int) -> Answer:
        """POST JSON and wait for the answer, at most so long and of at most `limit` bytes. Raises `OutboundError`."""
        return await self._call("POST", endpoint, body, seconds, limit)

    async def get(self, endpoint: Endpoint, *, seconds: float, limit: int) -> Answer:
        """GET a document, at most so long and of at most `limit` bytes. Raises `OutboundError`."""
        return await self._call("GET", endpoint, b"", seconds, limit)

    async def _call(self, method: str, endpoint: Endpoint, body: bytes, seconds: float, limit: int) -> Answer:
        call = _Call(method, endpoint)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        return await self._send(endpoint, body, limit, call)
                    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                        # A connection that was kept may have been given up by the other side in the meantime. Each
                        # such failure takes one out of the pool, so this ends with a new connection.
                        if not call.reused or call.answered or isinstance(error, aiohttp.ClientConnectorError):
                            raise
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise OutboundError(call.failure(error)) from None

    async def _send(self, endpoint: Endpoint, body: bytes, limit: int, call: _Call) -> Answer:
        url = URL(endpoint.url)
        headers = dict(_HEADERS)
        if endpoint.token:
            headers["Authorization"] = f"Bearer {endpoint.token}"
        server_name = endpoint.server_name or None
        if endpoint.address is not None:
            headers["Host"] = url.authority
            server_name = server_name or url.host
            host, port = endpoint.address
            url = url.with_host(host).with_port(port)
        call.reused = False
        async with self._opened().request(
            call.method,
            url,
            data=body or None,
            headers=headers,
            ssl=self._context(endpoint),
            server_hostname=server_name,
            allow_redirects=False,
            trace_request_ctx=call,
        ) as response:
            call.answered = True
            parts: list[bytes] = []
            size = 0
            async for part in response.content.iter_chunked(READ_SIZE):
                size += len(part)
                if size > limit:
                    # Leaving now closes the connection: the rest is not read.
                    raise OutboundError(f"the answer is larger than {limit} bytes")
                parts.append(part)
            return Answer(response.status, response.headers.get("Content-Type", ""), b"".join(parts))

    def _opened(self) -> aiohttp.ClientSession:
        if self._closed:
            raise OutboundError("the server is shutting down")
        if self._session is None:
            tracing = aiohttp.TraceConfig()
            tracing.on_connection_reuseconn.append(_note_reuse)
            self._session = aiohttp.ClientSession(
                # No limit in all: a server that does not answer must not use up what others need.
                connector=aiohttp.TCPConnector(limit=0, limit_per_host=MAX_PER_HOST, keepalive_timeout=IDLE_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                trust_env=False,
                auto_decompress=False,
                trace_configs=[tracing],
            )
        return self._session

    def _context(self, endpoint: Endpoint) -> ssl.SSLContext:
        key = (endpoint.authority, endpoint.certificate)
        context = self._contexts.get(key)
        if context is None:
            context = _trusting(endpoint.authority)
            if endpoint.certificate:
                _show(context, endpoint.certificate)
            if len(self._contexts) >= MAX_CONTEXTS:
                self._contexts.pop(next(iter(self._contexts)))
            self._contexts[key] = context
        return context

    async def close(self) -> None:
        """Drop all connections."""
        self._closed = True
        if self._session is not None:
            await self._session.close()


def _trusting(authority: bytes) -> ssl.SSLContext:
    """A context that believes the certificates Go would believe, for these authorities."""
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii", "ignore") if authority else None)
    except (ssl.SSLError, ValueError):
        raise OutboundError("unable to load root certificates: unable to parse bytes as PEM block") from None
    # Whatever is in the bundle is trusted, be it the server's own certificate; names are in subjectAltName or nowhere.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    return context


def _show(context: ssl.SSLContext, certificate: bytes) -> None:
    """Have a context show a certificate. OpenSSL reads it from a file only, so there is one for a moment, mode 0600."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate)
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except ssl.SSLError:
            raise OutboundError("unable to load the client certificate and key: they do not belong together") from None


class _Call:
    """The stage that a call has reached, which decides how its failure reads."""

    def __init__(self, method: str, endpoint: Endpoint) -> None:
        self.method = method
        self.endpoint = endpoint
        self.reused = False
        self.answered = False

    def failure(self, error: Exception) -> str:
        """Return the text of a failure."""
        if self.answered:
            reason = "unexpected EOF"
            if isinstance(error, TimeoutError):
                reason = "net/http: request canceled (Client.Timeout or context cancellation while reading body)"
            return f"unexpected error when reading response body. Please retry. Original error: {reason}"
        return f'{self.method.capitalize()} "{self.endpoint.url}": {self._reason(error)}'

    def _reason(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return "net/http: request canceled (Client.Timeout exceeded while awaiting headers)"
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return f"tls: failed to verify certificate: x509: {self._refused(error.certificate_error)}"
        if isinstance(error, aiohttp.ClientConnectorDNSError):
            return f"dial tcp: lookup {self._host}: no such host"
        if isinstance(error, aiohttp.ClientConnectorSSLError):
            return _tls_reason(error.os_error)
        if isinstance(error, aiohttp.ClientConnectorError):
            return f"dial tcp {self._address}: connect: {_os_reason(error.os_error)}"
        if isinstance(error, aiohttp.ServerDisconnectedError):
            return "EOF"
        if isinstance(error, aiohttp.ClientResponseError):
            return "net/http: HTTP/1.x transport connection broken: malformed HTTP response"
        if isinstance(error, OSError):
            return f"read tcp {self._address}: {_os_reason(error)}"
        return str(error) or type(error).__name__

    def _refused(self, error: Exception) -> str:
        code = getattr(error, "verify_code", 0)
        if code in _UNKNOWN_AUTHORITY:
            return "certificate signed by unknown authority"
        if code in _OUT_OF_DATE:
            now = SystemClock().now().strftime("%Y-%m-%dT%H:%M:%SZ")
            return f"certificate has expired or is not yet valid: current time {now}"
        if code in _OTHER_NAME:
            return f"certificate is not valid for {URL(self.endpoint.url).host}"
        return str(getattr(error, "verify_message", "") or error)

    @property
    def _host(self) -> str:
        return self.endpoint.address[0] if self.endpoint.address is not None else URL(self.endpoint.url).host or ""

    @property
    def _address(self) -> str:
        port = self.endpoint.address[1] if self.endpoint.address is not None else URL(self.endpoint.url).port
        host = self._host
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _os_reason(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else (str(error) or type(error).__name__).lower()


def _tls_reason(error: OSError) -> str:
    reason = getattr(error, "reason", "") or ""
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "http: server gave HTTP response to HTTPS client"
    return f"tls: {reason.replace('_', ' ').lower() or _os_reason(error)}"


async def _note_reuse(
    session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceConnectionReuseconnParams
) -> None:
    context.trace_request_ctx.reused = True
