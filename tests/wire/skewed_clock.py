"""Wall clocks that are wrong, for processes of the tests; clock/skew.c and clock/skew.go are what they are made of."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from etcd_cluster import PROGRAM
from peers import PEERS

if TYPE_CHECKING:
    from pathlib import Path

LIBRARY = PEERS / "bin/clock.so"


def is_possible() -> bool:
    """Return True if what makes the clocks of servers wrong is installed."""
    return LIBRARY.exists()


def is_possible_for_members() -> bool:
    """Return True if the etcd of the tests has a clock that can be wrong."""
    return PROGRAM == PEERS / "bin/etcd" and not (PEERS / "skipped/etcd-clock").exists()


class SkewedClock:
    """The wall clock of one process, or of several: `set` makes it jump."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.seconds = 0
        path.write_bytes(bytes(8))

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to have this clock."""
        return {"LD_PRELOAD": str(LIBRARY), "KAPI_TEST_CLOCK": str(self._path)}

    def set(self, seconds: int) -> None:
        """Make the clock so many seconds fast, or slow if they are negative."""
        self.seconds = seconds
        with self._path.open("r+b") as file:
            file.write(struct.pack("=q", seconds))
