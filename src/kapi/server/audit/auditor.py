"""The audit stage of the pipeline: asks the policy, and hands the events of a request to the backends.

A server without a policy has no auditor, and its requests pay for one comparison. An event of the log is written
before the response it is about is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from kapi.server.audit.policy import (
    LEVEL_NAMES,
    PANIC,
    REQUEST_RECEIVED,
    RESPONSE_COMPLETE,
    RESPONSE_STARTED,
    Level,
)
from kapi.server.audit.record import Record
from kapi.server.transport.message import StreamResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from prometheus_client import CollectorRegistry, Metric

    from kapi.base.clock import Clock
    from kapi.server.audit.policy import Policy
    from kapi.server.context import Context
    from kapi.server.transport.message import Response


class Backend(Protocol):
    """Where events go. `write` takes one encoded event, never waits and never raises."""

    def write(self, event: bytes) -> None:
        """Take an event."""
        ...

    async def close(self) -> None:
        """Write what was taken, as far as possible, and end."""
        ...


class Auditor:
    """Records requests by a policy."""

    def __init__(
        self, policy: Policy, backends: Sequence[Backend], clock: Clock, registry: CollectorRegistry | None = None
    ) -> None:
        self.tasks: dict[str, Callable[[], Coroutine[object, object, None]]] = {}
        """What must run for the backends, by the name of the task."""
        self._policy = policy
        self._backends = tuple(backends)
        self._clock = clock
        self.events = 0
        self.levels = dict.fromkeys(Level, 0)
        if registry is not None:
            registry.register(_Counts(self))

    def received(self, context: Context) -> None:
        """A request has arrived and its user is known: decide what to record of it."""
        record = self._record(context)
        if record is not None and REQUEST_RECEIVED not in record.config.omit_stages:
            self._write(record, REQUEST_RECEIVED)

    def failed_authentication(self, context: Context) -> None:
        """The credentials of a request are not valid. Its only event is of stage ResponseStarted, and names no user."""
        record = self._record(context)
        if record is not None:
            record.forget_user()

    def answered(self, context: Context, response: Response | StreamResponse | None) -> None:
        """A request has been answered; None if the client did not wait. A stream is only begun by this."""
        record = context.audit
        if record is None:
            return
        record.response(response)
        if record.is_unauthenticated:
            self._write(record, RESPONSE_STARTED)
        elif isinstance(response, StreamResponse):
            if context.info.verb == "watch":
                self._write(record, RESPONSE_STARTED)
            response.on_end(lambda: self._write(record, RESPONSE_COMPLETE))
        else:
            self._write(record, PANIC if record.has_failed else RESPONSE_COMPLETE)

    async def close(self) -> None:
        """Close the backends."""
        for backend in self._backends:
            await backend.close()

    def _record(self, context: Context) -> Record | None:
        config = self._policy.evaluate(context.user, context.info)
        self.levels[config.level] += 1
        if config.level is not Level.NONE:
            context.audit = Record(context, config, self._clock.now())
        return context.audit

    def _write(self, record: Record, stage: str) -> None:
        if stage in record.config.omit_stages:
            return
        event = record.event(stage, self._clock.now())
        self.events += 1
        for backend in self._backends:
            backend.write(event)


class _Counts(Collector):
    """The counts of an auditor, taken at each scrape so that requests do not pay for them."""

    def __init__(self, auditor: Auditor) -> None:
        self._auditor = auditor

    def collect(self) -> Iterable[Metric]:
        levels = CounterMetricFamily("apiserver_audit_level", "Levels of the policy, by request.", labels=["level"])
        for level, count in self._auditor.levels.items():
            levels.add_metric([LEVEL_NAMES[level]], count)
        events = CounterMetricFamily(
            "apiserver_audit_event", "Audit events handed to backends.", value=self._auditor.events
        )
        return [levels, events]
