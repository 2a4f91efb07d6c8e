"""Soak tests: growth is found, and what only comes and goes is not."""

import asyncio
import tempfile

import pytest

from kapi.controller import recorder
from kapi.informer import reflector
from kapi.testing.soak import LeakFound, growths, soak


def samples(*sizes, unit="bytes", what="a.py:1"):
    return [{what: (float(size), unit)} for size in sizes]


@pytest.mark.parametrize(
    ("sizes", "objects"),
    [
        ((0, 640, 1280, 1920, 2560), 20),
        ((0, 0, 1280, 1280, 2560), 20),  # a list that is made larger every other time
    ],
)
def test_what_grows_and_never_shrinks_is_a_leak(sizes, objects):
    (found,) = growths(samples(*sizes), objects)
    assert str(found) == "640 bytes a round: a.py:1"


@pytest.mark.parametrize(
    "sizes",
    [
        (0, 640, 1280, 1200, 2560),  # it shrinks
        (0, 1900, 2560, 2560, 2560),  # it has reached a bound
        (0, 600, 1200, 1800, 2400),  # less than 32 bytes for each object
        (1280, 1280, 1280, 1280, 1280),
    ],
)
def test_what_shrinks_or_stops_is_none(sizes):
    assert growths(samples(*sizes), 20) == []


def test_every_task_counts():
    (found,) = growths(samples(1, 2, 3, 4, unit="tasks", what="tasks of asyncio"), 100)
    assert str(found) == "1 tasks a round: tasks of asyncio"


class Leaky:
    def __init__(self):
        self.held = []

    async def memory(self):
        self.held.append(bytearray(1000))

    async def tasks(self):
        self.held.append(asyncio.ensure_future(asyncio.Event().wait()))
        await asyncio.sleep(0)

    async def files(self):
        self.held.append(tempfile.TemporaryFile())  # noqa: SIM115

    def release(self):
        for one in self.held:
            if hasattr(one, "cancel"):
                one.cancel()
            elif hasattr(one, "close"):
                one.close()


@pytest.mark.slow  # tracemalloc makes everything several times as slow
@pytest.mark.parametrize(
    ("kind", "message"),
    [("memory", r"test_soak\.py:\d+"), ("tasks", "tasks of asyncio"), ("files", "file descriptors")],
)
def test_planted_leaks_are_found_and_named(kind, message, monkeypatch):
    monkeypatch.setattr("kapi.testing.soak.CONFIRMATIONS", 1)
    leaky = Leaky()

    async def main():
        try:
            await soak(getattr(leaky, kind), rounds=3, warm_up=1)
        finally:
            leaky.release()

    with pytest.raises(LeakFound, match=message):
        asyncio.run(main())


@pytest.mark.slow  # tracemalloc makes everything several times as slow
def test_work_without_a_leak_passes_and_leaves_the_bounds_as_they_were():
    before = recorder.KNOWN, reflector.REMEMBERED_DELETIONS

    async def work():
        assert before[0] > recorder.KNOWN
        await asyncio.gather(*(asyncio.sleep(0) for _ in range(10)))
        bytearray(1_000_000)

    asyncio.run(soak(work, rounds=3, warm_up=1))
    assert before == (recorder.KNOWN, reflector.REMEMBERED_DELETIONS)


def test_too_few_rounds_are_refused():
    async def work(): ...

    with pytest.raises(ValueError, match="three rounds"):
        asyncio.run(soak(work, rounds=2))
