"""Clients that write, read and watch as fast as they can, and record every request and response.

The record is checked by `kapi.testing.history`. All of them work on the ConfigMaps of one namespace; each write has a
value of its own, so that what is seen later can be traced to the write that made it.
"""

import asyncio
import contextlib
import json
import time

from live_server import Disconnected, Line

from kapi.storage.sqlite.storage import SqliteStorage
from kapi.testing.history import Commit, Operation, Seen, Session

NAMESPACE = "load"
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PREFIX = f"/registry/core/configmaps/{NAMESPACE}/"
WATCH = f"{PATH}?watch=true&allowWatchBookmarks=true"
END = "the-end"
"""The key of the last write of a run; watchers end when they see it."""


async def prepare(server):
    """Make the namespace."""
    line = await Line.open(server)
    try:
        reply = await line.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        assert reply.status == 201, reply
        return int(reply.json["metadata"]["resourceVersion"])
    finally:
        line.close()


class Recorder:
    """What all clients of one run have done. `known` is what they believe each key to be at; 0 means absent."""

    def __init__(self, keys, padding=0):
        self.operations = []
        self.known = dict.fromkeys((f"k-{number}" for number in range(keys)), 0)
        self.names = list(self.known)
        self.known[END] = 0
        self.acknowledged = 0
        self.progress = asyncio.Event()
        self.problems = []
        self.is_over = False
        self._padding = "x" * padding
        self._values = 0

    async def _perform(self, line, operation, method, path, body=None):
        operation.outcome = "unknown"
        self.operations.append(operation)
        reply = await line.request(method, path, body)
        operation.returned = time.perf_counter()
        return reply

    def _record_outcome(self, operation, reply, success):
        """Record the outcome of a write; return the object if it succeeded."""
        if reply.status == success:
            operation.outcome = "ok"
            self.acknowledged += 1
            self.progress.set()
            return reply.json
        if reply.status in (404, 409):
            operation.outcome = "refused"
        elif reply.status < 500:
            self.problems.append((operation, reply))
        return None

    async def put(self, line, key):
        """Create or replace, by what is believed of the key."""
        expected = self.known[key]
        self._values += 1
        value = f"v-{self._values}"
        body = {"metadata": {"name": key}, "data": {"v": value, "x": self._padding}}
        if expected:
            body["metadata"]["resourceVersion"] = str(expected)
        operation = Operation("put", key, time.perf_counter(), expected=expected, value=value)
        target = ("PUT", f"{PATH}/{key}") if expected else ("POST", PATH)
        obj = self._record_outcome(
            operation, await self._perform(line, operation, *target, body), 200 if expected else 201
        )
        if obj is None:
            await self.get(line, key)
            return
        operation.revision = self.known[key] = int(obj["metadata"]["resourceVersion"])

    async def delete(self, line, key):
        """Delete, if the key is still what it is believed to be."""
        expected = self.known[key]
        operation = Operation("delete", key, time.perf_counter(), expected=expected)
        options = {"preconditions": {"resourceVersion": str(expected)}}
        reply = await self._perform(line, operation, "DELETE", f"{PATH}/{key}", options)
        if self._record_outcome(operation, reply, 200) is None:
            await self.get(line, key)
        else:
            self.known[key] = 0

    async def get(self, line, key):
        operation = Operation("get", key, time.perf_counter())
        reply = await self._perform(line, operation, "GET", f"{PATH}/{key}")
        if reply.status == 200:
            operation.revision = int(reply.json["metadata"]["resourceVersion"])
            operation.value = reply.json["data"]["v"]
        elif reply.status != 404:
            self.problems.append((operation, reply))
            return
        operation.outcome = "ok"
        self.known[key] = operation.revision

    async def list(self, line):
        operation = Operation("list", "", time.perf_counter())
        reply = await self._perform(line, operation, "GET", PATH)
        if reply.status != 200:
            self.problems.append((operation, reply))
            return {}
        operation.outcome = "ok"
        operation.revision = int(reply.json["metadata"]["resourceVersion"])
        items = {item["metadata"]["name"]: item for item in reply.json["items"]}
        operation.listing = {name: int(item["metadata"]["resourceVersion"]) for name, item in items.items()}
        return {name: item["data"]["v"] for name, item in items.items()}

    async def anything(self, line, random_source, *, lists=0.0):
        """One operation of a mixed load."""
        key = random_source.choice(self.names)
        dice = random_source.random()
        if dice < lists:
            await self.list(line)
        elif dice < 0.2:
            await self.get(line, key)
        elif dice < 0.4 and self.known[key]:
            await self.delete(line, key)
        else:
            await self.put(line, key)


