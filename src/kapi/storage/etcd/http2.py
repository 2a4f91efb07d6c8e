"""gRPC over HTTP/2 on one connection: calls and streams of messages, each of them bytes.

Written for etcd's few methods, on asyncio alone. The gRPC library for Python does its work in threads of its own and
wakes up the event loop for every step of a call, which was measured to cost several times what a call costs here; on
the path of every write and of every consistent read that counts.

Everything happens on the event loop: what arrives is parsed in `data_received` and handed on at once. What is sent
keeps to the windows of the peer; what is received is acknowledged as it is taken in, so that only the owner of a stream
can be slow, and it is not.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Final, cast

from kapi.storage.etcd import headers
from kapi.storage.etcd.streams import WINDOW, Call, CallError, Code, MessageStream

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from kapi.storage.etcd.streams import Stream

CONNECT_SECONDS: Final = 2.0
KEEPALIVE_SECONDS: Final = 5.0
"""A connection with open streams that was silent for so long is sent a ping; one that stays silent is closed."""

REMEMBERED: Final = 64
"""Heads of calls that are remembered: nearly all calls have one of very few."""

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_END_STREAM, _END_HEADERS, _PADDED, _PRIORITY, _ACK = 0x1, 0x4, 0x8, 0x20, 0x1
_HEADER_TABLE_SIZE, _ENABLE_PUSH, _INITIAL_WINDOW_SIZE, _MAX_FRAME_SIZE = 1, 2, 4, 5
_CANCEL: Final = 8
_FEW: Final = 1
"""Open streams besides which a call is written at once: the watch."""
_BANDWIDTH_PING: Final = bytes((2, 4, 16, 16, 9, 14, 7, 7))
_BANDWIDTH_SECONDS: Final = 1.0
"""How long a server waits for the answer to such a ping.

