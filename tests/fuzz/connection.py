"""HTTP over TLS to the server under test: no retries, and every end of a connection is told."""

import asyncio
import json
import ssl
from typing import NamedTuple

from .rawhttp import END

PATIENCE = 60
"""Seconds after which a request without an answer is a finding. Nothing valid takes half as long on a slow machine."""
A_MOMENT = 0.02
"""Seconds that a watch of the grammar is read for."""


class Hanging(Exception):
    """A request was not answered and its connection not closed."""


class Closed(Exception):
    """The server closed the connection before the answer was complete."""


class Answer(NamedTuple):
    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        """The body if it is JSON, else None."""
        if "json" not in self.headers.get("content-type", ""):
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class Connection:
    """One client: requests one after the other, on a connection that is opened again when it has ended."""

    def __init__(self, server):
        self._server = server
        self._streams = None

    async def _open(self):
        if self._streams is None or self._streams[0].at_eof() or self._streams[1].is_closing():
            self.close()
            self._streams = await asyncio.open_connection(
                "127.0.0.1", self._server.port, ssl=self._server.context, limit=1 << 24, server_hostname="127.0.0.1"
            )
        return self._streams

    def close(self):
        """Drop the connection."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def exchange(self, request, seen):
        """The answer to a request of the grammar; None if the server closed the connection without one, as it may."""
        try:
            async with asyncio.timeout(PATIENCE):
                if request.raw:
                    return await self._exchange_raw(request.raw)
                return await self._exchange(request, seen)
        except TimeoutError:
            self.close()
            raise Hanging from None
        except (OSError, EOFError, ssl.SSLError, asyncio.LimitOverrunError) as error:
            self.close()
            raise Closed(repr(error)) from None

    async def get(self, path):
        """A plain GET as the admin."""
        async with asyncio.timeout(PATIENCE):
            return await self._send("GET", path.encode(), self.credentials("admin"), None)

    async def put(self, method, path, body, content_type="application/json"):
        """A plain write as the admin."""
        async with asyncio.timeout(PATIENCE):
            data = json.dumps(body).encode()
            return await self._send(
                method, path.encode(), [*self.credentials("admin"), ("Content-Type", content_type.encode())], data
            )

    async def status(self, method, path, content_type, body):
        """The status of the answer to any body; 0 if the connection was closed."""
        try:
            async with asyncio.timeout(PATIENCE):
                headers = [*self.credentials("admin"), ("Content-Type", content_type.encode())]
                return (await self._send(method, path.encode(), headers, body)).status
        except (OSError, EOFError, ssl.SSLError):
            self.close()
            return 0

    def credentials(self, user):
        match user:
            case "admin":
                return [("Authorization", f"Bearer {self._server.token}".encode())]
            case "invalid":
                return [("Authorization", b"Bearer nonsense")]
            case _:
                return []

    async def _exchange(self, request, seen):
        target, headers = request.head(seen)
        data = await asyncio.to_thread(request.content, seen) if _is_large(request) else request.content(seen)
        answer = await self._send(
            request.method, target, [*self.credentials(request.user), *headers], data, is_watch=request.is_watch
        )
        if request.is_watch:
            self.close()
        return answer

    async def _send(self, method, target, headers, data, *, is_watch=False):
        reader, writer = await self._open()
        lines = [f"{method} ".encode(), target, b" HTTP/1.1\r\nHost: kapi\r\n"]
        lines += [b"%s: %s\r\n" % (name.encode(), value) for name, value in headers]
        if data is not None:
            lines.append(b"Content-Length: %d\r\n" % len(data))
        writer.write(b"".join(lines) + b"\r\n" + (data or b""))
        answer = await self._read(reader, has_body=method != "HEAD", is_watch=is_watch)
        if answer.headers.get("connection") == "close":
            self.close()
        return answer

    async def _read(self, reader, *, has_body=True, is_watch=False):
        status = 100
        while status < 200:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.split("\r\n")
            status = int(first.split(" ", 2)[1])
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        if not has_body or status in (204, 304):
            return Answer(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            return Answer(status, headers, await self._chunks(reader, is_watch=is_watch))
        return Answer(status, headers, await reader.readexactly(int(headers.get("content-length", 0))))

    async def _chunks(self, reader, *, is_watch):
        if is_watch:
            try:
                async with asyncio.timeout(A_MOMENT):
                    return await reader.read(1 << 16)
            except TimeoutError:
                return b""
        parts = []
        while size := int(await reader.readuntil(b"\r\n"), 16):
            parts.append((await reader.readexactly(size + 2))[:-2])
        await reader.readuntil(b"\r\n")
        return b"".join(parts)

    async def _exchange_raw(self, data):
        """Send bytes on a connection of their own; the answer, or None when the server only closed."""
        self.close()
        reader, writer = await self._open()
        writer.write(data.removesuffix(END))
        if data.endswith(END):
            await writer.drain()
            self.close()
            return None
        try:
            return await self._read(reader)
        except (OSError, EOFError, ssl.SSLError, ValueError):
            return None
        finally:
            self.close()

    async def watch(self, path):
        """The events of a watch, until it ends in whichever way."""
        reader, writer = await self._open()
        token = self.credentials("admin")[0][1].decode()
        writer.write(f"GET {path} HTTP/1.1\r\nHost: kapi\r\nAuthorization: {token}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        if " 200 " not in head.partition("\r\n")[0]:
            yield {"type": "ERROR", "object": {"code": int(head.split(" ", 2)[1])}}
            return
        pending = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            pending += (await reader.readexactly(size + 2))[:-2]
            *lines, pending = pending.split(b"\n")
            for line in lines:
                yield json.loads(line)


def _is_large(request):
    return "@" in str(request.tree)[:100_000]
