"""The two orders of a work queue, as plain data: keys that are ready, and keys that are delayed.

Apart from the queue because both are pure: no clock, no event loop, no metrics. Both hold each key at most once, and
their memory grows with the number of distinct keys held, never with the number of calls.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

K = TypeVar("K", bound=Hashable)

# How many overtaken entries a timetable tolerates before it drops them; without a floor, small ones would always sweep.
_SWEEP_FLOOR = 64


class ReadyKeys(Generic[K]):
    """Keys that wait for a worker: the highest priority first, and first come first served within one priority."""

    def __init__(self) -> None:
        # One line per priority in use; an empty line is removed at once, so that priorities cost nothing when unused.
        self._levels: dict[int, OrderedDict[K, None]] = {}
        # The keys of `_levels`, ascending. Few priorities are ever in use at once, so a sorted list beats a heap.
        self._priorities: list[int] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, key: K, priority: int) -> None:
        """Put a key that is not in the line behind all others of its priority."""
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = OrderedDict()
            insort(self._priorities, priority)
        level[key] = None
        self._length += 1

    def pop(self) -> K:
        """Take the next key; IndexError when there is none."""
        priority = self._priorities[-1]
        level = self._levels[priority]
        key, _ = level.popitem(last=False)
        self._length -= 1
        if not level:
            self._drop(priority)
        return key

    def move(self, key: K, old: int, new: int) -> None:
        """Change the priority of a key; it is put behind those that have the new one already."""
        level = self._levels[old]
        del level[key]
        self._length -= 1
        if not level:
            self._drop(old)
        self.push(key, new)

    def _drop(self, priority: int) -> None:
        del self._levels[priority]
        self._priorities.remove(priority)


class DelayedKey(NamedTuple, Generic[K]):
    """A key and when it is due. `turn` breaks ties, first come first served, and makes keys need no order."""

    due: float
    turn: int
    key: K
    priority: int


class DelayedKeys(Generic[K]):
    """Keys that come back later. Asked for twice, a key keeps the earlier time and the higher priority."""

    def __init__(self) -> None:
        # What counts. The heap may also hold entries that were overtaken by an earlier one; they are known by not
        # being the one in here.
        self._kept: dict[K, DelayedKey[K]] = {}
        self._heap: list[DelayedKey[K]] = []
        self._turns = 0

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, key: K, due: float, priority: int) -> None:
        """Have a key come back, unless it comes back earlier anyway."""
        known = self._kept.get(key)
        if known is None:
            self._turns += 1
            self._enter(DelayedKey(due, self._turns, key, priority))
        elif due < known.due or priority > known.priority:
            self._enter(DelayedKey(min(due, known.due), known.turn, key, max(priority, known.priority)))

    def next_due(self) -> float | None:
        """Return the time at which the next key is due; None when there is none."""
        heap = self._heap
        while heap and self._kept.get(heap[0].key) is not heap[0]:
            heapq.heappop(heap)
        return heap[0].due if heap else None

    def pop_due(self, now: float) -> Iterator[DelayedKey[K]]:
        """Take the keys that are due, in the order of their times."""
        due = self.next_due()
        while due is not None and due <= now:
            entry = heapq.heappop(self._heap)
            del self._kept[entry.key]
            yield entry
            due = self.next_due()

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._heap.clear()

    def _enter(self, entry: DelayedKey[K]) -> None:
        self._kept[entry.key] = entry
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._kept) + _SWEEP_FLOOR:
            # A key that is moved forward again and again would otherwise leave an entry behind each time.
            self._heap = list(self._kept.values())
            heapq.heapify(self._heap)
