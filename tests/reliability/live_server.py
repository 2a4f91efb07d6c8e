"""A real server in a process of its own, and a client that speaks HTTP over TLS to it and hides nothing.

The client is small on purpose: one connection, one request at a time, and every way a connection can end is either a reply or
`Disconnected`. A library that retries, pools or reconnects by itself would blur what the server did.
"""

import asyncio
import contextlib
import json
import os
import re
import resource
import ssl
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PATIENCE = 60
"""Seconds after which something that must happen is taken to have failed. A guard, not a measurement."""


class Disconnected(Exception):
    """The connection ended before the answer did."""


class LiveServer:
    """`kapi up` on a data directory. Can be started again after it has ended; it then keeps its port.

    By default it publishes no certificate, because most loads write ConfigMaps and look at all there are.
    """

    module = "kapi.cli.main"
    """What is run; a subclass may run a server with a planted bug."""

    def __init__(
        self, directory: Path, *arguments, environment=None, controllers="-root-ca-certificate-publisher-controller"
    ):
        self.directory = directory
        self.arguments = (f"--controllers={controllers}", *arguments)
        self.environment = environment or {}
        self.port = 0
        self.process = None
        self.log_path = directory.with_name(f"{directory.name}.log")
        self._context = None

    def start(self):
        """Start it and wait until it is ready."""
        command = [sys.executable, "-m", self.module, "up", "--data-dir", str(self.directory)]
        command += ["--bind", f"127.0.0.1:{self.port}", *self.arguments]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env={**os.environ, **self.environment}
            )
        self.ready_line = self.process.stdout.readline().decode()
        found = re.search(r"https://127\.0\.0\.1:(\d+)", self.ready_line)
        assert found, f"not ready: {self.ready_line!r} {self.log[-2000:]}"
        self.port = int(found[1])
        return self

    def kill(self):
        """End it as a crash would."""
        self.process.kill()
        self._collect()

    def terminate(self):
        """Ask it to end."""
        self.process.terminate()

    def wait(self):
        """Its exit status."""
        try:
            return self.process.wait(PATIENCE)
        finally:
            self._collect()

    def _collect(self):
        if self.process.poll() is None:
            self.process.kill()
        self.output = self.process.stdout.read().decode()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if not self.process.stdout.closed:
            self.kill()

    @property
    def log(self):
        """What it has written to standard error, over all its lives."""
        return self.log_path.read_text()

    @property
    def token(self):
        return (self.directory / "pki/admin.token").read_text().strip()

    @property
    def context(self):
        """TLS as a client needs it: it trusts this server's CA only."""
        if self._context is None:
            self._context = ssl.create_default_context(cafile=self.directory / "pki/ca.crt")
        return self._context

    def memory(self, field="VmRSS"):
        """Resident memory in bytes; `VmHWM` for the most it ever was."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{field}:\s+(\d+) kB", status)[1]) * 1024

    def limit_file_size(self, size):
        """From now on no file can grow beyond this: to the process a disk that refuses to write."""
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, size))


class Reply(NamedTuple):
    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class Line:
    """One connection to a server."""

    def __init__(self, reader, writer, token):
        self._reader = reader
        self._writer = writer
        self._credentials = f"Authorization: Bearer {token}\r\n" if token else ""

    @classmethod
    async def open(cls, server, token=None):
        """Connect as the admin, with another token, or (`""`) as an anonymous user."""
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", server.port, ssl=server.context, limit=1 << 23, server_hostname="127.0.0.1"
                )
        except (OSError, ssl.SSLError) as error:
            raise Disconnected(str(error)) from None
        return cls(reader, writer, server.token if token is None else token)

    def close(self):
        """Drop the connection."""
        self._writer.transport.abort()

    async def send(self, method, path, body=None, content_type="application/json", headers=()):
        """Send a request and wait for nothing. `body` may be an object."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        extra = "".join(f"{name}: {value}\r\n" for name, value in dict(headers).items())
        if body is not None:
            extra += f"Content-Type: {content_type}\r\nContent-Length: {len(data)}\r\n"
        self._writer.write(f"{method} {path} HTTP/1.1\r\nHost: kapi\r\n{self._credentials}{extra}\r\n".encode() + data)

    async def request(self, method, path, body=None, content_type="application/json", headers=()):
        """One request and its answer."""
        await self.send(method, path, body, content_type, headers)
        return await self.reply()

    async def reply(self):
        """The next answer."""
        with _as_disconnected():
            async with asyncio.timeout(PATIENCE):
                status, headers = await self._head()
                length = int(headers.get("content-length", 0))
                return Reply(status, headers, await self._reader.readexactly(length) if length else b"")

    async def _head(self):
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.splitlines()
        pairs = (line.split(": ", 1) for line in lines if line)
        return int(first.split(" ", 2)[1]), {name.lower(): value for name, value in pairs}

    async def watch(self, path):
        """The events of a watch, until the server ends it properly; anything else is `Disconnected`."""
        await self.send("GET", path)
        with _as_disconnected():
            status, headers = await self._head()
            if status != 200:
                body = await self._reader.readexactly(int(headers.get("content-length", 0)))
                raise AssertionError(f"a watch was answered {status}: {body.decode()}")
            pending = b""
            while size := int(await self._reader.readline() or b"-1", 16):
                if size < 0:
                    raise Disconnected("the stream ended without its last chunk")
                pending += (await self._reader.readexactly(size + 2))[:-2]
                *lines, pending = pending.split(b"\n")
                for line in lines:
                    yield json.loads(line)
            assert await self._reader.readexactly(2) == b"\r\n"
            assert not pending, "the stream ended inside an event"

    async def ended(self):
        """Wait for the server to close the connection; whether it did so without sending more."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            async with asyncio.timeout(PATIENCE):
                return await self._reader.read(1) == b""
        return True


@contextlib.contextmanager
def _as_disconnected():
    try:
        yield
    except (OSError, EOFError, ssl.SSLError) as error:
        if isinstance(error, TimeoutError):
            raise
        raise Disconnected(repr(error)) from None


async def metric(line, name):
    """The value of one series of /metrics; 0 when it is not there yet."""
    text = (await line.request("GET", "/metrics")).body.decode()
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


async def until(condition, *, pause=0.02):
    """Wait until a coroutine function returns True; fail after `PATIENCE` seconds."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110 (what is waited for is in another process)
            await asyncio.sleep(pause)
