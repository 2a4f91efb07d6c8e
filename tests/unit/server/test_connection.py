"""A connection over real sockets, on both event loops."""

import asyncio
import contextlib
import gc
import socket
import ssl
from email.utils import parsedate_to_datetime

import msgspec
import pytest
import uvloop

from kapi.api.errors import ApiError
from kapi.api.user import ANONYMOUS
from kapi.base.tls import Authority, KeyPair, client_context, server_context
from kapi.server.transport.limits import Limits
from kapi.server.transport.message import Response, StreamResponse
from kapi.server.transport.serve import Server

GET = b"GET /path HTTP/1.1\r\nHost: test\r\n\r\n"


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    factory = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop

    def runner(main):
        with asyncio.Runner(loop_factory=factory) as loop:
            return loop.run(asyncio.wait_for(main, 20))

    return runner


@contextlib.asynccontextmanager
async def serving(handler, tls=None, **limits):
    server = Server(handler, host="127.0.0.1", tls=tls, limits=Limits(**limits))
    await server.start()
    try:
        yield server
    finally:
        await server.close()


class Client:
    """A peer that sends exactly the given bytes."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    def send(self, data):
        self.writer.write(data)

    async def head(self):
        raw = await self.reader.readuntil(b"\r\n\r\n")
        line, *fields = raw.decode().rstrip("\r\n").split("\r\n")
        return int(line.split(" ")[1]), dict(field.lower().split(": ", 1) for field in fields)

    async def response(self):
        status, headers = await self.head()
        if "content-length" in headers:
            return status, headers, await self.reader.readexactly(int(headers["content-length"]))
        body = b""
        while headers.get("transfer-encoding") == "chunked" and (chunk := await self.chunk()):
            body += chunk
        return status, headers, body

    async def chunk(self):
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def rest(self):
        return await self.reader.read()

    def close(self):
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def connected(server, tls=None):
    client = Client(*await asyncio.open_connection("127.0.0.1", server.port, ssl=tls, limit=2**24))
    try:
        yield client
    finally:
        client.close()


async def echo(request):
    if request.arrival is not None:
        try:
            await request.arrival.wait(ANONYMOUS)
        except ApiError as error:
            return Response(error.code, [("Content-Type", "application/json")], msgspec.json.encode(error.status()))
    said = {"method": request.method, "path": request.path, "query": request.query, "body": request.body.decode()}
    said |= {"oversized": request.oversized, "x": request.headers.get("x")}
    return Response(200, [("Content-Type", "application/json")], msgspec.json.encode(said))


def said(response):
    return msgspec.json.decode(response[2])


def test_connection_is_used_for_one_request_after_the_other(run):
    async def main():
        async with serving(echo) as server, connected(server) as client:
            for number in range(3):
                client.send(
                    b"POST /a%%2Fb?x=%d HTTP/1.1\r\nHost: h\r\nX: one\r\nx: two\r\nContent-Length: 2\r\n\r\nhi" % number
                )
                status, headers, body = await client.response()
                assert status == 200
                assert msgspec.json.decode(body) == {
                    "method": "POST",
                    "path": "/a%2Fb",
                    "query": f"x={number}",
                    "body": "hi",
                    "x": "one, two",
                    "oversized": False,
                }
                assert "connection" not in headers
                assert parsedate_to_datetime(headers["date"]) is not None

    run(main())


def test_request_may_arrive_byte_by_byte(run):
    async def main():
        async with serving(echo) as server, connected(server) as client:
            for (
                byte
            ) in b"PUT /x?y HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n":
                client.send(bytes([byte]))
                await asyncio.sleep(0)
            assert said(await client.response())["body"] == "abc"

    run(main())


def test_pipelined_requests_are_answered_in_order_though_more_come_than_are_queued(run):
    release = asyncio.Event()

    async def handler(request):
        if request.path == "/0":
            await release.wait()
        return await echo(request)

    async def main():
        async with serving(handler, pipeline=2) as server, connected(server) as client:
            client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\nX: %s\r\n\r\n" % (n, b"y" * 500) for n in range(200)))
            release.set()
            assert [said(await client.response())["path"] for _ in range(200)] == [f"/{n}" for n in range(200)]

    run(main())


def test_reading_stops_while_enough_requests_wait(run):
    release = asyncio.Event()

    async def handler(request):
        await release.wait()
        return await echo(request)

    async def main():
        async with serving(handler, pipeline=2) as server, connected(server) as client:
            client.writer.transport.set_write_buffer_limits(high=0)

            async def flood():
                while True:
                    client.send(GET * 1000)
                    await client.writer.drain()

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(flood(), 0.2)
            (connection,) = server._connections
            assert len(connection._reader.queue) < 1000
            assert len(connection._reader.held) < 1024 * 1024
            release.set()
            assert (await client.response())[0] == 200

    run(main())


def test_http_1_0_is_answered_and_closed(run):
    async def main():
        async with serving(echo) as server, connected(server) as client:
            client.send(b"GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 2)
            _, headers, body = await client.response()
            assert headers["connection"] == "close"
            assert msgspec.json.decode(body)["path"] == "/old"
            assert await client.rest() == b""

    run(main())


def test_connection_close_is_honoured_and_what_follows_is_not_read(run):
    async def main():
        async with serving(echo) as server, connected(server) as client:
            client.send(b"GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" + GET)
            _, headers, _ = await client.response()
            assert headers["connection"] == "close"
            assert await client.rest() == b""

    run(main())


def test_half_closed_peer_still_gets_its_answers(run):
    async def main():
        async with serving(echo) as server, connected(server) as client:
            client.send(GET * 2)
            client.writer.write_eof()
            assert (await client.response())[0] == 200
            assert (await client.response())[0] == 200
            assert await client.rest() == b""

    run(main())


def test_half_close_right_after_a_request_still_gets_the_answer(run):
    async def main():
        async with serving(echo) as server, connected(server) as client:
            client.send(GET)
            await client.response()
            (connection,) = server._connections
            # Both in one turn of the loop, before the task that waits for requests has run.
            connection.data_received(GET)
            assert connection.eof_received() is True
            assert (await client.response())[0] == 200

    run(main())


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/a?b?c", "/a", "b?c"),
        ("http://host/a?b", "/a", "b"),
        ("HTTPS://host:1", "/", ""),
        ("http://host?b/c", "/", "b/c"),
        ("//a/b", "//a/b", ""),
    ],
)
def test_target_in_origin_form_or_absolute_form(run, target, path, query):
    async def main():
        async with serving(echo) as server, connected(server) as client:
            client.send(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            answer = said(await client.response())
            assert (answer["path"], answer["query"]) == (path, query)

    run(main())


def test_head_is_answered_without_a_body_and_with_its_length(run):
    async def main():
        async with serving(echo) as server, connected(server) as client:
            client.send(b"HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n" + GET)
            status, headers = await client.head()
            assert status == 200
            assert int(headers["content-length"]) > 0
            assert said(await client.response())["method"] == "GET"

    run(main())


@pytest.mark.parametrize("status", [204, 304])
def test_statuses_without_a_body_have_neither_body_nor_length(run, status):
    async def handler(_):
        return Response(status, [], b"not sent")

    async def main():
        async with serving(handler) as server, connected(server) as client:
            client.send(GET)
            assert (await client.head())[1].keys() == {"date"}
            client.send(GET)
            assert (await client.head())[0] == status

    run(main())


def test_body_in_parts_is_sent_whole(run):
    async def handler(_):
        return Response(200, [], [b"a", b"", b"bc"])

    async def main():
        async with serving(handler) as server, connected(server) as client:
            client.send(GET)
            assert (await client.response())[2] == b"abc"

    run(main())


def test_large_bodies_are_sent_in_slices_while_others_are_served(run):
    parts = [bytes([n % 251]) * 70_000 for n in range(60)] + [b"z" * 3_000_000, b"end"]

    async def handler(request):
        return Response(200, [], parts if request.path == "/large" else b"small")

    async def main():
        async with serving(handler) as server, connected(server) as slow, connected(server) as quick:
            slow.send(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
            _, headers = await slow.head()
            assert int(headers["content-length"]) == sum(map(len, parts))
            quick.send(GET)
            assert (await quick.response())[2] == b"small"
            assert await slow.reader.readexactly(int(headers["content-length"])) == b"".join(parts)
            slow.send(GET)
            assert (await slow.response())[2] == b"small"

    run(main())


def test_connection_of_a_peer_that_does_not_read_is_closed(run):
    finished = asyncio.Event()

    async def handler(_):
        finished.set()
        return Response(200, [], [b"x" * 1_000_000] * 50)

    async def main():
        async with serving(handler, write_timeout=0.05) as server:
            client = Client(*await asyncio.open_connection("127.0.0.1", server.port, limit=1))
            client.send(GET)
            await finished.wait()
            await gone(server)
            client.close()

    run(main())


async def gone(server):
    """Until the server has no connection left."""
    await server._wait_until_empty(None)


# 100-continue and bodies that are too long


def test_expect_continue_is_answered_with_100(run):
    async def main():
        async with serving(echo) as server, connected(server) as client:
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
            assert await client.head() == (100, {})
            client.send(b"hi")
            assert said(await client.response())["body"] == "hi"

    run(main())


def test_continue_waits_for_the_answers_before_it(run):
    release = asyncio.Event()

    async def handler(request):
        if request.path == "/first":
            await release.wait()
        return await echo(request)

    async def main():
        async with serving(handler) as server, connected(server) as client:
            client.send(b"GET /first HTTP/1.1\r\nHost: h\r\n\r\n")
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
            release.set()
            assert said(await client.response())["path"] == "/first"
            assert (await client.head())[0] == 100
            client.send(b"hi")
            assert said(await client.response())["body"] == "hi"

    run(main())


def test_expect_continue_with_too_long_a_body_gets_the_final_answer(run):
    async def main():
        async with serving(echo, body=10) as server, connected(server) as client:
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n")
            response = await client.response()
            assert said(response)["oversized"] is True
            assert response[1]["connection"] == "close"
            assert await client.rest() == b""

    run(main())


def test_body_of_the_exact_limit_is_kept(run):
    async def main():
        async with serving(echo, body=10) as server, connected(server) as client:
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n0123456789")
            assert said(await client.response())["body"] == "0123456789"

    run(main())


@pytest.mark.parametrize(
    "framed",
    [
        b"Content-Length: 500000\r\n\r\n" + b"x" * 500_000,
        b"Transfer-Encoding: chunked\r\n\r\n" + b"8000\r\n" + b"x" * 0x8000 + b"\r\n0\r\n\r\n",
    ],
    ids=["length", "chunked"],
)
def test_body_over_the_limit_is_not_kept_and_closes_the_connection(run, framed):
    async def main():
        async with serving(echo, body=10_000) as server, connected(server) as client:
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\n" + framed + GET)
            response = await client.response()
            assert said(response)["oversized"] is True
            assert said(response)["body"] == ""
            assert response[1]["connection"] == "close"
            assert await client.rest() == b""

    run(main())


# Time


def test_idle_connection_is_closed_without_a_response(run):
    async def main():
        async with serving(echo, idle_timeout=0.05) as server, connected(server) as client:
            client.send(GET)
            await client.response()
            assert await client.rest() == b""
            await gone(server)

    run(main())


def test_empty_lines_do_not_keep_a_connection_open(run):
    async def main():
        async with serving(echo, idle_timeout=0.1) as server, connected(server) as client:
            dripping = asyncio.create_task(drip(client, b"\r\n"))
            with contextlib.suppress(ConnectionResetError):
                assert await client.rest() == b""
            dripping.cancel()

    run(main())


async def drip(client, data):
    """One byte after the other, for ever: what a slow loris does."""
    while True:
        client.send(data)
        await asyncio.sleep(0)


def test_slow_headers_are_refused_at_the_deadline(run):
    async def main():
        async with serving(echo, head_timeout=0.1) as server, connected(server) as client:
            client.send(b"GET / HTTP/1.1\r\nHost: h\r\nX: ")
            dripping = asyncio.create_task(drip(client, b"x"))
            assert (await client.response())[0] == 408
            assert await client.rest() == b""
            dripping.cancel()

    run(main())


def test_slow_body_is_refused_at_the_deadline(run):
    async def main():
        async with serving(echo, body_timeout=0.1, body_rate=1e9) as server, connected(server) as client:
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n")
            dripping = asyncio.create_task(drip(client, b"x"))
            status, _, body = await client.response()
            assert status == 408
            assert msgspec.json.decode(body)["kind"] == "Status"
            dripping.cancel()

    run(main())


def test_long_body_that_makes_progress_is_waited_for(run):
    async def main():
        async with serving(echo, body_timeout=0.05, body_rate=10.0) as server, connected(server) as client:
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 200\r\n\r\n" + b"x" * 100)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.reader.read(1), 0.2)
            client.send(b"x" * 100)
            assert said(await client.response())["body"] == "x" * 200

    run(main())


def test_handler_may_take_longer_than_any_deadline(run):
    release = asyncio.Event()

    async def handler(request):
        asyncio.get_running_loop().call_later(0.15, release.set)
        await release.wait()
        return await echo(request)

    async def main():
        limits = {"idle_timeout": 0.05, "head_timeout": 0.05, "body_timeout": 0.05}
        async with serving(handler, **limits) as server, connected(server) as client:
            client.send(GET)
            assert (await client.response())[0] == 200

    run(main())


# Handlers


def test_handler_that_raises_is_answered_500_and_the_connection_closed(run, caplog):
    async def handler(_):
        raise ZeroDivisionError

    async def main():
        async with serving(handler) as server, connected(server) as client:
            client.send(GET * 2)
            status, headers, body = await client.response()
            assert status == 500
            assert msgspec.json.decode(body)["reason"] == "InternalError"
            assert b"ZeroDivision" not in body
            assert headers["connection"] == "close"
            assert await client.rest() == b""

    run(main())
    assert "ZeroDivisionError" in caplog.text


def test_header_with_a_line_break_never_reaches_the_peer(run, caplog):
    async def handler(_):
        return Response(200, [("X", "a\r\nSet-Cookie: b")], b"")

    async def main():
        async with serving(handler) as server, connected(server) as client:
            client.send(GET)
            with contextlib.suppress(ConnectionResetError):
                assert await client.rest() == b""

    run(main())
    assert "line break" in caplog.text


def test_handler_finishes_after_the_peer_disconnected(run):
    started, release, finished = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(request):
        started.set()
        await release.wait()
        finished.set()
        return await echo(request)

    async def main():
        async with serving(handler) as server:
            async with connected(server) as client:
                client.send(GET)
                await started.wait()
            async with connected(server):  # one round through the server: it has seen the first one go
                pass
            release.set()
            await finished.wait()
            await gone(server)

    run(main())


# Streams


def test_stream_is_chunked_and_the_connection_is_reused(run):
    async def handler(request):
        async def write(stream):
            stream.write(b"one")
            stream.write(b"")
            await stream.drain()
            stream.write(b"two")

        return StreamResponse(200, [("Content-Type", "x")], write)

    async def main():
        async with serving(handler) as server, connected(server) as client:
            for _ in range(2):
                client.send(GET)
                _, headers = await client.head()
                assert headers["transfer-encoding"] == "chunked"
                assert [await client.chunk() for _ in range(3)] == [b"one", b"two", b""]

    run(main())


def test_stream_to_http_1_0_ends_with_the_connection(run):
    async def handler(_):
        async def write(stream):
            stream.write(b"plain")

        return StreamResponse(200, [], write)

    async def main():
        async with serving(handler) as server, connected(server) as client:
            client.send(b"GET / HTTP/1.0\r\n\r\n")
            _, headers = await client.head()
            assert "transfer-encoding" not in headers
            assert await client.rest() == b"plain"

    run(main())


def watching(seen):
    """A handler whose stream sends hello and then waits to be closed."""

    async def handler(request):
        async def write(stream):
            seen["stream"] = stream
            stream.write(b"hello")
            seen["started"].set()
            await stream.closed
            stream.write(b"never sent")
            seen["ended"].set()

        return StreamResponse(200, [], write) if request.path == "/path" else await echo(request)

    seen |= {"started": asyncio.Event(), "ended": asyncio.Event()}
    return handler


@pytest.mark.parametrize("half", [False, True], ids=["gone", "half-closed"])
def test_stream_is_notified_when_its_peer_disconnects(run, half):
    seen = {}

    async def main():
        async with serving(watching(seen)) as server, connected(server) as client:
            client.send(GET)
            await seen["started"].wait()
            if half:
                client.writer.write_eof()
            else:
                client.close()
            await seen["ended"].wait()
            await gone(server)

    run(main())


def test_stream_to_a_disconnected_peer_ends_at_once(run):
    started, release, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(_):
        started.set()
        await release.wait()

        async def write(stream):
            assert stream.closed.done()
            ended.set()

        return StreamResponse(200, [], write)

    async def main():
        async with serving(handler) as server, connected(server) as client:
            client.send(GET)
            await started.wait()
            (connection,) = server._connections
            connection.eof_received()
            release.set()
            await ended.wait()
            assert not (await client.rest()).endswith(b"0\r\n\r\n")

    run(main())


def test_request_behind_a_stream_is_answered_after_it(run):
    seen = {}

    async def main():
        async with serving(watching(seen)) as server, connected(server) as client:
            client.send(GET + b"GET /next HTTP/1.1\r\nHost: h\r\n\r\n")
            assert (await client.head())[0] == 200
            assert await client.chunk() == b"hello"
            seen["stream"].end()
            assert await client.chunk() == b""
            assert said(await client.response())["path"] == "/next"

    run(main())


@pytest.mark.parametrize(
    "flood", [GET * 3000, b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 999999\r\n\r\n" + b"x" * 99_999]
)
def test_connection_of_a_peer_that_sends_too_much_during_a_stream_is_closed(run, flood):
    seen = {}

    async def main():
        async with serving(watching(seen), stream_input=10_000) as server, connected(server) as client:
            client.send(GET)
            await seen["started"].wait()
            client.send(flood)
            await seen["ended"].wait()
            await gone(server)

    run(main())


def test_stream_writer_is_cancelled_after_its_peer_disconnected(run):
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def handler(_):
        async def write(_):
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        return StreamResponse(200, [], write)

    async def main():
        async with serving(handler, stream_stop=0.05) as server, connected(server) as client:
            client.send(GET)
            await started.wait()
            client.close()
            await cancelled.wait()
            await gone(server)

    run(main())


def test_stream_whose_writer_fails_ends_without_a_last_chunk(run, caplog):
    async def handler(_):
        async def write(stream):
            stream.write(b"some")
            raise ZeroDivisionError

        return StreamResponse(200, [], write)

    async def main():
        async with serving(handler) as server, connected(server) as client:
            client.send(GET)
            data = b""
            with contextlib.suppress(ConnectionResetError):
                data = await client.rest()
            assert not data.endswith(b"0\r\n\r\n")

    run(main())
    assert "ZeroDivisionError" in caplog.text


def ending(ended, write):
    """A handler whose stream appends to `ended` at its end, and fails in another hook."""

    async def handler(_):
        response = StreamResponse(200, [("Content-Type", "x")], write)
        response.on_end(lambda: ended.append("first"))
        response.on_end(lambda: 1 / 0)
        response.on_end(lambda: ended.append("second"))
        return response

    return handler


async def _returns(stream):
    stream.write(b"some")


async def _raises(stream):
    raise ValueError


async def _waits(stream):
    await stream.closed


async def _hangs(stream):
    await asyncio.Event().wait()


@pytest.mark.parametrize("write", [_returns, _raises])
@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_hooks_at_the_end_of_a_stream_are_called_once_when_it_ends_by_itself(run, write, method):
    ended = []

    async def main():
        async with serving(ending(ended, write)) as server, connected(server) as client:
            client.send(method + b" /path HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                await client.rest()
            await gone(server)

    run(main())
    assert ended == ["second", "first"]


@pytest.mark.parametrize("write", [_waits, _hangs])
@pytest.mark.parametrize("end", ["close", "abort", "stop"])
def test_hooks_at_the_end_of_a_stream_are_called_once_when_it_is_ended(run, write, end):
    ended = []

    async def main():
        async with serving(ending(ended, write), stream_stop=0.01) as server, connected(server) as client:
            client.send(GET)
            await client.head()
            if end == "close":
                client.close()
            elif end == "abort":
                for connection in list(server._connections):
                    connection.abort()
            else:
                await server.drain(0.01)
            await gone(server)

    run(main())
    assert ended == ["second", "first"]


def test_hooks_at_the_end_of_a_stream_are_called_for_a_disconnected_peer(run):
    ended = []
    started, release = asyncio.Event(), asyncio.Event()

    async def handler(request):
        started.set()
        await release.wait()
        return await ending(ended, _hangs)(request)

    async def main():
        async with serving(handler) as server, connected(server) as client:
            client.send(GET)
            await started.wait()
            (connection,) = server._connections
            connection._transport.abort()
            release.set()
            await gone(server)

    run(main())
    assert ended == ["second", "first"]


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority.ensure(KeyPair(directory / "ca.crt", directory / "ca.key"), "test")
    files = KeyPair(directory / "server.crt", directory / "server.key")
    authority.ensure_server(files, ["127.0.0.1"])
    return server_context(files), client_context(authority.files.certificate)


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_slow_reader_of_a_stream_grows_pending_bytes_and_does_not_block_others(run, contexts, encrypted):
    sent, aborted = asyncio.Event(), asyncio.Event()
    server_tls, client_tls = contexts if encrypted else (None, None)

    async def handler(request):
        async def write(stream):
            # The writer's decision, as a watch makes it: more than a megabyte behind is too much.
            while stream.pending < 1_000_000:
                stream.write(b"x" * 10_000)
                await asyncio.sleep(0)
            sent.set()
            await asyncio.wait([asyncio.ensure_future(aborted.wait())])
            stream.abort()
            assert stream.closed.done()

        return StreamResponse(200, [], write) if request.path == "/path" else await echo(request)

    async def main():
        async with serving(handler, tls=server_tls) as server:
            slow = Client(*await asyncio.open_connection("127.0.0.1", server.port, limit=1, ssl=client_tls))
            slow.send(GET)
            await sent.wait()
            async with connected(server, client_tls) as other:
                other.send(b"GET /other HTTP/1.1\r\nHost: h\r\n\r\n")
                assert (await other.response())[0] == 200
            aborted.set()
            await gone(server)
            slow.close()

    run(main())


LARGE = Response(200, [], b"x" * 3_000_000)
HELD = {"Connection", "RequestReader", "HttpRequestParser", "Deadline", "SSLProtocol", "MemoryBIO", "SSLObject"}
"""Types of what a connection is made of."""


def held():
    """The objects of connections that are in memory."""
    return sum(type(one).__name__ in HELD for one in gc.get_objects())


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("end", ["server", "peer", "midway", "stream"])
def test_closed_connection_is_freed_without_the_garbage_collector(run, contexts, encrypted, end):
    server_tls, client_tls = contexts if encrypted else (None, None)

    async def handler(request):
        return StreamResponse(200, [], _waits) if end == "stream" else LARGE

    def fetch(port):
        """With a blocking socket, so that nothing of asyncio's own client is counted."""
        with socket.create_connection(("127.0.0.1", port)) as plain:
            peer = client_tls.wrap_socket(plain, server_hostname="127.0.0.1") if encrypted else plain
            with peer:
                peer.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") if end == "server" else GET)
                left = {"midway": 100_000, "stream": 1}.get(end, len(LARGE.body))
                while left > 0 and (data := peer.recv(1 << 20)):
                    left -= len(data)

    async def main():
        async with serving(handler, tls=server_tls) as server:
            gc.collect()
            before = held()
            gc.disable()
            try:
                for _ in range(3):
                    await asyncio.to_thread(fetch, server.port)
                await gone(server)
                for _ in range(1000):  # The loop drops a closed socket in one of its next turns.
                    await asyncio.sleep(0)
                assert held() <= before
            finally:
                gc.enable()

    run(main())


