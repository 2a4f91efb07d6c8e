"""Watching a version that a webhook converts to: events stand in line while somebody else is asked.

Everybody else's watcher is handed an event and writes it at once. This one keeps the order by working through its line
one batch at a time; a webhook that is slow delays its own watchers only, and one that is too slow loses them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from kapi.cache.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.cache.watchcache import Event, Item
    from kapi.registry.store import Store

BATCH = 500
MAX_WAITING = 10_000
"""Events that may stand in line; then the peer is cut off, as one that does not read would be."""


class ConvertingWatcher(Watcher):
    """A watcher whose events are converted first. `failed` is done with the reason when they cannot be.

    Promise: what is sent is a prefix of what was offered, in order; nothing is sent after a failure.
    """

    __slots__ = ("_line", "_sent", "_store", "_task", "_wake", "failed")

    def __init__(self, watcher: Watcher, store: Store) -> None:
        super().__init__(watcher.cache, watcher.prefix, watcher.matches, watcher.encoder, watcher.outlet)
        self._store = store
        self._line: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._sent = asyncio.Event()
        self._sent.set()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._work())

    def offer(self, events: Iterable[Event]) -> None:
        """Put events in line; those that do not concern this watcher are not worth asking anybody about."""
        wanted = [event for event in events if self._is_near(event)]
        if not wanted or self.failed.done():
            return
        self._line.extend(wanted)
        if len(self._line) > MAX_WAITING:
            self.cache.remove(self)
            self._line.clear()
            self.outlet.abort()
            return
        self._sent.clear()
        self._wake.set()

    @property
    def is_idle(self) -> bool:
        """Whether everything offered has been sent."""
        return self._sent.is_set()

    async def flush(self) -> None:
        """Wait until everything offered has been sent; raises what went wrong."""
        await self._sent.wait()
        if self.failed.done():
            self.failed.result()

    async def finish(self) -> None:
        """Stop; what still stands in line is dropped."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self.failed.done():
            self.failed.exception()  # the session has told the peer

    def _is_near(self, event: Event) -> bool:
        item = event.item
        return item.revision > self.after and item.key.startswith(self.prefix)

    async def _work(self) -> None:
        try:
            while True:
                await self._wake.wait()
                while self._line:
                    batch = [self._line.popleft() for _ in range(min(BATCH, len(self._line)))]
                    await self._send(batch)
                self._wake.clear()
                self._sent.set()
        except Exception as error:
            self._line.clear()
            self.failed.set_exception(error)
            self._sent.set()

    async def _send(self, batch: list[Event]) -> None:
        await self._store.prepare(self._shown(batch))
        for event in batch:
            if event.deleted and event.previous is not None:
                # Its last state once more, which has just been converted.
                event.item = event.previous.at(event.item.revision)
        super().offer(batch)
        for event in batch:
            event.chunks = {}

    def _shown(self, batch: list[Event]) -> list[Item]:
        """What has to be converted for these events: former states only where a selector may ask about them."""
        items: dict[Item, None] = {}
        for event in batch:
            if event.previous is not None and (self.matches is not None or event.deleted):
                items[event.previous] = None
            if not event.deleted:
                items[event.item] = None
        return list(items)
