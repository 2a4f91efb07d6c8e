"""A server to be a client of: a real one, and one that says what a test wants to hear."""

import asyncio
import contextlib

import pytest

from kapi.base.tls import Authority, KeyPair, server_context
from kapi.client import ClientConfig
from live_plane import NO_MAPS, live_plane


@pytest.fixture(scope="session")
def admin(tmp_path_factory):
    """The admin's config of a running control plane."""
    with live_plane(tmp_path_factory.mktemp("client"), NO_MAPS) as kubeconfig:
        yield ClientConfig.from_kubeconfig(kubeconfig)


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch, tmp_path):
    """No test finds the developer's own cluster."""
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", *proxies):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


CUT = object()


class Script:
    """An HTTP server on loopback that answers with the next of `answers`, whatever it is asked.

    An answer is bytes, or a list of them which are sent piece by piece, or CUT, which is a connection reset. What was
    asked is in `requests`. With `files`, a certificate and its key, it speaks TLS.
    """

    def __init__(self, answers, files=None):
        self.answers = list(answers)
        self.files = files
        self.requests = []
        self.url = ""
        self._talks = {}

    @contextlib.asynccontextmanager
    async def serving(self):
        context = server_context(self.files) if self.files else None
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=context)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield ClientConfig(self.url)
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
        try:
            await self._serve(reader, writer)
        finally:
            writer.close()

    async def _serve(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.lower().split(b"\r\n")
                        if line.startswith(b"content-length")
                    ),
                    0,
                )
                self.requests.append(head.decode() + (await reader.readexactly(length)).decode())
                if not self.answers:
                    break
                answer = self.answers.pop(0)
                if answer is CUT:
                    writer.transport.abort()
                    break
                for piece in answer if isinstance(answer, list) else [answer]:
                    writer.write(piece)
                    await writer.drain()
                if b"connection: close" in (answer[0] if isinstance(answer, list) else answer).lower():
                    break


def http(status, body=b"", content_type="application/json", **headers):
    """An answer, as bytes."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.fixture
def script():
    return Script


@pytest.fixture
def cut():
    return CUT


@pytest.fixture
def authority(tmp_path):
    """An authority, and a certificate of a server on loopback that it issued."""
    made = Authority.ensure(KeyPair(tmp_path / "ca.crt", tmp_path / "ca.key"), "test")
    files = KeyPair(tmp_path / "server.crt", tmp_path / "server.key")
    made.ensure_server(files, ["127.0.0.1"])
    return made.files.certificate, files


@pytest.fixture(name="http")
def _http():
    return http
