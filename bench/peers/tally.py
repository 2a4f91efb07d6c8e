"""The protocol of every client under measurement: wait for the start, count objects and events, report times.

A client is a program of its own that follows the Pods of a namespace with one library. It is given how many objects
there are, how many of them a burst will change, and how many will then be changed one by one. It prints a line of JSON
for each thing that has happened; times are on the clock that all processes of a machine share. This module needs the
standard library only, because it runs in the environments of the libraries it serves.
"""

from __future__ import annotations

import json
import sys
import time

NAMESPACE = "bench"
STAMP = "stamp"
"""The annotation with the time of the last write of the object."""


class Tally:
    """Counts objects by name, so that one which is shown twice counts once."""

    def __init__(self) -> None:
        self.objects, self._burst, self._touches = (int(text) for text in sys.argv[1:4])
        self._seen: set[str] = set()
        self._count = self._everything
        self._first = 0.0
        self._since = 0
        self._late: list[float] = []

    def wait_for_start(self) -> None:
        """Report that the client is ready, and wait for the start."""
        self._say("ready")
        sys.stdin.readline()
        self._since = time.monotonic_ns()

    def synced(self) -> None:
        """All objects are in memory."""
        self._say("synced")

    def reconciled(self, name: str, stamp: str) -> None:
        """A reconciler was given this object, whose stamp it has read."""
        self._count(name, int(stamp))

    def _everything(self, name: str, _: int) -> None:
        if not self._seen:
            self._first = time.monotonic()
        self._seen.add(name)
        if len(self._seen) == self.objects:
            self._go_on(self._of_burst)
            self._say("reconciled", first=self._first)

    def _of_burst(self, name: str, stamp: int) -> None:
        if stamp > self._since:
            self._seen.add(name)
            if len(self._seen) == self._burst:
                self._go_on(self._of_touches)
                self._say("drained")

    def _of_touches(self, name: str, stamp: int) -> None:
        if stamp > self._since and name not in self._seen:
            self._late.append((time.monotonic_ns() - stamp) / 1e9)
            self._seen.add(name)
            if len(self._late) == self._touches:
                self._say("touched", late=self._late)

    def _go_on(self, count: object) -> None:
        self._seen.clear()
        self._since = time.monotonic_ns()
        self._count = count  # type: ignore[assignment]

    def _say(self, what: str, **details: object) -> None:
        sys.stdout.write(json.dumps({"what": what, "at": time.monotonic(), **details}) + "\n")
        sys.stdout.flush()
