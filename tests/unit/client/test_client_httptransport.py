"""Connections: when their sockets are closed, and in which order asyncio's transports are told."""

import asyncio
import gc
from asyncio import sslproto

import pytest

from kapi.client.rest import RESTClient


@pytest.mark.parametrize("seconds", [0.0, 0.002, 0.01, 0.05, 0.2])
def test_a_cancelled_request_leaves_no_socket_open(admin, seconds):
    async def main():
        client = RESTClient(admin)
        # A watch never ends by itself: it is cancelled while it connects, or while it reads.
        request = asyncio.ensure_future(client.request("GET", "/api/v1/configmaps", query={"watch": True}))
        await asyncio.sleep(seconds)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await client.close()

    asyncio.run(main())
    # An open socket warns when it is collected, and warnings are errors.
    gc.collect()


def test_a_stream_that_is_left_early_aborts_its_connection_before_it_closes_it(admin, monkeypatch):
    # Python 3.11.2 raises AttributeError for an abort after a close; later versions accept it.
    calls = []
    for name in ("abort", "close"):
        original = getattr(sslproto._SSLProtocolTransport, name)

        def spy(transport, *, name=name, original=original):
            calls.append(name)
            original(transport)

        monkeypatch.setattr(sslproto._SSLProtocolTransport, name, spy)

    async def main():
        async with RESTClient(admin) as client:
            query = {"watch": True, "sendInitialEvents": True, "resourceVersionMatch": "NotOlderThan"}
            async with client.stream("/api/v1/namespaces", query=query) as lines:
                await anext(lines)
            assert calls == ["abort", "close"]

    asyncio.run(main())
