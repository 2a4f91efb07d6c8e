"""Bytes in, whole requests out: where one request ends and the next begins, decided strictly.

The parser is llhttp, in its strict mode. It refuses most of what could be read two ways (both lengths, bad chunk
ends, folded headers, bare line feeds); the rules it leaves to its user are here. No sockets, no clock: a connection
feeds this and watches `state`, and tests feed it bytes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NoReturn

import httptools
import msgspec

from kapi.api.errors import BadRequest, RequestTimeout
from kapi.server.transport.message import Request

if TYPE_CHECKING:
    from kapi.api.errors import ApiError
    from kapi.server.transport.arrival import Arrival
    from kapi.server.transport.limits import Limits
    from kapi.server.transport.message import Peer

IDLE: Final = 0
"""Between requests."""
HEAD: Final = 1
"""Inside a request line or headers."""
BODY: Final = 2
"""Inside a body."""

# Parsed at a time. A read may hold thousands of tiny requests; after each slice we look whether enough of them wait.
_SLICE = 16 * 1024
_CHUNK_ALLOWANCE = 16
_NAMING_USERS = ("impersonate-", "x-remote-")
_SINGLE = frozenset({"authorization", "content-length", "expect", "host", "transfer-encoding"})
_METHODS = {name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT")}

# Header names as sent, to lower case. Clients send few different ones; a peer that makes names up must not fill memory.
_NAMES: dict[bytes, str] = {}
_NAMES_KEPT = 1024
_NAME_LENGTH_KEPT = 64

Incoming = tuple[Request, bool, bool]
"""A request, whether its connection may be used again, and whether it is HTTP/1.1."""


class Refusal(Exception):
    """A request that is answered by the transport itself; nothing after it on the connection is read."""

    def __init__(self, code: int, message: str, reason: str = "BadRequest") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason

    def error(self) -> ApiError:
        """Return the same as an error of the API, for a request that the handler has already."""
        return RequestTimeout(self.message) if self.code == RequestTimeout.code else BadRequest(self.message)

    def body(self) -> bytes:
        """The Status that says why."""
        status: dict[str, Any] = BadRequest(self.message).status()
        return msgspec.json.encode(status | {"reason": self.reason, "code": self.code})


class _Stop(Exception):
    """Raised in a parser callback to make the parser stop where it is."""


class RequestReader:
    """The receiving half of a connection.

    Whole requests are appended to `queue` in the order they came. The first thing that cannot be accepted is appended
    as a `Refusal`, and `ended` is set: from then on input is ignored, so nothing behind a doubtful request is ever
    taken for a request. `ended` is also set behind a request that asked for the connection to close.

    At most `limits.pipeline` requests (and what one slice adds) wait in `queue`; further input is kept in `held`
    until `resume` is called.

    A request whose body will be long (`early`) can be queued before the body is whole, by `hand_over`. Its `arrival`
    is told how that ends.
    """

    __slots__ = (
        "_body",
        "_chunks",
        "_current",
        "_head_raw",
        "_head_size",
        "_header_count",
        "_headers",
        "_limits",
        "_parser",
        "_peer",
        "_postponed",
        "_raw",
        "_target",
        "begun",
        "body_size",
        "continue_due",
        "early",
        "ended",
        "held",
        "queue",
        "state",
    )

    def __init__(self, peer: Peer, limits: Limits) -> None:
        self._peer = peer
        self._limits = limits
        self._parser = httptools.HttpRequestParser(self)
        self.queue: deque[Incoming | Refusal] = deque()
        self.state = IDLE
        self.begun = 0
        """Requests of which the first byte has been seen."""
        self.body_size = 0
        """Bytes of the present body that have arrived."""
        self.continue_due = False
        """The peer waits for `100 Continue` before it sends the body."""
        self.early = False
        """The present request should be authenticated before more of its body is read; see `hand_over`."""
        self.ended = False
        self.held = b""
        self._target = b""
        self._headers: dict[str, str] = {}
        self._header_count = 0
        self._head_size = 0
        self._head_raw = 0
        self._body: bytes | bytearray = b""
        self._chunks = 0
        self._raw = 0
        self._current: Incoming | None = None
        self._postponed = False

    def feed(self, data: bytes) -> None:
        """Take what the socket gave."""
        if self.ended:
            return
        if not self.held and len(data) <= _SLICE and len(self.queue) < self._limits.pipeline:
            self._parse(data)
        else:
            self.held = self.held + data if self.held else data
            self.resume()

    def resume(self) -> None:
        """Parse what is held, until enough requests wait again."""
        view = memoryview(self.held)
        at = 0
        while at < len(view) and len(self.queue) < self._limits.pipeline and not self.ended:
            self._parse(view[at : at + _SLICE])
            at += _SLICE
        self.held = b"" if self.ended else bytes(view[at:])

    @property
    def unfinished_size(self) -> int:
        """Bytes kept of the request that is not whole yet, and of what waits behind it."""
        return len(self._body) + len(self.held) + (self._head_raw if self.state == HEAD else 0)

    def hand_over(self, arrival: Arrival) -> None:
        """Queue the present request, of which the headers are whole and the body is not."""
        assert self._current is not None
        self.early = False
        self._current[0].arrival = arrival
        self.queue.append(self._current)

    def stop(self) -> None:
        """Read no more, and drop what is not whole."""
        self.ended = True
        self.continue_due = self.early = False
        self.held = self._body = b""

    def close(self) -> None:
        """Read no more, and break the reference cycles: with the parser, and through an arrival with the connection."""
        self.stop()
        self.queue.clear()
        self._current = None
        del self._parser

    def refuse(self, refusal: Refusal) -> None:
        """End the input with an answer of our own, behind the requests that wait.

        A request that was handed over is answered by its handler, which learns of the refusal from the arrival.
        """
        self.stop()
        arrival = self._current[0].arrival if self._current is not None else None
        if arrival is not None:
            arrival.fail(refusal.error())
        else:
            self.queue.append(refusal)

    def _parse(self, data: bytes | memoryview) -> None:
        begun = self.begun if self.state == BODY else -1
        size = len(data)
        try:
            while True:
                try:
                    self._parser.feed_data(data)
                    break
                except httptools.HttpParserUpgrade as upgrade:
                    # `Upgrade` is ours to ignore; the parser stopped in front of the body or of the next request.
                    data = data[upgrade.args[0] :]
                    self._read_postponed_body()
        except httptools.HttpParserError as error:
            self._stop(error)
            return
        # A request cut off in its head, or in a chunk's framing, has told the callbacks nothing: count what was fed.
        if self.state == HEAD:
            self._head_raw += size
            if self._head_raw > self._limits.head + _SLICE:
                self.refuse(_head_too_large())
        elif self.state == BODY and self.begun == begun:
            self._raw += size
            overhead = self._raw - self.body_size - self._chunks * _CHUNK_ALLOWANCE
            if overhead > self._limits.chunk_overhead:
                self.refuse(Refusal(400, "the chunked body contains too much that is not data"))

    def _stop(self, error: httptools.HttpParserError) -> None:
        """The parser gave up; unless we had all we wanted, that is the peer's fault."""
        if self.ended:
            return
        cause = error.__context__
        if isinstance(cause, Refusal):
            self.refuse(cause)
        elif isinstance(error, httptools.HttpParserCallbackError):
            self.refuse(Refusal(400, "the request is malformed: a header is not valid UTF-8"))
        else:
            self.refuse(Refusal(400, f"the request is malformed: {error}"))

    def _read_postponed_body(self) -> None:
        """Go on with the body of a request whose `Upgrade` header made the parser skip it.

        Without this the body would be read as the next request. The parser is told the same framing again with a head
        of our own; `state` is BODY, which makes the head callbacks ignore it.
        """
        if not self._postponed:
            return
        self._postponed = False
        length = self._headers.get("content-length")
        framing = f"Content-Length: {length}" if length else "Transfer-Encoding: chunked"
        self._parser.feed_data(f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode())

    # What the parser calls, in this order.

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        if self.ended:
            raise _Stop
        if self.state == BODY:
            return
        self.state = HEAD
        self.begun += 1
        self._target = b""
        self._headers = {}
        self._header_count = self._head_size = self._head_raw = 0

    def on_url(self, part: bytes) -> None:
        """The target, perhaps in parts."""
        if self.state == BODY:
            return
        self._target = self._target + part if self._target else part
        if len(self._target) > self._limits.target:
            raise Refusal(414, f"the request target is longer than {self._limits.target} bytes", "")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or one trailer; trailers are ignored."""
        if self.state != HEAD:
            return
        self._header_count += 1
        self._head_size += len(name) + len(value) + 4
        if self._head_size > self._limits.head or self._header_count > self._limits.headers:
            raise _head_too_large()
        key = _NAMES.get(name) or _lower(name)
        text = value.decode().rstrip(" \t")
        if key not in self._headers:
            self._headers[key] = text
        elif key in _SINGLE:
            raise Refusal(400, f"the header {key} is given more than once")
        else:
            # Names of groups may have commas in them.
            separator = "\n" if key.startswith(_NAMING_USERS) else ", "
            self._headers[key] = f"{self._headers[key]}{separator}{text}"

    def on_headers_complete(self) -> None:
        """The head is whole: decide whether it makes a request, and how its body ends."""
        if self.state == BODY:
            return
        headers = self._headers
        version = self._parser.get_http_version()
        modern = version == "1.1"
        if not modern and version != "1.0":
            raise Refusal(505, f"HTTP version {version} is not supported", "")
        if modern and "host" not in headers:
            raise Refusal(400, "the header host is missing")
        name = self._parser.get_method()
        method = _METHODS.get(name) or name.decode()
        path, query = _split_target(self._target.decode("ascii"), method)
        request = Request(method, path, query, headers, b"", self._peer)
        self._current = (request, modern and self._parser.should_keep_alive(), modern)
        self.state = BODY
        self._body = b""
        self.early = False
        self.body_size = self._chunks = self._raw = 0
        if "transfer-encoding" in headers or "content-length" in headers or "expect" in headers:
            self._prepare_body(request, modern=modern)

    def _prepare_body(self, request: Request, *, modern: bool) -> None:
        headers = request.headers
        coding = headers.get("transfer-encoding")
        if coding is not None and (not modern or coding.lower() != "chunked"):
            raise Refusal(400, "the only transfer-encoding understood is chunked, in HTTP/1.1")
        length = int(headers.get("content-length", 0))
        if length > self._limits.body:
            self._give_up_body()
        expect = headers.get("expect")
        if expect is not None and modern:
            if expect.lower() != "100-continue":
                raise Refusal(417, "the only expectation understood is 100-continue", "")
            self.continue_due = coding is not None or length > 0
        self.early = coding is not None or length > self._limits.free or self.continue_due
        self._postponed = "upgrade" in headers and self._parser.should_upgrade() and (coding is not None or length > 0)

    def on_chunk_header(self) -> None:
        """A chunk begins."""
        self._chunks += 1

    def on_body(self, part: bytes) -> None:
        """Some of the body."""
        self.body_size += len(part)
        if self.body_size > self._limits.body:
            self._give_up_body()
        if not self._body:
            self._body = part
            return
        # One buffer and not a list of parts: a peer may send every byte as a chunk of its own.
        if isinstance(self._body, bytes):
            self._body = bytearray(self._body)
        self._body += part

    def on_message_complete(self) -> None:
        """The request is whole, unless its body was skipped for an upgrade."""
        if self._postponed:
            return
        current = self._current
        assert current is not None
        self._current = None
        request, reusable, _ = current
        if self._body:
            request.body = bytes(self._body)
            self._body = b""
        self.state = IDLE
        self.continue_due = self.early = False
        if not reusable:
            self.ended = True
        self._complete(current)

    def _complete(self, current: Incoming) -> None:
        """Queue a request of which all was read; one that was handed over has its place already."""
        arrival = current[0].arrival
        if arrival is None:
            self.queue.append(current)
        else:
            arrival.finish()

    def _give_up_body(self) -> NoReturn:
        """The body is too long: hand the request on without it, and read no more."""
        assert self._current is not None
        request, _, modern = self._current
        request.oversized = True
        self._body = b""
        self._current = None
        self.ended = True
        self.continue_due = self.early = False
        self._complete((request, False, modern))
        raise _Stop


def _head_too_large() -> Refusal:
    return Refusal(431, "the request headers are too large", "")


def _lower(name: bytes) -> str:
    key = name.decode("ascii").lower()
    if len(_NAMES) < _NAMES_KEPT and len(name) <= _NAME_LENGTH_KEPT:
        _NAMES[name] = key
    return key


def _split_target(target: str, method: str) -> tuple[str, str]:
    """Path and query of a target in origin-form or absolute-form."""
    if method == "CONNECT":
        raise Refusal(405, "CONNECT is not supported", "MethodNotAllowed")
    if "#" in target:
        raise Refusal(400, "the request target has a fragment")
    if not target.startswith("/"):
        if target == "*" and method == "OPTIONS":
            return target, ""
        scheme, _, rest = target.partition("://")
        if scheme.lower() not in {"http", "https"}:
            raise Refusal(400, "the request target is neither a path nor an http URL")
        authority = rest.partition("?")[0].partition("/")[0]
        target = "/" + rest[len(authority) :].removeprefix("/")
    path, _, query = target.partition("?")
    return path, query
