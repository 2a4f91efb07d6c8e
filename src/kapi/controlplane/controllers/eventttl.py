"""Events go some time after they were last written, so that what happened yesterday does not fill the disk for ever.

Every write of an event, of either group, gives it its full time again. The times of writes are known from the commit
log while the server runs; of events that were there before, the newest time in the object stands for it.

As all events live equally long, they expire in the order they were last written: the order of `_written`, a dictionary
from keys to times in which a written key moves to the end. So there is one timer, for the first, and an event costs one
entry. Deletions go through the API, a few at a time, each for the revision that was seen: an event that is written in
the last moment lives on.
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
from kapi.controlplane.controllers.inventory import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.cache.watchcache import Event, Item
    from kapi.controlplane.controllers.house import House

EVENTS: Final = "events"

BATCH: Final = 16
"""Deletions under way at once: enough to share the disk's time, few enough for others to have their turn."""
BATCHES: Final = 64
"""Batches of one round; then there is a pause, in which a server that is told to stop can."""
PAUSE: Final = 0.01
SLICE: Final = 500
"""How many events are read at a time when the server starts."""
PATIENCE: Final = 1.0
"""Seconds that an event may be kept too long, so that those that come one by one can go together."""

_ROUND = Request("", "events")
"""The one key: there is one timer for all events."""

_log = structlog.get_logger("kapi.housekeeping")


def expire_events(house: House) -> None:
    """Delete events `Settings.event_seconds` after their last write."""
    expiry = Expiry(house)
    house.add("event-expiry-controller", expiry, hear={EVENTS: expiry.heard}, initial=lambda: (_ROUND,))


class _Entry(msgspec.Struct):
    time: str = ""


class _Metadata(msgspec.Struct):
    created: str = msgspec.field(name="creationTimestamp", default="")
    managed: list[_Entry] | None = msgspec.field(name="managedFields", default=None)


class _Series(msgspec.Struct):
    last: str | None = msgspec.field(name="lastObservedTime", default=None)


class _Times(msgspec.Struct):
    """What of an event says when it was written."""

    metadata: _Metadata
    series: _Series | None = None
    last: str | None = msgspec.field(name="lastTimestamp", default=None)
    time: str | None = msgspec.field(name="eventTime", default=None)


_decode_times = msgspec.json.Decoder(_Times).decode


def last_written(body: bytes) -> float:
    """When an event was last written, as far as itself can tell: its newest time, in seconds of the wall clock."""
    event = _decode_times(b"{" + body)
    texts = [event.metadata.created, event.last, event.time, event.series.last if event.series else None]
    texts += [entry.time for entry in event.metadata.managed or ()]
    moments = (parse_time(text) for text in texts if text)
    return max((moment.timestamp() for moment in moments if moment is not None), default=0.0)


class Expiry:
    """Knows when each event was last written, and deletes those whose time is up.

    `_written` is in the order of its times, but for entries of a clock that was set back, which wait for those before
    them. It holds the keys of the stored events, all of them once the first round is over.
    """

    def __init__(self, house: House) -> None:
        self._house = house
        self._seconds = house.settings.event_seconds
        self._written: OrderedDict[str, float] = OrderedDict()
        self._has_read = False

    def heard(self, event: Event) -> Iterable[Request]:
        """Note a write; with the first event of all, the timer starts."""
        written, key = self._written, event.item.key
        if event.deleted:
            written.pop(key, None)
            return ()
        was_empty = not written
        written[key] = event.time
        written.move_to_end(key)
        return (_ROUND,) if was_empty else ()

    async def reconcile(self, request: Request) -> Result | None:
        """Delete what is due, and come back for the next."""
        if not self._has_read:
            await self._read()
        for _ in range(BATCHES):
            due = self._due()
            if not due:
                break
            await asyncio.gather(*map(self._delete, due))
            # Nothing above need have waited; others have their turn in any case.
            await asyncio.sleep(0)
        else:
            return Result(requeue_after=PAUSE)
        first = next(iter(self._written.values()), None)
        if first is None:
            return None
        return Result(requeue_after=max(first + self._seconds - self._house.clock.monotonic(), PATIENCE))

    def _due(self) -> list[Item]:
        """The next few events whose time is up."""
        limit = self._house.clock.monotonic() - self._seconds
        cache = self._house.inventory.catalog.store(EVENTS).cache
        keys = [key for key, time in islice(self._written.items(), BATCH) if time <= limit]
        return [item for key in keys if (item := cache.get(key)) is not None]

    async def _delete(self, item: Item) -> None:
        served = self._house.inventory.of_kind("v1", "Event")
        assert served is not None
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"resourceVersion": str(item.revision)},
        }
        path = path_of(served, item.namespace, item.name)
        try:
            await self._house.client.rest.request("DELETE", path, body=options)
        except (NotFound, Conflict):
            return
        except ApiError as error:
            _log.warning("an event could not be deleted", namespace=item.namespace, name=item.name, error=str(error))
        if item.key in self._written:
            # It may not go (yet), for its finalizers or by somebody's rule; those behind it may.
            self._written[item.key] = self._house.clock.monotonic()
            self._written.move_to_end(item.key)

    async def _read(self) -> None:
        """Learn when the events that were there before were written; there may be many, so a slice at a time."""
        clock = self._house.clock
        since = clock.now().timestamp() - clock.monotonic()
        times: list[tuple[float, str]] = []
        items = self._house.inventory.items(EVENTS)
        for start in range(0, len(items), SLICE):
            now = clock.monotonic()
            # A time to come is one of a clock that was wrong.
            times += [(min(last_written(item.body) - since, now), item.key) for item in items[start : start + SLICE]]
            await asyncio.sleep(0)
        cache = self._house.inventory.catalog.store(EVENTS).cache
        times.sort()
        known = OrderedDict((key, time) for time, key in times if cache.get(key) is not None)
        for key, time in self._written.items():
            # Written again while we read.
            known[key] = time
            known.move_to_end(key)
        self._written = known
        self._has_read = True