The gRPC of etcd sends one when a call arrives, unless the answer to the last is still to come, to find out how many
bytes may be on their way at once. Answered at once, it wakes up both programs once more for every call. Answered later,
it counts the bytes of a longer time: windows grow with what is really sent, and then there are no more pings.
"""
_DEFAULT_WINDOW: Final = 65535
_FRAME: Final = struct.Struct(">BHBBI")
_SETTING: Final = struct.Struct(">HI")


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return _FRAME.pack(len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


class Connection(asyncio.Protocol):
    """One connection to a server."""

    def __init__(self, authority: str, *, is_secure: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._prefix = headers.POST + (headers.HTTPS if is_secure else headers.HTTP)
        self._authority = headers.header(headers.AUTHORITY, authority)
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, Stream] = {}
        self._next = 1
        self._rest = b""
        self._block = b""
        self._window = _DEFAULT_WINDOW
        self._stream_window = _DEFAULT_WINDOW
        self._largest_frame = 16384
        self._received = 0
        # What waits for windows to open, in order.
        self._waiting: deque[tuple[Stream, bytes, bool]] = deque()
        self._outgoing: list[bytes] = []
        self._succeeded: bytes = b""
        self._failure: CallError | None = None
        self.is_usable = True
        """False when no further call can be made on it."""
        self._timer: asyncio.TimerHandle | None = None
        self._heard = 0.0
        self._was_asked = False
        self._bandwidth_timer: asyncio.TimerHandle | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._expiry_at = inf
        self._read_ends: list[Callable[[], None]] = []
        self._blocks: dict[tuple[str, float, object], bytes] = {}

    # -- calls

    def open(
        self,
        path: str,
        metadata: tuple[tuple[str, str], ...],
        on_message: Callable[[bytes], None],
        on_end: Callable[[CallError | None], None],
    ) -> Stream:
        """Begin a stream of messages; raises `CallError` if the connection is gone."""
        stream = MessageStream(self, self._number(), self._stream_window, on_message, on_end)
        self._begin(stream, self._head(path, metadata, 0.0))
        return stream

    def begin(
        self,
        path: str,
        request: bytes,
        metadata: tuple[tuple[str, str], ...],
        seconds: float,
        done: Callable[[bytes | CallError], None],
    ) -> Stream:
        """Send one message; `done` is called with its answer, or why there is none, unless it is cancelled.

        Raises:
            CallError: the connection is gone.
        """
        deadline = self._loop.time() + seconds
        call = Call(self, self._number(), self._stream_window, deadline, done)
        # With few other calls there is nothing to wait for; with many, what they send is written together.
        is_written_now = not self._outgoing and len(self._streams) <= _FEW
        if is_written_now:
            self._outgoing.append(b"")  # So that no turn of the event loop is asked for.
        self._begin(call, self._head(path, metadata, seconds))
        call.send(request, is_last=True)
        if is_written_now:
            self._flush()
        if deadline < self._expiry_at:
            self._set_expiry(deadline)
        return call

    def _number(self) -> int:
        """The number of the next stream."""
        if self._transport is None or not self.is_usable:
            raise self._failure or CallError(Code.UNAVAILABLE, "failed to connect: the connection is closed")
        number = self._next
        self._next += 2
        if self._next >= WINDOW:
            self.is_usable = False  # The numbers of streams are used up; those who hold it open another.
        return number

    def _begin(self, stream: Stream, head: bytes) -> None:
        self._streams[stream.number] = stream
        self._write_soon(_frame(_HEADERS, _END_HEADERS, stream.number, head))

    def _head(self, path: str, metadata: tuple[tuple[str, str], ...], seconds: float) -> bytes:
        key = path, seconds, metadata
        block = self._blocks.get(key)
        if block is None:
            block = self._prefix + headers.header(headers.PATH, path) + self._authority
            block += headers.header(headers.CONTENT_TYPE, "application/grpc") + headers.header("te", "trailers")
            if seconds:
                block += headers.header("grpc-timeout", f"{max(1, int(seconds * 1000))}m")
            for name, value in metadata:
                block += headers.header(name, value)
            if len(self._blocks) >= REMEMBERED:
                self._blocks.clear()
            self._blocks[key] = block
        return block

    async def call(self, path: str, request: bytes, metadata: tuple[tuple[str, str], ...], seconds: float) -> bytes:
        """Send one message and return the one that answers it.

        Raises:
            CallError: there is none.
        """
        answer: asyncio.Future[bytes] = self._loop.create_future()

        def done(result: bytes | CallError) -> None:
            if answer.done():
                return
            if isinstance(result, CallError):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        call = self.begin(path, request, metadata, seconds, done)
        try:
            return await answer
        finally:
            call.cancel()

    # -- deadlines

    def _set_expiry(self, at: float) -> None:
        """Have one timer for the calls of the connection, set for the first that expires."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry_at = at
        self._expiry = self._loop.call_at(at, self._expire)

    def _expire(self) -> None:
        """End the calls whose time is up; the timer may have been set for one that has been answered."""
        self._expiry, self._expiry_at = None, inf
        now, following = self._loop.time(), inf
        for stream in list(self._streams.values()):
            if stream.deadline <= now:
                self.reset(stream)
                stream.end(CallError(Code.DEADLINE_EXCEEDED, "no answer within the deadline"))
            elif stream.deadline < following:
                following = stream.deadline
        if following < self._expiry_at:
            self._set_expiry(following)

    # -- sending

    def _write_soon(self, data: bytes) -> None:
        """Write when the event loop has finished its turn: what several calls send is one system call."""
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(data)

    def _flush(self) -> None:
        if self._transport is not None:
            self._transport.write(b"".join(self._outgoing))
        self._outgoing.clear()

    def send(self, stream: Stream, data: bytes, *, is_last: bool) -> None:
        """Send a part of a body, as far as windows allow, and the rest later."""
        size = len(data)
        if not self._waiting and size <= self._window and size <= stream.window and size <= self._largest_frame:
            self._write(stream, data, is_last=is_last)
        else:
            self._waiting.append((stream, data, is_last))
            self._pump()

    def _write(self, stream: Stream, data: bytes, *, is_last: bool) -> None:
        self._window -= len(data)
        stream.window -= len(data)
        self._write_soon(_frame(_DATA, _END_STREAM if is_last else 0, stream.number, data))

    def _pump(self) -> None:
        """Send what waits, each stream in its order; one whose window is closed keeps no other waiting."""
        blocked: deque[tuple[Stream, bytes, bool]] = deque()
        held: set[int] = set()
        while self._waiting:
            stream, data, is_last = self._waiting.popleft()
            if stream.is_ended:
                continue
            while data and stream.number not in held:
                size = min(len(data), self._window, stream.window, self._largest_frame)
                if size <= 0:
                    held.add(stream.number)
                    break
                part, data = data[:size], data[size:]
                self._write(stream, part, is_last=is_last and not data)
            if data:
                held.add(stream.number)
                blocked.append((stream, data, is_last))
        self._waiting = blocked

    def reset(self, stream: Stream) -> None:
        """Tell the server that a stream is of no interest any more."""
        if self._streams.pop(stream.number, None) is not None:
            self._write_soon(_frame(_RST_STREAM, 0, stream.number, _CANCEL.to_bytes(4)))

    def acknowledge(self, stream: int, size: int) -> None:
        """Let the server send so many bytes more."""
        self._write_soon(_frame(_WINDOW_UPDATE, 0, stream, size.to_bytes(4)))

    # -- receiving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the preface; streams may take whatever comes, and there is no dynamic table of headers."""
        self._transport = cast("asyncio.Transport", transport)
        settings = _SETTING.pack(_HEADER_TABLE_SIZE, 0) + _SETTING.pack(_ENABLE_PUSH, 0)
        settings += _SETTING.pack(_INITIAL_WINDOW_SIZE, WINDOW)
        self._write_soon(_PREFACE + _frame(_SETTINGS, 0, 0, settings))
        self.acknowledge(0, WINDOW - _DEFAULT_WINDOW)
        self._heard = self._loop.time()
        self._timer = self._loop.call_later(KEEPALIVE_SECONDS, self._keep_alive)

    def data_received(self, data: bytes) -> None:
        """Take in whole frames, and keep the rest for later."""
        self._heard = self._loop.time()
        if self._rest:
            data = self._rest + data
        at, size = 0, len(data)
        try:
            while size - at >= 9:
                high, low, kind, flags, stream = _FRAME.unpack_from(data, at)
                end = at + 9 + (high << 16 | low)
                if size < end:
                    break
                self._take(kind, flags, stream & WINDOW, data[at + 9 : end])
                at = end
        except Exception as error:
            self.close(f"the server sent what cannot be read: {error}")
            return
        self._rest = data[at:]
        if self._read_ends:
            self._end_read()

    def at_end_of_read(self, function: Callable[[], None]) -> None:
        """Call a function once all frames that have been read have been taken in; streams use it."""
        self._read_ends.append(function)

    def _end_read(self) -> None:
        functions, self._read_ends = self._read_ends, []
        for function in functions:
            function()

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == _DATA:
            self._take_data(flags, number, payload)
        elif kind == _HEADERS:
            payload = _without_padding(flags, payload)
            self._take_block(flags, number, payload[5:] if flags & _PRIORITY else payload)
        elif kind == _WINDOW_UPDATE:
            self._take_window(number, int.from_bytes(payload) & WINDOW)
        elif kind == _CONTINUATION:
            self._take_block(flags, number, payload)
        elif kind == _RST_STREAM:
            self._end(number, CallError(Code.UNAVAILABLE, f"the server reset the stream ({int.from_bytes(payload)})"))
        elif kind == _SETTINGS and not flags & _ACK:
            self._take_settings(payload)
        elif kind == _PING and not flags & _ACK:
            self._take_ping(payload)
        elif kind == _GOAWAY:
            self._take_goaway(int.from_bytes(payload[:4]) & WINDOW, payload[8:])

    def _take_data(self, flags: int, number: int, payload: bytes) -> None:
        self._received += len(payload)
        if self._received > WINDOW // 2:
            self.acknowledge(0, self._received)
            self._received = 0
        stream = self._streams.get(number)
        if stream is not None and payload:
            stream.take(_without_padding(flags, payload))
        if flags & _END_STREAM:
            self._end(number, CallError(Code.INTERNAL, "the answer ended without a status"))

    def _take_block(self, flags: int, number: int, payload: bytes) -> None:
        """Take in headers. Those that end a stream are its status; all others say nothing new."""
        if self._block or not flags & _END_HEADERS:
            # The flags of the first frame are those of the block.
            self._block = self._block or bytes([flags])
            self._block += payload
            if not flags & _END_HEADERS:
                return
            flags, payload, self._block = self._block[0], self._block[1:], b""
        if not flags & _END_STREAM:
            return
        if payload == self._succeeded:
            self._end(number, None)
            return
        code, details = headers.read_status(payload)
        if code == Code.OK:
            self._succeeded = payload
            self._end(number, None)
        else:
            self._end(number, CallError(Code(code) if code <= Code.UNAUTHENTICATED else Code.UNKNOWN, details))

    def _end(self, number: int, error: CallError | None) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None:
            stream.end(error)

    def _take_window(self, number: int, size: int) -> None:
        if number == 0:
            self._window += size
        elif number in self._streams:
            self._streams[number].window += size
        if self._waiting:
            self._pump()

    def _take_settings(self, payload: bytes) -> None:
        for name, value in _SETTING.iter_unpack(payload):
            if name == _INITIAL_WINDOW_SIZE:
                for stream in self._streams.values():
                    stream.window += value - self._stream_window
                self._stream_window = value
            elif name == _MAX_FRAME_SIZE:
                self._largest_frame = value
        self._write_soon(_frame(_SETTINGS, _ACK, 0))
        self._pump()

    def _take_ping(self, payload: bytes) -> None:
        if payload != _BANDWIDTH_PING:
            self._answer_ping(payload)
        elif self._bandwidth_timer is None:
            self._bandwidth_timer = self._loop.call_later(_BANDWIDTH_SECONDS, self._answer_ping, payload)

    def _answer_ping(self, payload: bytes) -> None:
        if payload == _BANDWIDTH_PING:
            self._bandwidth_timer = None
        self._write_soon(_frame(_PING, _ACK, 0, payload))

    def _take_goaway(self, last: int, text: bytes) -> None:
        """The server takes no further calls, and none after the `last` that it has seen."""
        self.is_usable = False
        reason = text.decode(errors="replace") or "no reason is given"
        for number in [number for number in self._streams if number > last]:
            self._end(number, CallError(Code.UNAVAILABLE, f"failed to connect: the server is going away: {reason}"))

    # -- the end

    def _keep_alive(self) -> None:
        silent = self._loop.time() - self._heard
        if silent < KEEPALIVE_SECONDS or not self._streams:
            self._was_asked = False
        elif self._was_asked:
            self.close("the server does not answer")
            return
        else:
            self._was_asked = True
            self._write_soon(_frame(_PING, 0, 0, bytes(8)))
        self._timer = self._loop.call_later(KEEPALIVE_SECONDS, self._keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """End every stream."""
        self.close("the connection was lost" + (f": {exc}" if exc else ""))

    def close(self, reason: str = "the connection is closed") -> None:
        """Close the connection; calls under way fail."""
        self.is_usable = False
        for timer in (self._timer, self._bandwidth_timer, self._expiry):
            if timer is not None:
                timer.cancel()
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        self._failure = self._failure or CallError(Code.UNAVAILABLE, reason)
        for number in list(self._streams):
            self._end(number, self._failure)


def _without_padding(flags: int, payload: bytes) -> bytes:
    return payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload


async def connect(host: str, port: int, authority: str, tls: ssl.SSLContext | None) -> Connection:
    """Connect to a server.

    Raises:
        CallError: it cannot be reached; its text begins with "failed to connect".
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, connection = await loop.create_connection(
                lambda: Connection(authority, is_secure=tls is not None),
                host,
                port,
                ssl=tls,
                server_hostname=host if tls is not None else None,
            )
    except TimeoutError:
        raise CallError(Code.UNAVAILABLE, "failed to connect: no answer") from None
    except OSError as error:
        # asyncio replaces the text of the system with its own; errors of TLS and of names have only theirs.
        is_of_system = isinstance(error, ConnectionError) and error.errno is not None
        text = os.strerror(error.errno or 0) if is_of_system else error.strerror or str(error)
        raise CallError(Code.UNAVAILABLE, f"failed to connect: {text}") from None
    return connection
