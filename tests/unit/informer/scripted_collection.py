"""A collection on a server that is not there: the state, its history, and everything that can go wrong with a connection.

It keeps the promises of a real one (revisions grow, a watch tells of everything after its revision or answers 410) unless a
test tells it to break them. Time is the event loop's, so it goes with `virtual_time`.
"""

import asyncio
import contextlib
import json

import msgspec

from kapi.api.errors import Expired, Invalid
from kapi.client.errors import ConnectionLost
from kapi.client.pagination import PageGuard
from kapi.informer.reflector import INITIAL_EVENTS_END
from kapi.informer.source import Page

HEAD = b'{"apiVersion":"v1","kind":"Thing",'


def expired():
    return Expired("too old resource version")


def line(kind, obj):
    return json.dumps({"type": kind, "object": obj}, separators=(",", ":")).encode()


def thing(name, revision, uid, namespace="default", **more):
    metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(revision)}
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata, **more}


class Connection:
    """One watch. What it is told to do it does once everything before has been read."""

    def __init__(self):
        self.lines = asyncio.Queue()
        self.sent = []
        self.is_stalled = False

    def send(self, text):
        if not self.is_stalled:
            self.sent.append(text)
            self.lines.put_nowait(text)

    def end(self):
        if not self.is_stalled:
            self.lines.put_nowait(None)

    def fail(self, error):
        if not self.is_stalled:
            self.lines.put_nowait(error)

    def stall(self):
        """Stay open and say nothing more, whatever happens."""
        self.is_stalled = True

    async def read(self):
        while (text := await self.lines.get()) is not None:
            if isinstance(text, Exception):
                raise text
            yield text


class ScriptedCollection:
    """A `ListerWatcher`. `failures` are raised by the next requests, one each; a callable says for which it is meant."""

    def __init__(self):
        self.revision = 10
        self.objects = {}
        self.history = []
        self.kept_from = 10
        self.connections = []
        self.failures = []
        self.requests = []
        self.can_stream = True
        self.bookmarks_before_end = True
        self.is_dead = False
        self._uids = 0
        self.states = {}

    # -- what happens on the server -----------------------------------------------------------------------------------

    def put(self, name, **more):
        """Create an object or change it."""
        self.revision += 1
        old = self.objects.get(name)
        if old is None:
            self._uids += 1
        uid = old["metadata"]["uid"] if old else f"uid-{self._uids}"
        obj = self.objects[name] = thing(name, self.revision, uid, **more)
        self._publish("MODIFIED" if old else "ADDED", obj)
        return obj

    def delete(self, name):
        self.revision += 1
        obj = self.objects.pop(name)
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        self._publish("DELETED", obj)

    def come_back(self, name):
        """Bring back an object that went because a selector no longer selected it: it is the same as before."""
        uid = next(obj["metadata"]["uid"] for _, _, obj in reversed(self.history) if obj["metadata"]["name"] == name)
        self.revision += 1
        obj = self.objects[name] = thing(name, self.revision, uid)
        self._publish("ADDED", obj)

    def _publish(self, kind, obj):
        self.history.append((self.revision, kind, obj))
        self.states.setdefault(obj["metadata"]["name"], []).append(self.revision)
        for connection in self.connections:
            connection.send(line(kind, obj))

    def compact(self):
        """Forget history, so that only watches from now on work."""
        self.kept_from = self.revision

    def bookmark(self):
        for connection in self.connections:
            connection.send(self._bookmark())

    def _bookmark(self, **annotations):
        metadata = {"resourceVersion": str(self.revision), "annotations": annotations}
        return line("BOOKMARK", {"apiVersion": "v1", "kind": "Thing", "metadata": metadata})

    # -- what a client asks -------------------------------------------------------------------------------------------

    def _request(self, verb, **query):
        self.requests.append((asyncio.get_running_loop().time(), verb, query))
        if self.is_dead:
            raise ConnectionLost("connection refused")
        if self.failures:
            raise self.failures.pop(0)

    def page_guard(self):
        return PageGuard(1000)

    async def list_page(self, *, resource_version, limit, continue_):
        self._request("list", resource_version=resource_version, limit=limit, continue_=continue_)
        await asyncio.sleep(0)
        start = int(continue_ or 0)
        every = [msgspec.Raw(json.dumps(obj).encode()) for obj in self.objects.values()]
        end = start + limit if limit else len(every)
        return Page(every[start:end], str(self.revision), str(end) if end < len(every) else "", HEAD)

    @contextlib.asynccontextmanager
    async def watch(self, *, resource_version, timeout_seconds, initial_events):
        verb = "stream" if initial_events else "watch"
        self._request(verb, resource_version=resource_version, timeout_seconds=timeout_seconds)
        if initial_events and not self.can_stream:
            raise Invalid("sendInitialEvents is forbidden")
        connection = Connection()
        if initial_events:
            for obj in self.objects.values():
                connection.send(line("ADDED", obj))
            connection.send(self._bookmark(**{INITIAL_EVENTS_END: "true"}))
        elif int(resource_version) < self.kept_from:
            connection.send(line("ERROR", expired().status()))
        else:
            for revision, kind, obj in self.history:
                if revision > int(resource_version):
                    connection.send(line(kind, obj))
        self.connections.append(connection)
        loop = asyncio.get_running_loop()
        timers = [loop.call_later(timeout_seconds, connection.end)]
        if self.bookmarks_before_end:
            timers.append(loop.call_later(timeout_seconds - 2, lambda: connection.send(self._bookmark())))
        try:
            yield connection.read()
        finally:
            for timer in timers:
                timer.cancel()
            self.connections.remove(connection)

    @property
    def connection(self):
        """The watch that is open."""
        [connection] = self.connections
        return connection

    def verbs(self):
        return [verb for _, verb, _ in self.requests]
