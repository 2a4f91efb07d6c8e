"""The server as a whole: where it listens, how it stops. On both event loops."""

import asyncio
import contextlib
import os
import socket
import ssl
import stat

import pytest
import uvloop

from certificates import new_authority
from kapi.api.user import ANONYMOUS
from kapi.base.tls import Authority, KeyPair, client_context, server_context
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


async def hello(request):
    if request.arrival is not None:
        await request.arrival.wait(ANONYMOUS)
    return Response(200, [], request.peer.address.encode())


@contextlib.asynccontextmanager
async def serving(handler, **options):
    server = Server(handler, **({"host": "127.0.0.1"} | options))
    await server.start()
    try:
        yield server
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def connected(server, tls=None, host="127.0.0.1"):
    reader, writer = await asyncio.open_connection(host, server.port, ssl=tls)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def ask(reader, writer):
    writer.write(GET)
    return await answer(reader)


async def answer(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head, await reader.readexactly(length)


def test_port_zero_becomes_a_real_port(run):
    async def main():
        async with serving(hello) as server:
            assert server.port > 0
            async with connected(server) as (reader, writer):
                assert (await ask(reader, writer))[1] == b"127.0.0.1"
                assert server.connections == 1

    run(main())


def test_all_addresses_of_a_host_share_one_port(run):
    async def main():
        async with serving(hello, host="localhost") as server:
            ports = {acceptor._sock.getsockname()[1] for acceptor in server._acceptors}
            assert ports == {server.port}

    run(main())


def test_small_answers_are_not_delayed_by_the_kernel(run):
    async def main():
        async with serving(hello) as server, connected(server) as (reader, writer):
            await ask(reader, writer)
            (connection,) = server._connections
            sock = connection._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0

    run(main())


def test_port_in_use_is_an_error_and_leaves_nothing_behind(run, tmp_path):
    async def main():
        async with serving(hello) as server:
            second = Server(hello, host="127.0.0.1", port=server.port, unix=tmp_path / "s")
            with pytest.raises(OSError, match="in use"):
                await second.start()
            assert not (tmp_path / "s").exists()
            assert second._acceptors == []

    run(main())


def test_server_without_an_address_is_refused():
    with pytest.raises(ValueError, match="host"):
        Server(hello)


def test_unix_socket_is_private_and_removed_on_close(run, tmp_path):
    path = tmp_path / "kapi.sock"

    async def main():
        async with serving(hello, host=None, unix=path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            reader, writer = await asyncio.open_unix_connection(path)
            assert (await ask(reader, writer))[1] == b"unix"
            writer.transport.abort()
        assert not path.exists()

    run(main())


def test_stale_unix_socket_is_replaced_but_one_in_use_is_not(run, tmp_path):
    path = tmp_path / "kapi.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))

    async def main():
        async with serving(hello, host=None, unix=path):
            with pytest.raises(OSError, match="in use"):
                await Server(hello, unix=path).start()
            assert path.exists()

    run(main())


# Stopping


def test_graceful_shutdown_finishes_requests_in_flight_and_closes_idle_connections(run):
    started, release = asyncio.Event(), asyncio.Event()

    async def handler(_):
        started.set()
        await release.wait()
        return Response(200, [], b"done")

    async def main():
        async with serving(handler) as server, connected(server) as (busy, writer), connected(server) as (idle, _):
            writer.write(GET)
            await started.wait()
            draining = asyncio.create_task(server.drain(10))
            assert await idle.read() == b""
            assert not draining.done()
            with pytest.raises(OSError):
                await asyncio.open_connection("127.0.0.1", server.port)
            release.set()
            head, body = await answer(busy)
            assert body == b"done"
            assert b"Connection: close" in head
            assert await busy.read() == b""
            await draining
            assert server.connections == 0

    run(main())


def test_drain_that_takes_too_long_is_logged(run, caplog):
    started = asyncio.Event()

    async def handler(_):
        started.set()
        await asyncio.Event().wait()

    async def main():
        async with serving(handler) as server, connected(server) as (_, writer):
            writer.write(GET)
            await started.wait()
            await server.drain(0.01)

    run(main())
    assert "graceful shutdown timed out after 0.01 s: closing 1 connections" in caplog.text


def test_graceful_shutdown_answers_pipelined_requests(run):
    started, release = asyncio.Event(), asyncio.Event()

    async def handler(_):
        started.set()
        await release.wait()
        return Response(200, [], b"done")

    async def main():
        async with serving(handler) as server, connected(server) as (reader, writer):
            writer.write(GET * 3)
            await started.wait()
            draining = asyncio.create_task(server.drain(10))
            await asyncio.sleep(0)
            release.set()
            heads = [(await answer(reader))[0] for _ in range(3)]
            assert [b"Connection: close" in head for head in heads] == [False, False, True]
            await draining

    run(main())


def test_graceful_shutdown_waits_for_a_partly_received_request(run):
    async def main():
        async with serving(hello) as server, connected(server) as (reader, writer):
            await ask(reader, writer)
            writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
            assert b" 100 " in await reader.readuntil(b"\r\n\r\n")
            draining = asyncio.create_task(server.drain(10))
            await asyncio.sleep(0)
            writer.write(b"hi")
            assert b"Connection: close" in (await answer(reader))[0]
            await draining

    run(main())


def test_graceful_shutdown_ends_streams_with_their_last_chunk(run):
    started = asyncio.Event()

    async def handler(_):
        async def write(stream):
            stream.write(b"event")
            started.set()
            await stream.closed

        return StreamResponse(200, [], write)

    async def main():
        async with serving(handler) as server, connected(server) as (reader, writer):
            writer.write(GET)
            await started.wait()
            await server.drain(10)
            assert (await reader.read()).endswith(b"5\r\nevent\r\n0\r\n\r\n")

    run(main())


def test_connection_opened_just_before_shutdown_is_closed(run):
    class Hasty(Server):
        def admit(self, connection, address):
            admitted = super().admit(connection, address)
            self._stop_listening()
            connection.drain()
            return admitted

    async def main():
        server = Hasty(hello, host="127.0.0.1")
        await server.start()
        async with connected(server) as (reader, _):
            assert await reader.read() == b""
        await server.close()

    run(main())


def test_stream_that_begins_during_shutdown_ends_at_once(run):
    started, release = asyncio.Event(), asyncio.Event()

    async def handler(_):
        started.set()
        await release.wait()

        async def write(stream):
            await stream.closed

        return StreamResponse(200, [], write)

    async def main():
        async with serving(handler) as server, connected(server) as (reader, writer):
            writer.write(GET)
            await started.wait()
            draining = asyncio.create_task(server.drain(10))
            await asyncio.sleep(0)
            release.set()
            assert (await reader.read()).endswith(b"\r\n\r\n0\r\n\r\n")
            await draining

    run(main())


def test_graceful_shutdown_cancels_requests_after_its_timeout(run):
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def handler(_):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def main():
        async with serving(handler) as server, connected(server) as (reader, writer):
            writer.write(GET)
            await started.wait()
            await server.drain(0.05)
            assert cancelled.is_set()
            assert server.connections == 0
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""

    run(main())


def test_graceful_shutdown_waits_for_a_handler_of_a_closed_connection(run):
    started, release = asyncio.Event(), asyncio.Event()
    finished = []

    async def handler(_):
        started.set()
        await release.wait()
        finished.append(True)
        return Response(200)

    async def main():
        async with serving(handler) as server:
            async with connected(server) as (_, writer):
                writer.write(GET)
                await started.wait()
            draining = asyncio.create_task(server.drain(10))
            await asyncio.sleep(0)
            release.set()
            await draining
            assert finished == [True]

    run(main())


def test_close_leaves_no_task_behind(run):
    async def main():
        before = asyncio.all_tasks()
        async with serving(hello) as server, connected(server) as (reader, writer):
            await ask(reader, writer)
            assert asyncio.all_tasks() > before
            await server.close()
            assert asyncio.all_tasks() == before

    run(main())


def test_close_of_a_server_that_never_started_does_nothing(run):
    run(Server(hello, host="127.0.0.1").close())


# Client certificates


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tls")
    made = Authority.ensure(KeyPair(directory / "ca.crt", directory / "ca.key"), "test-ca")
    made.ensure_server(KeyPair(directory / "server.crt", directory / "server.key"), ["127.0.0.1"])
    made.ensure_client(KeyPair(directory / "client.crt", directory / "client.key"), "alice", ["devs"])
    return made, directory


def pair(directory, name):
    return KeyPair(directory / f"{name}.crt", directory / f"{name}.key")


def test_client_certificate_reaches_the_handler(run, authority):
    made, directory = authority
    peers = []

    async def handler(request):
        peers.append(request.peer.certificates)
        return Response(200)

    async def main():
        tls = server_context(pair(directory, "server"), client_authorities=[made.files.certificate])
        async with serving(handler, tls=tls) as server:
            with_certificate = client_context(made.files.certificate, files=pair(directory, "client"))
            for context in (with_certificate, client_context(made.files.certificate)):
                async with connected(server, context) as (reader, writer):
                    await ask(reader, writer)
        assert b"alice" in peers[0][0]
        assert peers[1] == ()

    run(main())


@pytest.mark.parametrize("certificate", ["stranger", "server"], ids=["other authority", "not for clients"])
def test_client_certificate_of_another_ca_or_usage_does_not_fail_the_handshake(run, authority, tmp_path, certificate):
    made, directory = authority
    stranger = Authority.ensure(KeyPair(tmp_path / "ca.crt", tmp_path / "ca.key"), "test-ca")
    stranger.ensure_client(pair(tmp_path, "stranger"), "alice", ["devs"])
    shown = pair(tmp_path if certificate == "stranger" else directory, certificate)
    peers = []

    async def handler(request):
        peers.append(request.peer.certificates)
        return Response(401)

    async def main():
        tls = server_context(pair(directory, "server"), client_authorities=[made.files.certificate])
        context = client_context(made.files.certificate, files=shown)
        async with serving(handler, tls=tls) as server, connected(server, context) as (reader, writer):
            assert b" 401 " in (await ask(reader, writer))[0]
        assert peers[0][0] == ssl.PEM_cert_to_DER_cert(shown.certificate.read_text())

    run(main())


def test_intermediate_certificates_of_a_client_reach_the_handler(run, authority, tmp_path):
    made, directory = authority
    root = new_authority("root")
    between = root.issue("between", authority=True)
    leaf = between.issue("bob")
    files = leaf.write(tmp_path, "bob")
    files.certificate.write_bytes(leaf.pem + between.pem)
    peers = []

    async def handler(request):
        peers.append(request.peer.certificates)
        return Response(200)

    async def main():
        tls = server_context(pair(directory, "server"), client_authorities=[made.files.certificate])
        context = client_context(made.files.certificate, files=files)
        async with serving(handler, tls=tls) as server, connected(server, context) as (reader, writer):
            await ask(reader, writer)
        assert peers == [(leaf.der, between.der)]

    run(main())