class Gate:
    """Where clients wait while the server is down."""

    def __init__(self, server):
        self.server = server
        self.up = asyncio.Event()

    async def connect(self):
        while True:
            await self.up.wait()
            try:
                return await Line.open(self.server)
            except Disconnected:
                await asyncio.sleep(0.01)


async def write(gate, recorder, random_source):
    """A client that writes until the run is over, whatever happens to its connections."""
    while not recorder.is_over:
        line = await gate.connect()
        try:
            while not recorder.is_over:
                await recorder.anything(line, random_source)
        except Disconnected:
            continue
        finally:
            line.close()


def seen(event):
    """An event as the checkers want it."""
    metadata = event["object"]["metadata"]
    revision = int(metadata["resourceVersion"])
    if event["type"] == "BOOKMARK":
        return Seen("BOOKMARK", "", revision)
    return Seen(event["type"], metadata["name"], revision, event["object"]["data"]["v"])


class Watcher:
    """A client that watches, and after every interruption resumes from the last revision it saw, or relists after 410.

    It ends with the last write of the run. `cache` is what an informer would hold.
    """

    def __init__(self, since, timeout=0):
        self.path = f"{WATCH}&timeoutSeconds={timeout}" if timeout else WATCH
        self.sessions = []
        self.since = since
        self.relists = 0
        self.resumes = 0
        self.cache = {}

    @property
    def has_arrived(self):
        return END in self.cache

    async def run(self, gate, pause=None):
        """Watch until the end. `pause` is awaited between two sessions."""
        while not self.has_arrived:
            line = await gate.connect()
            try:
                await self._session(gate, line)
            except Disconnected:
                continue
            finally:
                line.close()
            if pause is not None:
                await pause()

    async def _session(self, gate, line):
        session = Session(self.since)
        self.sessions.append(session)
        async with contextlib.aclosing(line.watch(f"{self.path}&resourceVersion={self.since}")) as events:
            async for event in events:
                if event["type"] == "ERROR":
                    assert event["object"]["code"] == 410, event
                    if not session.events:
                        self.sessions.pop()
                    break
                self._take(session, event)
                if self.has_arrived or self.is_enough(session):
                    return
            else:
                return
        await self._relist(gate)

    def _take(self, session, event):
        if not session.events:
            self.resumes += 1
        session.events.append(one := seen(event))
        self.since = one.revision
        if one.kind == "DELETED":
            self.cache.pop(one.key, None)
        elif one.kind != "BOOKMARK":
            self.cache[one.key] = one.value

    def is_enough(self, session):
        """Whether to leave this session early."""
        return False

    async def _relist(self, gate):
        """Start over. The watch ended on its connection; a list needs one where nothing is left to read."""
        self.relists += 1
        line = await gate.connect()
        try:
            reply = await line.request("GET", PATH)
        finally:
            line.close()
        assert reply.status == 200, reply
        self.take_list(reply)

    def take_list(self, reply):
        """Hold what a list shows, and go on from there."""
        self.since = int(reply.json["metadata"]["resourceVersion"])
        self.cache = {item["metadata"]["name"]: item["data"]["v"] for item in reply.json["items"]}


def read_log(directory):
    """Every write to the namespace, from the store itself; the server must have ended."""

    async def read():
        store = await SqliteStorage.open(directory)
        commits = []

        def take(revision, changes):
            commits.extend(
                Commit(
                    change.revision,
                    change.key.removeprefix(PREFIX),
                    None if change.value is None else json.loads(change.value)["data"]["v"],
                )
                for change in changes
                if change.key.startswith(PREFIX)
            )

        try:
            (await store.follow(store.compacted, take)).close()
            assert store.compacted == 0
        finally:
            await store.close()
        return commits

    return asyncio.run(read())
