"""The head of a response, as bytes.

What never changes is rendered once: status lines when the module is loaded, the date once a second. A header that
would break out of its line is an error here and never reaches a peer.
"""

from __future__ import annotations

import time
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from kapi.api.errors import InternalError
from kapi.server.transport.message import Response

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
JSON: Final = [("Content-Type", "application/json")]

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_CLOSE = {False: "\r\n", True: "Connection: close\r\n\r\n"}


class _Date:
    """The Date header of this second."""

    __slots__ = ("_line", "_second")

    def __init__(self) -> None:
        self._second = 0
        self._line = ""

    def line(self) -> str:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._line = f"Date: {formatdate(second, usegmt=True)}\r\n"
        return self._line


_date = _Date()


def bodiless(status: int) -> bool:
    """Return True if a response of this status never has a body."""
    return status in {204, 304} or status < 200


def head(
    status: int, headers: list[tuple[str, str]], length: int | None, *, close: bool, chunked: bool = False
) -> bytes:
    """A response head. Without a `length` the body is `chunked`, or there is none, or it ends with the connection."""
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if fields.count("\n") != len(headers) or fields.count("\r") != len(headers):
        raise ValueError("a response header contains a line break")
    if length is not None:
        framing = f"Content-Length: {length}\r\n"
    else:
        framing = "Transfer-Encoding: chunked\r\n" if chunked else ""
    line = _STATUS_LINES.get(status) or f"HTTP/1.1 {status} \r\n"
    return f"{line}{_date.line()}{fields}{framing}{_CLOSE[close]}".encode()


def chunk(data: bytes | memoryview) -> bytes:
    """One chunk of a chunked body. An empty one would mean the end, so it must not be empty."""
    return b"".join((b"%x\r\n" % len(data), data, b"\r\n"))


def slices(first: bytes, parts: Sequence[bytes], size: int) -> Iterator[bytes | memoryview]:
    """`first` and then `parts`, in pieces of at most `size` bytes, so that no single write is long."""
    group = [first]
    space = size - len(first)
    for part in parts:
        if len(part) > space:
            yield b"".join(group)
            group, space = [], size
        if len(part) > size:
            view = memoryview(part)
            yield from (view[at : at + size] for at in range(0, len(part), size))
        else:
            group.append(part)
            space -= len(part)
    if group:
        yield b"".join(group)


def failure() -> Response:
    """Return the 500 for a handler that raised in spite of its contract; the log has the traceback."""
    error = InternalError.of("the server failed to handle the request")
    return Response(500, JSON, msgspec.json.encode(error.status()))
