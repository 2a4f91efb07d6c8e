"""The number of connections and of TLS handshakes: what is closed for a new one. On both event loops."""

import asyncio
import contextlib
import gc
import socket
import ssl
from collections import Counter

import pytest
import uvloop

from kapi.api.errors import BadRequest
from kapi.api.user import ANONYMOUS
from kapi.base.smallobjects import SmallObjects
from kapi.base.tls import Authority, KeyPair, client_context, server_context
from kapi.server.pages.metrics import Metrics
from kapi.server.transport import serve
from kapi.server.transport.acceptor import HANDSHAKES_PER_TURN
from kapi.server.transport.connection import Connection
from kapi.server.transport.limits import Limits
from kapi.server.transport.message import Response, StreamResponse
from kapi.server.transport.serve import Server
from loop_turns import loop_turns

GET = b"GET /path HTTP/1.1\r\nHost: test\r\n\r\n"
HALF_A_BODY = b"POST /path HTTP/1.1\r\nHost: test\r\nContent-Length: 200000\r\n\r\n" + b"x" * 100_000


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    factory = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop

    def runner(main):
        with asyncio.Runner(loop_factory=factory) as loop:
            return loop.run(asyncio.wait_for(main, 30))

    return runner


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """The context of a server, and that of a client."""
    directory = tmp_path_factory.mktemp("tls")

    def pair(name):
        return KeyPair(directory / f"{name}.crt", directory / f"{name}.key")

    authority = Authority.ensure(pair("ca"), "test")
    authority.ensure_server(pair("server"), ["127.0.0.1"])
    return server_context(pair("server")), client_context(pair("ca").certificate)


async def hello(request):
    return Response(200, [], request.peer.address.encode())


@contextlib.asynccontextmanager
async def serving(handler, tls=None, small_objects=None, **limits):
    server = Server(handler, host="127.0.0.1", tls=tls, limits=Limits(**limits), small_objects=small_objects)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def connected(server, count=1, **options):
    clients = [await asyncio.open_connection("127.0.0.1", server.port, **options) for _ in range(count)]
    try:
        yield clients
    finally:
        for _, writer in clients:
            writer.transport.abort()


async def ask(reader, writer):
    """The status and body of an answer."""
    writer.write(GET)
    return await answer(reader)


