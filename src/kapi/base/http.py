"""Outbound HTTPS: one request to another server, with a time limit, a size limit, and a verified certificate.

For calls a server makes on its own account. Connections are kept per destination and authority. Redirects are not
followed, since they may lead to a server that was not configured; proxies, cookies and compression are not used, and
nothing of a body is ever logged. Errors read as those of Go's client, because that is what people search for.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import tempfile
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

from kapi.base.httpconnection import (
    AnswerTooLargeError,
    ConnectionClosedError,
    DeadlineExceededError,
    MalformedAnswerError,
)
from kapi.base.httppool import ConnectError, Pool, Site
from kapi.base.outboundtls import certificate_reason, os_reason, tls_reason, trusting_context

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kapi.base.httpconnection import Answer, Connection

MAX_CONTEXTS = 256
"""Certificate authorities whose parsed form is kept."""
MAX_ROUTES = 256
"""Endpoints for which what calls have in common is kept."""

_HEADERS = "".join(
    f"{line}\r\n"
    for line in (
        "Content-Type: application/json",
        "Accept: application/json, */*",
        "Accept-Encoding: identity",
        "User-Agent: kapi",
    )
)
_AS_IS = "!#$%&'()*+,/:;=?@[]~"
"""Characters of a path or query that are not escaped, apart from letters and digits."""


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


class OutboundError(Exception):
    """The call did not bring an answer; the text says why and holds no secrets."""


class Outbound:
    """Makes calls. Close it when done; calls after that, and those under way, fail."""

    def __init__(self) -> None:
        self._pool = Pool()
        self._contexts: dict[tuple[bytes, bytes], ssl.SSLContext] = {}
        self._routes: dict[tuple[str, Endpoint], _Route] = {}

    def post(
        self, endpoint: Endpoint, body: bytes, *, seconds: float, limit: int, once: bool = False, timed_out: str = ""
    ) -> Coroutine[Any, Any, Answer]:
        """POST JSON and wait for the answer, at most so long and of at most `limit` bytes. Raises `OutboundError`.

        The body is sent again if a connection that was kept fails, unless it may be sent `once` only. `timed_out` is
        the reason in the message when there is no answer in time, instead of that of Go's client.
        """
        return self._call("POST", endpoint, body, seconds, limit, once=once, timed_out=timed_out)

    def get(self, endpoint: Endpoint, *, seconds: float, limit: int) -> Coroutine[Any, Any, Answer]:
        """GET a document, at most so long and of at most `limit` bytes. Raises `OutboundError`."""
        return self._call("GET", endpoint, b"", seconds, limit)

    async def _call(
        self,
        method: str,
        endpoint: Endpoint,
        body: bytes,
        seconds: float,
        limit: int,
        *,
        once: bool = False,
        timed_out: str = "",
    ) -> Answer:
        if self._pool.is_closed:
            raise OutboundError("the server is shutting down")
        route = self._routes.get((method, endpoint)) or self._new_route(method, endpoint)
        request = route.request(body)
        answered = False
        until = asyncio.get_running_loop().time() + seconds
        try:
            while True:
                connection = self._pool.take_idle(route.site) or await self._take(route.site, until)
                try:
                    return await connection.exchange(request, limit, until=until)
                except (ConnectionClosedError, OSError):
                    # A connection that was kept may have been given up by the other side in the meantime. Each such
                    # failure takes one out of the pool, so this ends with a new connection.
                    if once or connection.is_new or connection.has_begun:
                        raise
                finally:
                    answered = connection.has_begun
                    self._pool.release(route.site, connection)
        except AnswerTooLargeError:
            raise OutboundError(f"the answer is larger than {limit} bytes") from None
        except DeadlineExceededError:
            raise OutboundError(route.failure(TimeoutError(), timed_out, answered=answered)) from None
        except (TimeoutError, ConnectError, ConnectionClosedError, MalformedAnswerError, OSError) as error:
            raise OutboundError(route.failure(error, timed_out, answered=answered)) from None

    async def _take(self, site: Site, until: float) -> Connection:
        """A connection that may have to be made, or waited for."""
        async with asyncio.timeout_at(until):
            return await self._pool.take(site)

    def _new_route(self, method: str, endpoint: Endpoint) -> _Route:
        url = parsed(endpoint.url)
        host, port = endpoint.address or (url.host, url.port)
        context = self._context(endpoint) if url.is_secure else None
        site = Site(host, port, endpoint.server_name or url.host, context)
        route = _Route(method, endpoint, site)
        if len(self._routes) >= MAX_ROUTES:
            self._routes.pop(next(iter(self._routes)))
        self._routes[method, endpoint] = route
        return route

    def _context(self, endpoint: Endpoint) -> ssl.SSLContext:
        key = (endpoint.authority, endpoint.certificate)
        context = self._contexts.get(key)
        if context is None:
            try:
                context = trusting_context(endpoint.authority)
            except ValueError as error:
                raise OutboundError(str(error)) from None
            if endpoint.certificate:
                _show(context, endpoint.certificate)
            if len(self._contexts) >= MAX_CONTEXTS:
                self._contexts.pop(next(iter(self._contexts)))
            self._contexts[key] = context
        return context

    async def close(self) -> None:
        """Drop all connections."""
        await self._pool.close()


class _URL(NamedTuple):
    is_secure: bool
    host: str
    port: int
    authority: str
    """What the header Host says."""
    target: str


@lru_cache(maxsize=256)
def parsed(text: str) -> _URL:
    """The parts of a URL that a request is made of. Raises `OutboundError`."""
    try:
        url = urlsplit(text)
        host, port = url.hostname or "", url.port
    except ValueError as error:
        raise OutboundError(f"invalid URL: {error}") from None
    if url.scheme not in ("http", "https") or not host:
        raise OutboundError(f"unsupported protocol scheme {url.scheme!r}" if host else "no Host in request URL")
    try:
        name = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        raise OutboundError("invalid URL: the host is not a name") from None
    is_secure = url.scheme == "https"
    shown = f"[{name}]" if ":" in name else name
    target = quote(url.path or "/", safe=_AS_IS) + (f"?{quote(url.query, safe=_AS_IS)}" if url.query else "")
    authority = shown if port is None else f"{shown}:{port}"
    return _URL(is_secure, name, port or (443 if is_secure else 80), authority, target)


def _show(context: ssl.SSLContext, certificate: bytes) -> None:
    """Have a context show a certificate. OpenSSL reads it from a file only, so there is one for a moment, mode 0600."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate)
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except ssl.SSLError:
            raise OutboundError("unable to load the client certificate and key: they do not belong together") from None


