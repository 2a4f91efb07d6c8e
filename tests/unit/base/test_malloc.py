"""Freed memory is given back to the system."""

import os
import subprocess
import sys

import pytest

from kapi.base.malloc import trim

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