async def answer(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return int(head.split(b" ")[1]), await reader.readexactly(length)


async def ended(reader):
    """Wait until the server has closed a connection without an answer."""
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""


async def until(condition):
    while not condition():  # noqa: ASYNC110 (the server has no event for its counts)
        await asyncio.sleep(0.001)


class Held:
    """A handler that answers when it is told to."""

    def __init__(self):
        self.begun = 0
        self.release = asyncio.Event()

    async def __call__(self, _):
        self.begun += 1
        await self.release.wait()
        return Response(200)


def test_connection_over_the_limit_is_refused_with_a_status_while_all_are_in_use(run):
    async def main():
        held = Held()
        async with serving(held, connections=1) as server, connected(server) as [(reader, writer)]:
            writer.write(GET)
            await until(lambda: held.begun)
            async with connected(server) as [(other, _)]:
                status, body = await answer(other)
                assert status == 503
                assert b'"kind":"Status"' in body
            held.release.set()
            assert (await answer(reader))[0] == 200

    run(main())


def test_idle_connection_is_closed_for_a_new_one_the_longest_idle_first(run):
    async def main():
        async with serving(hello, connections=3) as server, connected(server, 3) as (first, second, third):
            for client in (second, first, third):
                await ask(*client)
                await asyncio.sleep(0.01)  # The clock of uvloop counts milliseconds.
            async with connected(server) as [fourth]:
                await ask(*fourth)
                await ended(second[0])
                for client in (first, third, fourth):
                    assert (await ask(*client))[0] == 200
                assert (server.closed_idle, server.connections) == (1, 3)

    run(main())


class Endless:
    """A handler whose streams end when they are cancelled."""

    async def __call__(self, _):
        return StreamResponse(200, [], self.run)

    async def run(self, _):
        await asyncio.Event().wait()


def alive():
    """How many connections there are in memory."""
    return sum(isinstance(thing, Connection) for thing in gc.get_objects())


@contextlib.contextmanager
def no_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("handler", [hello, Endless()], ids=["idle", "streaming"])
def test_connections_that_are_closed_are_freed_without_the_garbage_collector(run, handler):
    """It runs rarely, and a connection with TLS has half a megabyte of buffers."""

    async def main():
        before = alive()
        async with serving(handler) as server:
            async with connected(server, 3) as clients:
                for reader, writer in clients:
                    writer.write(GET)
                    await reader.readuntil(b"\r\n\r\n")
                assert alive() == before + 3
                await server.close()
            del reader, writer, clients
        await until(lambda: alive() == before)

    with no_garbage_collector():
        run(main())


def test_connections_lost_within_a_body_are_freed_without_the_garbage_collector(run):
    async def main():
        begun = []

        async def receive(request):
            begun.append(1)
            with contextlib.suppress(BadRequest):
                await request.arrival.wait(ANONYMOUS)
            return Response(200, [], b"")

        before = alive()
        async with serving(receive) as server:
            async with connected(server, 3) as clients:
                for _, writer in clients:
                    writer.write(HALF_A_BODY)
                await until(lambda: len(begun) == 3)
            del writer, clients
            await until(lambda: alive() == before)

    with no_garbage_collector():
        run(main())


def test_one_address_cannot_take_all_connections(run):
    async def main():
        held = Held()
        async with (
            serving(held, connections=10, connections_per_address=2) as server,
            connected(server, 2) as clients,
        ):
            for _, writer in clients:
                writer.write(GET)
            await until(lambda: held.begun == 2)
            async with connected(server) as [(other, _)]:
                assert (await answer(other))[0] == 503
            async with connected(server, local_addr=("127.0.0.2", 0)) as [(other, writer)]:
                writer.write(GET)
                await until(lambda: held.begun == 3)
                held.release.set()
                assert (await answer(other))[0] == 200

    run(main())


def test_idle_connection_of_the_same_address_is_closed_for_its_new_one(run):
    async def main():
        async with (
            serving(hello, connections=10, connections_per_address=1) as server,
            connected(server, local_addr=("127.0.0.2", 0)) as [stranger],
        ):
            await ask(*stranger)
            async with connected(server) as [first]:
                await ask(*first)
                async with connected(server) as [second]:
                    await ended(first[0])
                    assert [(await ask(*client))[0] for client in (stranger, second)] == [200, 200]

    run(main())


def test_unfinished_handshakes_are_bounded_per_address_the_oldest_is_dropped(run, tls):
    async def main():
        async with (
            serving(hello, tls[0], handshakes_per_address=2) as server,
            connected(server, 5) as silent,
        ):
            for reader, _ in silent[:3]:
                await ended(reader)
            assert server.handshakes == 2
            async with connected(server, ssl=tls[1]) as [client]:
                assert (await ask(*client))[0] == 200

    run(main())


def test_unfinished_handshakes_of_all_are_bounded(run, tls):
    async def main():
        async with (
            serving(hello, tls[0], handshakes=2) as server,
            connected(server, 2) as silent,
            connected(server, 2, local_addr=("127.0.0.2", 0)),
        ):
            for reader, _ in silent:
                await ended(reader)
            assert server.handshakes == 2

    run(main())


def test_handshake_has_a_deadline(run, tls):
    async def main():
        async with serving(hello, tls[0], handshake_timeout=0.1) as server, connected(server) as [(reader, _)]:
            await ended(reader)
            await until(lambda: not server.handshakes)

    run(main())


def test_unfinished_handshakes_count_in_the_limit_of_connections(run, tls):
    async def main():
        async with serving(hello, tls[0], connections=3) as server, connected(server, 3):
            await until(lambda: server.handshakes == 3)
            async with connected(server, ssl=tls[1]) as [(reader, _)]:
                assert (await answer(reader))[0] == 503

    run(main())


def test_unfinished_handshakes_do_not_delay_a_shutdown(run, tls):
    async def main():
        async with serving(hello, tls[0]) as server, connected(server) as [(reader, _)]:
            await until(lambda: server.handshakes == 1)
            await server.drain(10)
            await ended(reader)

    run(main())


def test_connections_and_handshakes_are_metrics(run, tls):
    async def main():
        metrics = Metrics()
        async with serving(hello, tls[0]) as server, connected(server), connected(server, ssl=tls[1]) as [client]:
            metrics.observe_connections(server)
            await ask(*client)
            page = metrics.render().decode()
            assert 'kapi_connections{state="open"} 1.0' in page
            assert 'kapi_connections{state="handshake"} 1.0' in page
            assert "kapi_idle_connections_closed_total 0.0" in page

    run(main())


def test_few_handshakes_begin_in_one_turn_of_the_loop_though_all_come_at_once(run, tls):
    count = 5 * HANDSHAKES_PER_TURN

    async def main():
        begun = []
        async with serving(hello, tls[0]) as server, loop_turns() as turns:
            clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(count)]
            [acceptor] = server._acceptors
            made = acceptor._protocol

            def recorded():
                begun.append(turns.count)
                return made()

            acceptor._protocol = recorded
            await until(lambda: server.handshakes == count)
            hello_bytes = client_hello(tls[1])
            # Sent without a turn of the loop between them.
            for client in clients:
                client.send(hello_bytes)
            await until(lambda: len(begun) == count)
            for client in clients:
                client.close()
        assert max(Counter(begun).values()) <= HANDSHAKES_PER_TURN

    run(main())


def client_hello(context):
    """The first bytes that a client sends."""
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="127.0.0.1").do_handshake()
    return sent.read()


def test_tls_does_not_begin_for_a_silent_connection(run, tls):
    async def main():
        async with serving(hello, tls[0]) as server, connected(server, 3):
            [acceptor] = server._acceptors
            begun = []
            acceptor._protocol = lambda: begun.append(1)
            await until(lambda: server.handshakes == 3)
            for _ in range(10):
                await asyncio.sleep(0)
            assert begun == []

    run(main())


# -- small objects ----------------------------------------------------------------------------------------------------


def test_small_objects_are_in_the_heap_while_there_are_many_connections(run, monkeypatch):
    monkeypatch.setattr(serve, "MANY", 6)
    monkeypatch.setattr(serve, "FEW", 3)
    small = SmallObjects()

    async def main():
        async with serving(hello, small_objects=small) as server:
            async with connected(server, 5):
                await until(lambda: server.connections == 5)
                assert not small.in_heap
                async with connected(server, 1) as (client,):
                    await until(lambda: server.connections == 6)
                    assert small.in_heap
                    assert await ask(*client) == (200, b"127.0.0.1")
                await until(lambda: server.connections == 5)
                assert small.in_heap
            await until(lambda: server.connections == 0)
            assert not small.in_heap

    run(main())


def test_a_server_that_ends_with_many_connections_leaves_small_objects_in_arenas(run, monkeypatch):
    monkeypatch.setattr(serve, "MANY", 2)
    monkeypatch.setattr(serve, "FEW", 1)
    small = SmallObjects()

    async def main():
        async with serving(hello, small_objects=small) as server, connected(server, 2):
            await until(lambda: server.connections == 2)
            assert small.in_heap
            await server.close()
            assert not small.in_heap

    run(main())
