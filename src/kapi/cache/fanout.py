"""The fan-out: delivers the events of a resource to its watchers, together with those that follow when it is busy.

A delivery to a thousand watchers takes milliseconds, most of them for encryption and system calls, which several events
written together share. So when a change is committed soon after a delivery, before as much time has passed as that
took, and other writes are on their way, the change waits for these: until the store has no more of them, but no later
than the end of that time. So a busy server delivers for about half of its time and takes writes in for the other half.

* A change that no other follows is delivered at once, or after two turns of the event loop: that is how long requests
  that have arrived meanwhile need to become writes that the store knows of. Nothing waits for a clock alone.
* A change waits for at most `LONGEST_WAIT` seconds, and at most `BATCH_BYTES` wait.
* The write is answered without waiting for its delivery. Readers of the cache see it before that, as ever.
* A watcher that joins while events wait has read those from history, and is not sent them again (`Watcher.after`).
  `flush` is called before a bookmark, which says that everything has been sent, and before a watch ends.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Final

from kapi.cache.watcher import LARGE
from kapi.cache.watcherindex import WatcherIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.cache.invalidobjects import InvalidObjects
    from kapi.cache.item import Event
    from kapi.cache.watcher import Watcher
    from kapi.storage.interface import Storage

FEW: Final = 32
"""Watchers to which every change is delivered at once: it takes no longer than to find out if it could wait."""
LONGEST_WAIT: Final = 0.1
BATCH_BYTES: Final = 24 * 1024
"""Bytes of objects that are written together: less than the send buffer of a watch, which would be full."""
_TURNS: Final = 2
"""Turns of the event loop from the arrival of a request to its commit: it is read, and it is handled."""


class FanOut:
    """The watchers of a resource, and the events that wait to be delivered to them."""

    def __init__(self, storage: Storage, invalid: InvalidObjects) -> None:
        self.watchers = WatcherIndex()
        self._storage = storage
        self._invalid = invalid
        self._waiting: list[Event] = []
        self._waiting_bytes = 0
        self._not_before = 0.0
        """When an event that has others behind it is delivered."""
        self._turns = 0
        """Turns of the event loop that are left until it is decided whether to wait on; 0 when a timer runs."""
        self._handle: asyncio.Handle | None = None

    def offer(self, events: Sequence[Event]) -> None:
        """Deliver events, now or soon."""
        if not self.watchers:
            return
        if not self._waiting and (len(self.watchers) < FEW or perf_counter() >= self._not_before):
            self._deliver(events)
            return
        self._waiting += events
        self._waiting_bytes += sum([len(event.item.body) for event in events])
        if self._waiting_bytes > BATCH_BYTES:
            self.flush()
        elif not self._turns:
            self._turns = _TURNS
            self._schedule(asyncio.get_running_loop().call_soon(self._consider))

    def _consider(self) -> None:
        """Deliver what waits unless other writes are on their way."""
        self._turns -= 1
        loop = asyncio.get_running_loop()
        if self._turns:
            self._schedule(loop.call_soon(self._consider))
            return
        left = self._not_before - perf_counter()
        if left > 0 and self._storage.waiting:
            self._schedule(loop.call_later(left, self.flush))
        else:
            self.flush()

    def _schedule(self, handle: asyncio.Handle) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = handle

    def flush(self) -> None:
        """Deliver what waits."""
        if self._waiting:
            events = self._waiting
            self.drop()
            self._deliver(events)

    def drop(self) -> None:
        """Forget what waits."""
        self._waiting, self._waiting_bytes, self._turns = [], 0, 0
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _deliver(self, events: Sequence[Event]) -> None:
        began = perf_counter()
        last = events[-1].item.revision
        for group, its_events in self.watchers.concerned(events).items():
            if any(len(event.item.body) > LARGE for event in its_events):
                group.offer_large(its_events, self._failed)
            else:
                group.offer(its_events, last, self._failed)
        for event in events:
            event.chunks = {}
        ended = perf_counter()
        self._not_before = ended + min(ended - began, LONGEST_WAIT)

    def _failed(self, watcher: Watcher, event: Event, error: Exception) -> None:
        """Close a watcher whose selector or encoder raised: a gap would be a lie."""
        self._invalid.record(event.item.key, "watch", error)
        self.watchers.remove(watcher)
        watcher.outlet.abort()
