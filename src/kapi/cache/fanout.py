"""The fan-out: delivers the events of a resource to its watchers, together with those that follow when it is busy.

A delivery to a thousand watchers takes milliseconds, most of them for encryption and system calls, which several events
written together share. So when a change is committed soon after a delivery, before as much time has passed as that
took, and other writes are on their way, the change waits for these: until the store has no more of them, but no later
than the end of that time. So a busy server delivers for about half of its time and takes writes in for the other half.

* A change that no other follows is delivered at once, or after two turns of the event loop: that is how long requests
  that have arrived meanwhile need to become writes that the store knows of. Nothing waits for a clock alone.
* A change waits for at most `LONGEST_WAIT` seconds before its delivery begins, and at most `BATCH_BYTES` are written to
  a watcher at once.
* A delivery that takes long is made in slices of `SLICE` seconds. Between two of them the event loop serves everything
  else; changes that are committed meanwhile wait until it has ended. When more than `BATCH_BYTES` wait, writers of the
  resource wait before they commit (`caught_up`), so that they are no faster than the deliveries. Changes that other
  servers commit cannot be kept waiting: beyond `MOST_BYTES` they are delivered without a pause.
* The write is answered without waiting for its delivery. Readers of the cache see it before that, as ever.
* A watcher that joins while events wait has read those from history, and is not sent them again (`Watcher.after`).
  `flush` is called before a bookmark, which says that everything has been sent, and before a watch ends.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Final

from kapi.cache.watcher import LARGE
from kapi.cache.watcherindex import STEP, WatcherIndex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kapi.cache.invalidobjects import InvalidObjects
    from kapi.cache.item import Event
    from kapi.cache.watcher import Watcher
    from kapi.storage.interface import Storage

FEW: Final = 32
"""Watchers to which every change is delivered at once: it takes no longer than to find out if it could wait."""
LONGEST_WAIT: Final = 0.1
BATCH_BYTES: Final = 24 * 1024
"""Bytes of objects that are written together: less than the send buffer of a watch, which would be full."""
MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of objects that wait at most."""
SLICE: Final = 0.005
"""Seconds for which deliveries are made in one turn of the event loop."""
LEAVING: Final = 64
"""Watchers that may leave the feed in one turn of the event loop: each of them wakes a task for the next."""
_TURNS: Final = 2
"""Turns of the event loop from the arrival of a request to its commit: it is read, and it is handled."""


