"""The supervisor: owns the tasks that live as long as the server, and restarts those that fail.

A supervised task runs until it is cancelled. One that raises, returns or is cancelled by anything but `stop` has
failed: it is started again after a back-off. Meanwhile its check, `task/<name>`, fails in /readyz, and
`/readyz/task/<name>` says what happened and when the task is started again. A server that cannot collect garbage or
delete namespaces still answers requests, but should not pass for a healthy one.

The writer thread of the store is not here. Without it nothing can be acknowledged, so its failure ends the process
(`ControlPlane.failed`) instead of being retried.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import Counter, Gauge

from kapi.api.meta import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from prometheus_client import CollectorRegistry

    from kapi.base.clock import Clock
    from kapi.server.pages.health import Health

FIRST_BACKOFF: Final = 1.0
MAX_BACKOFF: Final = 60.0
STABLE_SECONDS: Final = 1.0
"""A restarted task is healthy again after this time, so that one that fails at once does not look healthy between."""

_log = structlog.get_logger("kapi.supervisor")


class SupervisedTask:
    """One task that is restarted with back-off whenever it ends. The back-off starts over after a long run."""

    def __init__(
        self, name: str, run: Callable[[], Coroutine[object, object, None]], clock: Clock, restarts: Counter
    ) -> None:
        self.name = name
        self._restarts = restarts
        self._run = run
        self._clock = clock
        self._backoff = FIRST_BACKOFF
        self._failure = ""
        """What ended the last run; empty while there is nothing to report."""
        self._started = 0.0
        self._restart_at = clock.now()
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopping = False
        self.task: asyncio.Task[None]
        """The current run, or the last one while the task waits for its restart."""

    def start(self) -> None:
        """Start the first run."""
        self._started = self._clock.monotonic()
        self.task = asyncio.ensure_future(self._run())
        self.task.add_done_callback(self._ended)

    def stop(self) -> asyncio.Task[None]:
        """Cancel the current run and start no other; returns the task to wait for."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        self.task.cancel()
        return self.task

    def check(self) -> str | None:
        """Return None while the task runs as it should, or why it does not."""
        if not self._failure:
            return None
        if self.task.done():
            return f"task {self.name} failed: {self._failure}; it is restarted at {format_time(self._restart_at)}"
        if self._clock.monotonic() - self._started < STABLE_SECONDS:
            return f"task {self.name} has just been restarted after it failed: {self._failure}"
        return None

    def _restart(self) -> None:
        self._timer = None
        self._restarts.inc()
        self.start()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if self._is_stopping:
            return
        if self._clock.monotonic() - self._started > MAX_BACKOFF:
            self._backoff = FIRST_BACKOFF
        self._failure = _reason(task, error)
        self._restart_at = self._clock.now() + dt.timedelta(seconds=self._backoff)
        _log.error(
            "task failed and is restarted",
            task=self.name,
            error=self._failure,
            backoff_seconds=self._backoff,
            exc_info=error,
        )
        self._timer = asyncio.get_running_loop().call_later(self._backoff, self._restart)
        self._backoff = min(2 * self._backoff, MAX_BACKOFF)


def _reason(task: asyncio.Task[None], error: BaseException | None) -> str:
    if error is not None:
        return f"{type(error).__name__}: {error}"
    return "it was cancelled" if task.cancelled() else "it returned without being asked to stop"


class Supervisor:
    """The supervised tasks of one server, with a check in /readyz and two metrics each."""

    def __init__(self, clock: Clock, health: Health, registry: CollectorRegistry) -> None:
        self._clock = clock
        self._health = health
        self._tasks: dict[str, SupervisedTask] = {}
        self._restarts = Counter(
            "kapi_task_restarts", "Restarts of a task of the server that failed.", ("task",), registry=registry
        )
        self._up = Gauge(
            "kapi_task_up", "1 while a task of the server runs as it should.", ("task",), registry=registry
        )

    @property
    def tasks(self) -> Mapping[str, SupervisedTask]:
        """Every supervised task by name."""
        return self._tasks

    def run(self, name: str, run: Callable[[], Coroutine[object, object, None]]) -> None:
        """Start a task and keep it running until `stop`; `run` is called again for every restart."""
        task = self._tasks[name] = SupervisedTask(name, run, self._clock, self._restarts.labels(name))
        self._up.labels(name).set_function(lambda: float(task.check() is None))
        self._health.add(f"task/{name}", task.check, readiness_only=True)
        task.start()

    async def stop(self) -> None:
        """Cancel all tasks at once, and wait for them to end."""
        await asyncio.gather(*[task.stop() for task in self._tasks.values()], return_exceptions=True)
