"""The work queue: which key is worked on next, and the promise that no two workers have the same one.

`WorkQueue` holds keys, `DelayingQueue` adds "later", `RateLimitingQueue` adds "again, but not too soon". All three live
on one event loop and are not thread-safe; from another thread use `loop.call_soon_threadsafe(queue.add, key)`. They
know nothing of Kubernetes: a key is anything hashable.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from kapi.base.clock import SystemClock
from kapi.controller.metrics.queue import queue_meter
from kapi.controller.queue.order import DelayedKeys, ReadyKeys
from kapi.controller.queue.ratelimit import default_rate_limiter

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from kapi.base.clock import Clock
    from kapi.controller.queue.ratelimit import RateLimiter

K = TypeVar("K", bound=Hashable)

# Of a key that changed, and of a key that is only looked at again (the initial list, a resync).
LIVE_PRIORITY = 0
LOW_PRIORITY = -100

# A loop may call a timer this much before its time; waiting again for so little would be a busy loop.
_TIMER_SLACK = 1e-6


class QueueShutDown(Exception):
    """The queue is shut down and has no more keys: the worker that asked should end."""


class WorkQueue(Generic[K]):
    """Keys that need work.

    - Stingy: a key that is added many times before a worker takes it is handed out once.
    - Exclusive: a key is with one worker at a time. Added again meanwhile, it is handed out again after `done`.
    - Fair: higher priorities first; within one priority, in the order the keys became ready.
    - Nothing is lost: every key added before the shutdown is handed out after the (last) add.
    - Memory grows with the number of distinct keys, not with the number of adds.

    Adding a waiting key again with a higher priority raises it, and puts it behind those that have that priority
    already; with a lower one it changes nothing.
    """

    def __init__(
        self, name: str = "", *, clock: Clock | None = None, registry: CollectorRegistry | None = None
    ) -> None:
        """Metrics are kept when both a name and a registry are given; queues of one name share their series."""
        self.name = name
        self._clock = clock or SystemClock()
        # Keys that need work, with their priorities. Those that no worker has are in `_ready` too, and only those.
        self._dirty: dict[K, int] = {}
        self._processing: set[K] = set()
        self._ready: ReadyKeys[K] = ReadyKeys()
        self._workers: deque[asyncio.Future[None]] = deque()
        self._shutting_down = False
        # Set when a drain need not wait any longer.
        self._drained = asyncio.Event()
        self._meter = queue_meter(registry, name, self._clock, self._dirty)

    def __len__(self) -> int:
        """Return the number of keys that are ready. For display only: it may be outdated at the next await."""
        return len(self._ready)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} ready={len(self._ready)} processing={len(self._processing)}>"

    @property
    def is_shutting_down(self) -> bool:
        """Return True if adds are ignored by now."""
        return self._shutting_down

    def add(self, key: K, *, priority: int = LIVE_PRIORITY) -> None:
        """Mark a key as needing work. Ignored once the queue is shutting down."""
        if self._shutting_down:
            return
        known = self._dirty.get(key)
        if known is not None:
            if priority > known:
                self._dirty[key] = priority
                if key not in self._processing:
                    self._ready.move(key, known, priority)
            return
        self._dirty[key] = priority
        self._meter.added(key, priority)
        if key not in self._processing:
            self._ready.push(key, priority)
            if self._workers:
                self._wake_worker()

    async def get(self) -> K:
        """Wait for a key and take it; `done` must follow. QueueShutDown when there will be no more."""
        key, _ = await self.get_with_priority()
        return key

    async def get_with_priority(self) -> tuple[K, int]:
        """As `get`, with the priority the key had."""
        while not self._ready:
            if self._shutting_down:
                raise QueueShutDown(self.name)
            await self._wait_for_key()
        key = self._ready.pop()
        priority = self._dirty.pop(key)
        self._processing.add(key)
        self._meter.taken(key)
        return key, priority

    def done(self, key: K) -> None:
        """The work on a key that `get` returned is over; ValueError for any other key."""
        try:
            self._processing.remove(key)
        except KeyError:
            raise ValueError(f"done({key!r}): no worker of queue {self.name!r} has this key") from None
        self._meter.finished(key)
        priority = self._dirty.get(key)
        if priority is not None:
            self._ready.push(key, priority)
            self._wake_worker()
        elif self._shutting_down and self._is_idle():
            self._drained.set()

    def shut_down(self) -> None:
        """Ignore adds from now on. Workers get the keys that are left and then QueueShutDown; a drain stops waiting."""
        self._close()
        self._drained.set()

    async def shut_down_with_drain(self) -> None:
        """Ignore adds from now on, and wait until all keys that were added have been worked on.

        Needs workers that go on until QueueShutDown and call `done` each time; else it waits until `shut_down`.
        """
        self._close()
        if not self._is_idle():
            self._drained.clear()
            await self._drained.wait()

    def _close(self) -> None:
        self._shutting_down = True
        while self._workers:
            self._wake_worker()

    def _is_idle(self) -> bool:
        return not self._dirty and not self._processing

    async def _wait_for_key(self) -> None:
        worker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._workers.append(worker)
        try:
            await worker
        except asyncio.CancelledError:
            worker.cancel()
            with suppress(ValueError):
                self._workers.remove(worker)
            if len(self._ready) and not worker.cancelled():
                # Woken for a key and cancelled before it could take it: another worker has to be woken for it.
                self._wake_worker()
            raise

    def _wake_worker(self) -> None:
        while self._workers:
            worker = self._workers.popleft()
            if not worker.done():
                worker.set_result(None)
                return


class DelayingQueue(WorkQueue[K]):
    """A work queue that can also add a key later.

    One timer for all keys. A key asked for twice comes at the earlier time, with the higher priority. An `add` in
    between does not cancel the delayed one: a key is handed out at its time or soon after, even if it was before.
    """

    def __init__(
        self, name: str = "", *, clock: Clock | None = None, registry: CollectorRegistry | None = None
    ) -> None:
        super().__init__(name, clock=clock, registry=registry)
        self._later: DelayedKeys[K] = DelayedKeys()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0

    def add_after(self, key: K, delay: float, *, priority: int = LIVE_PRIORITY) -> None:
        """Add a key after so many seconds; at once when that is not more than none."""
        if self._shutting_down:
            return
        self._meter.retried()
        if not delay > 0:
            self.add(key, priority=priority)
            return
        self._later.put(key, self._clock.monotonic() + delay, priority)
        self._set_timer()

    def _close(self) -> None:
        super()._close()
        self._later.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        due = self._later.next_due()
        if due is None or (self._timer is not None and self._timer_due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        self._timer = asyncio.get_running_loop().call_later(max(due - self._clock.monotonic(), 0.0), self._add_due)

    def _add_due(self) -> None:
        self._timer = None
        for entry in self._later.pop_due(self._clock.monotonic() + _TIMER_SLACK):
            self.add(entry.key, priority=entry.priority)
        self._set_timer()


class RateLimitingQueue(DelayingQueue[K]):
    """A delaying queue that asks a rate limiter how much later. A limiter belongs to one queue."""

    def __init__(
        self,
        name: str = "",
        *,
        limiter: RateLimiter[K] | None = None,
        clock: Clock | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        super().__init__(name, clock=clock, registry=registry)
        self._limiter: RateLimiter[K] = default_rate_limiter(clock=self._clock) if limiter is None else limiter

    def add_rate_limited(self, key: K, *, priority: int = LIVE_PRIORITY) -> None:
        """Add a key when the rate limiter says so; counts as one more try."""
        self.add_after(key, self._limiter.when(key), priority=priority)

    def forget(self, key: K) -> None:
        """The key needs no more tries: its next failure starts from the shortest delay. It stays queued if it is."""
        self._limiter.forget(key)

    def num_requeues(self, key: K) -> int:
        """Return the number of retries since the key was last forgotten."""
        return self._limiter.num_requeues(key)
