"""What processes use: processor time and memory, of one process or of one with all that it has started."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """Processor time, user and system, of a process and all that it has started, those that have ended included."""
    return sum(_own_seconds(one) + _ended_children_seconds(one) for one in family(pid))


def _own_seconds(pid: int) -> float:
    """The clock that POSIX calls the CPU-time clock of a process: in nanoseconds, and with threads that have ended."""
    try:
        # This is what clock_getcpuclockid(3) returns on Linux; Python offers it for threads only.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return busy_seconds(pid)


def _ended_children_seconds(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[13]) + int(fields[14])) / _TICKS if fields else 0.0


def busy_seconds(pid: int) -> float:
    """Processor time of a process, in ticks; 0 where the system does not report it."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name of the program."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def family(pid: int) -> list[int]:
    """A process, the processes it has started, and so on; itself alone where the system does not tell."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{parent}/task").iterdir():
                found += map(int, (thread / "children").read_text().split())
    return found


def is_asleep(pid: int) -> bool:
    """Return True if no thread of a process, or of those it has started, runs, wants to run, or waits for the disk."""
    with contextlib.suppress(OSError):
        states = [
            (thread / "stat").read_text().rpartition(")")[2].split()[0]
            for one in family(pid)
            for thread in Path(f"/proc/{one}/task").iterdir()
        ]
        return not any(state in "RD" for state in states)
    return False


def resident(pid: int) -> int:
    """Resident memory of a process, in bytes."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024
    printed = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(printed.stdout) * 1024
