"""A collection in memory that an informer can follow: every change becomes one event, and nothing ever goes wrong."""

import asyncio
import contextlib
import json

from kapi.client.pagination import PageGuard
from kapi.informer.reflector import INITIAL_EVENTS_END


class Shelf:
    """A `ListerWatcher` that streams. `open` is a gate: as long as it is shut, requests wait."""

    def __init__(self):
        self.revision = 1
        self.objects = {}
        self.watchers = []
        self.open = asyncio.Event()
        self.open.set()

    def put(self, name, spec=None, **metadata):
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.revision += 1
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": str(self.revision),
            **metadata,
        }
        self.objects[name] = {"apiVersion": "v1", "kind": "Thing", "metadata": metadata, "spec": spec or {}}
        self._tell(kind, self.objects[name])

    def delete(self, name):
        self.revision += 1
        self._tell("DELETED", self.objects.pop(name))

    def _tell(self, kind, obj):
        for watcher in self.watchers:
            watcher.put_nowait(json.dumps({"type": kind, "object": obj}).encode())

    def page_guard(self):
        return PageGuard(1000)

    async def list_page(self, *, resource_version, limit, continue_):
        raise AssertionError("it streams, so it is never listed")

    @contextlib.asynccontextmanager
    async def watch(self, *, resource_version, timeout_seconds, initial_events):
        await self.open.wait()
        watcher = asyncio.Queue()
        if initial_events:
            for obj in self.objects.values():
                watcher.put_nowait(json.dumps({"type": "ADDED", "object": obj}).encode())
            end = {"resourceVersion": str(self.revision), "annotations": {INITIAL_EVENTS_END: "true"}}
            watcher.put_nowait(json.dumps({"type": "BOOKMARK", "object": {"kind": "Thing", "metadata": end}}).encode())
        self.watchers.append(watcher)

        async def lines():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    while True:
                        yield await watcher.get()

        try:
            yield lines()
        finally:
            self.watchers.remove(watcher)
