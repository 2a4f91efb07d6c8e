"""The event recorder: records Events about objects, for `kubectl describe` and `kubectl get events`.

`EventRecorder.event` never waits and never raises, so that it cannot disturb a reconcile. Repetitions are counted in
the `series` of one Event instead of being written anew, and each object has a rate limit. Everything is bounded: Events
over a limit, or that the server does not accept, are dropped, and a log line says so, always.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import datetime as dt
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import structlog

from kapi.api.access import name_of, namespace_of, resource_version_of, uid_of
from kapi.api.errors import ApiError, NotFound
from kapi.api.meta import GroupVersion
from kapi.api.scheme import SCHEME
from kapi.base.clock import SystemClock
from kapi.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.access import AnyObject
    from kapi.api.meta import Object
    from kapi.base.clock import Clock

NORMAL, WARNING = "Normal", "Warning"

WAITING = 1000
"""Events that may wait to be sent."""
KNOWN = 4096
"""Events whose repetitions are counted."""
SERIES_SECONDS = 360.0
"""Repetitions within this time belong to the same series."""
BURST, REFILL_SECONDS = 25, 300.0
"""The rate limit of Events about one object: so many at once, then one in so many seconds."""
CLOSE_SECONDS = 5.0
"""The time to send what is left when a recorder is closed."""
NOTE_BYTES, REASON_BYTES, INSTANCE_BYTES = 1024, 128, 128

_MICROS = "%Y-%m-%dT%H:%M:%S.%fZ"
_CLUSTER_EVENTS = "default"
"""The namespace of Events about cluster-scoped objects."""

_log = structlog.get_logger("kapi.controller")


class Events(Protocol):
    """The events of one namespace; `kapi.client.ResourceClient` is one."""

    async def create(self, obj: Object) -> Object:
        """Write a new event."""
        ...

    async def patch(self, name: str, patch: Any) -> Object:
        """Change one, by a merge patch."""
        ...


class _Subject(NamedTuple):
    """The fields by which repetitions of an Event are recognised."""

    uid: str
    name: str
    type: str
    reason: str
    action: str
    note: str
    related: str


@dataclass(slots=True)
class _Series:
    name: str
    namespace: str
    count: int
    last: float


@dataclass(slots=True)
class _Budget:
    left: float
    since: float


class EventRecorder:
    """Records Events about objects; a manager makes one by `manager.recorder("example.com/networks")`.

    It starts with its first Event, wherever that is recorded. Used as `async with`, or closed by `close`, the Events
    recorded before are sent before it ends.
    """

    _last_stamp: ClassVar[int] = 0
    """In the name of the last event that any recorder of this process has made."""

    def __init__(
        self,
        events: Callable[[str], Events],
        controller: str,
        instance: str = "",
        *,
        clock: Clock | None = None,
    ) -> None:
        """`events` returns the Events of a namespace; `controller` is the reportingController, as `example.com/a`."""
        self._events = events
        self._controller = controller
        self._instance = _cut(instance or controller, INSTANCE_BYTES)
        self._clock = clock or SystemClock()
        self._queue: asyncio.Queue[tuple[_Subject, Object, float]] = asyncio.Queue(WAITING)
        self._series: OrderedDict[_Subject, _Series] = OrderedDict()
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._dropped = 0

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Send what was recorded, for at most `CLOSE_SECONDS`, and record nothing more."""
        self._is_closed = True
        if self._task is None and not self._queue.empty():
            self._start()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._queue.join()
        except TimeoutError:
            _log.warning("events dropped: they were not sent before the end", dropped=self._queue.qsize())
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _start(self) -> None:
        # Not in the context of the reconcile that records the first Event: it outlives that, and its trace.
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._send(), name="event recorder", context=contextvars.Context())

    def normal(self, regarding: AnyObject, reason: str, note: str, *, action: str = "") -> None:
        """Record an Event of type Normal."""
        self.event(regarding, NORMAL, reason, note, action=action)

    def warning(self, regarding: AnyObject, reason: str, note: str, *, action: str = "") -> None:
        """Record an Event of type Warning."""
        self.event(regarding, WARNING, reason, note, action=action)

    def event(
        self,
        regarding: AnyObject,
        kind: str,
        reason: str,
        note: str,
        *,
        action: str = "",
        related: AnyObject | None = None,
    ) -> None:
        """Record an Event: `reason` is one word in CamelCase, `action` is the action taken if that differs."""
        if self._is_closed:
            self._drop("the recorder is closed", regarding)
            return
        if not self._may_speak_of(uid_of(regarding) or name_of(regarding)):
            self._drop("there are too many about one object", regarding)
            return
        subject = _Subject(
            uid_of(regarding),
            name_of(regarding),
            kind,
            _cut(reason, REASON_BYTES),
            _cut(action or reason, REASON_BYTES),
            _cut(note, NOTE_BYTES),
            uid_of(related) if related is not None else "",
        )
        event = self._event(subject, regarding, related)
        try:
            self._queue.put_nowait((subject, event, self._clock.monotonic()))
        except asyncio.QueueFull:
            self._drop("the queue is full", regarding)
        if self._task is None and _is_in_loop():
            self._start()

    def _drop(self, why: str, regarding: AnyObject) -> None:
        """Count an Event that is dropped; the first and then ever fewer of them are logged."""
        self._dropped += 1
        if self._dropped & (self._dropped - 1) == 0:
            _log.warning(f"events dropped: {why}", about=name_of(regarding), dropped=self._dropped)

    def _may_speak_of(self, key: str) -> bool:
        now = self._clock.monotonic()
        budget = self._budgets.pop(key, None) or _Budget(BURST, now)
        budget.left = min(BURST, budget.left + (now - budget.since) / REFILL_SECONDS)
        budget.since = now
        self._budgets[key] = budget
        if len(self._budgets) > KNOWN:
            self._budgets.popitem(last=False)
        if budget.left < 1:
            return False
        budget.left -= 1
        return True

    def _event(self, subject: _Subject, regarding: AnyObject, related: AnyObject | None) -> Object:
        moment = self._clock.now().astimezone(dt.UTC)
        namespace = namespace_of(regarding) or _CLUSTER_EVENTS
        # Names must differ even when the clock does not move between two events, of this recorder or of another.
        EventRecorder._last_stamp = max(EventRecorder._last_stamp + 1, int(moment.timestamp() * 1e9))
        event: Object = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{subject.name}.{self._last_stamp:x}", "namespace": namespace},
            "eventTime": moment.strftime(_MICROS),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": subject.action,
            "reason": subject.reason,
            "type": subject.type,
            "note": subject.note,
            "regarding": _reference(regarding),
        }
        if related is not None:
            event["related"] = _reference(related)
        return event

    # -- sending ----------------------------------------------------------------------------------------------------

    async def _send(self) -> None:
        while True:
            subject, event, at = await self._queue.get()
            try:
                await self._write(subject, event, at)
            except (ApiError, ClientError, TimeoutError) as error:
                _log.warning(
                    "an event could not be written", reason=subject.reason, about=subject.name, error=str(error)
                )
            except Exception:
                _log.exception("an event could not be written", reason=subject.reason, about=subject.name)
            finally:
                self._queue.task_done()

    async def _write(self, subject: _Subject, event: Object, at: float) -> None:
        series = self._series.get(subject)
        if series is not None and at - series.last < SERIES_SECONDS:
            series.count += 1
            series.last = at
            self._series.move_to_end(subject)
            patch = {"series": {"count": series.count, "lastObservedTime": event["eventTime"]}}
            with contextlib.suppress(NotFound):
                await self._events(series.namespace).patch(series.name, patch)
                return
        metadata = event["metadata"]
        await self._events(metadata["namespace"]).create(event)
        self._series[subject] = _Series(metadata["name"], metadata["namespace"], 1, at)
        if len(self._series) > KNOWN:
            self._series.popitem(last=False)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _reference(obj: AnyObject) -> Object:
    gvk = SCHEME.gvk_of(obj)
    fields = {
        "apiVersion": str(GroupVersion(gvk.group, gvk.version)),
        "kind": gvk.kind,
        "name": name_of(obj),
        "namespace": namespace_of(obj),
        "uid": uid_of(obj),
        "resourceVersion": resource_version_of(obj),
    }
    return {key: value for key, value in fields.items() if value}


def _cut(text: str, limit: int) -> str:
    """The text, within so many bytes."""
    encoded = text.encode()
    return text if len(encoded) <= limit else encoded[: limit - 3].decode(errors="ignore") + "..."
