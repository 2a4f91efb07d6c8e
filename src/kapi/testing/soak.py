"""Soak tests: the same work, round after round, and nothing may grow.

    async def one_round() -> None: ...  # create, wait, delete

    await soak(one_round, rounds=100, objects=20)

After some rounds to warm up, three things are looked at after each round: the memory that each line of code has
allocated and not freed (tracemalloc), the tasks of asyncio, and open file descriptors. What never shrinks, has grown by
the end, and goes on growing in more rounds is a leak, and the error names the lines. What is bounded grows to its bound
first: for the length of a soak the event recorder and the reflector remember few objects, so that they get there while
the rounds warm up.

Run the control plane in another process (`Environment.process`): its history of objects grows until it is compacted.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import tracemalloc
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kapi.controller import recorder
from kapi.informer import reflector

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

WARM_UP: Final = 5
"""The rounds that are not looked at."""
BYTES_PER_OBJECT: Final = 32.0
BYTES_PER_ROUND: Final = 512.0
"""The growth at one line, for each object and in each round, below which it is no leak."""
QUIET_SECONDS: Final = 0.05
QUIET_ATTEMPTS: Final = 40
CONFIRMATIONS: Final = 3
"""How often as many rounds follow when something has grown. What is in flight when a round ends differs from round to
round, and may happen to grow for a while; a leak grows all the time."""
_REMEMBERED: Final = 16
_SHOWN: Final = 10
_OWN: Final = [tracemalloc.Filter(False, path) for path in (tracemalloc.__file__, __file__)]
"""The memory of the measurement itself."""
_DESCRIPTORS: Final = Path("/proc/self/fd")


class LeakFound(AssertionError):
    """Something grows from round to round; the text says what and where."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Something that grew, by how much for each round."""

    what: str
    per_round: float
    unit: str

    def __str__(self) -> str:
        return f"{self.per_round:.0f} {self.unit} a round: {self.what}"


async def soak(work: Callable[[], Awaitable[None]], *, rounds: int, objects: int = 1, warm_up: int = WARM_UP) -> None:
    """Do some work again and again, `warm_up` times and then `rounds` times, and fail if anything grows.

    `objects` is how many objects a round creates and deletes; growth below 32 bytes for each, and below 512 bytes in
    all, is not counted.

    Raises:
        LeakFound: memory, tasks or file descriptors grow.
        ValueError: there are not enough rounds to tell a leak from chance.
    """
    if rounds < 3:
        raise ValueError(f"rounds={rounds}: growth shows in three rounds at least")
    with _small_caches(), _traced():
        for _ in range(warm_up):
            await work()
        samples = [await _sample()]
        for _ in range(1 + CONFIRMATIONS):
            for _ in range(rounds):
                await work()
                samples.append(await _sample())
            found = growths(samples, objects)
            if not found:
                return
        more = f"\n  and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        listed = "\n".join(f"  {one}" for one in found[:_SHOWN])
        number = warm_up + len(samples) - 1
        raise LeakFound(f"after {number} rounds these still grow, by where they were allocated:\n{listed}{more}")


def growths(samples: list[dict[str, tuple[float, str]]], objects: int) -> list[Growth]:
    """Return what never shrinks from sample to sample and grows in all, the largest growth first."""
    rounds = len(samples) - 1
    found = []
    for what, (last, unit) in samples[-1].items():
        sizes = [sample.get(what, (0.0, unit))[0] for sample in samples]
        least = max(BYTES_PER_OBJECT * objects, BYTES_PER_ROUND) if unit == "bytes" else 1
        # In the second half as well: something that reaches a bound has stopped by then.
        halves = (sizes[rounds // 2] - sizes[0], last - sizes[rounds // 2])
        never_shrinks = all(before <= after for before, after in pairwise(sizes))
        if never_shrinks and last - sizes[0] >= least * rounds and all(half > 0 for half in halves):
            found.append(Growth(what, (last - sizes[0]) / rounds, unit))
    return sorted(found, key=lambda one: -one.per_round)


async def _sample() -> dict[str, tuple[float, str]]:
    await _until_quiet()
    snapshot = tracemalloc.take_snapshot().filter_traces(_OWN)
    sample = {
        f"{_short(one.traceback[0].filename)}:{one.traceback[0].lineno}": (float(one.size), "bytes")
        for one in snapshot.statistics("lineno")
    }
    sample["tasks of asyncio"] = (float(len(asyncio.all_tasks())), "tasks")
    if _DESCRIPTORS.exists():
        sample["file descriptors"] = (float(sum(1 for _ in _DESCRIPTORS.iterdir())), "descriptors")
    return sample


async def _until_quiet() -> None:
    """Let what is in flight at the end of a round finish, such as Events that are being sent."""
    used = -1
    for _ in range(QUIET_ATTEMPTS):
        gc.collect()
        before, (used, _peak) = used, tracemalloc.get_traced_memory()
        if before >= 0 and abs(used - before) < BYTES_PER_ROUND:
            return
        await asyncio.sleep(QUIET_SECONDS)


def _short(path: str) -> str:
    """Return a path without the folder of installed packages or the current directory."""
    return path.rpartition("site-packages/")[2] if "site-packages/" in path else path.removeprefix(f"{Path.cwd()}/")


@contextlib.contextmanager
def _traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


@contextlib.contextmanager
def _small_caches() -> Iterator[None]:
    before = recorder.KNOWN, reflector.REMEMBERED_DELETIONS
    recorder.KNOWN = reflector.REMEMBERED_DELETIONS = _REMEMBERED
    try:
        yield
    finally:
        recorder.KNOWN, reflector.REMEMBERED_DELETIONS = before
