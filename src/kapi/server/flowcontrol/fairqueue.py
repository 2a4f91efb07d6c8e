"""Fair queuing: requests that wait for a seat of one priority level, and whose turn it is.

Each flow is dealt a hand of queues by its hash (shuffle sharding), and its requests wait in the least loaded queue of
the hand: a flow that floods fills its own hand and shares few queues with any other. Queues take turns by start-time
fair queuing: the queue that has had the least work done, in seat-seconds, is next.
"""

from __future__ import annotations

import hashlib
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from kapi.server.flowcontrol.classify import Flow

ESTIMATED_SECONDS: Final = 0.003
"""The work of a request, per seat, before it is known."""
REMEMBERED_HANDS: Final = 4096
REMEMBERED_QUEUES: Final = 1024
"""Queues of a level beyond which idle ones are deleted."""


@lru_cache(maxsize=REMEMBERED_HANDS)
def hand_of(schema: str, distinguisher: str, queues: int, size: int) -> tuple[int, ...]:
    """Deal the hand of a flow: distinct queues, determined by its hash."""
    digest = hashlib.sha256(f"{schema}\x00{distinguisher}".encode()).digest()
    value = int.from_bytes(digest, "big")
    hand: list[int] = []
    for dealt in range(min(size, queues)):
        value, card = divmod(value, queues - dealt)
        # The card counts the queues that were not dealt yet. There may be ten million, so no list of them is made.
        for other in sorted(hand):
            card += other <= card
        hand.append(card)
    return tuple(hand)


class Waiting:
    """A request that waits. `turn` is done when it may run, or cancelled when it waits no longer."""

    __slots__ = ("arrived", "flow", "queue", "seats", "turn")

    def __init__(self, flow: Flow, seats: int, queue: Queue, turn: asyncio.Future[None], arrived: float) -> None:
        self.flow = flow
        self.seats = seats
        self.queue = queue
        self.turn = turn
        self.arrived = arrived


class Queue:
    """One queue of a level."""

    __slots__ = ("executing", "index", "next_start", "seats_in_use", "seats_waiting", "waiting")

    def __init__(self, index: int) -> None:
        self.index = index
        self.waiting: deque[Waiting] = deque()
        self.seats_waiting = 0
        self.executing = 0
        self.seats_in_use = 0
        self.next_start = 0.0
        """The virtual time at which its next request starts: the work it has had, compared to others."""


class FairQueues:
    """The queues of one level. Cancelled requests are skipped when their turn comes.

    A configuration may ask for ten million queues, so a queue is made when it is first used, and deleted when it is
    empty and has had no more work than the others, or when all are.
    """

    def __init__(self, queues: int, hand_size: int, length_limit: int) -> None:
        self._count = queues
        self.queues: dict[int, Queue] = {}
        """The queues in use, by their index."""
        self._hand_size = hand_size
        self._length_limit = length_limit
        self._virtual_time = 0.0
        self._executing = 0
        self._sweep_at = REMEMBERED_QUEUES
        self._backlog: set[Queue] = set()
        """The queues in which requests wait."""
        self.length = 0

    def enqueue(self, flow: Flow, seats: int, turn: asyncio.Future[None], now: float) -> Waiting | None:
        """Have a request wait; returns None if the queue it would wait in is full."""
        queue = self._queue_for(flow)
        if len(queue.waiting) >= self._length_limit:
            return None
        request = Waiting(flow, seats, queue, turn, now)
        self._append(request)
        return request

    def adopt(self, request: Waiting) -> None:
        """Take over a request that waited in the queues of an earlier configuration."""
        request.queue = self._queue_for(request.flow)
        self._append(request)

    def _queue_for(self, flow: Flow) -> Queue:
        hand = hand_of(flow.schema, flow.distinguisher, self._count, self._hand_size)
        index = min(hand, key=self._load)
        return self.queues.get(index) or Queue(index)

    def _load(self, index: int) -> int:
        queue = self.queues.get(index)
        return 0 if queue is None else queue.seats_waiting + queue.seats_in_use

    def _append(self, request: Waiting) -> None:
        queue = request.queue
        if not queue.waiting and not queue.executing:
            # A queue that was idle does not get credit for it.
            queue.next_start = max(queue.next_start, self._virtual_time)
        self.queues[queue.index] = queue
        queue.waiting.append(request)
        queue.seats_waiting += request.seats
        self._backlog.add(queue)
        self.length += 1

    def remove(self, request: Waiting) -> None:
        """Take out a request that waits no longer."""
        queue = request.queue
        try:
            queue.waiting.remove(request)
        except ValueError:
            return
        self._removed(queue, request)

    def head(self) -> Waiting | None:
        """Return the request whose turn it is; None if none waits."""
        if not self._backlog:
            return None
        queue = min(self._backlog, key=lambda one: (one.next_start, one.index))
        return queue.waiting[0]

    def take(self, request: Waiting) -> None:
        """Start the request that `head` returned."""
        queue = request.queue
        queue.waiting.popleft()
        self._removed(queue, request)
        self._virtual_time = queue.next_start
        queue.next_start += request.seats * ESTIMATED_SECONDS
        queue.executing += 1
        self._executing += 1
        queue.seats_in_use += request.seats

    def finish(self, request: Waiting, seconds: float) -> None:
        """Correct the estimate of a request that has run."""
        queue = request.queue
        queue.executing -= 1
        self._executing -= 1
        queue.seats_in_use -= request.seats
        queue.next_start += request.seats * (seconds - ESTIMATED_SECONDS)
        self._forget_idle()

    def __iter__(self) -> Iterator[Waiting]:
        for queue in self.queues.values():
            yield from queue.waiting

    def _forget_idle(self) -> None:
        """Delete idle queues now and then: a queue that starts anew begins at the virtual time, as an idle one does."""
        if not self._executing and not self.length:
            self.queues = {}
            self._sweep_at = REMEMBERED_QUEUES
        if len(self.queues) <= self._sweep_at:
            return
        now = self._virtual_time
        self.queues = {
            index: queue
            for index, queue in self.queues.items()
            if queue.waiting or queue.executing or queue.next_start > now
        }
        self._sweep_at = max(REMEMBERED_QUEUES, 2 * len(self.queues))

    def _removed(self, queue: Queue, request: Waiting) -> None:
        queue.seats_waiting -= request.seats
        self.length -= 1
        if not queue.waiting:
            self._backlog.discard(queue)
