"""Small objects are in the heap while there are many, and what stays of them does not keep the memory of the others."""

import os
import subprocess
import sys
import tracemalloc

import pytest

from kapi.base.malloc import trim
from kapi.base.smallobjects import SmallObjects

# Of many objects some stay: one in each of the arenas that they fill.
PROGRAM = """
import gc, sys
from kapi.base.malloc import trim
from kapi.base.smallobjects import SmallObjects

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

small = SmallObjects()
gc.disable()
if sys.argv[1] == "heap":
    assert small.to_heap() and small.in_heap and not small.to_heap()
start = resident()
made = [(float(number), str(number), [number]) for number in range(200_000)]
full = resident()
if sys.argv[1] == "heap":
    assert small.to_arenas() and not small.in_heap and not small.to_arenas()
made.extend([(float(number), str(number), [number]) for number in range(1_000)])
some = made[::2_000]
made = None
trim()
left = resident()
# What is from the heap grows, and is freed, like any other.
for _, text, numbers in some:
    numbers.extend(range(100))
assert [text for _, text, _ in some] == [str(number) for number in range(0, 200_000, 2_000)] + ["0"]
some = None
print(start, full, left)
"""

needs_glibc = pytest.mark.skipif(not trim(), reason="the C library is not glibc")


def _run(place, **environment):
    command = [sys.executable, "-c", PROGRAM, place]
    output = subprocess.run(command, env=os.environ | environment, check=True, capture_output=True, text=True)
    return map(int, output.stdout.split())


@needs_glibc
def test_what_stays_keeps_no_more_than_its_pages_in_the_heap():
    start, full, left = _run("heap")
    assert left - start < (full - start) // 5


@needs_glibc
def test_what_stays_keeps_whole_arenas():
    """The control: this is why."""
    start, full, left = _run("arenas")
    assert left - start > (full - start) // 2


def test_allocators_that_trace_are_left_alone():
    small = SmallObjects()
    tracemalloc.start()
    try:
        assert not small.to_heap()
        assert not small.in_heap
    finally:
        tracemalloc.stop()


def test_allocators_that_were_replaced_meanwhile_are_left_alone():
    small = SmallObjects()
    assert small.to_heap()
    tracemalloc.start()
    try:
        assert not small.to_arenas()
        assert small.in_heap
        kept = [str(number) for number in range(1_000)]
    finally:
        tracemalloc.stop()
    assert small.to_arenas()
    assert kept == [str(number) for number in range(1_000)]


@pytest.mark.parametrize("chosen", ["malloc", "debug", "pymalloc_debug"])
def test_an_allocator_that_was_chosen_is_left_alone(chosen):
    program = "from kapi.base.smallobjects import SmallObjects; assert not SmallObjects().to_heap()"
    subprocess.run([sys.executable, "-c", program], env=os.environ | {"PYTHONMALLOC": chosen}, check=True)
