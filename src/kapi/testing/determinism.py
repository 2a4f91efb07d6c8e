"""Makes chance the same in each run: what is drawn at random, and the order in which sets of tasks are iterated.

Back-offs, the ends of watches, uids, generated names and cluster IPs are drawn at random. Here all of them are drawn
from the global random number generator, which is seeded.

A set of objects is iterated in the order of their hashes, which by default are addresses in memory and differ from run
to run. asyncio has sets of tasks and futures (`wait`, `TaskGroup`), so they are given hashes that count. Sets of texts
are another matter: their hashes depend on PYTHONHASHSEED, so Kapi itself never acts in the order of such a set.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def repeatable(loop: asyncio.AbstractEventLoop, seed: int, time: Callable[[], float]) -> Iterator[None]:
    """Make chance on a loop the same in each run for a block; `time` returns the seconds of the loop's clock."""
    state = random.getstate()
    random.seed(seed)
    patch = mock.patch
    with contextlib.ExitStack() as stack:
        for change in (
            patch.object(uuid, "uuid4", _uuid4),
            # uids are allocated many at a time, and some are left from before.
            patch("kapi.registry.uid.os", SimpleNamespace(urandom=random.randbytes)),
            patch("kapi.registry.uid._used", 1 << 30),
            patch("kapi.api.names._random", random),
            patch("kapi.registry.kinds.core.service.ranges._random", random),
            patch("kapi.informer.reflector.Random", _generator),
            patch("kapi.informer.namespaces.Random", _generator),
            # Long work is interrupted by the time that it takes, and waiting requests have a fair share of it.
            patch("kapi.server.turns.perf_counter", time),
            patch("kapi.server.flowcontrol.control.time", SimpleNamespace(perf_counter=time)),
        ):
            stack.enter_context(change)
        stack.enter_context(_counted(loop))
        try:
            yield
        finally:
            random.setstate(state)


def _uuid4() -> uuid.UUID:
    return uuid.UUID(bytes=random.randbytes(16), version=4)  # noqa: S311 - in a test


def _generator() -> random.Random:
    return random.Random(random.getrandbits(64))  # noqa: S311 - what it replaces


@contextlib.contextmanager
def _counted(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Give new tasks and futures of a loop hashes that count, unless the loop has tasks of its own kind."""
    numbers = itertools.count(1)

    def create_task(
        loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
    ) -> asyncio.Task[Any] | asyncio.Future[Any]:
        return _Task(next(numbers), coroutine, loop=loop, **options)

    def create_future() -> asyncio.Future[Any]:
        return _Future(next(numbers), loop=loop)

    before = loop.get_task_factory()
    with mock.patch.object(loop, "create_future", create_future):
        if before is None:
            loop.set_task_factory(cast("Any", create_task))
        try:
            yield
        finally:
            loop.set_task_factory(before)


class _Task(asyncio.Task[Any]):
    """A task whose hash is a number; it is set first, because a new task is put into a set at once."""

    def __init__(self, number: int, coroutine: Any, **options: Any) -> None:
        self._hash = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._hash


class _Future(asyncio.Future[Any]):
    """A future whose hash is a number."""

    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self._hash = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._hash
