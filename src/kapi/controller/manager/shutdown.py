"""The shutdown of a manager's runnables: all are told at once, and one deadline is for all of them.

There are two ways to stop. A graceful shutdown lets work in progress finish: every runnable is told to stop in the same
instant, so that no controller begins a reconcile while another is waited for, and what has not ended at the deadline is
cancelled. A process that lost its lease has no such time: another process leads, so everything is cancelled at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.controller.host import Runnable

_log = structlog.get_logger("kapi.controller")


class Shutdown:
    """A request to shut down, and the deadline that begins with it."""

    def __init__(self, seconds: float) -> None:
        self.requested = asyncio.Event()
        self._seconds = seconds
        self._deadline: float | None = None

    def request(self) -> None:
        """Ask for a graceful shutdown; it began with the first request."""
        if self._deadline is None and self._is_in_loop():
            self._deadline = asyncio.get_running_loop().time() + self._seconds
        self.requested.set()

    def request_now(self) -> None:
        """Ask for a shutdown without a grace period."""
        self._seconds = 0.0
        self._deadline = asyncio.get_running_loop().time()
        self.requested.set()

    def seconds_left(self) -> float:
        """Return the seconds until the deadline, which begins now if it has not."""
        now = asyncio.get_running_loop().time()
        if self._deadline is None:
            self._deadline = now + self._seconds
        return max(0.0, self._deadline - now)

    @staticmethod
    def _is_in_loop() -> bool:
        # A manager may be stopped before the event loop of its run exists.
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True


async def run_together(runnables: Sequence[Runnable], shutdown: Shutdown) -> None:
    """Run runnables until a shutdown is requested or the first of them ends, then stop all of them.

    Cancelled, it cancels them all at once and waits only for that.
    """
    tasks = {asyncio.ensure_future(one.run()): one for one in runnables}
    requested = asyncio.ensure_future(shutdown.requested.wait())
    try:
        await asyncio.wait([requested, *tasks], return_when=asyncio.FIRST_COMPLETED)
        await _stop(tasks, shutdown)
    finally:
        requested.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled():
            task.result()


async def _stop(tasks: dict[asyncio.Task[None], Runnable], shutdown: Shutdown) -> None:
    for runnable in reversed(tasks.values()):
        runnable.stop()
    if not tasks:
        return
    seconds = shutdown.seconds_left()
    _, unfinished = await asyncio.wait(tasks, timeout=seconds)
    if unfinished:
        names = sorted(tasks[task].name for task in unfinished)
        _log.warning(f"graceful shutdown timed out after {seconds:.1f} s; cancelling", names=names)
