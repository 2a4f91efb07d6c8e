from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.base.clock import ManualClock
from kapi.storage.compact import PROMISED_SECONDS, Compactor
from kapi.storage.interface import Draft
from kapi.storage.memory import MemoryStorage


class Bench:
    """A store, a clock and a compactor that does one step per tick."""

    def __init__(self, **options: float) -> None:
        self.store = MemoryStorage()
        self.clock = ManualClock()
        self.compactor = Compactor(self.store, self.clock, **options)
        self.compactions: list[int] = []
        compact = self.store.compact

        async def counted(revision: int) -> None:
            self.compactions.append(revision)
            await compact(revision)

        self.store.compact = counted

    async def write(self, count: int = 1) -> None:
        for _ in range(count):
            await self.store.put(f"/{self.store.revision}", Draft(b"", b""), 0)

    async def tick(self, seconds: float = 15) -> None:
        self.clock.advance(seconds)
        await self.compactor.step()


def test_history_stays_for_the_retention_and_is_then_compacted():
    async def scenario():
        bench = Bench(retention=300)
        await bench.write(10)
        await bench.tick()
        for _ in range(19):
            await bench.tick()
            assert bench.store.compacted == 0
        await bench.tick()
        assert bench.store.compacted == 10

    asyncio.run(scenario())


def test_nothing_is_done_while_nothing_is_written():
    async def scenario():
        bench = Bench(retention=100)
        await bench.write(3)
        for _ in range(100):
            await bench.tick()
        assert bench.compactions == [3]

    asyncio.run(scenario())


def test_an_empty_store_is_left_alone():
    async def scenario():
        bench = Bench()
        for _ in range(100):
            await bench.tick()
        assert bench.compactions == []

    asyncio.run(scenario())


@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(0.5, 200)), max_size=40),
    st.sampled_from([75.0, 100.0, 300.0]),
    st.sampled_from([0, 1, 7]),
)
def test_history_covers_the_retention_for_any_write_pattern(events, retention, max_revisions):
    async def scenario():
        bench = Bench(retention=retention, max_revisions=max_revisions)
        kept = PROMISED_SECONDS if max_revisions else retention
        written: list[float] = []
        for count, pause in events:
            await bench.write(count)
            written += [bench.clock.monotonic()] * count
            await bench.tick(pause)
            now = bench.clock.monotonic()
            oldest_gone = written[: bench.store.compacted]
            assert all(now - time >= kept for time in oldest_gone)

    asyncio.run(scenario())


def test_a_busy_store_keeps_no_more_than_the_given_number_beyond_the_promise():
    async def scenario():
        bench = Bench(retention=3600, max_revisions=100)
        for _ in range(40):
            await bench.write(50)
            await bench.tick(15)
        # 75 s at 50 per 15 s are 250 to 300 revisions; the hour would have been 2,000.
        assert 100 <= bench.store.revision - bench.store.compacted <= 350

    asyncio.run(scenario())


def test_a_quiet_store_is_not_cut_to_the_given_number():
    async def scenario():
        bench = Bench(retention=3600, max_revisions=100)
        for _ in range(40):
            await bench.write(1)
            await bench.tick(15)
        assert bench.store.compacted == 0

    asyncio.run(scenario())


def test_less_than_the_promise_is_refused():
    with pytest.raises(ValueError, match="promised"):
        Compactor(MemoryStorage(), ManualClock(), retention=74)


def test_records_are_bounded_by_the_retention():
    async def scenario():
        bench = Bench(retention=300)
        for _ in range(500):
            await bench.write()
            await bench.tick(15)
        assert len(bench.compactor._marks) <= 300 / 15 + 2

    asyncio.run(scenario())


def test_the_loop_ends_when_the_store_is_closed():
    async def scenario():
        bench = Bench(retention=75, interval=0)
        await bench.write()
        bench.compactor.mark(bench.clock.monotonic())
        bench.clock.advance(80)
        await bench.store.close()
        await asyncio.wait_for(bench.compactor.run(), 10)

    asyncio.run(scenario())
