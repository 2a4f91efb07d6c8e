"""Connections: what becomes of their sockets."""

import asyncio
import gc

import pytest

from kapi.client.rest import RESTClient


@pytest.mark.parametrize("seconds", [0.0, 0.002, 0.01, 0.05, 0.2])
def test_a_request_that_is_cancelled_leaves_no_socket_behind(admin, seconds):
    async def main():
        client = RESTClient(admin)
        # Never answered to its end: it is cancelled while it connects, or while it reads.
        request = asyncio.ensure_future(client.request("GET", "/api/v1/configmaps", query={"watch": True}))
        await asyncio.sleep(seconds)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await client.close()

    asyncio.run(main())
    # An open socket would now say so, which fails the test.
    gc.collect()
