"""The audit log: events as lines of JSON in a file that is rotated by size, or on standard output.

A regular file is written on the event loop: the system keeps what was written if this process is killed, and a write
costs a few microseconds. Standard output may be a pipe that is not read, so a thread writes it, from a
bounded queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import queue
import threading
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import Counter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prometheus_client import CollectorRegistry

    from kapi.base.clock import Clock

MIB: Final = 1024 * 1024
QUEUED_EVENTS: Final = 10_000
"""Events that wait for standard output; more are dropped and counted."""
STANDARD_OUTPUT: Final = 1

_log = structlog.get_logger("kapi.audit")


def error_counter(registry: CollectorRegistry | None) -> Counter:
    """Return the counter of events that a backend could not store, by the name of the backend."""
    return Counter("apiserver_audit_error", "Audit events that were not stored.", ("plugin",), registry=registry)


class LogFile:
    """An audit log in a file with mode 0600.

    When the next line would make it larger than `max_bytes` it is renamed to NAME-TIMESTAMP.EXTENSION; of such files
    the newest `max_backups` are kept, and none older than `max_days`. 0 stands for no bound.
    """

    def __init__(
        self, path: Path, clock: Clock, errors: Counter, *, max_bytes: int, max_backups: int, max_days: int
    ) -> None:
        """Open the file. Raises `OSError`."""
        self._path = path
        self._clock = clock
        self._errors = errors.labels("log")
        self._max_bytes = max_bytes
        self._max_backups = max_backups
        self._max_days = max_days
        self._is_failing = False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._open()

    def write(self, events: Sequence[bytes]) -> None:
        """Append lines. If that fails the events are counted as lost, and the next are tried again."""
        lines = b"\n".join((*events, b""))
        try:
            if self._max_bytes and self._size and self._size + len(lines) > self._max_bytes:
                self._rotate()
            written = os.write(self._file, lines)
            self._size += written
            if written != len(lines):
                raise OSError(f"wrote {written} of {len(lines)} bytes")
        except OSError as error:
            self._errors.inc(len(events))
            if not self._is_failing:
                _log.error("audit events are lost", path=str(self._path), error=str(error))
            self._is_failing = True
        else:
            self._is_failing = False

    async def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size

    def _rotate(self) -> None:
        stamp = f"{self._clock.now():%Y-%m-%dT%H-%M-%S.%f}"[:-3]
        backup = self._path.with_name(f"{self._path.stem}-{stamp}{self._path.suffix}")
        self._path.rename(backup)
        os.close(self._file)
        self._open()
        backups = sorted(self._path.parent.glob(f"{self._path.stem}-*{self._path.suffix}"), reverse=True)
        kept = backups[: self._max_backups] if self._max_backups else backups
        oldest = (self._clock.now() - dt.timedelta(days=self._max_days)).timestamp() if self._max_days else 0
        for file in backups:
            if file not in kept or file.stat().st_mtime < oldest:
                file.unlink()


class StandardOutput:
    """An audit log on standard output, written by a thread."""

    def __init__(self, errors: Counter, descriptor: int = STANDARD_OUTPUT) -> None:
        self._errors = errors.labels("log")
        self._descriptor = descriptor
        self._queue: queue.Queue[bytes | None] = queue.Queue(QUEUED_EVENTS)
        self._thread = threading.Thread(target=self._run, name="audit-log", daemon=True)
        self._thread.start()

    def write(self, events: Sequence[bytes]) -> None:
        """Queue lines; those for which the queue is too full are lost."""
        for event in events:
            try:
                self._queue.put_nowait(event + b"\n")
            except queue.Full:
                self._errors.inc()

    async def close(self) -> None:
        """Write what is queued, for at most a second."""
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)
        await asyncio.to_thread(self._thread.join, 1.0)

    def _run(self) -> None:
        while (line := self._queue.get()) is not None:
            rest = memoryview(line)
            try:
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except OSError:
                self._errors.inc()
