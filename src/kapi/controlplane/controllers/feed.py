"""The commit log as a controller's source: what is written anywhere becomes keys in a queue, before the writer hears.

An informer would list, watch, and hold a copy of what the server in this process holds already; this listens where the
watch caches do. Nothing is polled, nothing is decoded, and a kind that is defined later is heard from its first object
on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import structlog

from kapi.controller.queue import LIVE_PRIORITY, LOW_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kapi.cache.watchcache import CacheHub, Event, WatchCache
    from kapi.controller.queue import RateLimitingQueue
    from kapi.controller.reconcile import Request

    Hear = Callable[[Event], Iterable[Request]]

_log = structlog.get_logger("kapi.housekeeping")


class CommitFeed:
    """A `Source` of a controller.

    `hear` is asked of every committed change, or with a mapping from key prefixes (`Store.prefix`) of those resources
    only, which keys it concerns. It is called within the commit: it must be quick, read memory only, and not wait. What
    it raises is logged and that change passed over. `initial` says which keys to look at when the controller starts:
    whatever may have been left undone by the process before.
    """

    def __init__(
        self,
        hub: CacheHub,
        hear: Mapping[str, Hear] | Callable[[WatchCache, Event], Iterable[Request]],
        initial: Callable[[], Iterable[Request]],
        *,
        name: str = "commits",
    ) -> None:
        self._hub = hub
        self._hear = hear
        self._initial = initial
        self._name = name
        self._queue: RateLimitingQueue[Request] | None = None
        self._ears: list[tuple[WatchCache, Callable[[Sequence[Event]], None]]] = []
        """What listens to single resources; the changes of others cost nothing."""

    def __str__(self) -> str:
        return self._name

    async def start(self, queue: RateLimitingQueue[Request], /) -> None:
        """Listen, and queue what was there before."""
        self._queue = queue
        if callable(self._hear):
            self._hub.listeners.append(self._heard_anywhere)
        else:
            self._ears = [(self._hub.cache(prefix), partial(self._heard, hear)) for prefix, hear in self._hear.items()]
        for cache, ear in self._ears:
            cache.listen(ear)
        for request in self._initial():
            queue.add(request, priority=LOW_PRIORITY)

    async def wait_for_sync(self) -> None:
        """Everything was queued by `start`."""

    def stop(self) -> None:
        """Listen no more."""
        self._queue = None
        if self._heard_anywhere in self._hub.listeners:
            self._hub.listeners.remove(self._heard_anywhere)
        for cache, ear in self._ears:
            cache.unlisten(ear)
        self._ears = []

    def _heard_anywhere(self, cache: WatchCache, events: Sequence[Event]) -> None:
        assert callable(self._hear)
        self._heard(partial(self._hear, cache), events)

    def _heard(self, hear: Hear, events: Sequence[Event]) -> None:
        queue = self._queue
        if queue is None:
            return
        for event in events:
            try:
                for request in hear(event):
                    queue.add(request, priority=LIVE_PRIORITY)
            except Exception:
                _log.exception("a change was passed over", controller=queue.name, key=event.item.key)
