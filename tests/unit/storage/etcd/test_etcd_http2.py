"""The client's side of HTTP/2, against frames that a server could send."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kapi.storage.etcd import http2
from kapi.storage.etcd.headers import header
from kapi.storage.etcd.http2 import Connection
from kapi.storage.etcd.streams import CallError, Code

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, PADDED, ACK = 1, 4, 8, 1
OK = header("grpc-status", "0")
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def message(content: bytes) -> bytes:
    return b"\x00" + len(content).to_bytes(4) + content


def answer(stream: int, content: bytes) -> bytes:
    return (
        frame(HEADERS, END_HEADERS, stream, b"\x88")
        + frame(DATA, 0, stream, message(content))
        + frame(HEADERS, END_HEADERS | END_STREAM, stream, OK)
    )


class Transport:
    """What the client writes, as frames."""

    def __init__(self) -> None:
        self.data = b""
        self.is_aborted = False
        self.has_written = asyncio.Event()

    def write(self, data: bytes) -> None:
        self.data += data
        self.has_written.set()

    def abort(self) -> None:
        self.is_aborted = True

    def frames(self) -> list[tuple[int, int, int, bytes]]:
        """The frames since the last call: kind, flags, stream, payload."""
        data, self.data = self.data.removeprefix(PREFACE), b""
        found = []
        while data:
            end = 9 + int.from_bytes(data[:3])
            found.append((data[3], data[4], int.from_bytes(data[5:9]), data[9:end]))
            data = data[end:]
        return found


class Peer:
    """A connection whose server is the test."""

    def __init__(self) -> None:
        self.connection = Connection("etcd:2379", is_secure=False)
        self.transport = Transport()
        transport: Any = self.transport
        self.connection.connection_made(transport)

    def give(self, *frames: bytes) -> None:
        self.connection.data_received(b"".join(frames))

    def call(self, content: bytes = b"question", seconds: float = 60) -> asyncio.Task[bytes]:
        return asyncio.ensure_future(self.connection.call("/etcdserverpb.KV/Range", content, (), seconds))

    async def sent(self, kind: int) -> list[tuple[int, int, int, bytes]]:
        """The frames of a kind that were sent since the last look."""
        for _ in range(5):
            await asyncio.sleep(0)
        return [one for one in self.transport.frames() if one[0] == kind]

    async def written(self) -> list[tuple[int, int, int, bytes]]:
        """The frames that are sent next, however long that takes."""
        self.transport.has_written.clear()
        await self.transport.has_written.wait()
        return self.transport.frames()


def run(scenario: Callable[[Peer], Awaitable[None]]) -> None:
    async def scene() -> None:
        peer = Peer()
        await scenario(peer)
        peer.connection.close()

    asyncio.run(scene())


def test_a_call_is_headers_and_a_message_and_its_answer_is_the_message() -> None:
    async def scenario(peer: Peer) -> None:
        call = peer.call(b"question")
        assert await peer.sent(DATA) == [(DATA, END_STREAM, 1, message(b"question"))]
        peer.give(answer(1, b"answer"))
        assert await call == b"answer"

    run(scenario)


def test_the_server_is_told_that_there_is_no_dynamic_table() -> None:
    async def scenario(peer: Peer) -> None:
        ((_, _, _, settings),) = await peer.sent(SETTINGS)
        assert (1).to_bytes(2) + (0).to_bytes(4) in settings

    run(scenario)


def test_calls_are_answered_in_any_order_and_in_pieces_of_any_size() -> None:
    async def scenario(peer: Peer) -> None:
        calls = [peer.call() for _ in range(20)]
        await peer.sent(DATA)
        data = b"".join(answer(2 * number + 1, b"x" * number) for number in reversed(range(20)))
        for byte in range(0, len(data), 7):
            peer.give(data[byte : byte + 7])
        assert await asyncio.gather(*calls) == [b"x" * number for number in range(20)]

    run(scenario)


def test_a_message_may_come_in_several_frames_and_several_in_one() -> None:
    async def scenario(peer: Peer) -> None:
        got: list[bytes] = []
        stream = peer.connection.open("/watch", (), got.append, lambda _: None)
        data = message(b"one") + message(b"") + message(b"three" * 1000)
        peer.give(frame(DATA, 0, stream.number, data[:11]))
        assert got == [b"one"]
        peer.give(frame(DATA, 0, stream.number, data[11:3000]), frame(DATA, 0, stream.number, data[3000:]))
        assert got == [b"one", b"", b"three" * 1000]

    run(scenario)


def test_what_is_sent_keeps_to_the_windows_of_the_server() -> None:
    async def scenario(peer: Peer) -> None:
        peer.give(frame(SETTINGS, 0, 0, b"\x00\x04" + (20_000).to_bytes(4)))
        content = bytes(100_000)
        call = peer.call(content)
        first = await peer.sent(DATA)
        assert [len(one[3]) for one in first] == [16384, 20_000 - 16384]
        small = peer.call(b"small")
        assert [one[2] for one in await peer.sent(DATA)] == [3], "one stream's window keeps no other waiting"
        peer.give(frame(WINDOW_UPDATE, 0, 1, (200_000).to_bytes(4)))
        second = await peer.sent(DATA)
        # The window of the connection: 65535 in all.
        assert sum(len(one[3]) for one in first + second) == 65535 - len(message(b"small"))
        peer.give(frame(WINDOW_UPDATE, 0, 0, (200_000).to_bytes(4)))
        third = await peer.sent(DATA)
        assert b"".join(one[3] for one in first + second + third) == message(content)
        assert [one[1] for one in first + second + third][-1] == END_STREAM
        assert all(not one[1] for one in (first + second + third)[:-1])
        peer.give(answer(1, b"a"), answer(3, b"b"))
        assert [await call, await small] == [b"a", b"b"]

    run(scenario)


def test_an_error_of_the_server_has_its_code_and_text() -> None:
    async def scenario(peer: Peer) -> None:
        call = peer.call()
        await peer.sent(DATA)
        block = b"\x88" + header("grpc-status", "11") + header("grpc-message", "required revision has been compacted")
        peer.give(frame(HEADERS, END_HEADERS | END_STREAM, 1, block))
        with pytest.raises(CallError) as caught:
            await call
        assert (caught.value.code, caught.value.details) == (Code.OUT_OF_RANGE, "required revision has been compacted")

    run(scenario)


def test_headers_may_be_continued_and_padded() -> None:
    async def scenario(peer: Peer) -> None:
        call = peer.call()
        await peer.sent(DATA)
        body = message(b"answer")
        peer.give(
            frame(HEADERS, END_HEADERS, 1, b"\x88"),
            frame(DATA, PADDED, 1, bytes([3]) + body + bytes(3)),
            frame(HEADERS, END_STREAM, 1, OK[:3]),
            frame(CONTINUATION, 0, 1, OK[3:5]),
            frame(CONTINUATION, END_HEADERS, 1, OK[5:]),
        )
        assert await call == b"answer"

    run(scenario)


def test_a_call_without_an_answer_ends_at_its_deadline_and_the_server_is_told() -> None:
    async def scenario(peer: Peer) -> None:
        call = peer.call(seconds=0.01)
        with pytest.raises(CallError) as caught:
            await call
        assert caught.value.code is Code.DEADLINE_EXCEEDED
        assert [one[2] for one in await peer.sent(RST_STREAM)] == [1]
        peer.give(answer(1, b"late"))

    run(scenario)


def test_a_cancelled_call_resets_its_stream() -> None:
    async def scenario(peer: Peer) -> None:
        call = peer.call()
        await peer.sent(DATA)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert [one[2] for one in await peer.sent(RST_STREAM)] == [1]

    run(scenario)


@pytest.mark.parametrize("event", ["lost", "reset", "goaway", "rubbish", "unfinished"])
def test_calls_under_way_fail_when_the_server_ends_them(event: str) -> None:
    async def scenario(peer: Peer) -> None:
        call = peer.call()
        await peer.sent(DATA)
        if event == "lost":
            peer.connection.connection_lost(None)
        elif event == "reset":
            peer.give(frame(RST_STREAM, 0, 1, (7).to_bytes(4)))
        elif event == "goaway":
            peer.give(frame(GOAWAY, 0, 0, (0).to_bytes(4) + (0).to_bytes(4) + b"maintenance"))
        elif event == "rubbish":
            peer.give(frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x00\x7f"))
        else:
            peer.give(frame(DATA, END_STREAM, 1, message(b"x")))
        with pytest.raises(CallError) as caught:
            await call
        assert caught.value.code in (Code.UNAVAILABLE, Code.INTERNAL)
        assert peer.connection.is_usable == (event in ("reset", "unfinished"))

    run(scenario)


def test_calls_that_a_server_has_seen_are_finished_when_it_shuts_down() -> None:
    async def scenario(peer: Peer) -> None:
        seen, unseen = peer.call(), peer.call()
        await peer.sent(DATA)
        peer.give(frame(GOAWAY, 0, 0, (1).to_bytes(4) + (0).to_bytes(4)))
        with pytest.raises(CallError, match="failed to connect: the server is going away"):
            await unseen
        peer.give(answer(1, b"answer"))
        assert await seen == b"answer"
        with pytest.raises(CallError):
            await peer.call()

    run(scenario)


def test_pings_and_settings_are_acknowledged() -> None:
    async def scenario(peer: Peer) -> None:
        await peer.sent(SETTINGS)
        peer.give(frame(PING, 0, 0, b"12345678"), frame(SETTINGS), frame(PING, ACK, 0, b"12345678"))
        await asyncio.sleep(0)
        assert [(kind, flags, payload) for kind, flags, _, payload in peer.transport.frames()] == [
            (PING, ACK, b"12345678"),
            (SETTINGS, ACK, b""),
        ]

    run(scenario)


def test_the_answer_to_a_measurement_of_bandwidth_waits_and_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "_BANDWIDTH_SECONDS", 0.01)
    ping = bytes((2, 4, 16, 16, 9, 14, 7, 7))

    async def scenario(peer: Peer) -> None:
        await peer.sent(PING)
        peer.give(frame(PING, 0, 0, ping))
        peer.give(frame(PING, 0, 0, ping))
        assert await peer.sent(PING) == []
        assert await peer.written() == [(PING, ACK, 0, ping)]
        peer.give(frame(PING, 0, 0, ping))
        assert await peer.written() == [(PING, ACK, 0, ping)]

    run(scenario)


def test_a_lone_call_is_written_at_once_and_those_of_many_together() -> None:
    async def scenario(peer: Peer) -> None:
        await peer.sent(SETTINGS)
        connection, transport = peer.connection, peer.transport
        connection.open("/watch", (), lambda _: None, lambda _: None)
        await peer.sent(HEADERS)
        writes = []
        for number in range(4):
            connection.begin("/range", b"%d" % number, (), 60, lambda _: None)
            writes.append([one[2:] for one in transport.frames() if one[0] == DATA])
        await transport.has_written.wait()
        writes.append([one[2:] for one in await peer.sent(DATA)])
        assert writes == [
            [(3, message(b"0"))],
            *([[]] * 3),
            [(5, message(b"1")), (7, message(b"2")), (9, message(b"3"))],
        ]

    run(scenario)


def test_a_call_that_expires_leaves_later_ones_their_time() -> None:
    async def scenario(peer: Peer) -> None:
        long, short, longer = peer.call(seconds=0.05), peer.call(seconds=0.01), peer.call(seconds=60)
        for call in (short, long):
            with pytest.raises(CallError) as caught:
                await call
            assert caught.value.code is Code.DEADLINE_EXCEEDED
        assert [one[2] for one in await peer.sent(RST_STREAM)] == [3, 1]
        peer.give(answer(5, b"answer"))
        assert await longer == b"answer"

    run(scenario)


def test_what_is_to_be_done_at_the_end_of_a_read_is_done_once_after_all_its_frames() -> None:
    async def scenario(peer: Peer) -> None:
        got: list[bytes] = []

        def take(content: bytes) -> None:
            if not got:
                stream.at_end_of_read(lambda: got.append(b"end"))
            got.append(content)

        stream = peer.connection.open("/watch", (), take, lambda _: None)
        call = peer.call()
        await peer.sent(DATA)
        events = [frame(DATA, 0, stream.number, message(content)) for content in (b"one", b"two")]
        peer.give(events[0], answer(3, b"answer"), events[1])
        assert got == [b"one", b"two", b"end"]
        assert await call == b"answer"
        peer.give(events[0])
        assert got == [b"one", b"two", b"end", b"one"]

    run(scenario)


def test_a_silent_server_is_asked_and_then_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "KEEPALIVE_SECONDS", 0.01)

    async def scenario(peer: Peer) -> None:
        with pytest.raises(CallError, match="does not answer"):
            await peer.call()
        assert peer.transport.is_aborted

    run(scenario)


def test_a_server_that_cannot_be_reached_is_named_with_the_reason() -> None:
    async def scenario() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        with pytest.raises(CallError, match="failed to connect: Connection refused"):
            await http2.connect("127.0.0.1", port, "etcd", None)

    asyncio.run(scenario())