class _Route:
    """The part of a call that is the same for all calls of an endpoint by one method."""

    __slots__ = ("_endpoint", "_head", "_method", "site")

    def __init__(self, method: str, endpoint: Endpoint, site: Site) -> None:
        self._method = method
        self._endpoint = endpoint
        self._head = _head(method, endpoint)
        self.site = site

    def request(self, body: bytes) -> bytes:
        """Return the bytes to send, in one piece: one write is one record of TLS."""
        if not body:
            return self._head + b"\r\n"
        return b"%bContent-Length: %d\r\n\r\n%b" % (self._head, len(body), body)

    def failure(self, error: Exception, timed_out: str, *, answered: bool) -> str:
        """Return the text of a failure. `answered`: after the head of the answer had arrived."""
        if answered:
            reason = "unexpected EOF"
            if isinstance(error, TimeoutError):
                reason = timed_out or (
                    "net/http: request canceled (Client.Timeout or context cancellation while reading body)"
                )
            return f"unexpected error when reading response body. Please retry. Original error: {reason}"
        return f'{self._method.capitalize()} "{self._endpoint.url}": {self._reason(error, timed_out)}'

    def _reason(self, error: Exception, timed_out: str) -> str:
        if isinstance(error, TimeoutError):
            return timed_out or "net/http: request canceled (Client.Timeout exceeded while awaiting headers)"
        if isinstance(error, ConnectError):
            return self._not_connected(error.error, error.certificate)
        if isinstance(error, ConnectionClosedError):
            return "EOF"
        if isinstance(error, MalformedAnswerError):
            return "net/http: HTTP/1.x transport connection broken: malformed HTTP response"
        if isinstance(error, OSError):
            return f"read tcp {self._address}: read: {os_reason(error)}"
        return str(error) or type(error).__name__

    def _not_connected(self, error: OSError, certificate: bytes) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            host = parsed(self._endpoint.url).host
            return f"tls: failed to verify certificate: x509: {certificate_reason(error, host, certificate)}"
        if isinstance(error, ssl.SSLError):
            return tls_reason(error)
        if isinstance(error, socket.gaierror):
            return f"dial tcp: lookup {self._host}: no such host"
        return f"dial tcp {self._address}: connect: {os_reason(error)}"

    @property
    def _host(self) -> str:
        return self._endpoint.address[0] if self._endpoint.address is not None else parsed(self._endpoint.url).host

    @property
    def _address(self) -> str:
        port = self._endpoint.address[1] if self._endpoint.address is not None else parsed(self._endpoint.url).port
        host = self._host
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _head(method: str, endpoint: Endpoint) -> bytes:
    """Return the head of a request but for the length of its body."""
    url = parsed(endpoint.url)
    bearer = endpoint.token
    if not (bearer.isascii() and bearer.isprintable()):
        raise OutboundError("the bearer token has characters that a header must not have")
    token = f"Authorization: Bearer {bearer}\r\n" if bearer else ""
    head = f"{method} {url.target} HTTP/1.1\r\nHost: {url.authority}\r\n{_HEADERS}{token}"
    return head.encode("latin-1")
