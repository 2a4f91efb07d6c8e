"""The web server over real sockets: its limits and deadlines, TLS, and graceful shutdown."""

import asyncio
import contextlib

import pytest

from kapi.base.tls import Authority, KeyPair, client_context, server_context
from kapi.base.webhandler import Limits, Response
from kapi.base.webserver import WebServer, _Connections


async def echo(request):
    return Response(200, f"{request.method} {request.path} ".encode() + request.body)


def serving(test, handler=echo, **options):
    async def main():
        async with asyncio.timeout(30), WebServer(handler, **options) as server:
            await test(server)

    asyncio.run(main())


@contextlib.asynccontextmanager
async def connected(server, **options):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, **options)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def answer(reader):
    """Status, headers and body of the next answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return int(head[0].split(" ")[1]), headers, await reader.readexactly(int(headers.get("content-length", "0")))


async def admitted(server):
    """Wait until a server of one connection accepts another, which shows that it has closed the first."""
    is_answered = False
    while not is_answered:
        async with connected(server) as (reader, writer):
            writer.write(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                is_answered = await reader.read(1) != b""


def test_requests_follow_each_other_on_one_connection():
    async def test(server):
        async with connected(server) as (reader, writer):
            for number in range(3):
                writer.write(f"POST /{number}?n=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi".encode())
            for number in range(3):
                status, _, body = await answer(reader)
                assert (status, body) == (200, f"POST /{number} hi".encode())

    serving(test)


def test_a_chunked_body_is_read_whole():
    async def test(server):
        async with connected(server) as (reader, writer):
            writer.write(
                b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n2\r\n!!\r\n0\r\n\r\n"
            )
            assert (await answer(reader))[2] == b"POST / hi!!"

    serving(test)


@pytest.mark.parametrize(
    "head, status",
    [
        ("nonsense", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnot a size", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101", 413),
        (f"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n{'x' * 101}\r\n0", 413),
        (f"GET / HTTP/1.1\r\nHost: x\r\nA: {'a' * 100_000}", 400),
    ],
    ids=lambda value: str(value)[:90],
)
def test_a_request_that_is_malformed_or_too_large_is_refused_and_the_connection_closed(head, status):
    async def test(server):
        async with connected(server) as (reader, writer):
            writer.write(f"{head}\r\n\r\n".encode())
            assert (await answer(reader))[0] == status
            assert await reader.read() == b""

    serving(test, limits=Limits(body_bytes=100, linger=0.01))


def test_a_body_of_the_limit_is_accepted_with_100_continue():
    async def test(server):
        async with connected(server) as (reader, writer):
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
            assert (await answer(reader))[0] == 100
            writer.write(b"x" * 100)
            assert (await answer(reader))[2].endswith(b"x" * 100)

    serving(test, limits=Limits(body_bytes=100))


def test_head_has_no_body():
    async def test(server):
        async with connected(server) as (reader, writer):
            writer.write(b"HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).endswith(b"\r\n\r\n")

    serving(test)


def test_a_handler_that_raises_is_a_500_without_details():
    async def broken(request):
        raise RuntimeError("the password is swordfish")

    async def test(server):
        async with connected(server) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            status, _, body = await answer(reader)
            assert (status, body) == (500, b"internal error\n")

    serving(test, broken)


def test_a_handler_that_takes_too_long_is_a_504_and_is_cancelled():
    ended = []

    async def slow(request):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def test(server):
        async with connected(server) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await answer(reader))[0] == 504
            assert ended

    serving(test, slow, limits=Limits(answer=0.01))


def test_an_incomplete_request_is_answered_408_and_closed():
    async def test(server):
        async with connected(server) as (reader, writer):
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
            assert (await answer(reader))[0] == 408
            assert await reader.read() == b""

    serving(test, limits=Limits(read=0.01, linger=0.01))


@pytest.mark.parametrize("start", [b"", b"GET / HTTP/1.1\r\nHost:"], ids=["nothing", "half a head"])
def test_an_idle_connection_is_closed(start):
    async def test(server):
        async with connected(server) as (reader, writer):
            writer.write(start)
            assert await reader.read() == b""

    serving(test, limits=Limits(idle=0.01))


def test_a_client_that_does_not_read_the_answer_is_cut_off():
    large = b"x" * 50_000_000

    async def handler(request):
        return Response(200, large)

    async def test(server):
        async with connected(server) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await admitted(server)  # Nothing is read until the server has given up.
            with contextlib.suppress(ConnectionResetError):
                assert len(await reader.read()) < len(large)

    serving(test, handler, limits=Limits(answer=0.05, connections=1))


def test_a_handler_finishes_though_its_client_has_disconnected():
    async def main():
        began, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def handler(request):
            if request.method == "GET":
                began.set()
                await go_on.wait()
                ended.set()
            return Response(200, b"done")

        async with asyncio.timeout(30), WebServer(handler, limits=Limits(connections=1)) as server:
            async with connected(server) as (_, writer):
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                await began.wait()
            await admitted(server)
            go_on.set()
            await ended.wait()

    asyncio.run(main())


def test_an_address_in_use_is_an_error_that_names_it():
    async def test(server):
        with pytest.raises(OSError, match=rf"127\.0\.0\.1.*{server.port}.*in use"):
            async with WebServer(echo, port=server.port):
                pass

    serving(test)


def test_connections_beyond_the_limit_are_closed():
    async def test(server):
        async with connected(server) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await answer(reader)
            async with connected(server) as (other, _):
                with contextlib.suppress(ConnectionResetError):
                    assert await other.read() == b""
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await answer(reader))[0] == 200

    serving(test, limits=Limits(connections=1))


def test_graceful_shutdown_answers_requests_in_flight_and_closes_idle_connections():
    async def main():
        began, go_on = asyncio.Event(), asyncio.Event()

        async def handler(request):
            began.set()
            await go_on.wait()
            return Response(200, b"done")

        server = WebServer(handler)
        await server.__aenter__()
        async with connected(server) as (idle, _), connected(server) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await began.wait()
            closing = asyncio.ensure_future(server.__aexit__())
            with contextlib.suppress(ConnectionResetError):
                assert await idle.read() == b""
            go_on.set()
            status, headers, body = await answer(reader)
            assert (status, headers["connection"], body) == (200, "close", b"done")
            await closing
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", server.port)

    asyncio.run(main())


def test_a_request_that_outlasts_the_shutdown_timeout_is_cancelled():
    async def main():
        began = asyncio.Event()

        async def handler(request):
            began.set()
            await asyncio.Event().wait()

        server = WebServer(handler, grace=0.01)
        await server.__aenter__()
        async with connected(server) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await began.wait()
            await server.__aexit__()
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""

    asyncio.run(main())


def test_over_tls_a_renewed_certificate_counts_for_new_connections(tmp_path):
    authority = Authority.ensure(KeyPair(tmp_path / "ca.crt", tmp_path / "ca.key"), "test")
    files = KeyPair(tmp_path / "a.crt", tmp_path / "a.key")
    authority.ensure_server(files, ["127.0.0.1"])
    context = server_context(files)
    trusting = client_context(authority.files.certificate)

    async def shown(server):
        async with connected(server, ssl=trusting) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await answer(reader))[0] == 200
            return writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]

    async def test(server):
        first = await shown(server)
        files.certificate.unlink()
        authority.ensure_server(files, ["127.0.0.1"])
        assert await shown(server) == first
        context.load_cert_chain(files.certificate, files.key)
        assert await shown(server) != first

    serving(test, context=context)


def test_a_shutdown_that_is_cancelled_when_its_last_connection_closes_is_cancelled():
    """Before Python 3.12, `asyncio.wait_for` returns then, as if there had been no cancellation."""

    async def scenario():
        connections = _Connections(1)
        connections.add("a connection", None)

        async def shut_down():
            await connections.close()
            await asyncio.sleep(0)

        closing = asyncio.ensure_future(shut_down())
        await asyncio.sleep(0)
        connections.remove("a connection")
        asyncio.get_running_loop().call_soon(closing.cancel)
        with pytest.raises(asyncio.CancelledError):
            await closing

    asyncio.run(scenario())
