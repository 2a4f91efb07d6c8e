"""A conversion webhook on loopback, for tests: a real HTTPS server that converts correctly, or answers as its script defines.

It converts listeners between v1beta1 (`spec.hostPort: "h:p"`) and v1 (`spec.host`, `spec.port`). A script is a function
(or coroutine function) of a `Call` that returns a `Reply`; `honest` is one, and `lying` makes others out of it.
"""

import asyncio
import base64
import contextlib
import copy
import datetime as dt
import inspect
import json
import socket
import struct

from kapi.base.clock import ManualClock
from kapi.base.tls import Authority, KeyPair, server_context

GROUP = "net.example.dev"
V1, V1BETA1 = f"{GROUP}/v1", f"{GROUP}/v1beta1"
REVIEW = "apiextensions.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = f"listeners.{GROUP}"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Certificates:
    """An authority and what it issues, in a directory of their own."""

    def __init__(self, directory, *, days_ago=0):
        """With `days_ago`, everything is as if it had been issued then."""
        clock = None
        if days_ago:
            clock = ManualClock(dt.datetime.now(dt.UTC) - dt.timedelta(days=days_ago))
        self._directory = directory
        self._authority = Authority.ensure(KeyPair(directory / "ca.crt", directory / "ca.key"), "webhooks", clock=clock)

    @property
    def bundle(self):
        """The authority's certificate as a caBundle."""
        return base64.b64encode(self.pem).decode()

    @property
    def pem(self):
        return self._authority.files.certificate.read_bytes()

    def server(self, *names):
        """The TLS context of a server with these names."""
        stem = "-".join(names or LOOPBACK).replace(":", "_")
        files = KeyPair(self._directory / f"{stem}.crt", self._directory / f"{stem}.key")
        self._authority.ensure_server(files, names or LOOPBACK)
        return server_context(files)


class Reset(Exception):
    """A script raises it: the connection is torn down instead of an answer."""


class Hangup(Exception):
    """A script raises it: the connection is closed politely, with no answer, or with half of one."""

    def __init__(self, partial=b""):
        super().__init__()
        self.partial = partial


class Call:
    """One request."""

    def __init__(self, line, headers, body):
        self.method, self.target, _ = line.split(" ")
        self.headers = headers
        self.body = body

    @property
    def review(self):
        return json.loads(self.body)

    @property
    def objects(self):
        return self.review["request"]["objects"]

    @property
    def names(self):
        return [obj["metadata"]["name"] for obj in self.objects]

    @property
    def wanted(self):
        return self.review["request"]["desiredAPIVersion"]


class Reply:
    """An answer; `body` is bytes or something to be encoded."""

    def __init__(self, body, status=200, **headers):
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status = status
        self.headers = {"Content-Type": "application/json"}
        self.headers |= {key.replace("_", "-").title(): value for key, value in headers.items()}

    @property
    def raw(self):
        lines = [f"HTTP/1.1 {self.status} Whatever", f"Content-Length: {len(self.body)}"]
        lines += [f"{key}: {value}" for key, value in self.headers.items() if value is not None]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


