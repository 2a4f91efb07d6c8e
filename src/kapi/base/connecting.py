"""Connections that are being made, and what becomes of them when the caller is cancelled.

A `loop.create_connection` with TLS that is cancelled between the end of the handshake and the caller's next step
leaves its socket open: asyncio shuts TLS down, which waits for the peer, and does not wait for the shutdown. The socket
may outlive the event loop. So a connection is made by a task of its own, which is not cancelled with its caller: it
goes on to its end, and the connection is aborted.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

P = TypeVar("P", bound=asyncio.BaseProtocol)

FINISH_SECONDS: Final = 0.5
"""How long `close` waits for abandoned connections before it cancels them: a handshake takes milliseconds."""


class Connecting:
    """The connections of one pool that are being made. Bounded by the callers, who have deadlines for connecting."""

    def __init__(self) -> None:
        self._abandoned: set[asyncio.Task[tuple[asyncio.Transport, Any]]] = set()

    async def make(self, connecting: Coroutine[Any, Any, tuple[asyncio.Transport, P]]) -> tuple[asyncio.Transport, P]:
        """What `connecting`, a call of `loop.create_connection`, returns; aborted later if this call is cancelled."""
        making = asyncio.ensure_future(connecting)
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            self._abandoned.add(making)
            making.add_done_callback(self._abort)
            raise

    async def close(self) -> None:
        """Return when no abandoned connection is left."""
        if self._abandoned:
            _, late = await asyncio.wait(self._abandoned, timeout=FINISH_SECONDS)
            for making in late:
                making.cancel()
            if late:
                await asyncio.wait(late)

    def _abort(self, making: asyncio.Task[tuple[asyncio.Transport, Any]]) -> None:
        self._abandoned.discard(making)
        if not making.cancelled() and making.exception() is None:
            making.result()[0].abort()
