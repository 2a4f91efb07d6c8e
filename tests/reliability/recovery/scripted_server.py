"""An API server for one kind of object that fails in the ways real ones do, on loopback, over plain HTTP/1.1.

It serves ConfigMaps of one namespace: discovery, paged lists, watches with bookmarks, and streamed lists if enabled. A
scenario (see `scenarios`) changes objects and breaks things; the server notes what it is asked and when. It knows nothing of
who asks: other clients than ours can be run against it.
"""

import asyncio
import contextlib
import json
import socket
import struct
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

NAMESPACE = "default"
COLLECTIONS = ("/api/v1/configmaps", f"/api/v1/namespaces/{NAMESPACE}/configmaps")
VERBS = ["get", "list", "watch"]
# Namespaces are named and no more: some clients do not begin before they know of them.
RESOURCES = [
    {"name": "configmaps", "singularName": "configmap", "namespaced": True, "kind": "ConfigMap", "verbs": VERBS},
    {"name": "namespaces", "singularName": "namespace", "namespaced": False, "kind": "Namespace", "verbs": VERBS},
]
DISCOVERY = {
    "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": RESOURCES},
    "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.0"},
}
# What a server answers to who asks for all of discovery at once.
AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
AGGREGATED_RESOURCES = [
    {
        "resource": one["name"],
        "singularResource": one["singularName"],
        "responseKind": {"group": "", "version": "v1", "kind": one["kind"]},
        "scope": "Namespaced" if one["namespaced"] else "Cluster",
        "verbs": VERBS,
    }
    for one in RESOURCES
]
AGGREGATED = {
    "/api": [{"metadata": {}, "versions": [{"version": "v1", "resources": AGGREGATED_RESOURCES}]}],
    "/apis": [],
}
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
REASONS = {
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    401: "Unauthorized",
    500: "InternalError",
    503: "ServiceUnavailable",
}


class Request(NamedTuple):
    """What was asked, and when on the loop's clock. `verb` is discovery, list, watch or stream (a watch that lists first)."""

    at: float
    verb: str
    path: str
    query: dict
    headers: dict


def status(code, message="scripted"):
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "reason": REASONS[code],
        "message": message,
        "code": code,
    }


class Watch:
    """One open watch. It is sent what happens until the scenario does something to it."""

    def __init__(self, request, writer):
        self.request = request
        self.over = asyncio.Event()
        self._writer = writer
        self._is_silent = False

    def send(self, kind, obj):
        if not self._is_silent and not self.over.is_set():
            data = json.dumps({"type": kind, "object": obj}, separators=(",", ":")).encode() + b"\n"
            self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self):
        """End as a server does whose time is up."""
        if not self._is_silent and not self.over.is_set():
            self._writer.write(b"0\r\n\r\n")
        self.over.set()

    def expire(self):
        """Say in the stream that its revision is too old, and end."""
        self.send("ERROR", status(410, "too old resource version"))
        self.end()

    def reset(self):
        """Tear the connection down without a word; what has not been sent is lost."""
        connection = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        self.over.set()

    def fall_silent(self):
        """Stay open, and say nothing."""
        self._is_silent = True

    def find_words(self):
        """Speak again; what was not said meanwhile is lost."""
        self._is_silent = False