def test_writer_that_drains_waits_for_its_reader(run):
    written = []

    async def handler(_):
        async def write(stream):
            for _ in range(100):
                stream.write(b"x" * 200_000)
                written.append(stream.pending)
                await stream.drain()

        return StreamResponse(200, [], write)

    async def main():
        async with serving(handler) as server, connected(server) as client:
            client.send(GET)
            _, _, body = await client.response()
            assert len(body) == 20_000_000
            assert max(written) < 1_000_000

    run(main())


# Encryption


def test_requests_over_tls(run, contexts):
    async def main():
        async with serving(echo, tls=contexts[0]) as server, connected(server, contexts[1]) as client:
            assert client.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1_000_000)
            assert len(said(await client.response())["body"]) == 1_000_000
            client.send(b"GET / HTTP/1.1\r\n\r\n")
            status, headers, _ = await client.response()
            assert (status, headers["connection"]) == (400, "close")
            assert await client.rest() == b""

    run(main())


def test_connection_that_never_finishes_the_tls_handshake_is_closed(run, contexts):
    async def main():
        async with serving(echo, tls=contexts[0], handshake_timeout=0.05) as server, connected(server) as client:
            with contextlib.suppress(ConnectionResetError):
                assert await client.rest() == b""

    run(main())


def test_plain_text_to_a_tls_port_is_not_answered_as_http(run, contexts):
    async def main():
        async with serving(echo, tls=contexts[0]) as server, connected(server) as client:
            client.send(GET)
            with contextlib.suppress(ConnectionResetError):
                assert not (await client.rest()).startswith(b"HTTP")
        with pytest.raises(ssl.SSLError):
            async with serving(echo) as server, connected(server, contexts[1]):
                pass

    run(main())
