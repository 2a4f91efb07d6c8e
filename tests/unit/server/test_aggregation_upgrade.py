"""Requests that switch protocols (exec and port-forward of other API servers) become a tunnel, in both directions."""

import asyncio

import pytest

from extension_server import FLUNDERS, aggregated, response

EXEC = f"{FLUNDERS}/one/exec"
UPGRADE = ("Connection: Upgrade", "Upgrade: SPDY/3.1")
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream: v4\r\n\r\n"


async def echo(call, writer, greeting=b""):
    """Switch protocols, then send back what comes in upper case."""
    writer.write(SWITCHING + greeting)
    while data := await call.read():
        writer.write(data.upper())
        await writer.drain()


def test_bytes_are_passed_on_in_both_directions(tmp_path):
    async def check(plane, server):
        async def script(call, writer):
            await echo(call, writer, b"hello")

        server.script = script
        reader, writer = await plane.send(f"POST {EXEC}?command=sh", *UPGRADE)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        assert b"Upgrade: SPDY/3.1\r\n" in head
        assert b"X-Stream: v4\r\n" in head
        call = await server.called()
        assert call.values("upgrade") == ["SPDY/3.1"]
        assert call.values("x-remote-user") == ["kubernetes-admin"]
        assert "authorization" not in call.names
        assert await reader.readexactly(5) == b"hello"
        for text in (b"one", b"GET / HTTP/1.1\r\n\r\n", b"x" * 300_000):
            writer.write(text)
            assert await reader.readexactly(len(text)) == text.upper()
        writer.close()

    aggregated(tmp_path, check, listen=True)


def test_either_side_ends_the_tunnel(tmp_path):
    async def check(plane, server):
        ended = asyncio.Event()

        async def waiting(call, writer):
            await echo(call, writer)
            ended.set()

        async def closing(call, writer):
            writer.write(SWITCHING + b"bye")
            await writer.drain()
            writer.close()

        server.script = waiting
        reader, writer = await plane.send(f"POST {EXEC}", *UPGRADE)
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
        await ended.wait()
        server.script = closing
        reader, writer = await plane.send(f"POST {EXEC}", *UPGRADE)
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.read() == b"bye"
        writer.close()

    aggregated(tmp_path, check, listen=True)


def test_side_that_does_not_read_makes_the_other_wait(tmp_path):
    async def check(plane, server):
        wanted = asyncio.Event()
        size = 64 << 20

        async def script(call, writer):
            writer.write(SWITCHING)
            await wanted.wait()
            left = size
            while left:
                left -= len(await call.read())
            writer.write(b"all")

        server.script = script
        reader, writer = await plane.send(f"POST {EXEC}", *UPGRADE)
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.set_write_buffer_limits(high=1 << 16)
        sent = 0
        piece = b"x" * (1 << 18)

        async def send():
            nonlocal sent
            while sent < size:
                writer.write(piece)
                sent += len(piece)
                await writer.drain()

        sending = asyncio.ensure_future(send())
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.3)
        # Buffers of the kernel and of both connections are full, and nothing else keeps what was sent.
        assert sent < size
        wanted.set()
        await sending
        assert await reader.readexactly(3) == b"all"
        writer.close()

    aggregated(tmp_path, check, listen=True)


@pytest.mark.parametrize("status", [200, 204])
def test_server_that_does_not_switch_is_an_error(tmp_path, status):
    async def check(plane, server):
        async def script(call, writer):
            writer.write(response(status, b""))

        server.script = script
        reader, writer = await plane.send(f"POST {EXEC}", *UPGRADE)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        writer.close()

    aggregated(tmp_path, check, listen=True)


def test_cve_2018_1002105_failed_upgrade_leaves_no_tunnel(tmp_path):
    """In Kubernetes, what followed a failed upgrade reached the backend with the server's credentials."""

    async def check(plane, server):
        async def script(call, writer):
            writer.write(response(403, {"kind": "Status"}))

        server.script = script
        reader, writer = await plane.send(f"POST {EXEC}", *UPGRADE)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 403 ")
        await reader.readexactly(len(b'{"kind": "Status"}'))
        writer.write(f"GET {FLUNDERS} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
        # It is a request of its own, without credentials.
        assert (await reader.read()).startswith(b"HTTP/1.1 403 ")
        assert len(server.calls) == 1
        writer.close()

    aggregated(tmp_path, check, listen=True)


def test_request_behind_an_upgrade_is_not_taken_for_the_other_protocol(tmp_path):
    async def check(plane, server):
        async def script(call, writer):
            await echo(call, writer)

        server.script = script
        reader, writer = await plane.connect()
        token = f"Authorization: Bearer {plane.token}\r\nHost: h\r\n"
        upgrade = f"POST {EXEC} HTTP/1.1\r\n{token}Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
        writer.write(f"{upgrade}GET {FLUNDERS} HTTP/1.1\r\n{token}\r\n".encode())
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"must not be followed" in answer
        assert [call.target for call in server.calls] == [EXEC]
        writer.close()

    aggregated(tmp_path, check, listen=True)
