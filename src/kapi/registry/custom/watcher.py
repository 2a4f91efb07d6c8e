"""The watcher of a version that a webhook converts to: events are queued while the webhook converts them.

Other watchers write an event when they are offered it. This one keeps the order by converting its queue one batch at a
time; a slow webhook delays its own watchers only, and one that is too slow loses them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from kapi.cache.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from kapi.cache.watchcache import Event, Item

BATCH = 500
MAX_WAITING = 10_000
"""Events that may be queued; beyond that the client is cut off, as one that does not read would be."""


class ConvertingWatcher(Watcher):
    """A watcher whose events are converted first. `failed` is done with the reason when they cannot be.

    Promise: what is sent is a prefix of what was offered, in order; nothing is sent after a failure.
    """

    __slots__ = ("_convert", "_failed", "_queue", "_sent", "_task", "_wake")

    def __init__(self, watcher: Watcher, convert: Callable[[Iterable[Item]], Awaitable[None]]) -> None:
        super().__init__(watcher.cache, watcher.prefix, watcher.matches, watcher.encoder, watcher.outlet)
        self._convert = convert
        self._queue: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._sent = asyncio.Event()
        self._sent.set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._work())

    def offer(self, events: Iterable[Event]) -> None:
        """Queue the events that concern this watcher."""
        wanted = [event for event in events if self._is_near(event)]
        if not wanted or self._failed.done():
            return
        self._queue.extend(wanted)
        if len(self._queue) > MAX_WAITING:
            self.cache.remove(self)
            self._queue.clear()
            self.outlet.abort()
            return
        self._sent.clear()
        self._wake.set()

    @property
    def failed(self) -> asyncio.Future[None]:
        """Done with the error of a conversion that failed."""
        return self._failed

    @property
    def is_idle(self) -> bool:
        """True when everything offered has been sent."""
        return self._sent.is_set()

    async def flush(self) -> None:
        """Wait until everything offered has been sent; raises the error of a conversion that failed."""
        await self._sent.wait()
        if self._failed.done():
            self._failed.result()

    async def close(self) -> None:
        """Stop; what is still queued is dropped."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._failed.done():
            self._failed.exception()  # the watch has sent it to the client

    def _is_near(self, event: Event) -> bool:
        item = event.item
        return item.revision > self.after and item.key.startswith(self.prefix)

    async def _work(self) -> None:
        try:
            while True:
                await self._wake.wait()
                while self._queue:
                    batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
                    await self._send(batch)
                self._wake.clear()
                self._sent.set()
        except Exception as error:
            self._queue.clear()
            self._failed.set_exception(error)
            self._sent.set()

    async def _send(self, batch: list[Event]) -> None:
        await self._convert(self._shown(batch))
        for event in batch:
            if event.deleted and event.previous is not None:
                # The last state, which has just been converted.
                event.item = event.previous.at(event.item.revision)
        super().offer(batch)
        for event in batch:
            event.chunks = {}

    def _shown(self, batch: list[Event]) -> list[Item]:
        """The items to convert for these events: former states only where a selector may read them."""
        items: dict[Item, None] = {}
        for event in batch:
            if event.previous is not None and (self.matches is not None or event.deleted):
                items[event.previous] = None
            if not event.deleted:
                items[event.item] = None
        return list(items)
