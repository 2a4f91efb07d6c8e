"""A cache as users of bare client libraries write it: a dictionary, a queue of keys, and a loop over the queue.

It promises less than an informer and a work queue do: a key that is queued twice is reconciled twice, one that fails is
lost, and nothing is measured or limited.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tally import Tally


class Store:
    """Objects by name, and the names that are to be reconciled."""

    def __init__(self, tally: Tally, stamp_of: Callable[[Any], str]) -> None:
        self._tally = tally
        self._stamp_of = stamp_of
        self._objects: dict[str, Any] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()

    def put(self, name: str, obj: Any) -> None:
        """Keep an object, and have it reconciled."""
        self._objects[name] = obj
        self._queue.put_nowait(name)

    def __len__(self) -> int:
        return len(self._objects)

    async def work(self) -> None:
        """Reconcile for ever."""
        while True:
            name = await self._queue.get()
            obj = self._objects.get(name)
            if obj is not None:
                self._tally.reconciled(name, self._stamp_of(obj))