class Webhook:
    """The server. `script` decides what is answered, `calls` are the requests so far, `opened` the connections."""

    def __init__(self, certificates, *names, script=None):
        self.certificates = certificates
        self.script = script or honest
        self.calls = []
        self.opened = 0
        self.called = asyncio.Event()
        self._context = certificates.server(*names)
        self._server = None
        self._tasks = set()
        self.port = 0

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *_):
        await self.stop()

    async def start(self):
        """Listen, on the same port each time."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self):
        """Stop the server: its port is closed and no connection is open."""
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}/convert"

    @property
    def client_config(self):
        return {"url": self.url, "caBundle": self.certificates.bundle}

    def conversion(self, *versions, **config):
        """`spec.conversion` of a definition that uses this webhook."""
        config = config or self.client_config
        webhook = {"conversionReviewVersions": list(versions or ("v1", "v1beta1")), "clientConfig": config}
        return {"strategy": "Webhook", "webhook": webhook}

    async def until_called(self):
        """Wait for the next request."""
        self.called.clear()
        await asyncio.wait_for(self.called.wait(), 20)

    async def _serve(self, reader, writer):
        self.opened += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            while (call := await _read(reader)) is not None:
                self.calls.append(call)
                self.called.set()
                reply = self.script(call)
                if inspect.isawaitable(reply):
                    reply = await reply
                writer.write(reply.raw)
                await writer.drain()
        except Reset:
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        except Hangup as hangup:
            writer.write(hangup.partial)
        except (ConnectionError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()


async def _read(reader):
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        line, *rest = head.decode().split("\r\n")[:-2]
        headers = {key.lower(): value.strip() for key, _, value in (one.partition(":") for one in rest)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    except asyncio.IncompleteReadError:
        return None
    return Call(line, headers, body)


# -- what is answered -------------------------------------------------------------------------------------------------


def honest(call):
    """Every object in the wanted version."""
    return Reply(true_answer(call.review))


def true_answer(review):
    """The review that answers a review."""
    request = review["request"]
    objects = [converted(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
    response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
    return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}


def converted(obj, api_version):
    """A listener in another version; what else there is stays."""
    obj = copy.deepcopy(obj)
    spec = obj.get("spec", {})
    if api_version == V1 and "hostPort" in spec:
        host, _, port = spec.pop("hostPort").rpartition(":")
        spec |= {"host": host, "port": int(port)}
    elif api_version == V1BETA1 and "host" in spec:
        spec["hostPort"] = f"{spec.pop('host')}:{spec.pop('port')}"
    obj["apiVersion"] = api_version
    return obj


def lying(change):
    """The honest review, changed: `change(review)` edits it in place, or returns another."""

    def script(call):
        review = true_answer(call.review)
        other = change(review)
        return Reply(review if other is None else other)

    return script


def lying_about(change):
    """The honest review with every object changed in place."""

    def edit(review):
        for obj in review["response"]["convertedObjects"]:
            change(obj)

    return lying(edit)


class Gate:
    """A script that is honest, but waits until it is opened."""

    def __init__(self):
        self.opened = asyncio.Event()

    async def __call__(self, call):
        await self.opened.wait()
        return honest(call)


# -- what it is about -------------------------------------------------------------------------------------------------

_NUMBER = {"type": "integer"}
_TEXT = {"type": "string"}
_STATUS = {"type": "object", "properties": {"ready": _NUMBER, "note": _TEXT}}


def _version(name, spec, **more):
    properties = {"spec": {"type": "object", "properties": {"replicas": _NUMBER, **spec}}, "status": _STATUS}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.ready"}
    return {
        "name": name,
        "served": True,
        "storage": False,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}, "scale": scale},
        **more,
    }


def definition(conversion, *, storage="v1", scope="Namespaced"):
    """The definition of listeners."""
    versions = [
        _version("v1", {"host": _TEXT, "port": _NUMBER}, selectableFields=[{"jsonPath": ".spec.host"}]),
        _version("v1beta1", {"hostPort": _TEXT}, selectableFields=[{"jsonPath": ".spec.hostPort"}]),
    ]
    for version in versions:
        version["storage"] = version["name"] == storage
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"plural": "listeners", "kind": "Listener"},
            "conversion": conversion,
            "versions": versions,
        },
    }


def listener(name="a", api_version=V1, *, host="h", port=1, metadata=None, **spec):
    """A listener in either version."""
    where = {"host": host, "port": port} if api_version == V1 else {"hostPort": f"{host}:{port}"}
    return {
        "apiVersion": api_version,
        "kind": "Listener",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {**where, **spec},
    }


def path(api_version=V1, name="", namespace="default"):
    """The URL path of listeners, or of one."""
    collection = f"/apis/{api_version}/namespaces/{namespace}/listeners"
    return f"{collection}/{name}" if name else collection
