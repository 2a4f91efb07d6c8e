"""The proxy: passes an authorized request on to the API server that an APIService names, and its response back.

Nothing of a response is kept but what the client has not taken yet, and then the other server has to wait. When the
client disconnects, the request to the other server is ended, and a response that breaks off there breaks off here. A
redirect is not followed and not passed on: it would lead the client, with its credentials, to another host.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from kapi.api.errors import BadRequest
from kapi.server.aggregation.headers import InvalidHeader, returned, switched, wanted_protocol
from kapi.server.aggregation.upstream import ClientGone, UpstreamError
from kapi.server.handlers.decode import check_size
from kapi.server.transport.memory import WATCH_BACKLOG, peer_name
from kapi.server.transport.message import Body, Response, StreamResponse, UpgradeResponse
from kapi.server.transport.outgoing import SOCKET_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kapi.server.aggregation.apiservices import ApiServices, RemoteAPIService
    from kapi.server.aggregation.headers import RequestHeaders
    from kapi.server.aggregation.upstream import UpstreamResponse
    from kapi.server.aggregation.upstreams import Upstreams
    from kapi.server.context import Context
    from kapi.server.transport.message import Peer, Stream, Tunnel

SECONDS: Final = 60.0
"""The time until a response must have begun, and between two parts of it, unless it is one that stays open."""
DISCOVERY_SECONDS: Final = 5.0
"""The same for discovery: it is cheap for every server, and clients ask all of them in turn."""

_STAYS_OPEN: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})
_TEXT: Final = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))
_REDIRECTED: Final = "the backend attempted to redirect this request, which is not permitted"


class Proxy:
    """The endpoint of all group versions that other servers serve."""

    def __init__(self, services: ApiServices, upstreams: Upstreams, headers: RequestHeaders) -> None:
        self._services = services
        self._upstreams = upstreams
        self._headers = headers

    async def __call__(self, context: Context) -> Response | StreamResponse:
        """Answer a request for a resource."""
        info = context.info
        stays_open = info.verb == "watch" or info.subresource in _STAYS_OPEN
        api = self._services.remote.get((info.group, info.version))
        if api is None:
            # It was deleted while this request waited for its turn.
            return _failure(503, "service unavailable")
        return await self.forward(context, api, None if stays_open else SECONDS)

    async def forward(
        self, context: Context, api: RemoteAPIService, seconds: float | None
    ) -> Response | StreamResponse:
        """Pass a request on. Its response must begin in so many seconds; None for one that stays open."""
        if not api.is_available:
            return _failure(503, "service unavailable")
        request = context.request
        _check_path(request.path)
        check_size(request)
        if context.ticket is not None:
            # The other server has a flow control of its own. A seat here must not wait for it.
            context.ticket.finish()
        protocol = wanted_protocol(request)
        try:
            upstream = self._upstreams.find(api)
            head = self._headers.head(request, context.user, api.server_name, context.audit_id, upgrade=protocol)
        except LookupError:
            return _failure(503, "service unavailable")
        except InvalidHeader as error:
            return _failure(503, f"error trying to reach service: {error}")
        except (OSError, ValueError) as error:
            return _failure(500, str(error))
        try:
            async with asyncio.timeout(seconds):
                response = await upstream.send(
                    request.method, head + request.body, upgrade=bool(protocol), on_lost=request.peer.when_lost
                )
        except UpstreamError as error:
            if not isinstance(error, ClientGone):
                self._services.suspect(api)
            return _failure(503, f"error trying to reach service: {error}")
        if protocol and response.status < 400:
            return _switched(response)
        return _answer(context, response, seconds)


def _answer(context: Context, response: UpstreamResponse, seconds: float | None) -> Response | StreamResponse:
    headers = returned(response.headers)
    status = response.status
    if 300 <= status < 400 and any(name.lower() == "location" for name, _ in headers):
        response.close()
        return _failure(502, _REDIRECTED)
    if context.request.method == "HEAD":
        length = response.length
        response.close()
        return Response(status, headers, _Announced(length))
    if response.is_whole:
        body = response.take()
        response.close()
        return Response(status, headers, body, context.user)
    if seconds is None:
        relay = StreamResponse(status, headers, _Relay(context, response).run)
        relay.on_end(response.close)
        return relay
    return Response(status, headers, _ProxiedBody(response, context.request.peer, seconds), context.user)


def _switched(response: UpstreamResponse) -> Response | StreamResponse:
    """Switch protocols, if the other server does; a response that is an error is passed on like any other."""
    if response.status != 101:
        response.close()
        return _failure(503, f"invalid upgrade response: status code {response.status}")
    tunnel = UpgradeResponse(switched(response.headers), _Tunnelled(response).run)
    tunnel.on_end(response.close)
    return tunnel


def _failure(status: int, text: str) -> Response:
    return Response(status, list(_TEXT), f"{text}\n".encode())


def _check_path(path: str) -> None:
    """Refuse a path that the other server could read as one that was not authorized here."""
    if "." in path or "%" in path or "\\" in path:
        for segment in path.split("/"):
            name = unquote(segment)
            if name in (".", "..") or "\\" in name or "/" in name:
                raise BadRequest(f"invalid path {path!r}: it has a segment that could mean another path")


class _Announced(Body):
    """The body of a response to HEAD: its length alone."""

    def __init__(self, length: int | None) -> None:
        self.length = length


class _ProxiedBody(Body):
    """A body that is sent while it arrives."""

    def __init__(self, response: UpstreamResponse, peer: Peer, seconds: float) -> None:
        self.length = response.length
        self._response = response
        self._peer = peer
        self._seconds = seconds

    async def pieces(self) -> AsyncGenerator[bytes | memoryview, None]:
        """Yield what has arrived; ConnectionError if the response breaks off."""
        response = self._response
        self._peer.when_lost(lambda: response.fail(ClientGone("the client has disconnected")))
        try:
            while piece := await response.read(self._seconds):
                yield piece
        except UpstreamError as error:
            raise ConnectionError(str(error)) from None
        finally:
            self._peer.when_lost(None)
            response.close()

    def drop(self) -> None:
        """The body will not be sent."""
        self._response.close()


class _Relay:
    """A response that stays open: every part is passed on at once."""

    def __init__(self, context: Context, response: UpstreamResponse) -> None:
        self._account = context.services.memory
        self._payer = peer_name(context.user, context.request.peer.address)
        self._response = response

    async def run(self, stream: Stream) -> None:
        """Pass on what arrives until either side ends it."""
        response = self._response

        def ended(_closed: object) -> None:
            response.fail(ClientGone("the client has disconnected"))

        stream.closed.add_done_callback(ended)
        try:
            with self._account.open(WATCH_BACKLOG, self._payer, lambda _reason: stream.abort()) as hold:
                while piece := await response.read():
                    stream.write(piece)
                    while stream.is_full and not stream.closed.done():
                        hold.resize(stream.pending + SOCKET_BYTES, progressed=True)
                        await stream.drain()
                    hold.resize(0, progressed=True)
        except ClientGone:
            pass
        except UpstreamError:
            # Without the last chunk the client can tell that there should have been more.
            stream.abort()
        finally:
            stream.closed.remove_done_callback(ended)
            response.close()


class _Tunnelled:
    """Two connections that have left HTTP: what comes on one is sent on the other, no faster than it is taken."""

    def __init__(self, response: UpstreamResponse) -> None:
        self._response = response

    async def run(self, tunnel: Tunnel) -> None:
        """Pass on bytes in both directions until either side closes its connection."""
        response, connection = self._response, self._response.connection

        def ended(_closed: object) -> None:
            response.fail(ClientGone("the client has disconnected"))

        tunnel.closed.add_done_callback(ended)
        tunnel.on_data = connection.write
        connection.on_full = lambda is_full: tunnel.set_reading(not is_full)
        try:
            while piece := await response.read():
                tunnel.write(piece)
                while tunnel.is_full and not tunnel.closed.done():
                    await tunnel.drain()
        except UpstreamError:
            pass
        finally:
            connection.on_full = None
            tunnel.closed.remove_done_callback(ended)
            response.close()
