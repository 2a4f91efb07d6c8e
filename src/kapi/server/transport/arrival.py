"""The arrival of a request body after its request was handed to the handler.

The handler of a request with a long body is called at the end of the headers. It authenticates and authorizes the
client first and then waits for the body here: only now does the connection read on, answer `Expect: 100-continue`, and
charge what it keeps to the user. A request that is refused before costs one read of the socket.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kapi.api.errors import ApiError
    from kapi.api.user import User


class Receiver(Protocol):
    """The part of a connection that receives a body."""

    def receive_body(self, user: User) -> None:
        """Begin to read the body for this user; TooManyRequests if there is no space for it."""
        ...

    def body_received(self) -> None:
        """The handler no longer waits for the body."""
        ...


class Arrival:
    """The rest of one request."""

    __slots__ = ("_error", "_is_wanted", "_receiver", "_waiter", "is_awaited", "is_whole")

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._error: ApiError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.is_awaited = False
        """True while the handler waits for the body."""
        self.is_whole = False
        self._is_wanted = False

    @property
    def is_unwanted(self) -> bool:
        """True if the handler has not asked for the body, which should not be read therefore."""
        return not (self._is_wanted or self.is_whole)

    async def wait(self, user: User) -> None:
        """Return when the request is whole; raises the error of a body that cannot be accepted or does not come."""
        if not self.is_whole and self._error is None:
            self._is_wanted = True
            self._receiver.receive_body(user)
            # Reading on may have found the end already, in what was held back.
            if not self.is_whole and self._error is None:
                self._waiter = asyncio.get_running_loop().create_future()
                self.is_awaited = True
                try:
                    await self._waiter
                finally:
                    self.is_awaited = False
                    self._receiver.body_received()
        if self._error is not None:
            # A traceback refers to frames, these to the request, and it to this: no cycle must be left.
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error

    def finish(self) -> None:
        """The request is whole."""
        self.is_whole = True
        self._wake()

    def fail(self, error: ApiError) -> None:
        """The request will not be whole."""
        if not self.is_whole and self._error is None:
            self._error = error
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
