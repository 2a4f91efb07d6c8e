"""The handler without a socket: the same pipeline, called from inside the process.

What runs in the control plane itself (controllers, bootstrap, tests) talks to the API through this and is
authenticated, authorized and admitted like any other client, as the user the transport was made for.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Self

from kapi.api.limits import MIB
from kapi.server.transport import wire
from kapi.server.transport.limits import Limits
from kapi.server.transport.message import Body, Peer, Request, StreamResponse, UpgradeResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from types import TracebackType

    from kapi.server.transport.message import Handler, Stream

log = logging.getLogger(__name__)

_HIGH = 64 * 1024
"""With this many bytes pending on a stream, `drain` waits."""


class Reply:
    """An answer. Iterate over its chunks, or `read` all of them; leave a stream early by `async with` or `aclose`.

    The chunks of a stream arrive exactly as they were written. If the stream is dropped by its writer, because it was
    not read, iteration ends with `ConnectionResetError`, as on a socket.
    """

    def __init__(self, status: int, headers: list[tuple[str, str]], source: bytes | _Pipe) -> None:
        self.status = status
        self.headers = headers
        self._source = source

    async def read(self) -> bytes:
        """The whole body."""
        if isinstance(self._source, bytes):
            return self._source
        return b"".join([chunk async for chunk in self])

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if isinstance(self._source, bytes):
            chunk, self._source = self._source, b""
        else:
            chunk = await self._source.get()
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """Leave; the writer of a stream is told and has returned when this returns."""
        if not isinstance(self._source, bytes):
            await self._source.leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class InProcessTransport:
    """Calls `handler` as `user` in `groups`.

    At most `buffer` bytes of a stream wait for their reader; one more chunk and the stream is dropped.
    """

    def __init__(
        self,
        handler: Handler,
        user: str = "system:apiserver",
        groups: tuple[str, ...] = ("system:masters",),
        *,
        limits: Limits | None = None,
        buffer: int = 16 * MIB,
    ) -> None:
        self._handler = handler
        self._peer = Peer("in-process", local=(user, groups))
        self._limits = limits or Limits()
        self._buffer = buffer
        self._pipes: dict[_Pipe, None] = {}  # in the order in which they were opened

    def acting_as(self, user: str, groups: tuple[str, ...] = ()) -> InProcessTransport:
        """Return a transport to the same handler for another user."""
        return InProcessTransport(self._handler, user, groups, limits=self._limits, buffer=self._buffer)

    async def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        """Have one request answered. `target` is a path with an optional query, percent-encoded as on the wire."""
        path, _, query = target.partition("?")
        oversized = len(body) > self._limits.body
        request = Request(
            method,
            path,
            query,
            {name.lower(): value for name, value in (headers or {}).items()},
            b"" if oversized else body,
            self._peer,
            oversized=oversized,
        )
        try:
            response = await self._handler(request)
        except Exception:
            log.exception("handling %s %s failed", method, path)
            response = wire.failure()
        if isinstance(response, UpgradeResponse):
            response.end()
            return Reply(501, wire.JSON, b"{}")
        if isinstance(response, StreamResponse):
            if method == "HEAD":
                response.end()
                return Reply(response.status, response.headers, b"")
            pipe = _Pipe(self._buffer, self._limits.stream_stop)
            self._pipes[pipe] = None
            pipe.start(response, self._closed)
            return Reply(response.status, response.headers, pipe)
        whole = b"" if method == "HEAD" else await _whole(response.body)
        return Reply(response.status, response.headers, whole)

    def _closed(self, pipe: _Pipe) -> None:
        self._pipes.pop(pipe, None)

    async def close(self) -> None:
        """End all streams cleanly: their writers are told, their readers get what was written."""
        for pipe in tuple(self._pipes):
            await pipe.leave()


async def _whole(body: bytes | Sequence[bytes] | Body) -> bytes:
    if isinstance(body, bytes):
        return body
    return b"".join([piece async for piece in body.pieces()] if isinstance(body, Body) else body)


class _Pipe:
    """Both ends of a stream: the `Stream` its writer sees, and `get` for its reader."""

    def __init__(self, limit: int, patience: float) -> None:
        loop = asyncio.get_running_loop()
        self._limit = limit
        self._patience = patience
        self._chunks: deque[bytes | memoryview] = deque()
        self._change = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._dropped = False
        self._over = False
        self._task: asyncio.Task[None] | None = None
        self.pending = 0
        self.closed: asyncio.Future[None] = loop.create_future()

    def start(self, response: StreamResponse, gone: Callable[[_Pipe], None]) -> None:
        """Start the writer."""

        def ended(_: asyncio.Task[None]) -> None:
            # Here and not in `_run`: a task that is cancelled before its first step never runs.
            response.end()
            gone(self)

        self._task = asyncio.get_running_loop().create_task(self._run(response.run))
        self._task.add_done_callback(ended)

    async def _run(self, run: Callable[[Stream], Awaitable[None]]) -> None:
        try:
            await run(self)
        except Exception:
            log.exception("stream failed")
            self._dropped = True
        finally:
            self._over = True
            self._end()
            self._change.set()

    # The writer's end.

    @property
    def is_full(self) -> bool:
        """True while the reader has not caught up."""
        return not self._writable.is_set()

    def write(self, data: bytes | memoryview) -> None:
        """Hand one chunk to the reader."""
        if not data or self.closed.done():
            return
        self._chunks.append(data)
        self.pending += len(data)
        self._change.set()
        if self.pending > self._limit:
            self.abort()
        elif self.pending >= _HIGH:
            self._writable.clear()

    framing: object = None
    """Chunks are handed over as they are."""

    def frame(self, data: bytes) -> bytes:
        """What `write` would hand over."""
        return data

    def write_framed(self, framed: bytes) -> bool:
        """Hand over what `frame` returned; returns True if the reader has not caught up."""
        self.write(framed)
        return self.is_full

    async def drain(self) -> None:
        """Wait until the reader has caught up, or has gone."""
        await self._writable.wait()

    def abort(self) -> None:
        """Drop the stream with what is pending."""
        self._dropped = True
        self._chunks.clear()
        self.pending = 0
        self._end()
        self._change.set()

    def _end(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        self._writable.set()

    # The reader's end.

    async def get(self) -> bytes:
        """The next chunk, or nothing at the end."""
        while not self._chunks:
            if self._dropped:
                raise ConnectionResetError("the stream was dropped")
            if self._over:
                return b""
            self._change.clear()
            await self._change.wait()
        chunk = self._chunks.popleft()
        self.pending -= len(chunk)
        if self.pending < _HIGH:
            self._writable.set()
        return bytes(chunk)

    async def leave(self) -> None:
        """Tell the writer to stop and wait for it; one that does not return soon is cancelled."""
        self._end()
        if self._task is not None:
            _, late = await asyncio.wait([self._task], timeout=self._patience)
            for task in late:
                task.cancel()
                await asyncio.wait([task])
