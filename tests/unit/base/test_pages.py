"""The pages of a process: found, refused, and never the end of it."""

import asyncio

import pytest

from kapi.base.pages import HEAD_BYTES, Page, PageServer


def broken():
    raise RuntimeError("no page today")


PAGES = {"/healthz": lambda: Page(200, b"ok"), "/unwell": lambda: Page(500, b"not ok"), "/broken": broken}


async def ask(port, request):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    with_eof = await reader.read()
    writer.close()
    await writer.wait_closed()
    return with_eof


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        (b"GET /healthz HTTP/1.1", 200, b"ok"),
        (b"GET /healthz?verbose HTTP/1.1", 200, b"ok"),
        (b"HEAD /healthz HTTP/1.1", 200, b""),
        (b"GET /unwell HTTP/1.1", 500, b"not ok"),
        (b"GET /broken HTTP/1.1", 500, b"internal error\n"),
        (b"GET /other HTTP/1.1", 404, b"page not found\n"),
        (b"POST /healthz HTTP/1.1", 405, b"method not allowed\n"),
        (b"nonsense", 400, b"bad request\n"),
        (b"GET /healthz SPDY/3", 400, b"bad request\n"),
    ],
)
def test_a_request_gets_its_answer(request_line, status, body):
    async def main():
        async with PageServer(PAGES) as server:
            answer = await ask(server.port, request_line + b"\r\nHost: x\r\n\r\n")
            head, _, got = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 %d " % status)
            assert got == body
            assert (b"Content-Length: %d" % (2 if status == 200 else len(body))) in head

    asyncio.run(main())


def test_a_head_without_end_is_dropped_and_others_are_served():
    async def main():
        async with PageServer(PAGES) as server:
            assert await ask(server.port, b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * HEAD_BYTES) == b""
            assert (await ask(server.port, b"GET /healthz HTTP/1.1\r\n\r\n")).endswith(b"ok")

    asyncio.run(main())


def test_a_peer_that_leaves_early_is_no_trouble():
    async def main():
        async with PageServer(PAGES) as server:
            for _ in range(20):
                _, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.close()
            assert (await ask(server.port, b"GET /healthz HTTP/1.1\r\n\r\n")).endswith(b"ok")

    asyncio.run(main())
