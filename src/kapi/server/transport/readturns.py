"""How much of long request bodies is read in one turn of the event loop.

Reading costs CPU: a megabyte is 3 ms of decryption, parsing and copying. When many clients send long bodies at the same
time, all of their sockets are ready in each turn. So the bytes of a turn are counted, and when there are enough of them
a connection is read again in one of the next turns, in the order in which they were paused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

from kapi.api.limits import MIB

TURN_BYTES: Final = MIB
"""Bytes of long bodies that are read in one turn of the loop; each connection that is read may add one read to it."""
TURN_READS: Final = 4
"""Paused connections that are read in one turn. A read is up to 256 KiB."""


class Paused(Protocol):
    """A connection that is not read."""

    def read_again(self) -> None:
        """It is the turn of this connection."""
        ...


class ReadTurns:
    """The connections of a server whose bodies are being read."""

    def __init__(self) -> None:
        self._read = 0
        """Bytes read in this turn."""
        self._waiting: deque[Paused] = deque()
        self._is_scheduled = False

    def count(self, connection: Paused, size: int) -> bool:
        """Count a read; returns True if the connection has to pause until its `read_again` is called."""
        self._read += size
        self._schedule()
        if self._read < TURN_BYTES:
            return False
        self._waiting.append(connection)
        return True

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Begin the next turn."""
        self._is_scheduled = False
        self._read = 0
        for _ in range(min(TURN_READS, len(self._waiting))):
            self._waiting.popleft().read_again()
        if self._waiting:
            self._schedule()
