"""Watching a version that a webhook converts to: events stand in line while somebody else is asked.

Everybody else's watcher is handed an event and writes it at once. This one keeps the order by working through its line
one batch at a time; a webhook that is slow delays its own watchers only, and one that is too slow loses them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from kapi.storage.watchcache import Watcher

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.registry.store import Store
    from kapi.storage.watchcache import Event

BATCH = 500
MAX_WAITING = 10_000
"""Events that may stand in line; then the peer is cut off, as one that does not read would be."""


class ConvertingWatcher(Watcher):
    """A watcher whose events are converted first. `failed` is done with the reason when they cannot be."""

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
        """Put events in line."""
        self._line.extend(events)
        self._sent.clear()
        self._wake.set()
        if len(self._line) > MAX_WAITING:
            self.cache.remove(self)
            self.outlet.abort()

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

    async def _work(self) -> None:
        try:
            while True:
                await self._wake.wait()
                while self._line:
                    batch = [self._line.popleft() for _ in range(min(BATCH, len(self._line)))]
                    items = [event.item for event in batch]
                    items += [event.previous for event in batch if event.previous is not None]
                    await self._store.prepare(items)
                    super().offer(batch)
                self._wake.clear()
                self._sent.set()
        except Exception as error:
            self.failed.set_exception(error)
            self._sent.set()
