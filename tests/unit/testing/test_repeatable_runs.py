"""What happens in virtual time is the same in each process, to the byte: requests, events, reconciles and objects."""

import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SCENARIO = pathlib.Path(__file__).with_name("repeatable_scenario.py")


def start(hash_seed, *seeds):
    return subprocess.Popen(
        [sys.executable, str(SCENARIO), *seeds],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


@pytest.mark.timeout(300)
def test_two_processes_with_other_hashes_record_the_same_history():
    running = [start(hash_seed, "none", "7") for hash_seed in (1, 2)]
    first, second = (process.communicate()[0].splitlines() for process in running)
    assert [process.returncode for process in running] == [0, 0]
    assert len(first) > 1000
    different = [pair for pair in zip(first, second, strict=False) if pair[0] != pair[1]]
    assert different[:1] == []
    assert len(first) == len(second)
