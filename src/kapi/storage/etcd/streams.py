"""One gRPC call of an HTTP/2 connection: its messages, its deadline, and the status that it ends with."""

from __future__ import annotations

import enum
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.storage.etcd.http2 import Connection

WINDOW: Final = (1 << 31) - 1
"""The most bytes that may be on their way; so large that the peer never has to wait."""


class Code(enum.IntEnum):
    """The status codes of gRPC."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class CallError(Exception):
    """A call that ended with an error, of the server or of the connection."""

    def __init__(self, code: Code, details: str) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code = code
        self.details = details


class Stream:
    """One call on a connection: `send` sends messages, `arrived` is given those that arrive, `ended` is called last."""

    __slots__ = ("_arriving", "_connection", "_received", "deadline", "is_ended", "number", "window")

    def __init__(self, connection: Connection, number: int, window: int, deadline: float = inf) -> None:
        self._connection = connection
        self.number = number
        self.window = window
        """How many bytes may be sent."""
        self.deadline = deadline
        """The time of the event loop at which it is given up."""
        self.is_ended = False
        self._arriving: bytearray | None = None
        self._received = 0

    def arrived(self, message: bytes) -> None:
        """Take a whole message."""
        raise NotImplementedError

    def ended(self, error: CallError | None) -> None:
        """Called once, with None or why the call failed; not after `cancel`."""
        raise NotImplementedError

    def send(self, message: bytes, *, is_last: bool = False) -> None:
        """Send a message; nothing if the stream has ended."""
        if not self.is_ended:
            self._connection.send(self, b"\x00%b%b" % (len(message).to_bytes(4), message), is_last=is_last)

    def take(self, data: bytes) -> None:
        """Take in bytes of the body."""
        self._received += len(data)
        if self._received > WINDOW // 2:
            self._connection.acknowledge(self.number, self._received)
            self._received = 0
        if not self._arriving and len(data) >= 5 and len(data) == 5 + int.from_bytes(data[1:5]):
            self.arrived(data[5:])
            return
        if self._arriving is None:
            self._arriving = bytearray()
        self._arriving += data
        self._split(self._arriving)

    def _split(self, arriving: bytearray) -> None:
        while len(arriving) >= 5 and not self.is_ended:
            end = 5 + int.from_bytes(arriving[1:5])
            if len(arriving) < end:
                return
            message = bytes(arriving[5:end])
            del arriving[:end]
            self.arrived(message)

    def end(self, error: CallError | None) -> None:
        """Note that the stream has ended; the first reason counts."""
        if not self.is_ended:
            self.is_ended = True
            self.ended(error)

    def cancel(self) -> None:
        """End the stream from this side; `ended` is not called."""
        if not self.is_ended:
            self.is_ended = True
            self._connection.reset(self)

    def at_end_of_read(self, function: Callable[[], None]) -> None:
        """Call a function once all that has been read from the connection has been taken in."""
        self._connection.at_end_of_read(function)


class MessageStream(Stream):
    """A stream of messages."""

    __slots__ = ("_on_end", "_on_message")

    def __init__(
        self,
        connection: Connection,
        number: int,
        window: int,
        on_message: Callable[[bytes], None],
        on_end: Callable[[CallError | None], None],
    ) -> None:
        super().__init__(connection, number, window)
        self._on_message = on_message
        self._on_end = on_end

    def arrived(self, message: bytes) -> None:
        """Call `on_message`."""
        self._on_message(message)

    def ended(self, error: CallError | None) -> None:
        """Call `on_end`."""
        self._on_end(error)


class Call(Stream):
    """A message that is answered with one: `done` is called with the answer or with why there is none."""

    __slots__ = ("_answer", "_done")

    def __init__(
        self,
        connection: Connection,
        number: int,
        window: int,
        deadline: float,
        done: Callable[[bytes | CallError], None],
    ) -> None:
        super().__init__(connection, number, window, deadline)
        self._answer: bytes | None = None
        self._done = done

    def arrived(self, message: bytes) -> None:
        """Keep the answer until the status follows."""
        if self._answer is None:
            self._answer = message

    def ended(self, error: CallError | None) -> None:
        """Hand over the answer."""
        answer = self._answer
        if error is not None:
            self._done(error)
        elif answer is None:
            self._done(CallError(Code.INTERNAL, "the answer is empty"))
        else:
            self._done(answer)
