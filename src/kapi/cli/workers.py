"""Worker processes: several complete API servers on one address, and a parent that replaces those that end.

    parent ─ reserves the address, forks, waits for its children, passes the signal to stop on
      ├─ worker 1 ─ an API server that listens on the address (SO_REUSEPORT)
      └─ worker 2 ─ …

The kernel gives each connection to one of the workers. They know nothing of each other: what they share is the store.
The parent forks while it has one thread and has opened nothing, so the workers share the memory of what is imported.

A worker that ends before it was ready for the first time ends all of them, with its status: the options are wrong, or
the store cannot be used. One that ends later is replaced, at once the first time and then after longer and longer
pauses. A worker whose parent is gone stops.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 10.0
STEADY_SECONDS: Final = 60.0
"""A worker that ran for so long is replaced without a pause."""
_POLL_SECONDS: Final = 1.0

_log = structlog.get_logger("kapi.workers")


class Channel:
    """What a worker has of its parent: a way to say that it is ready, and to learn that the parent is gone."""

    def __init__(self, ready: int, parent: int) -> None:
        self._ready = ready
        self.parent = parent
        """A file that can be read when the parent has ended."""

    def announce(self) -> None:
        """Tell the parent that requests are served."""
        os.write(self._ready, b"\n")


@dataclass(slots=True)
class _Worker:
    number: int
    pid: int = 0
    ready: int = -1
    started: float = 0.0
    pause: float = 0.0
    due: float = 0.0
    is_ready: bool = False
    is_told: bool = False
    """True if it was told to stop."""


class Workers:
    """The parent of a number of workers; `serve` runs one, in its own process, and returns its exit status."""

    def __init__(self, count: int, serve: Callable[[int, Channel], int], announce: Callable[[], None]) -> None:
        self._workers = [_Worker(number) for number in range(1, count + 1)]
        self._serve = serve
        self._announce = announce
        self._is_announced = False
        self._status: int | None = None
        """The exit status, once the workers are to stop."""
        self._alive, self._held = os.pipe()
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)

    def run(self) -> int:
        """Run the workers until a signal to stop; returns the exit status."""
        previous = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        # So that a child that ends interrupts `select`.
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        before = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        try:
            while self._status is None or any(worker.pid for worker in self._workers):
                self._start_due()
                self._tell()
                self._wait()
                self._reap()
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in previous.items():
                signal.signal(number, handler)
            for end in (self._alive, self._held, self._woken, self._wake):
                os.close(end)
        return self._status or 0

    def _stop(self, number: int, frame: object) -> None:
        """Note that all workers are to stop. A signal may come at any line, so the rest is done by `run`."""
        if self._status is None:
            self._status = 0

    def _tell(self) -> None:
        """Tell the workers to stop, if they are to."""
        for worker in self._workers:
            if self._status is not None and worker.pid and not worker.is_told:
                worker.is_told = True
                os.kill(worker.pid, signal.SIGTERM)

    def _start_due(self) -> None:
        for worker in self._workers:
            if self._status is None and not worker.pid and worker.due <= time.monotonic():
                self._start(worker)

    def _start(self, worker: _Worker) -> None:
        worker.ready, ready = os.pipe()
        worker.started, worker.is_ready = time.monotonic(), False
        # Nothing that is buffered is to be written twice.
        sys.stdout.flush()
        sys.stderr.flush()
        worker.pid = os.fork()
        if not worker.pid:
            self._become(worker, ready)
        os.close(ready)

    def _become(self, worker: _Worker, ready: int) -> NoReturn:
        """Run a worker, in its process."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            for end in (self._held, self._woken, self._wake, *(other.ready for other in self._workers)):
                if end >= 0:
                    os.close(end)
            status = self._serve(worker.number, Channel(ready, self._alive))
        except BaseException:
            _log.exception("a worker failed", worker=worker.number)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            # Not `sys.exit`: what the parent is to clean up is not the worker's.
            os._exit(status)

    def _wait(self) -> None:
        """Wait for a worker to be ready or to end, for a signal, or for a worker to be due."""
        unready = {worker.ready: worker for worker in self._workers if worker.pid and not worker.is_ready}
        readable, _, _ = select.select([self._woken, *unready], [], [], _POLL_SECONDS)
        for end in readable:
            if end == self._woken:
                with contextlib.suppress(BlockingIOError):
                    os.read(end, 4096)
            elif os.read(end, 1):
                unready[end].is_ready = True
                self._announce_if_ready()
            else:
                # It has ended; `_reap` finds out how. Until then there is nothing to read.
                unready[end].is_ready = True

    def _announce_if_ready(self) -> None:
        if not self._is_announced and all(worker.is_ready for worker in self._workers):
            self._is_announced = True
            self._announce()

    def _reap(self) -> None:
        """Take note of workers that have ended."""
        for worker in self._workers:
            if not worker.pid:
                continue
            pid, code = os.waitpid(worker.pid, os.WNOHANG)
            if not pid:
                continue
            os.close(worker.ready)
            worker.pid, worker.ready = 0, -1
            status = os.waitstatus_to_exitcode(code)
            if self._status is not None:
                self._status = self._status or max(status, 0)
            elif not self._is_announced:
                self._status = status if status > 0 else 1
            else:
                self._replace(worker, status)

    def _replace(self, worker: _Worker, status: int) -> None:
        now = time.monotonic()
        is_steady = now - worker.started >= STEADY_SECONDS
        worker.pause = 0.0 if is_steady else min(2 * worker.pause or FIRST_PAUSE, LONGEST_PAUSE)
        worker.due = now + worker.pause
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        _log.error(f"a worker {how} and is replaced", worker=worker.number, pause=worker.pause)
