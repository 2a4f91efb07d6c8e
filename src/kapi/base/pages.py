"""A very small HTTP server for pages about a process: is it well, is it ready, its metrics.

For programs that are no servers otherwise. GET and HEAD only, one request per connection, everything bounded; a page
that raises is a 500 and a line in the log. What serves an API is another server altogether.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, NamedTuple, Self

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HEAD_BYTES = 16 * 1024
SECONDS = 10.0
CONNECTIONS = 64

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error"}
_TEXT = "text/plain; charset=utf-8"
_log = structlog.get_logger("kapi.base")


class Page(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    content_type: str = _TEXT


class PageServer:
    """Serves pages by their path. Used as `async with`; `port` is the real one once it has started."""

    def __init__(self, pages: Mapping[str, Callable[[], Page]], *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._pages = pages
        self._host = host
        self.port = port
        self._server: asyncio.Server | None = None
        self._room = asyncio.Semaphore(CONNECTIONS)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._host, self.port, limit=HEAD_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._room, asyncio.timeout(SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                method, page = self._answer(head)
                writer.write(_encoded(page, with_body=method != "HEAD"))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the peer left, dawdled, or sent what is no request
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _answer(self, head: bytes) -> tuple[str, Page]:
        parts = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return "", Page(400, b"bad request\n")
        method, path = parts[0], parts[1].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return method, Page(405, b"method not allowed\n")
        make = self._pages.get(path)
        if make is None:
            return method, Page(404, b"page not found\n")
        try:
            return method, make()
        except Exception:
            _log.exception("a page could not be made", path=path)
            return method, Page(500, b"internal error\n")


def _encoded(page: Page, *, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {page.status} {_REASONS.get(page.status, 'Error')}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (page.body if with_body else b"")
