"""Long bodies: written piece by piece as the peer takes them, and charged to the memory account while it does not."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, Protocol

from kapi.server.transport import wire
from kapi.server.transport.limits import KIB
from kapi.server.transport.memory import RESPONSE
from kapi.server.transport.message import Body

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from kapi.server.transport.limits import Limits
    from kapi.server.transport.memory import MemoryAccount

SEND_BUFFER: Final = 512 * KIB
"""Bytes that may wait in the send buffer before writing pauses; a response is made no faster than the peer takes it."""
STREAM_BUFFER: Final = 32 * KIB
"""The same for a stream. There are many, and they are long, so it is less."""
SOCKET_BYTES: Final = 64 * KIB
"""Bytes that the event loop keeps below the send buffer, where they cannot be counted."""
_PIECE: Final = 256 * KIB
"""A body that is in memory is sent in writes of this size, with a turn of the event loop between them."""


class Sender(Protocol):
    """The part of a connection that writes."""

    @property
    def is_full(self) -> bool:
        """True while the send buffer is full."""
        ...

    @property
    def is_gone(self) -> bool:
        """True if nothing can be written any more."""
        ...

    async def wait_for_space(self) -> None:
        """Wait until the send buffer has space or the peer is gone."""
        ...


class WholeBody(Body):
    """A body that is in memory, with the head of its response, cut into pieces."""

    def __init__(self, head: bytes, parts: Sequence[bytes]) -> None:
        self._slices = wire.slices(head, parts, _PIECE)
        self._left = sum(map(len, parts))

    @property
    def held(self) -> int:
        """What has not been written yet."""
        return max(self._left, 0)

    async def pieces(self) -> AsyncGenerator[bytes | memoryview, None]:
        """Yield the head and the parts."""
        for piece in self._slices:
            self._left -= len(piece)
            yield piece


class Outgoing:
    """The writing of one long body, on the account of `payer`."""

    def __init__(self, sender: Sender, transport: asyncio.Transport, limits: Limits) -> None:
        self._sender = sender
        self._transport = transport
        self._limits = limits

    async def send(self, body: Body, account: MemoryAccount, payer: str, *, chunked: bool) -> bool:
        """Write a body as the peer takes it; returns False if the peer is gone, or was too slow."""
        transport = self._transport

        def charge(*, progressed: bool = False) -> None:
            size = transport.get_write_buffer_size() + SOCKET_BYTES + body.held
            hold.resize(size, progressed=progressed)

        with account.open(RESPONSE, payer, lambda _reason: transport.abort()) as hold:
            body.grown = charge
            try:
                return await self._write(body, charge, chunked=chunked)
            finally:
                body.grown = None  # a reference cycle

    async def _write(self, body: Body, charge: Callable[..., None], *, chunked: bool) -> bool:
        sender, limits, write = self._sender, self._limits, self._transport.write
        clock = asyncio.get_running_loop().time
        sent = 0
        waited = 0.0
        async with contextlib.aclosing(body.pieces()) as pieces:
            async for piece in pieces:
                if not piece:
                    continue
                write(wire.chunk(piece) if chunked else piece)
                sent += len(piece)
                # Other connections get a turn even if this peer takes everything at once.
                await asyncio.sleep(0)
                if sender.is_full:
                    charge(progressed=True)
                    began = clock()
                    await sender.wait_for_space()
                    waited += clock() - began
                if waited > limits.write_timeout + sent / limits.write_rate:
                    self._transport.abort()
                if sender.is_gone:
                    return False
        return True
