"""The machine of a run, for the interpretation of its figures, and which cores servers and load may use."""

from __future__ import annotations

import contextlib
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def describe(folder: Path, python: str) -> dict[str, Any]:
    """Describe the machine; `folder` is where the data is written, `python` the version of the servers' Python."""
    return {
        "cores": _usable_cores(),
        "processor": _processor(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "system": f"{platform.system()} {platform.release()}",
        "python": python,
        "filesystem": _filesystem(folder),
        "load_before": load(),
    }


def busy_seconds() -> float:
    """Return the processor time used by all processes of this machine or withheld by its host; 0 if unknown."""
    try:
        fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
    except OSError:
        return 0.0
    idle, waiting = 3, 4
    ticks = sum(int(field) for number, field in enumerate(fields) if number not in (idle, waiting))
    return ticks / os.sysconf("SC_CLK_TCK")


def load() -> float:
    """Return the load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _filesystem(folder: Path) -> str:
    """The type of the file system; on tmpfs a durable write costs nothing, so rates of creates mean little."""
    found, kind = "", "unknown"
    with contextlib.suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            _, mount, mounted = line.split()[:3]
            if folder.resolve().is_relative_to(mount) and len(mount) >= len(found):
                found, kind = mount, mounted
    return kind


@dataclass(frozen=True)
class Pinning:
    """Which cores servers and load may use; both empty for all of them."""

    servers: frozenset[int] = frozenset()
    load: frozenset[int] = frozenset()

    @classmethod
    def halves(cls) -> Pinning:
        """Half of the cores for the servers, the other half for the load."""
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            return cls()
        half = len(cores) // 2
        return cls(frozenset(cores[:half]), frozenset(cores[half:]))


@contextlib.contextmanager
def starting_on(cores: frozenset[int]) -> Iterator[None]:
    """Processes started in here stay on these cores: they inherit them."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
