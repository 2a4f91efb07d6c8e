"""One HTTP/1.1 connection of a client: a request at a time, whose answer is read whole and is of bounded size.

For calls a server makes on its own account (`http`). It costs a third of what aiohttp's client costs, which matters to
a write that waits for admission webhooks. The other side is not trusted: heads, bodies and chunks are bounded, and what
is not plainly HTTP/1.1 is an error.
"""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kapi.base.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_HEAD: Final = 64 * 1024
SHORT_HEAD: Final = 512
"""The size of heads up to which they are remembered: the answers of one second are often alike."""
MAX_CHUNK_LINE: Final = 1024
MAX_INTERIM: Final = 8
"""Interim answers (1xx) before the final one."""

_status_line = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?").fullmatch
_chunk_size = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?").fullmatch
_name = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch
_NO_CONTENT: Final = (204, 304)
_FIELDS: Final = {
    spelled: name
    for name in (b"content-type", b"content-length", b"transfer-encoding", b"connection", b"date")
    for spelled in (name, name.title())
}
"""The fields that most answers have, as they are usually spelled: these need no check, and no other spelling."""


class Answer(NamedTuple):
    """A response."""

    status: int
    content_type: str
    body: bytes


class MalformedAnswerError(Exception):
    """What the other side sent is not HTTP/1.1."""


class AnswerTooLargeError(Exception):
    """The body of the answer is larger than its limit; the rest was not read."""


class ConnectionClosedError(Exception):
    """The other side closed the connection before its answer was whole."""


class DeadlineExceededError(Exception):
    """The answer was not whole in time."""


class Connection(asyncio.Protocol):
    """A connection. Between requests it is idle: anything that arrives then closes it."""

    def __init__(self, on_lost: Callable[[Connection], None]) -> None:
        self.idle_since = 0.0
        self.is_open = False
        """True while another request may be sent."""
        self.has_begun = False
        """True once the head of the answer has arrived."""
        self._on_lost = on_lost
        self._transport: asyncio.Transport
        self._loop: asyncio.AbstractEventLoop
        self._deadline: Deadline
        self._waiter: asyncio.Future[Answer] | None = None
        self._received = bytearray()
        self._limit = 0
        self._answer: _Reader | None = None
        self._interim = 0

    async def exchange(self, request: bytes, limit: int, *, until: float = inf) -> Answer:
        """Send a request and return its answer, whose body has at most `limit` bytes.

        It must be whole at the time `until` of the event loop. A connection whose exchange fails or is cancelled is
        closed.

        Raises:
            MalformedAnswerError, AnswerTooLargeError, ConnectionClosedError, DeadlineExceededError, OSError
        """
        self.has_begun = False
        if not self.is_open:
            raise ConnectionClosedError
        self._limit, self._interim, self._answer = limit, 0, None
        waiter: asyncio.Future[Answer] = self._loop.create_future()
        self._waiter = waiter
        # Not asyncio.timeout, which sets and cancels a timer for each call. The timer of a connection stays set.
        self._deadline.set(until)
        try:
            self._transport.write(request)
            return await waiter
        except BaseException:
            self.close()
            raise
        finally:
            self._deadline.at = inf
            self._waiter = None

    @property
    def is_new(self) -> bool:
        """True until the connection was idle."""
        return self.idle_since == 0

    def close(self) -> None:
        """Close without waiting for what was not sent yet."""
        self.is_open = False
        self._transport.abort()

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is established, its certificate verified."""
        self._transport = cast("asyncio.Transport", transport)
        self._loop = asyncio.get_running_loop()
        self._deadline = Deadline(self._loop, self._late)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Read on in the answer."""
        if self._waiter is None or self._waiter.done():
            self.close()
            return
        try:
            if self._received or self._answer is not None or not self._read_at_once(data):
                self._received += data
                self._read()
        except (MalformedAnswerError, AnswerTooLargeError) as error:
            self._fail(error)

    def connection_lost(self, error: Exception | None) -> None:
        """Nothing more arrives."""
        self.is_open = False
        if self._waiter is not None and not self._waiter.done():
            if error is None and self._answer is not None and self._answer.head.ends_with_connection:
                self._finish(self._answer.head, bytes(self._received))
            else:
                self._fail(error if isinstance(error, OSError) else ConnectionClosedError())
        self._received.clear()
        self._deadline.close()
        self._on_lost(self)

    # -- reading

    def _read_at_once(self, data: bytes) -> bool:
        """Finish the exchange if these bytes are a whole answer of known length, as most are; else do nothing."""
        end = data.find(b"\r\n\r\n", 0, MAX_HEAD + 4)
        if end < 0:
            return False
        head = _read_short_head(data[:end]) if end <= SHORT_HEAD else _read_head(data[:end])
        if head.status < 200 or head.length is None or head.chunked or head.length != len(data) - end - 4:
            return False
        if head.length > self._limit:
            self.has_begun = True
            raise AnswerTooLargeError
        self._finish(head, data[end + 4 :])
        return True

    def _read(self) -> None:
        answer = self._answer or self._head()
        if answer is not None:
            body = answer.read(self._received, self._limit)
            if body is not None:
                self._finish(answer.head, body)

    def _head(self) -> _Reader | None:
        """The final head, if it has arrived."""
        while True:
            end = self._received.find(b"\r\n\r\n")
            if (end if end >= 0 else len(self._received)) > MAX_HEAD:
                raise MalformedAnswerError
            if end < 0:
                return None
            head = _read_head(bytes(self._received[:end]))
            del self._received[: end + 4]
            if head.status >= 200:
                self._answer, self.has_begun = _Reader(head), True
                return self._answer
            self._interim += 1
            # Another protocol (101) was not asked for.
            if head.status == 101 or self._interim > MAX_INTERIM:
                raise MalformedAnswerError

    def _finish(self, head: _Head, body: bytes) -> None:
        assert self._waiter is not None
        self.has_begun = True
        if self._received or not head.keeps_connection:
            self.close()
        self._received.clear()
        self._waiter.set_result(Answer(head.status, head.content_type, body))

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    def _late(self) -> None:
        self._fail(DeadlineExceededError())


