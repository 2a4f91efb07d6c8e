"""Freed memory is given back to the system."""

import asyncio
import os
import subprocess
import sys

import pytest

from kapi.base.malloc import EXCESS, INTERVAL, Memory, keep_trimmed, measure, trim
from virtual_time import run

# Small blocks, so that they come from the heap; the last one stays and keeps the heap from shrinking by itself.
PROGRAM = """
from kapi.base.malloc import trim

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

blocks = [bytearray(60_000) for _ in range(2_000)]
full = resident()
del blocks[:-1]
freed = resident()
trim()
print(full, freed, resident())
"""


@pytest.mark.skipif(not trim(), reason="the C library is not glibc")
def test_freed_memory_is_given_back():
    output = subprocess.run([sys.executable, "-c", PROGRAM], env=os.environ, check=True, capture_output=True, text=True)
    full, freed, trimmed = map(int, output.stdout.split())
    pages = 2_000 * 60_000 // os.sysconf("SC_PAGE_SIZE")
    assert freed > full - pages // 2, "the C library gives memory back by itself"
    assert trimmed < full - pages // 2


# Objects that fill 40 arenas, of which those that are freed first are kept in a free list: some in each arena.
BURST = """
import asyncio
import gc
import uvloop
from kapi.base.malloc import drop_free_lists

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

async def main():
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    gc.disable()
    await drop_free_lists()
    start = resident()
    made = [{make} for number in range({count})]
    full = resident()
    for number in range(0, {count}, {count} // {kept}):
        made[number] = None
    made = None
    await drop_free_lists()
    print(start, full, resident())

uvloop.install()
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("make", "count", "kept"),
    [("future.__await__()", 800_000, 250), ("(number, number, number)", 600_000, 1_900)],
    ids=["event loop", "interpreter"],
)
def test_free_lists_do_not_hold_the_memory_of_a_burst(make, count, kept):
    program = BURST.format(make=make, count=count, kept=kept)
    output = subprocess.run([sys.executable, "-c", program], env=os.environ, check=True, capture_output=True, text=True)
    start, full, after = map(int, output.stdout.split())
    assert after - start < (full - start) // 4


class Process:
    """A process that keeps what it frees until it is trimmed."""

    def __init__(self):
        self.used = self.resident = 10 * EXCESS
        self.trims = 0
        self.drops = 0

    def allocate(self, size):
        self.used += size
        self.resident = max(self.resident, self.used)

    def measure(self):
        return Memory(self.resident, self.used)

    def trim(self):
        self.trims += 1
        self.resident = self.used
        return True

    async def drop_free_lists(self):
        self.drops += 1


def trims_of(*allocations):
    """Allocate, or free, one amount after the other, between two looks; how often memory was given back, and free lists emptied."""

    async def main():
        process = Process()
        task = asyncio.ensure_future(keep_trimmed(process.measure, process.trim, process.drop_free_lists))
        await asyncio.sleep(INTERVAL / 2)
        found = []
        for amounts in allocations:
            for amount in amounts:
                process.allocate(amount)
            await asyncio.sleep(INTERVAL)
            found.append((process.trims, process.drops))
            assert process.resident < process.used + EXCESS
        task.cancel()
        return found

    return run(main())


def test_memory_is_given_back_after_a_burst_and_not_while_it_lasts():
    found = trims_of([9 * EXCESS], [EXCESS], [0], [-9 * EXCESS], [0], [0], [-EXCESS // 2], [-EXCESS])
    assert [trims for trims, _ in found] == [0, 0, 0, 1, 2, 2, 2, 3]


def test_free_lists_are_emptied_once_when_a_burst_is_over():
    burst = [2 * EXCESS, -2 * EXCESS]
    assert trims_of(burst, burst, [0], [0], [0]) == [(1, 0), (2, 0), (3, 1), (3, 1), (3, 1)]


def test_memory_is_given_back_after_a_burst_between_two_looks():
    assert trims_of([2 * EXCESS, -2 * EXCESS], [0], [0], [3 * EXCESS, -EXCESS]) == [(1, 0), (2, 1), (2, 1), (3, 1)]


def test_growth_that_is_in_use_is_not_trimmed():
    assert trims_of(*[[EXCESS]] * 10) == [(0, 0)] * 10


@pytest.mark.skipif(not measure().used, reason="the C library does not tell what is in use")
def test_what_is_freed_is_no_longer_in_use():
    before = measure()
    block = bytearray(64 * 1024 * 1024)
    during = measure()
    del block
    assert during.resident > 0
    assert during.used - before.used >= 64 * 1024 * 1024
    assert measure().used - before.used < 32 * 1024 * 1024
