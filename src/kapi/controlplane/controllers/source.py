"""The commit log as a controller's source: a committed change becomes requests in a queue before the write is answered.

An informer would list, watch, and hold a copy of what the server in this process holds already; this subscribes to the
server's view instead. Nothing is polled, nothing is decoded, and kinds that are defined later are seen from their first
object on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import structlog

from kapi.controller.queue import LIVE_PRIORITY, LOW_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kapi.cache.watchcache import Event
    from kapi.controller.queue import RateLimitingQueue
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.view import ObjectView

    Enqueue = Callable[[Event], Iterable[Request]]
    """The requests that an event of one resource leads to."""
    EnqueueAny = Callable[[str, Event], Iterable[Request]]
    """The same for the events of all resources, told apart by key prefix (`ObjectView.prefix`)."""

_log = structlog.get_logger("kapi.controllers")


class CommitSource:
    """A `Source` of a controller.

    `enqueue` maps key prefixes to functions from events to requests, or is one function for all events. It is called
    within the commit: it must be quick, read memory only, and not wait. What it raises is logged, and that event is
    skipped. `initial` returns the requests to reconcile when the controller starts: whatever the process before may
    have left undone.
    """

    def __init__(
        self,
        view: ObjectView,
        enqueue: Mapping[str, Enqueue] | EnqueueAny,
        initial: Callable[[], Iterable[Request]],
        *,
        name: str = "commits",
    ) -> None:
        self._view = view
        self._enqueue = enqueue
        self._initial = initial
        self._name = name
        self._queue: RateLimitingQueue[Request] | None = None
        self._cancellations: list[Callable[[], None]] = []

    def __str__(self) -> str:
        return self._name

    async def start(self, queue: RateLimitingQueue[Request], /) -> None:
        """Subscribe, and queue the initial requests."""
        self._queue = queue
        if callable(self._enqueue):
            self._cancellations.append(self._view.subscribe_all(self._take_any))
        else:
            # The changes of other resources cost nothing.
            for prefix, enqueue in self._enqueue.items():
                self._cancellations.append(self._view.subscribe(prefix, partial(self._take, enqueue)))
        for request in self._initial():
            queue.add(request, priority=LOW_PRIORITY)

    async def wait_for_sync(self) -> None:
        """Return at once: `start` has queued everything."""

    def stop(self) -> None:
        """Cancel the subscriptions."""
        self._queue = None
        for cancel in self._cancellations:
            cancel()
        self._cancellations = []

    def _take_any(self, prefix: str, events: Sequence[Event]) -> None:
        assert callable(self._enqueue)
        self._take(partial(self._enqueue, prefix), events)

    def _take(self, enqueue: Enqueue, events: Sequence[Event]) -> None:
        queue = self._queue
        if queue is None:
            return
        for event in events:
            try:
                for request in enqueue(event):
                    queue.add(request, priority=LIVE_PRIORITY)
            except Exception:
                _log.exception("event skipped: enqueueing failed", controller=queue.name, key=event.item.key)
