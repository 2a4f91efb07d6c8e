"""The event TTL controller: deletes Events some time after they were last written (`--event-ttl`).

Every write of an Event, in either group, restarts its time. Write times are known from the commit log while the server
runs; for Events that existed before, the newest time in the object stands for it.

As all Events have the same TTL, they expire in the order in which they were last written: the order of `_written`, a
dictionary from keys to times in which a written key moves to the end. So there is one timer, for the first, and an
Event costs one entry. Deletions go through the API in batches, each with the revision that was seen as a precondition:
an Event that is written at the last moment stays.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from kapi.api.errors import ApiError, Conflict, NotFound
from kapi.api.meta import parse_time
from kapi.controller.reconcile import Request, Result
from kapi.controlplane.controllers import names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.cache.watchcache import Event, Item
    from kapi.controlplane.controllers.context import ControllerContext

EVENTS: Final = "events"

BATCH: Final = 16
"""Concurrent deletions: enough to share commits, few enough for other requests to get their turn."""
BATCHES: Final = 64
"""Batches per reconcile; then there is a pause, in which a server that shuts down can stop."""
PAUSE: Final = 0.01
SLICE: Final = 500
"""The number of Events that are read at a time when the server starts."""
MIN_DELAY: Final = 1.0
"""The shortest delay between two reconciles, so that Events which expire one by one are deleted together."""

_ALL = Request("", "events")
"""The only request: there is one timer for all Events."""

_log = structlog.get_logger("kapi.controllers")


def add_event_ttl_controller(context: ControllerContext) -> None:
    """Add the controller that deletes Events `ControllerSettings.event_seconds` after their last write."""
    controller = EventTTLController(context)
    context.add(names.EVENT_TTL, controller, enqueue={EVENTS: controller.enqueue}, initial=lambda: (_ALL,))


class _Entry(msgspec.Struct):
    time: str = ""


class _Metadata(msgspec.Struct):
    created: str = msgspec.field(name="creationTimestamp", default="")
    managed: list[_Entry] | None = msgspec.field(name="managedFields", default=None)


class _Series(msgspec.Struct):
    last: str | None = msgspec.field(name="lastObservedTime", default=None)


class _Times(msgspec.Struct):
    """The times in an Event."""

    metadata: _Metadata
    series: _Series | None = None
    last: str | None = msgspec.field(name="lastTimestamp", default=None)
    time: str | None = msgspec.field(name="eventTime", default=None)


_decode_times = msgspec.json.Decoder(_Times).decode


def last_written(body: bytes) -> float:
    """The newest time in an Event, in seconds of the wall clock: the best estimate of its last write."""
    event = _decode_times(b"{" + body)
    texts = [event.metadata.created, event.last, event.time, event.series.last if event.series else None]
    texts += [entry.time for entry in event.metadata.managed or ()]
    moments = (parse_time(text) for text in texts if text)
    return max((moment.timestamp() for moment in moments if moment is not None), default=0.0)


class EventTTLController:
    """Tracks when each Event was last written, and deletes expired ones.

    `_written` is in the order of its times, except for entries from a clock that was set back, which wait for those
    before them. It holds the keys of the stored Events, all of them after the first reconcile.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._seconds = context.settings.event_seconds
        self._written: OrderedDict[str, float] = OrderedDict()
        self._has_read = False

    def enqueue(self, event: Event) -> Iterable[Request]:
        """Record a write; the first Event of all starts the timer."""
        written, key = self._written, event.item.key
        if event.deleted:
            written.pop(key, None)
            return ()
        was_empty = not written
        written[key] = event.time
        written.move_to_end(key)
        return (_ALL,) if was_empty else ()

    async def reconcile(self, request: Request) -> Result | None:
        """Delete expired Events, and come back when the next one expires."""
        if not self._has_read:
            await self._read()
        for _ in range(BATCHES):
            expired = self._expired()
            if not expired:
                break
            await asyncio.gather(*map(self._delete, expired))
            # In case nothing above had to wait: let other tasks run.
            await asyncio.sleep(0)
        else:
            return Result(requeue_after=PAUSE)
        first = next(iter(self._written.values()), None)
        if first is None:
            return None
        return Result(requeue_after=max(first + self._seconds - self._context.clock.monotonic(), MIN_DELAY))

    def _expired(self) -> list[Item]:
        """The next batch of expired Events."""
        limit = self._context.clock.monotonic() - self._seconds
        keys = [key for key, time in islice(self._written.items(), BATCH) if time <= limit]
        return [item for key in keys if (item := self._context.view.at(key)) is not None]

    async def _delete(self, item: Item) -> None:
        resource = self._context.view.of_kind("v1", "Event")
        assert resource is not None
        client = self._context.writer.resource(resource, item.namespace)
        try:
            await client.delete(item.name, resource_version=str(item.revision))
        except (NotFound, Conflict):
            return
        except ApiError as error:
            _log.warning("event not deleted", namespace=item.namespace, name=item.name, error=str(error))
        if item.key in self._written:
            # It has finalizers, or admission refused the deletion; it must not hold up those behind it.
            self._written[item.key] = self._context.clock.monotonic()
            self._written.move_to_end(item.key)

    async def _read(self) -> None:
        """Estimate the write times of the Events that existed before; there may be many, so a slice at a time."""
        clock = self._context.clock
        since = clock.now().timestamp() - clock.monotonic()
        times: list[tuple[float, str]] = []
        items = self._context.view.items(EVENTS)
        for start in range(0, len(items), SLICE):
            now = clock.monotonic()
            # A time in the future comes from a wrong clock.
            times += [(min(last_written(item.body) - since, now), item.key) for item in items[start : start + SLICE]]
            await asyncio.sleep(0)
        times.sort()
        known = OrderedDict((key, time) for time, key in times if self._context.view.at(key) is not None)
        for key, time in self._written.items():
            # Written again while this was reading.
            known[key] = time
            known.move_to_end(key)
        self._written = known
        self._has_read = True
