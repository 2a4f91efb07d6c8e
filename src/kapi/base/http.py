"""Outbound HTTPS: one POST to somebody's server, with a time limit, a size limit, and their certificate checked.

For calls a server makes on its own account. Connections are kept per destination and authority, redirects are not
followed, proxies and cookies are not used, and nothing of a body is ever logged.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import NamedTuple

import aiohttp

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 60.0
MAX_CONTEXTS = 256
"""Certificate authorities whose parsed form is kept."""


class Endpoint(NamedTuple):
    """Where to call: a URL, and what to expect there."""

    url: str
    authority: bytes = b""
    """The PEM of the CA that signed the server's certificate; empty: those this machine trusts."""
    server_name: str = ""
    """The name in the server's certificate, when it is not the host of the URL."""


class OutboundError(Exception):
    """The call did not bring an answer; the text says why and holds no secrets."""


class Outbound:
    """Makes calls. Close it when done."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[bytes, ssl.SSLContext] = {}

    async def post(self, endpoint: Endpoint, body: bytes, *, seconds: float, limit: int) -> tuple[int, bytes]:
        """POST JSON; the status and the body of the answer. Raises `OutboundError`."""
        try:
            async with asyncio.timeout(seconds):
                return await self._post(endpoint, body, limit)
        except TimeoutError:
            raise OutboundError(f"no answer within {seconds:g}s") from None
        except aiohttp.ClientConnectorCertificateError as error:
            raise OutboundError(f"tls: failed to verify certificate: {error.certificate_error}") from None
        except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
            raise OutboundError(str(error) or type(error).__name__) from None

    async def _post(self, endpoint: Endpoint, body: bytes, limit: int) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        if endpoint.server_name:
            headers["Host"] = endpoint.server_name
        async with self._opened().post(
            endpoint.url,
            data=body,
            headers=headers,
            ssl=self._context(endpoint.authority),
            server_hostname=endpoint.server_name or None,
            allow_redirects=False,
        ) as response:
            parts: list[bytes] = []
            size = 0
            async for part in response.content.iter_chunked(65536):
                size += len(part)
                if size > limit:
                    raise OutboundError(f"the answer is larger than {limit} bytes")
                parts.append(part)
            return response.status, b"".join(parts)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=100, limit_per_host=20, keepalive_timeout=IDLE_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                trust_env=False,
                auto_decompress=True,
            )
        return self._session

    def _context(self, authority: bytes) -> ssl.SSLContext:
        context = self._contexts.get(authority)
        if context is None:
            try:
                context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
            except (ssl.SSLError, ValueError) as error:
                raise OutboundError(f"unable to load root certificates: {error}") from None
            if len(self._contexts) >= MAX_CONTEXTS:
                self._contexts.pop(next(iter(self._contexts)))
            self._contexts[authority] = context
        return context

    async def close(self) -> None:
        """Drop all connections."""
        if self._session is not None:
            await self._session.close()