class _Head:
    """The head of an answer."""

    __slots__ = ("chunked", "content_type", "keeps_connection", "length", "status")

    def __init__(
        self, status: int, content_type: str, length: int | None, *, chunked: bool, keeps_connection: bool
    ) -> None:
        self.status = status
        self.content_type = content_type
        self.length = length
        """The length of the body; None if the head does not have it."""
        self.chunked = chunked
        self.keeps_connection = keeps_connection
        """True if another request may follow."""

    @property
    def ends_with_connection(self) -> bool:
        """True if the body is all that arrives until the connection is closed."""
        return not self.chunked and self.length is None


class _Reader:
    """The head of an answer, and what was read of its body."""

    def __init__(self, head: _Head) -> None:
        self.head = head
        self._parts: list[bytes] = []
        self._size = 0
        self._left: int | None = None
        self._in_trailers = False

    def read(self, received: bytearray, limit: int) -> bytes | None:
        """Take what has arrived; the body if it is whole."""
        if self.head.chunked:
            return self._read_chunks(received, limit)
        length = self.head.length
        if (len(received) if length is None else length) > limit:
            raise AnswerTooLargeError
        if length is None or len(received) < length:
            return None
        body = bytes(received[:length])
        del received[:length]
        return body

    def _read_chunks(self, received: bytearray, limit: int) -> bytes | None:
        while True:
            if self._left is None or self._in_trailers:
                line = _take_line(received)
                if line is None:
                    return None
                if self._in_trailers:
                    # A line of trailers, each bounded; there may be as many as a body may have bytes.
                    if not line:
                        return b"".join(self._parts)
                    self._count(len(line), limit)
                    continue
                size = _chunk_size(line)
                if size is None:
                    raise MalformedAnswerError
                self._left = int(size[1], 16)
                self._in_trailers = self._left == 0
                self._count(self._left, limit)
            elif len(received) < self._left + 2:
                return None
            else:
                if received[self._left : self._left + 2] != b"\r\n":
                    raise MalformedAnswerError
                self._parts.append(bytes(received[: self._left]))
                del received[: self._left + 2]
                self._left = None

    def _count(self, size: int, limit: int) -> None:
        self._size += size
        if self._size > limit:
            raise AnswerTooLargeError


def _take_line(received: bytearray) -> bytes | None:
    end = received.find(b"\r\n", 0, MAX_CHUNK_LINE + 2)
    if end < 0:
        if len(received) > MAX_CHUNK_LINE:
            raise MalformedAnswerError
        return None
    line = bytes(received[:end])
    del received[: end + 2]
    return line


def _read_head(head: bytes) -> _Head:
    first, *lines = head.split(b"\r\n")
    matched = _status_line(first)
    if matched is None:
        raise MalformedAnswerError
    keep = matched[1] == b"1"
    content_type, length, chunked = "", None, False
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon:
            raise MalformedAnswerError
        match _FIELDS.get(name) or _field(name):
            case b"content-type":
                content_type = value.strip(b" \t").decode("latin-1")
            case b"content-length":
                value = value.strip(b" \t")
                if not value.isdigit() or len(value) > 18 or length not in (None, int(value)):
                    raise MalformedAnswerError
                length = int(value)
            case b"transfer-encoding":
                if chunked or value.strip(b" \t").lower() != b"chunked":
                    raise MalformedAnswerError
                chunked = True
            case b"connection":
                keep = keep and b"close" not in value.lower()
    status = int(matched[2])
    # Where both are given the length is not believed, nor is what follows the answer.
    keep = keep and not (chunked and length is not None)
    if status in _NO_CONTENT:
        return _Head(status, content_type, 0, chunked=False, keeps_connection=keep)
    return _Head(
        status, content_type, length, chunked=chunked, keeps_connection=keep and (chunked or length is not None)
    )


_read_short_head = lru_cache(maxsize=256)(_read_head)


def _field(name: bytes) -> bytes:
    """Return the name of a header field in small letters."""
    if _name(name) is None:
        raise MalformedAnswerError
    return name.lower()