class ScriptedServer:
    """The server. `streams` enables streamed lists; without it they are refused as older servers refuse them."""

    def __init__(self, *, streams=True, tls=None):
        self.streams = streams
        self.tls = tls
        self.url = ""
        self.revision = 100
        self.objects = {}
        self.requests = []
        self.refused = []
        self.refusals = []
        self.is_broken = False
        self.token = ""
        self.expires_with_status = False
        self._history = []
        self._kept_from = 100
        self._watches = []
        self._opened = asyncio.Queue()
        self._pages = {}
        self._talks = {}

    # -- what happens -------------------------------------------------------------------------------------------------

    def put(self, name, **data):
        """Create an object or change it."""
        self.revision += 1
        kind = "MODIFIED" if name in self.objects else "ADDED"
        metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "resourceVersion": str(self.revision)}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        self.objects[name] = obj
        self._happened(kind, obj)

    def delete(self, name):
        self.revision += 1
        obj = self.objects.pop(name)
        obj["metadata"]["resourceVersion"] = str(self.revision)
        self._happened("DELETED", obj)

    def _happened(self, kind, obj):
        self._history.append((self.revision, kind, obj))
        for watch in self._watches:
            watch.send(kind, obj)

    def compact(self):
        """Forget the past: who asks for changes since then is answered 410."""
        self._kept_from = self.revision

    def refuse(self, *refusals):
        """Answer the next requests for the collection with these: a status code, and headers."""
        self.refusals += refusals

    async def next_watch(self):
        """The next watch that is opened, once it has been open for a while."""
        watch = await self._opened.get()
        await asyncio.sleep(2)
        return watch

    def asked(self, *verbs):
        """The requests of some sort."""
        return [request for request in self.requests if request.verb in verbs]

    # -- HTTP ---------------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def serving(self, port=0):
        server = await asyncio.start_server(self._accept, "127.0.0.1", port, ssl=self.tls)
        scheme = "https" if self.tls else "http"
        self.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self.url
        finally:
            server.close()
            await asyncio.sleep(0)  # for a connection that is just being accepted
            for task, writer in self._talks.items():
                task.cancel()
                writer.transport.abort()
            await asyncio.gather(*self._talks, return_exceptions=True)
            await asyncio.sleep(0)

    def _accept(self, reader, writer):
        task = asyncio.ensure_future(self._talk(reader, writer))
        self._talks[task] = writer
        task.add_done_callback(self._talks.pop)

    async def _talk(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                while await self._answer(_read((await reader.readuntil(b"\r\n\r\n")).decode()), reader, writer):
                    await writer.drain()
            finally:
                writer.close()

    async def _answer(self, request, reader, writer):
        self.requests.append(request)
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return _reply(writer, 401, status(401, "Unauthorized"))
        if self.is_broken:
            return _reply(writer, 500, status(500))
        if self.refusals and request.verb != "discovery":
            code, headers = self.refusals.pop(0)
            self.refused.append(request)
            return _reply(writer, code, status(code), headers)
        if (path := request.path.rstrip("/")) in DISCOVERY:
            return _discovery(writer, path, is_aggregated="APIGroupDiscoveryList" in request.headers.get("accept", ""))
        if request.path not in COLLECTIONS:
            return _reply(writer, 404, {**status(500), "reason": "NotFound", "code": 404})
        if request.verb == "list":
            return self._list(request, writer)
        return await self._watch(request, reader, writer)

    def _list(self, request, writer):
        token, limit = request.query.get("continue"), int(request.query.get("limit", 0))
        revision, left = self._pages.pop(token) if token else (self.revision, list(self.objects.values()))
        page, left = (left[:limit], left[limit:]) if limit else (left, [])
        metadata = {"resourceVersion": str(revision)}
        if left:
            metadata |= {"continue": f"page-{len(self.requests)}", "remainingItemCount": len(left)}
            self._pages[metadata["continue"]] = revision, left
        # As in kube-apiserver, the items of a list have no apiVersion and kind.
        items = [{key: obj[key] for key in ("metadata", "data")} for obj in page]
        return _reply(writer, 200, {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": items})

    async def _watch(self, request, reader, writer):
        since = int(request.query.get("resourceVersion") or 0)
        if request.verb == "stream" and not self.streams:
            return _reply(
                writer, 422, status(422, "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch")
            )
        is_expired = request.verb == "watch" and 0 < since < self._kept_from
        if is_expired and self.expires_with_status:
            return _reply(writer, 410, status(410, "too old resource version"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        watch = Watch(request, writer)
        if is_expired:
            watch.expire()
            return True
        self._catch_up(watch, since)
        self._watches.append(watch)
        self._opened.put_nowait(watch)
        try:
            await self._follow(watch, reader)
        finally:
            self._watches.remove(watch)
        return not writer.transport.is_closing()

    def _catch_up(self, watch, since):
        if watch.request.verb == "stream" or not since:
            for obj in self.objects.values():
                watch.send("ADDED", obj)
        else:
            for revision, kind, obj in self._history:
                if revision > since:
                    watch.send(kind, obj)
        if watch.request.verb == "stream":
            self._bookmark(watch, {INITIAL_EVENTS_END: "true"})

    def _bookmark(self, watch, annotations=None):
        if watch.request.query.get("allowWatchBookmarks") == "true":
            metadata = {"resourceVersion": str(self.revision), "annotations": annotations or {}}
            watch.send("BOOKMARK", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    async def _follow(self, watch, reader):
        """Stay until the watch is over, its time is up, or the client is gone."""
        seconds = int(watch.request.query.get("timeoutSeconds") or 1800)
        loop = asyncio.get_running_loop()
        timers = [loop.call_later(seconds - 2, self._bookmark, watch), loop.call_later(seconds, watch.end)]
        gone = asyncio.ensure_future(reader.read(1))
        over = asyncio.ensure_future(watch.over.wait())
        try:
            await asyncio.wait([gone, over], return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise ConnectionResetError
        finally:
            for one in (*timers, gone, over):
                one.cancel()
            await asyncio.gather(gone, over, return_exceptions=True)


def _read(head):
    first, *lines = head.split("\r\n")
    target = urlsplit(first.split(" ")[1])
    query = dict(parse_qsl(target.query))
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    verb = "list"
    if target.path not in COLLECTIONS:
        verb = "discovery"
    elif query.get("watch") in ("true", "1", "True"):
        verb = "stream" if query.get("sendInitialEvents") == "true" else "watch"
    return Request(asyncio.get_running_loop().time(), verb, target.path, query, headers)


def _discovery(writer, path, *, is_aggregated):
    if not is_aggregated or path not in AGGREGATED:
        return _reply(writer, 200, DISCOVERY[path])
    body = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": AGGREGATED[path]}
    return _reply(writer, 200, body, {"Content-Type": AGGREGATED_TYPE})


def _reply(writer, code, body, headers=None):
    data = json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Content-Length": len(data), **(headers or {})}
    lines = [f"HTTP/1.1 {code} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode() + data)
    return True
