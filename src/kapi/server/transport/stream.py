"""The stream of a response that has no end of its own, such as a watch, on one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kapi.server.transport import wire

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class StreamSender(Protocol):
    """The part of a connection that a stream uses."""

    @property
    def is_full(self) -> bool:
        """True while the send buffer is full."""
        ...

    async def wait_for_space(self) -> None:
        """Wait until the send buffer has space or the peer is gone."""
        ...

    def set_reading(self, wanted: bool) -> None:
        """Read from the peer, or let it wait."""
        ...

    def release_writers(self) -> None:
        """Wake the writers that wait for space in the send buffer."""
        ...


class ConnectionStream:
    """The `Stream` of a connection: each write is one chunk, or plain bytes for HTTP/1.0."""

    __slots__ = ("_chunked", "_connection", "_transport", "closed")

    def __init__(
        self, connection: StreamSender, transport: asyncio.Transport, closed: asyncio.Future[None], *, chunked: bool
    ) -> None:
        self._connection = connection
        self._transport = transport
        self._chunked = chunked
        self.closed = closed

    @property
    def pending(self) -> int:
        """Bytes the peer has not taken."""
        return self._transport.get_write_buffer_size()

    @property
    def is_full(self) -> bool:
        """True while the send buffer is full."""
        return self._connection.is_full

    def write(self, data: bytes | memoryview) -> None:
        """Send one chunk. An empty one would mean the end, so it is not sent."""
        if not data or self.closed.done():
            return
        self._transport.write(wire.chunk(data) if self._chunked else data)

    @property
    def framing(self) -> object:
        """True for streams that send chunks, False for those that send plain bytes."""
        return self._chunked

    def frame(self, data: bytes) -> bytes:
        """What `write` would send."""
        return wire.chunk(data) if self._chunked else data

    def write_framed(self, framed: bytes) -> bool:
        """Send what `frame` returned; returns True if the send buffer is full."""
        if self.closed.done():
            return False
        self._transport.write(framed)
        return self._connection.is_full

    async def drain(self) -> None:
        """Wait for space in the send buffer, or for the stream to be closed."""
        if not self.closed.done():
            await self._connection.wait_for_space()

    def abort(self) -> None:
        """Drop the connection."""
        self.end()
        self._transport.abort()

    def end(self) -> None:
        """Tell the writer to stop."""
        if not self.closed.done():
            self.closed.set_result(None)
        self._connection.release_writers()


class ConnectionTunnel(ConnectionStream):
    """The `Tunnel` of a connection: bytes in both directions."""

    __slots__ = ("on_data",)

    def __init__(
        self, connection: StreamSender, transport: asyncio.Transport, closed: asyncio.Future[None], *, chunked: bool
    ) -> None:
        super().__init__(connection, transport, closed, chunked=chunked)
        self.on_data: Callable[[bytes], None] = _ignore

    def set_reading(self, wanted: bool) -> None:
        """Read what the peer sends, or let it wait."""
        if not self.closed.done():
            self._connection.set_reading(wanted)


def _ignore(_data: bytes) -> None:
    """Take no data."""
