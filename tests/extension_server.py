"""An extension API server on loopback, for tests of the aggregator: it records what arrives and answers by a script.

It is HTTP/1.1 over TLS on plain streams, so that a script decides about every byte. `plane` is a control plane whose
Services are overridden with its address.
"""

import asyncio
import contextlib
import json
import ssl

from kapi.base.tls import client_context
from kapi.controlplane.assemble import ControlPlane
from kapi.controlplane.options import Options
from kapi.server.serviceaddress import ServiceReference
from webhook_server import Certificates

GROUP, VERSION = "wardle.example.com", "v1alpha1"
ROOT = f"/apis/{GROUP}/{VERSION}"
FLUNDERS = f"{ROOT}/namespaces/default/flunders"
NAME = f"{VERSION}.{GROUP}"
APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
JSON = "application/json"
RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{GROUP}/{VERSION}",
    "resources": [
        {"name": "flunders", "singularName": "flunder", "namespaced": True, "kind": "Flunder", "verbs": ["get", "list"]}
    ],
}


class Call:
    """One request, as it arrived."""

    def __init__(self, head, body, reader):
        line, *headers = head.decode().split("\r\n")
        self.method, self.target, _ = line.split(" ")
        self.lines = [header.split(": ", 1) for header in headers if header]
        self.body = body
        self._reader = reader

    async def read(self):
        """Read what comes behind the request; nothing once the other side has closed the connection."""
        try:
            return await self._reader.read(1 << 16)
        except (ConnectionError, ssl.SSLError):
            return b""

    async def abandoned(self):
        """Wait until the other side has closed the connection."""
        assert not await self.read()

    def values(self, name):
        """All values of a header."""
        return [value for key, value in self.lines if key.lower() == name.lower()]

    @property
    def names(self):
        return {key.lower() for key, _ in self.lines}


def response(status=200, body=b"", *headers, media=JSON):
    """A response with a length, as bytes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(content)}", f"Content-Type: {media}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + content


class ExtensionServer:
    """The server. `script(call, writer)` answers what is not discovery; `calls` are the requests so far."""

    def __init__(self, folder, *names):
        self.certificates = Certificates(folder)
        self._context = self.certificates.server(*(names or ("api.wardle.svc",)))
        # A front proxy shows a certificate of its own authority; which one that is, is a matter of the tests.
        self._context.verify_mode = ssl.CERT_NONE
        self.script = self.default
        self.calls = []
        self.arrived = asyncio.Condition()
        self._tasks = set()
        self._is_stopped = False
        self.port = 0
        self._server = None
        self.documents = {ROOT: RESOURCES}
        self.content_types = {}
        self.opened = 0

    async def default(self, call, writer):
        writer.write(response(200, {"kind": "Flunder", "path": call.target}))

    async def start(self):
        """Listen, on the same port each time."""
        self._is_stopped = False
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self):
        """Close the port and all connections, those that are being opened included."""
        self._is_stopped = True
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader, writer):
        if self._is_stopped:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        self._tasks.add(task)
        self.opened += 1
        connection = self.opened
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-le")
                    ),
                    0,
                )
                call = Call(head[:-4], await reader.readexactly(length), reader)
                call.connection = connection
                document = self.documents.get(call.target) if call.method == "GET" else None
                if document is not None:
                    writer.write(response(200, document, media=self.content_types.get(call.target, JSON)))
                elif call.target == "/apis" or call.target.startswith("/openapi/"):
                    writer.write(response(404, {}))
                else:
                    async with self.arrived:
                        self.calls.append(call)
                        self.arrived.notify_all()
                    await self.script(call, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError, ssl.SSLError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def called(self, count=1):
        """Wait for so many requests; returns the last."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.calls) >= count)
        return self.calls[-1]

    def api_service(self, **spec):
        """An APIService for this server."""
        trust = {} if spec.get("insecureSkipTLSVerify") else {"caBundle": self.certificates.bundle}
        return {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": NAME},
            "spec": {
                "group": GROUP,
                "version": VERSION,
                "groupPriorityMinimum": 1000,
                "versionPriority": 15,
                "service": {"name": "api", "namespace": "wardle"},
                **trust,
                **spec,
            },
        }


class Plane:
    """A control plane, with requests to it in the same process and over connections."""

    def __init__(self, plane):
        self.control = plane

    async def request(self, method, path, body=None, **headers):
        """Send one request in the process; returns the status and the body, decoded if it is JSON."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        named = {"content-type": "application/json"} | {key.replace("_", "-"): value for key, value in headers.items()}
        reply = await self.control.transport.request(method, path, named, content)
        return reply.status, decoded(await reply.read())

    async def condition(self, name=NAME):
        """The condition Available of an APIService, without its time."""
        _, obj = await self.request("GET", f"{APISERVICES}/{name}")
        conditions = obj.get("status", {}).get("conditions") or [{}]
        return {key: value for key, value in conditions[0].items() if key != "lastTransitionTime"}

    async def until_available(self, status="True", name=NAME):
        """Wait until the condition of an APIService has this status."""

        async def found():
            return (await self.condition(name)).get("status") == status

        await until(found)

    async def connect(self, *, context=None):
        """Open a connection; returns its reader and writer."""
        host, port = self.control.url.removeprefix("https://").split(":")
        folder = self.control.options.data_dir / "pki"
        context = context or client_context(folder / "ca.crt")
        return await asyncio.open_connection(host, int(port), ssl=context, server_hostname="localhost")

    @property
    def token(self):
        """The admin's token."""
        return (self.control.options.data_dir / "pki" / "admin.token").read_text().strip()

    async def send(self, line, *headers, body=b""):
        """Send a request over a connection of its own, as the admin; returns its reader and writer."""
        reader, writer = await self.connect()
        lines = [f"{line} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self.token}", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        return reader, writer


def decoded(body):
    with contextlib.suppress(ValueError):
        return json.loads(body)
    return body.decode()


async def until(check):
    """Wait until a condition holds."""
    while not await check():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def aggregated(folder, test, *, listen=False, register=True, **options):
    """Run `test(plane, server)` with a control plane and an extension API server that is registered and available."""

    async def main():
        server = ExtensionServer(folder)
        await server.start()
        plane = ControlPlane(
            Options(
                folder / "data",
                port=0,
                storage="memory",
                controllers=frozenset(),
                listen=listen,
                service_overrides={
                    ServiceReference("wardle", name): ("127.0.0.1", server.port) for name in ("api", "other")
                },
                **options,
            )
        )
        try:
            await plane.start()
            api = Plane(plane)
            if register:
                status, _ = await api.request("POST", APISERVICES, server.api_service())
                assert status == 201
                await api.until_available()
            async with asyncio.timeout(30):
                await test(api, server)
        finally:
            await server.stop()
            await plane.stop()

    asyncio.run(main())
