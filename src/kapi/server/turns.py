"""Turns at the event loop for work that is cut into steps: long lists, selectors over many objects, indentation, YAML.

A thread would not do: it competes with the loop for the interpreter's lock, five milliseconds at a time, and a hundred
threads compete a hundred times. Here one piece of work after the other gets a turn of `TURN` seconds, and between two
turns the loop serves everything else. So any number of long requests delays the others by one turn, and one step.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

T = TypeVar("T")
R = TypeVar("R")

TURN: Final = 0.002
"""Seconds of a turn. It is over with the first step that ends later."""
PIECE: Final = 256 * 1024
"""Bytes after which a piece of a response is complete."""
_MOST_AT_ONCE: Final = 1024
"""Items that are processed between two looks at the clock, when they take no time."""


class Turns:
    """The order of the work that waits for a turn: first come, first served."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        """Held by the work whose turn it is; given to the next in line a turn of the loop after it is released."""

    async def map(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Return `function(item)` of each item."""
        results: list[R] = []

        def take(batch: list[T]) -> bool:
            results.extend([function(item) for item in batch])
            return False

        await self._process(items, take)
        return results

    async def select(self, matches: Callable[[T], bool], items: Iterable[T], limit: int = 0) -> list[T]:
        """Return the items that match; at most `limit`, 0 for all."""
        found: list[T] = []

        def take(batch: list[T]) -> bool:
            found.extend([item for item in batch if matches(item)])
            return 0 < limit <= len(found)

        await self._process(items, take)
        return found[:limit] if limit else found

    async def pieces(self, steps: Iterable[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield what the steps yield, in pieces of at least `PIECE` bytes but for the last."""
        remaining = iter(steps)
        group: list[bytes] = []
        size = 0
        is_over = False
        while not is_over:
            async with self.turn:
                until = perf_counter() + TURN
                for step in remaining:
                    group.append(step)
                    size += len(step)
                    if size >= PIECE or perf_counter() > until:
                        break
                else:
                    is_over = True
                if perf_counter() > until:
                    await asyncio.sleep(0)
            if size >= PIECE or is_over:
                yield b"".join(group)
                group, size = [], 0

    async def _process(self, items: Iterable[T], take: Callable[[list[T]], bool]) -> None:
        """Call `take` with batches of items until it returns True; as many as have lately taken a part of a turn."""
        iterator = iter(items)
        count = 1
        while True:
            async with self.turn:
                now = perf_counter()
                until = now + TURN
                while now <= until:
                    batch = list(islice(iterator, count))
                    if not batch or take(batch):
                        return
                    before, now = now, perf_counter()
                    count = min(2 * count, _MOST_AT_ONCE) if now - before < TURN / 8 else max(1, count // 2)
                await asyncio.sleep(0)
