"""The handler without a socket."""

import asyncio

import pytest

from kapi.server.transport.inprocess import InProcessTransport
from kapi.server.transport.limits import Limits
from kapi.server.transport.message import Response, StreamResponse


async def echo(request):
    parts = [request.method, request.path, request.query, request.headers.get("accept", ""), request.body.decode()]
    return Response(200, [("X", "y")], [" ".join(parts).encode()])


def test_request_reaches_the_handler_as_from_a_socket():
    async def main():
        transport = InProcessTransport(echo)
        reply = await transport.request("PUT", "/a%2Fb?c=d", {"Accept": "json"}, b"body")
        assert (reply.status, reply.headers) == (200, [("X", "y")])
        assert await reply.read() == b"PUT /a%2Fb c=d json body"

    asyncio.run(main())


def test_whole_answer_can_be_read_as_chunks():
    async def main():
        reply = await InProcessTransport(echo).request("GET", "/")
        assert b"".join([chunk async for chunk in reply]) == b"GET /   "

    asyncio.run(main())


def test_head_has_no_body():
    async def main():
        assert await (await InProcessTransport(echo).request("HEAD", "/")).read() == b""

    asyncio.run(main())


def test_handler_sees_the_user():
    peers = []

    async def handler(request):
        peers.append(request.peer)
        return Response(204)

    async def main():
        await InProcessTransport(handler).request("GET", "/")
        await InProcessTransport(handler, "system:gc", ("system:authenticated",)).request("GET", "/")

    asyncio.run(main())
    assert [peer.local for peer in peers] == [
        ("system:apiserver", ("system:masters",)),
        ("system:gc", ("system:authenticated",)),
    ]
    assert peers[0].certificates == ()


def test_body_over_the_limit_is_marked_and_not_kept():
    async def handler(request):
        return Response(413 if request.oversized and not request.body else 200)

    async def main():
        transport = InProcessTransport(handler, limits=Limits(body=3))
        assert (await transport.request("POST", "/", body=b"1234")).status == 413
        assert (await transport.request("POST", "/", body=b"123")).status == 200

    asyncio.run(main())


def test_handler_that_raises_is_answered_500(caplog):
    async def handler(_):
        raise ZeroDivisionError

    async def main():
        reply = await InProcessTransport(handler).request("GET", "/")
        assert reply.status == 500
        assert b'"reason":"InternalError"' in await reply.read()

    asyncio.run(main())
    assert "ZeroDivisionError" in caplog.text


def streaming(run):
    async def handler(_):
        return StreamResponse(200, [], run)

    return InProcessTransport(handler, limits=Limits(stream_stop=0.05), buffer=1000)


def test_stream_arrives_as_it_was_written():
    async def write(stream):
        stream.write(b"one")
        stream.write(b"")
        stream.write(b"two")
        await stream.drain()
        stream.write(b"three")

    async def main():
        reply = await streaming(write).request("GET", "/")
        assert [chunk async for chunk in reply] == [b"one", b"two", b"three"]

    asyncio.run(main())


def test_stream_is_cancelled_when_its_reader_closes():
    ended = []

    async def write(stream):
        stream.write(b"hello")
        await stream.closed
        stream.write(b"never read")
        ended.append(stream.pending)

    async def main():
        async with await streaming(write).request("GET", "/") as reply:
            assert await anext(reply) == b"hello"
        assert ended == [0]

    asyncio.run(main())


def test_writer_that_does_not_end_is_cancelled():
    async def write(stream):
        await asyncio.Event().wait()

    async def main():
        reply = await streaming(write).request("GET", "/")
        await reply.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_hooks_at_the_end_of_a_stream_are_called_once(method):
    ended = []

    async def write(stream):
        await asyncio.Event().wait()

    async def handler(_):
        response = StreamResponse(200, [], write)
        response.on_end(lambda: ended.append(1))
        return response

    async def main():
        async with await InProcessTransport(handler, limits=Limits(stream_stop=0.01)).request(method, "/"):
            pass
        # Left at once: its writer was cancelled, perhaps before its first step.

    asyncio.run(main())
    assert ended == [1]


def test_unread_stream_is_dropped_and_its_reader_gets_an_error():
    closed = asyncio.Event()

    async def write(stream):
        while not stream.closed.done():
            stream.write(b"x" * 100)
        closed.set()

    async def main():
        reply = await streaming(write).request("GET", "/")
        await closed.wait()
        with pytest.raises(ConnectionResetError):
            await reply.read()

    asyncio.run(main())


def test_drain_waits_for_the_reader():
    steps = []

    async def handler(_):
        async def write(stream):
            for step in range(3):
                stream.write(b"x" * 100_000)
                await stream.drain()
                steps.append(step)

        return StreamResponse(200, [], write)

    async def main():
        reply = await InProcessTransport(handler).request("GET", "/")
        assert len(await anext(reply)) == 100_000
        assert len(steps) <= 1
        assert len(await reply.read()) == 200_000
        assert steps == [0, 1, 2]

    asyncio.run(main())


def test_stream_whose_writer_fails_is_not_a_clean_end(caplog):
    async def write(stream):
        stream.write(b"some")
        raise ZeroDivisionError

    async def main():
        reply = await streaming(write).request("GET", "/")
        assert await anext(reply) == b"some"
        with pytest.raises(ConnectionResetError):
            await anext(reply)

    asyncio.run(main())
    assert "ZeroDivisionError" in caplog.text


def test_close_ends_all_streams_cleanly():
    async def write(stream):
        stream.write(b"hello")
        await stream.closed

    async def main():
        transport = streaming(write)
        replies = [await transport.request("GET", "/") for _ in range(3)]
        assert [await anext(reply) for reply in replies] == [b"hello"] * 3
        await transport.close()
        assert [await reply.read() for reply in replies] == [b""] * 3
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
