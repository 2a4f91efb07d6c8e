"""Connections whose caller is cancelled while they are made."""

import asyncio
import gc
import socket

import pytest

from kapi.base.connecting import Connecting
from kapi.base.tls import Authority, KeyPair, client_context, server_context

STEPS = 60
"""More iterations of the event loop than a handshake with a server on the same loop takes."""


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    """The TLS contexts of a server and of its client."""
    folder = tmp_path_factory.mktemp("connecting")
    authority = KeyPair(folder / "ca.crt", folder / "ca.key")
    files = KeyPair(folder / "tls.crt", folder / "tls.key")
    Authority.ensure(authority, "test").ensure_server(files, ("127.0.0.1",))
    return server_context(files), client_context(authority.certificate)


def test_a_connection_that_is_cancelled_at_any_step_is_closed(contexts):
    served, trusted = contexts
    accepted, outcomes, left_open = [], set(), []

    def accept(_, writer):
        # A peer that does not answer the shutdown of TLS.
        writer.transport.pause_reading()
        accepted.append(writer)

    async def cancel_after(steps, address):
        connecting, loop = Connecting(), asyncio.get_running_loop()
        client = socket.create_connection(address)
        making = loop.create_connection(asyncio.Protocol, sock=client, ssl=trusted, server_hostname="127.0.0.1")
        call = asyncio.ensure_future(connecting.make(making))
        for _ in range(steps):
            await asyncio.sleep(0)
        outcomes.add(call.done())
        call.cancel()
        for result in await asyncio.gather(call, return_exceptions=True):
            if isinstance(result, tuple):
                result[0].abort()
        await connecting.close()
        for _ in range(3):  # an aborted connection closes its socket in the next iterations, one for each layer
            await asyncio.sleep(0)
        if client.fileno() != -1:
            left_open.append(steps)

    async def main():
        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=served)
        for steps in range(1, STEPS):
            await cancel_after(steps, server.sockets[0].getsockname())
        server.close()
        for writer in accepted:
            writer.transport.abort()

    asyncio.run(main())
    assert outcomes == {False, True}
    assert left_open == []


def test_a_server_that_says_nothing_delays_closing_for_a_moment_only():
    ended = []

    async def main():
        connecting, waiting = Connecting(), asyncio.Event()

        async def connect():
            waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

        call = asyncio.ensure_future(connecting.make(connect()))
        await waiting.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert not ended
        await connecting.close()
        assert ended

    asyncio.run(main())


def test_an_error_of_an_abandoned_connection_is_not_reported_as_never_retrieved(caplog):
    async def main():
        connecting, refused = Connecting(), asyncio.Event()

        async def connect():
            await refused.wait()
            raise ConnectionRefusedError

        call = asyncio.ensure_future(connecting.make(connect()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        refused.set()
        await connecting.close()

    asyncio.run(main())
    gc.collect()
    assert not caplog.records
