"""The rows about aggregation: what a request costs this server when another API server answers it.

Both control planes pass requests on to the same small server, a process of its own (`python -m bench.aggregation
FOLDER`). The figure is processor time of the control plane alone; a rate would be that of the server behind it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bench.client import LoadError, call
from bench.objects import collection, request
from bench.table import KAPI, Group, Row
from bench.target import HOST, Process
from kapi.base.loop import run
from kapi.base.tls import Authority, KeyPair, server_context

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.figures import Figure
    from bench.runner import Bench
    from bench.settings import Settings
    from bench.target import Running

CONNECTIONS = 16
START_SECONDS = 30.0
ATTEMPTS = 300
DIRECT = "Kapi's own"
"""The same without another server: an object, or a list, of Kapi."""
LISTED = 100

_GROUP, _VERSION = "bench.example.dev", "v1"
_ROOT = f"/apis/{_GROUP}/{_VERSION}"
_PATHS = {"get": f"{_ROOT}/namespaces/default/widgets/one", "list": f"{_ROOT}/namespaces/default/widgets"}


def _rows(settings: Settings) -> list[Row]:
    return [
        Row("aggregation.get", "processor time of a proxied GET", "µs", 2.0),
        Row("aggregation.list", f"processor time of a proxied list of {LISTED}", "µs", 2.0),
    ]


# -- the server behind ------------------------------------------------------------------------------------------------


def _widget(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": {"app": "bench"}, "resourceVersion": "1"}
    return {"apiVersion": f"{_GROUP}/{_VERSION}", "kind": "Widget", "metadata": metadata, "spec": {"text": "x" * 200}}


def _documents() -> dict[str, bytes]:
    resource = {"name": "widgets", "namespaced": True, "kind": "Widget", "verbs": ["get", "list"]}
    items = [_widget(f"w{number}") for number in range(LISTED)]
    bodies = {
        _ROOT: {"kind": "APIResourceList", "groupVersion": f"{_GROUP}/{_VERSION}", "resources": [resource]},
        _PATHS["get"]: _widget("one"),
        _PATHS["list"]: {"kind": "WidgetList", "apiVersion": f"{_GROUP}/{_VERSION}", "items": items},
    }
    return {path: _answer("200 OK", json.dumps(body).encode()) for path, body in bodies.items()}


def _answer(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class _Connection(asyncio.Protocol):
    """One connection: GET requests are answered as they come."""

    documents = _documents()
    missing = _answer("404 Not Found", b"{}")

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer the requests that are whole."""
        *heads, self._data = (self._data + data).split(b"\r\n\r\n")
        for head in heads:
            path = head.split(b" ", 2)[1].partition(b"?")[0].decode()
            self._transport.write(self.documents.get(path, self.missing))


@contextlib.contextmanager
def _serving(folder: Path) -> Iterator[int]:
    """Run the server in a process; gives its port."""
    folder.mkdir(parents=True, exist_ok=True)
    process = Process([sys.executable, "-m", "bench.aggregation", str(folder)], folder / "log")
    try:
        deadline = time.monotonic() + START_SECONDS
        while not (folder / "port").exists():
            process.check()
            if time.monotonic() > deadline:
                raise LoadError("the server behind the proxy does not start")
            time.sleep(0.05)
        yield int((folder / "port").read_text())
    finally:
        process.stop()


async def _serve(folder: Path) -> None:
    files = KeyPair(folder / "server.crt", folder / "server.key")
    Authority.ensure(KeyPair(folder / "ca.crt", folder / "ca.key"), "bench").ensure_server(files, ("api.default.svc",))
    server = await asyncio.get_running_loop().create_server(_Connection, HOST, 0, ssl=server_context(files))
    port = folder / "port.new"
    port.write_text(str(server.sockets[0].getsockname()[1]))
    port.rename(folder / "port")
    await server.serve_forever()


# -- measuring --------------------------------------------------------------------------------------------------------


async def _register(running: Running, port: int, authority: bytes) -> None:
    """Create the APIService and what it names, and wait until requests are passed on."""
    service = {"metadata": {"name": "api"}, "spec": {"type": "ExternalName", "externalName": "localhost"}}
    spec = {
        "group": _GROUP,
        "version": _VERSION,
        "service": {"namespace": "default", "name": "api", "port": port},
        "caBundle": base64.b64encode(authority).decode(),
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
    }
    registration = {"metadata": {"name": f"{_VERSION}.{_GROUP}"}, "spec": spec}
    for path, body in (
        ("/api/v1/namespaces/default/services", service),
        ("/apis/apiregistration.k8s.io/v1/apiservices", registration),
    ):
        await call(running.address, request("POST", path, json.dumps(body).encode()))
    for _ in range(ATTEMPTS):
        with contextlib.suppress(LoadError):
            await call(running.address, request("GET", _PATHS["get"]))
            return
        await asyncio.sleep(0.1)
    raise LoadError("requests are not passed on")


def _measure(bench: Bench, rows: Sequence[str]) -> None:
    with _serving(bench.folder / "aggregation") as port, bench.fresh(rows) as servers:
        authority = (bench.folder / "aggregation" / "ca.crt").read_bytes()
        for name, running in list(servers.items()):
            with bench.failing(rows, name):
                asyncio.run(_register(running, port, authority))
        bench.work(servers[KAPI], "seed", first=0, count=LISTED)
        own = {"get": f"{collection()}/{_own_name(servers[KAPI])}", "list": f"{collection()}?limit={LISTED}"}
        for kind, path in _PATHS.items():
            figures = {name: partial(_cost, bench, running, path) for name, running in servers.items()}
            figures[DIRECT] = partial(_cost, bench, servers[KAPI], own[kind])
            bench.alternate(f"aggregation.{kind}", figures)


def _own_name(running: Running) -> str:
    listed = json.loads(asyncio.run(call(running.address, request("GET", f"{collection()}?limit=1"))))
    name: str = listed["items"][0]["metadata"]["name"]
    return name


def _cost(bench: Bench, running: Running, path: str) -> Figure:
    """The processor time of one request, over all threads of the control plane."""
    before = running.processor_seconds()
    seconds = bench.settings.seconds
    figure = bench.work(running, "requests", kind="path", path=path, connections=CONNECTIONS, seconds=seconds)
    return figure | {"value": (running.processor_seconds() - before) / figure["count"]}


GROUP = Group("aggregation", _rows, _measure)

if __name__ == "__main__":
    run(_serve(Path(sys.argv[1])))
