"""An admission webhook on loopback for the load: it labels what it is asked to change, and allows everything.

It runs as a process of its own, so that it takes no time of the load generator: `python -m bench.webhook FOLDER`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from bench.client import LoadError
from bench.target import HOST, Process
from kapi.base.loop import run
from kapi.base.tls import Authority, KeyPair, server_context

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 30.0
MUTATE, VALIDATE = "/mutate", "/validate"

_PATCH = base64.b64encode(b'[{"op":"add","path":"/metadata/labels/webhook","value":"called"}]')
_PATCHED = b',"patchType":"JSONPatch","patch":"' + _PATCH + b'"'
_uid = re.compile(rb'"uid":"([^"]+)"').search
"""The first uid of a review is that of its request."""
_length = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE).search


class Endpoint(NamedTuple):
    """Where the webhook is, and the CA that its certificate is from."""

    port: int
    bundle: str


class _Connection(asyncio.Protocol):
    """One connection: a request at a time is answered."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer a request that is whole."""
        self._data += data
        head, end, rest = self._data.partition(b"\r\n\r\n")
        length = _length(head)
        if end and length is not None and len(rest) >= int(length[1]):
            self._data = b""
            self._transport.write(_answer(head, rest))


def _answer(head: bytes, review: bytes) -> bytes:
    uid = _uid(review)
    assert uid is not None
    patch = _PATCHED if head.startswith(f"POST {MUTATE}".encode()) else b""
    body = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"' + (
        uid[1] + b'","allowed":true' + patch + b"}}"
    )
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def configurations(endpoint: Endpoint, namespace: str) -> list[tuple[str, bytes]]:
    """The paths and bodies of a mutating and a validating configuration for the ConfigMaps of a namespace."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    made = []
    for kind, path in (("mutating", MUTATE), ("validating", VALIDATE)):
        webhook = {
            "name": f"{kind}.bench.example.dev",
            "clientConfig": {"url": f"https://{HOST}:{endpoint.port}{path}", "caBundle": endpoint.bundle},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        body = json.dumps({"metadata": {"name": "bench"}, "webhooks": [webhook]}).encode()
        made.append((f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations", body))
    return made


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Endpoint]:
    """Run the webhook in a process."""
    folder.mkdir(parents=True, exist_ok=True)
    process = Process([sys.executable, "-m", "bench.webhook", str(folder)], folder / "log")
    try:
        deadline = time.monotonic() + START_SECONDS
        while not (folder / "port").exists():
            process.check()
            if time.monotonic() > deadline:
                raise LoadError("the webhook does not start")
            time.sleep(0.05)
        bundle = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
        yield Endpoint(int((folder / "port").read_text()), bundle)
    finally:
        process.stop()


async def _serve(folder: Path) -> None:
    authority = Authority.ensure(KeyPair(folder / "ca.crt", folder / "ca.key"), "bench")
    files = KeyPair(folder / "server.crt", folder / "server.key")
    authority.ensure_server(files, (HOST,))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, HOST, 0, ssl=server_context(files))
    port = folder / "port.new"
    port.write_text(str(server.sockets[0].getsockname()[1]))
    port.rename(folder / "port")
    await server.serve_forever()


if __name__ == "__main__":
    run(_serve(Path(sys.argv[1])))
