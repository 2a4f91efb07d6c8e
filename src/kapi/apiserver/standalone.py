"""The protection of a server that is developed without a cluster: only programs on this machine can use it.

The server listens on loopback addresses. A web page can make a browser connect to them all the same, under a name of
its own that resolves to 127.0.0.1 (DNS rebinding), and could then read everything. So requests are answered only if
they name a loopback host, as `kubectl proxy` does.
"""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kapi.api.errors import Forbidden
from kapi.codec import json
from kapi.server.transport.message import Response

if TYPE_CHECKING:
    from kapi.server.pipeline import Pipeline
    from kapi.server.transport.message import Request, StreamResponse


def is_loopback(host: str) -> bool:
    """Return True for a loopback address, and for localhost."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


class LoopbackOnly:
    """A handler that refuses requests for other hosts, and those of web pages of other hosts."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    async def __call__(self, request: Request) -> Response | StreamResponse:
        """Answer a request for a loopback host."""
        origin = request.headers.get("origin")
        named = [f"//{request.headers.get('host', '')}", *([origin] if origin else [])]
        if all(is_loopback(_host(url)) for url in named):
            return await self._pipeline(request)
        error = Forbidden("forbidden: a server without a cluster is for clients of this machine: connect to localhost")
        return Response(error.code, [("Content-Type", "application/json")], json.encode(error.status()))


def _host(url: str) -> str:
    with suppress(ValueError):
        return urlsplit(url).hostname or ""
    return ""
