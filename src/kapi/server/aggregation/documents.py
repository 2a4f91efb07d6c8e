"""Documents of other API servers that this server reads on its own account: discovery and OpenAPI."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.api.user import User
from kapi.base.version import VERSION
from kapi.server.aggregation.upstream import UpstreamError

if TYPE_CHECKING:
    from kapi.server.aggregation.apiservices import RemoteAPIService
    from kapi.server.aggregation.headers import RequestHeaders
    from kapi.server.aggregation.upstream import Upstream
    from kapi.server.aggregation.upstreams import Upstreams

DISCOVERY_USER: Final = User("system:kube-aggregator", ("system:masters",))
OPENAPI_USER: Final = User("system:aggregator")
LIMIT: Final = 32 * 1024 * 1024
"""The longest document that is read."""


class Document(NamedTuple):
    """The response to a GET."""

    status: int
    content_type: str
    etag: str
    body: bytes


class Documents:
    """Reads documents of other servers."""

    def __init__(self, upstreams: Upstreams, headers: RequestHeaders) -> None:
        self._upstreams = upstreams
        self._headers = headers

    async def get(
        self, api: RemoteAPIService, path: str, user: User, *, accept: str, etag: str = "", seconds: float
    ) -> Document:
        """Read a document of the server of an APIService; UpstreamError if that is not possible in so many seconds."""
        try:
            upstream = self._upstreams.find(api)
        except (LookupError, OSError, ValueError) as error:
            raise UpstreamError(str(error)) from None
        return await self.get_from(upstream, api, path, user, accept=accept, etag=etag, seconds=seconds)

    async def get_from(
        self,
        upstream: Upstream,
        api: RemoteAPIService,
        path: str,
        user: User,
        *,
        accept: str,
        etag: str = "",
        seconds: float,
    ) -> Document:
        """Read a document at one of the addresses of an APIService."""
        lines = [f"GET {path} HTTP/1.1", f"Host: {api.server_name}", *self._headers.of_user(user), f"Accept: {accept}"]
        lines.append(f"User-Agent: kapi/{VERSION} (aggregator)")
        if etag and etag.isprintable():
            lines.append(f"If-None-Match: {etag}")
        message = "\r\n".join([*lines, "", ""]).encode()
        try:
            async with asyncio.timeout(seconds):
                return await _read(upstream, message)
        except TimeoutError:
            reason = "net/http: request canceled (Client.Timeout exceeded while awaiting headers)"
            raise UpstreamError(reason) from None


async def _read(upstream: Upstream, message: bytes) -> Document:
    response = await upstream.send("GET", message)
    try:
        parts: list[bytes] = []
        size = 0
        while piece := await response.read():
            parts.append(piece)
            size += len(piece)
            if size > LIMIT:
                raise UpstreamError(f"the document is longer than {LIMIT} bytes")
        headers = {name.lower(): value.decode("latin-1") for name, value in response.headers}
        return Document(response.status, headers.get(b"content-type", ""), headers.get(b"etag", ""), b"".join(parts))
    finally:
        response.close()
