"""A server on loopback that lies: a function decides, for each request, what bytes it sends back.

It speaks just enough HTTP for that, and counts what it was asked. Bodies without end are written until the client has
closed the connection, or `most` bytes are sent, so that a client without bounds fails a test instead of the machine.
"""

import asyncio
import contextlib
import gzip
import json
from urllib.parse import parse_qs, urlsplit

from kapi.client import ClientConfig

MIB = 1024 * 1024


class LyingServer:
    """Calls `answer(server, path, query, writer)` for each request; see `head`, `send` and `chunks`."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.sent = 0
        self._talks = {}

    @contextlib.asynccontextmanager
    async def serving(self, **bounds):
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        try:
            yield ClientConfig(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", **bounds)
        finally:
            server.close()
            await asyncio.sleep(0)  # for a connection that is just being accepted
            for task, writer in self._talks.items():
                task.cancel()
                writer.transport.abort()
            await asyncio.gather(*self._talks, return_exceptions=True)
            await asyncio.sleep(0)

    def _accept(self, reader, writer):
        self._talks[asyncio.ensure_future(self._talk(reader, writer))] = writer

    async def _talk(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while not writer.is_closing():
                line = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].decode()
                target = urlsplit(line.split(" ")[1])
                query = {key: values[0] for key, values in parse_qs(target.query).items()}
                self.requests.append((target.path, query))
                await self.answer(self, target.path, query, writer)
                await writer.drain()
        writer.close()

    def verbs(self):
        """What was asked, as list, continue, stream or watch."""
        return [
            ("stream" if "sendInitialEvents" in query else "watch")
            if "watch" in query
            else ("continue" if "continue" in query else "list")
            for path, query in self.requests
            if "configmaps" in path
        ]

    async def endless(self, writer, piece, most):
        """Write `piece` again and again; returns once the client is gone or `most` bytes are sent."""
        while self.sent < most and not writer.is_closing():
            writer.write(piece)
            self.sent += len(piece)
            await writer.drain()


def head(status=200, content_type="application/json", **headers):
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {content_type}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def send(writer, document, **headers):
    """Answer with a document: an object, or bytes."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    writer.write(head(content_length=len(body), **headers) + body)


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def config_map(name, revision=5):
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(revision)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def page(names, token="", revision=10):
    metadata = {"resourceVersion": str(revision), **({"continue": token} if token else {})}
    return {"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": [config_map(n) for n in names]}


def event(kind, obj):
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def bomb(megabytes):
    """The gzip of a list with one object of spaces: about a thousandth of its size."""
    spaces = b" " * MIB
    opening, closing = b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[', b"]}"
    return gzip.compress(opening + spaces * megabytes + closing, 9)