class FanOut:
    """The watchers of a resource, and the events that wait to be delivered to them."""

    def __init__(self, storage: Storage, invalid: InvalidObjects) -> None:
        self.watchers = WatcherIndex()
        self.caught_up: asyncio.Event | None = None
        """While too many events wait: set as soon as writers may go on."""
        self._storage = storage
        self._invalid = invalid
        self._waiting: list[Event] = []
        self._waiting_bytes = 0
        self._batch: list[Event] = []
        """What is being delivered."""
        self._steps: Iterator[int] | None = None
        """The rest of that delivery."""
        self._spent = 0.0
        """Seconds that have been spent on deliveries since nothing, or too little, waited."""
        self._not_before = 0.0
        """When an event that has others behind it is delivered."""
        self._turns = 0
        """Turns of the event loop that are left until it is decided whether to wait on; 0 when a timer runs."""
        self._handle: asyncio.Handle | None = None

    def offer(self, events: Sequence[Event]) -> None:
        """Deliver events, now or soon."""
        if not self.watchers:
            return
        is_first = not self._waiting
        self._waiting += events
        self._waiting_bytes += sum([len(event.item.body) for event in events])
        if self._steps is not None:
            self._limit()
        elif (
            self._waiting_bytes > BATCH_BYTES
            or len(self.watchers) < FEW
            or (is_first and perf_counter() >= self._not_before)
        ):
            self._deliver()
        elif not self._turns:
            self._turns = _TURNS
            self._schedule(asyncio.get_running_loop().call_soon(self._consider))

    def flush(self, watcher: Watcher) -> None:
        """Send a watcher that is in the feed what others may be sent later; or it leaves the feed, if that is much."""
        pending = [*self._batch, *self._waiting]
        if not pending or watcher not in self.watchers:
            return
        if self._waiting_bytes > BATCH_BYTES or any(len(event.item.body) > LARGE for event in pending):
            watcher.offer_large(pending)
            return
        try:
            watcher.offer(pending, pending[-1].item.revision)
        except Exception as error:
            self._failed(watcher, pending[0], error)

    def drop(self) -> None:
        """Forget what waits, and what has not been delivered to all."""
        for event in (*self._batch, *self._waiting):
            event.chunks = {}
        self._batch, self._steps, self._spent = [], None, 0.0
        self._waiting, self._waiting_bytes = [], 0
        self._unschedule()
        self._let_writers_go_on()

    # -- when ---------------------------------------------------------------------------------------------------------

    def _consider(self) -> None:
        """Deliver what waits unless other writes are on their way."""
        self._turns -= 1
        loop = asyncio.get_running_loop()
        if self._turns:
            self._schedule(loop.call_soon(self._consider))
            return
        left = self._not_before - perf_counter()
        if left > 0 and self._storage.waiting:
            self._schedule(loop.call_later(left, self._deliver))
        else:
            self._deliver()

    def _schedule(self, handle: asyncio.Handle) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = handle

    def _unschedule(self) -> None:
        self._turns = 0
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _limit(self) -> None:
        """Let writers wait if more waits than one delivery takes; leave no more than `MOST_BYTES`."""
        if self._waiting_bytes > BATCH_BYTES and self.caught_up is None:
            self.caught_up = asyncio.Event()
        while self._waiting_bytes > MOST_BYTES:
            self._advance(float("inf"), MOST_BYTES)

    def _let_writers_go_on(self) -> None:
        if self.caught_up is not None:
            self.caught_up.set()
            self.caught_up = None

    # -- how ----------------------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Deliver what waits, for about `SLICE` seconds; the rest follows in the next turns of the event loop."""
        self._unschedule()
        began = perf_counter()
        is_complete = self._advance(float("inf") if len(self.watchers) < FEW else began + SLICE)
        ended = perf_counter()
        self._spent += ended - began
        if self._waiting_bytes <= BATCH_BYTES:
            self._let_writers_go_on()
        if not is_complete:
            self._schedule(asyncio.get_running_loop().call_soon(self._deliver))
            return
        self._not_before = ended + min(self._spent, LONGEST_WAIT)
        self._spent = 0.0
        if self._waiting:
            self._turns = _TURNS
            self._schedule(asyncio.get_running_loop().call_soon(self._consider))

    def _advance(self, until: float, most: int = BATCH_BYTES) -> bool:
        """Deliver until a moment; returns True when no more than so many bytes are left."""
        leaving = 0
        while self._waiting or self._steps is not None:
            if self._steps is None:
                self._batch = self._take_batch()
                self._steps = self._delivery(self._batch)
            try:
                for left in self._steps:
                    leaving += left
                    if leaving >= LEAVING or perf_counter() >= until:
                        return False
            except Exception as error:
                self._interrupt(error)
            self._batch, self._steps = [], None
            if self._waiting_bytes <= most and len(self.watchers) >= FEW:
                break
        return True

    def _take_batch(self) -> list[Event]:
        """Take the events that are delivered next: those of one revision, and of more up to `BATCH_BYTES`."""
        waiting = self._waiting
        if self._waiting_bytes <= BATCH_BYTES:
            self._waiting, self._waiting_bytes = [], 0
            return waiting
        size = taken = end = 0
        for number, event in enumerate(waiting):
            if number and event.item.revision != waiting[number - 1].item.revision:
                end, taken = number, size
            size += len(event.item.body)
            if size > BATCH_BYTES and end:
                break
        else:
            end, taken = len(waiting), size
        batch = waiting[:end]
        del waiting[:end]
        self._waiting_bytes -= taken
        return batch

    def _delivery(self, events: Sequence[Event]) -> Iterator[int]:
        """Deliver events, and yield after every few watchers how many of those have left the feed."""
        last = events[-1].item.revision
        left = 0
        for number, (group, its_events) in enumerate(self.watchers.concerned(events).items(), 1):
            if any(len(event.item.body) > LARGE for event in its_events):
                yield from group.offer_large(its_events, self._failed)
            elif len(group.watchers) > 1:
                yield from group.offer(its_events, last, self._failed)
            else:
                left += group.offer_to_one(its_events, last, self._failed)
            if not number % STEP:
                yield left
                left = 0
        for event in events:
            event.chunks = {}

    def _interrupt(self, error: Exception) -> None:
        """Let all watchers read from history what could not be delivered."""
        first = self._batch[0].item
        self._invalid.record(first.key, "watch", error)
        for watcher in list(self.watchers):
            watcher.fall_behind(first.revision - 1)

    def _failed(self, watcher: Watcher, event: Event, error: Exception) -> None:
        """Close a watcher whose selector or encoder raised: a gap would be a lie."""
        self._invalid.record(event.item.key, "watch", error)
        self.watchers.remove(watcher)
        watcher.outlet.abort()
