"""Bodies that are made while they are sent: framing, back-pressure, the account they are on, and how they end early."""

import asyncio
import contextlib
import gc

import pytest
import uvloop

from kapi.api.user import User
from kapi.server.transport.limits import Limits
from kapi.server.transport.memory import OVER_PEER_BUDGET, RESPONSE
from kapi.server.transport.message import Body, Response
from kapi.server.transport.serve import Server

MIB = 1 << 20
GET = b"GET /path HTTP/1.1\r\nHost: test\r\n\r\n"
ALICE = User("alice", (), "")


class Pieces(Body):
    """A body of some pieces, which counts how many were asked for."""

    def __init__(self, *pieces, length=None, held=0, failure=None):
        self._pieces = pieces
        self._failure = failure
        self.length = length
        self.private = held
        self.asked = 0
        self.closed = asyncio.Event()

    @property
    def held(self):
        return self.private

    async def pieces(self):
        try:
            for piece in self._pieces:
                self.asked += 1
                yield piece
            if self._failure is not None:
                raise self._failure
        finally:
            self.closed.set()


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    factory = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop

    def runner(main):
        with asyncio.Runner(loop_factory=factory) as loop:
            return loop.run(asyncio.wait_for(main, 60))

    return runner


@contextlib.asynccontextmanager
async def serving(make, **limits):
    """A server whose every answer has the body that `make` returns."""

    async def handler(_request):
        return Response(200, [], make(), ALICE)

    server = Server(handler, host="127.0.0.1", limits=Limits(**limits))
    await server.start()
    try:
        yield server
    finally:
        await server.close()


async def connect(server, limit=2**24):
    return await asyncio.open_connection("127.0.0.1", server.port, limit=limit)


async def exchange(server, request=GET, *, half_close=False):
    """Everything that comes back for one request until the connection ends."""
    reader, writer = await connect(server)
    writer.write(request)
    if half_close:
        writer.write_eof()
    raw = await reader.read()
    writer.close()
    return raw


async def until(condition):
    while not condition():  # noqa: ASYNC110 (neither the account nor the sockets have an event)
        await asyncio.sleep(0)


def test_body_of_unknown_length_is_chunked_and_the_connection_is_reused(run):
    async def main():
        async with serving(lambda: Pieces(b"one", b"", memoryview(b"two"))) as server:
            reader, writer = await connect(server)
            for _ in range(2):
                writer.write(GET)
                head = await reader.readuntil(b"\r\n\r\n")
                assert b"Transfer-Encoding: chunked" in head
                assert b"Content-Length" not in head
                assert await reader.readuntil(b"0\r\n\r\n") == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
            writer.close()

    run(main())


def test_body_of_known_length_is_sent_with_it(run):
    async def main():
        async with serving(lambda: Pieces(b"one", b"two", length=6)) as server:
            raw = await exchange(server, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert b"Content-Length: 6\r\n" in raw
            assert raw.endswith(b"\r\n\r\nonetwo")

    run(main())


def test_body_for_http_1_0_ends_with_the_connection(run):
    async def main():
        async with serving(lambda: Pieces(b"one", b"two")) as server:
            raw = await exchange(server, b"GET / HTTP/1.0\r\n\r\n")
            assert b"Transfer-Encoding" not in raw
            assert raw.endswith(b"\r\n\r\nonetwo")

    run(main())


def test_head_gets_no_piece(run):
    body = Pieces(b"one", length=3)

    async def main():
        async with serving(lambda: body) as server:
            raw = await exchange(server, b"HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            assert raw.endswith(b"Connection: close\r\n\r\n")
            assert b"Content-Length: 3\r\n" in raw
            assert body.asked == 0

    run(main())


def test_half_closed_peer_gets_the_whole_body(run):
    async def main():
        async with serving(lambda: Pieces(*[b"x" * 100_000] * 30)) as server:
            raw = await exchange(server, half_close=True)
            assert raw.count(b"x") == 3_000_000
            assert raw.endswith(b"0\r\n\r\n")

    run(main())


def test_body_that_fails_midway_is_not_ended_as_if_it_were_whole(run, caplog):
    async def main():
        async with serving(lambda: Pieces(b"one", failure=ZeroDivisionError())) as server:
            with contextlib.suppress(ConnectionResetError):
                assert not (await exchange(server)).endswith(b"0\r\n\r\n")
        assert "sending the response to GET /path failed" in caplog.text

    run(main())


def test_piece_is_made_when_the_peer_has_taken_the_last_ones(run):
    body = Pieces(*[b"x" * MIB] * 200)

    async def main():
        async with serving(lambda: body) as server:
            reader, writer = await connect(server, limit=1)
            writer.write(GET)
            await until(lambda: server.memory.used)
            # What the sockets of both ends hold, and no more.
            assert body.asked < 50
            assert server.memory.used < 3 * MIB
            while await reader.read(MIB):
                if body.asked == 200:
                    break
            writer.transport.abort()
            await body.closed.wait()
            await until(lambda: not server.memory.used)

    run(main())


def test_unread_body_is_charged_to_the_user_with_what_it_keeps(run):
    body = Pieces(*[b"x" * MIB] * 200, held=5 * MIB)

    async def main():
        async with serving(lambda: body) as server:
            _, writer = await connect(server, limit=1)
            writer.write(GET)
            await until(lambda: server.memory.used)
            assert server.memory.by_kind[RESPONSE] == server.memory.used >= 5 * MIB
            assert list(server.memory._peers) == ["user:alice"]
            body.private = 9 * MIB
            body.grown()
            assert server.memory.used >= 9 * MIB
            writer.transport.abort()
            await body.closed.wait()

    run(main())


@pytest.mark.parametrize("kind", ["pieces", "bytes"])
def test_unread_bodies_over_the_budget_close_the_slowest(run, kind):
    async def main():
        def make():
            return Pieces(*[b"x" * MIB] * 200, held=40 * MIB) if kind == "pieces" else b"x" * (60 * MIB)

        async with serving(make, held_per_peer=100 * MIB) as server:
            peers = []
            for _ in range(5):
                reader, writer = await connect(server, limit=1)
                writer.write(GET)
                await reader.readexactly(1)
                peers.append(writer)
            await until(lambda: server.memory.closures[RESPONSE, OVER_PEER_BUDGET] >= 3)
            await until(lambda: server.connections <= 2)
            assert server.memory.used <= 100 * MIB
            for writer in peers:
                writer.transport.abort()

    run(main())


def test_peer_that_takes_a_long_body_too_slowly_is_closed(run):
    body = Pieces(*[b"x" * MIB] * 1000)

    async def main():
        async with serving(lambda: body, write_timeout=0.2, write_rate=1e12) as server:
            reader, writer = await connect(server, limit=1)
            writer.write(GET)
            with contextlib.suppress(ConnectionResetError):
                # Always some progress, so that no single wait is too long.
                while await reader.read(100_000):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert body.asked < 1000
            assert body.closed.is_set()
            writer.close()

    run(main())


def test_body_is_freed_without_the_garbage_collector(run):
    bodies = []

    def make():
        bodies.append(1)
        return Pieces(*[b"x" * MIB] * 3)

    async def main():
        async with serving(make) as server:
            gc.collect()
            gc.disable()
            try:
                await exchange(server, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
                await until(lambda: not server.connections)
                for _ in range(100):
                    await asyncio.sleep(0)
                assert bodies
                assert not [found for found in gc.get_objects() if isinstance(found, Pieces)]
            finally:
                gc.enable()

    run(main())
