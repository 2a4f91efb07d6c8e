"""Watch: the stream of changes of a collection.

A watch is one registration in the watch cache and one open response. It begins with the current state (no
resourceVersion), or with the events since a revision, and lasts until its time is up, the client disconnects, or the
client does not keep up.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from kapi.api.errors import ApiError, BadRequest, Expired
from kapi.cache.watchcache import TooOld
from kapi.cache.watcher import MAX_PENDING
from kapi.codec import json
from kapi.server.handlers.options import ListOptions, list_options
from kapi.server.handlers.read import list_prefix, matcher, wait_for_latest, wait_until
from kapi.server.handlers.respond import watch_view_for
from kapi.server.transport.message import StreamResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.cache.watchcache import Event, Item, WatchCache
    from kapi.cache.watcher import Watcher
    from kapi.server.context import Context
    from kapi.server.handlers.views import View
    from kapi.server.transport.message import Stream

MIN_TIMEOUT = 1800.0
BOOKMARK_INTERVAL = 60.0
LAST_BOOKMARK = 2.0
"""A bookmark is also sent this long before a watch ends, so that the next watch can start from there."""
SLICE = 500
"""Initial events written between two checks that the client keeps up."""


async def watch(context: Context) -> StreamResponse:
    """GET with watch=true; the answer is always 200, and a bad revision is answered with an ERROR event."""
    view = watch_view_for(context)
    options = list_options(context.query, context.served, watch=True)
    _check_name(context, options)
    session = _Session(context, options, view)
    return StreamResponse(200, [("Content-Type", "application/json")], session.run)


def _check_name(context: Context, options: ListOptions) -> None:
    """Refuse a field selector that contradicts the name in an old `/watch/…/name` path."""
    name = context.info.name
    pinned = options.fields.requires_exact_match("metadata.name") if options.fields is not None else None
    if name and pinned is not None and pinned != name:
        raise BadRequest("fieldSelector metadata.name doesn't match requested name")


class _Session:
    """One open watch."""

    def __init__(self, context: Context, options: ListOptions, view: View) -> None:
        self._context = context
        self._options = options
        self._view = view
        self._prefix = list_prefix(context)
        self._store = context.served.stored
        self._cache: WatchCache = self._store.cache
        self._matches = _named(matcher(options, self._store), context.info.name)
        self._clock = context.services.clock

    async def run(self, stream: Stream) -> None:
        """Serve the watch until it ends."""
        gauge = self._context.services.metrics.watching(self._context.served)
        gauge.inc()
        below = "" if self._prefix == self._cache.prefix else self._prefix
        watcher = self._store.watcher(below, self._matches, self._view, stream)
        try:
            since = watcher.after = await self._begin(stream)
            await self._catch_up(watcher, stream, since)
            await self._follow(watcher, stream, since)
        except ApiError as error:
            stream.write(b'{"type":"ERROR","object":%b}\n' % json.encode(error.status()))
        finally:
            self._cache.remove(watcher)
            await watcher.close()
            gauge.dec()

    async def _begin(self, stream: Stream) -> int:
        """Send the initial events if they are wanted; returns the revision to go on from."""
        options, hub = self._options, self._context.services.catalog.hub
        revision = options.revision or 0
        if options.revision is None:
            await wait_for_latest(self._context)
        if options.initial_events:
            await wait_until(self._context, revision)
            since = hub.revision
            await self._send_initial(stream)
            if options.bookmarks:
                stream.write(self._view.bookmark(since, initial=True))
            return since
        if options.initial_events is False and not revision:
            return hub.revision
        return revision

    async def _send_initial(self, stream: Stream) -> None:
        items = self._cache.items(self._prefix)
        matches, encode = self._matches, self._view.encode
        for first in range(0, len(items), SLICE):
            slice_ = await self._store.ready(items[first : first + SLICE])
            chunk = b"".join([encode("ADDED", item) for item in slice_ if matches is None or matches(item)])
            if chunk:
                stream.write(chunk)
                await stream.drain()
            if stream.closed.done():
                return

    async def _catch_up(self, watcher: Watcher, stream: Stream, since: int) -> None:
        """Send what happened since, then join the live feed in the same step, so that nothing falls between."""
        while not stream.closed.done():
            events = self._since(since)
            if not events:
                self._cache.add(watcher)
                return
            batch = _whole_revisions(events)
            watcher.offer(batch)
            for event in batch:
                event.chunks = {}
            since = batch[-1].item.revision
            await watcher.flush()
            if stream.pending > MAX_PENDING // 2:
                await stream.drain()

    def _since(self, revision: int) -> list[Event]:
        try:
            return self._cache.since(revision)
        except TooOld as error:
            raise Expired(str(error)) from None

    async def _follow(self, watcher: Watcher, stream: Stream, since: int) -> None:
        """Stay until the time is up; events arrive by themselves, bookmarks are sent here."""
        now = self._clock.monotonic()
        seconds = self._options.timeout_seconds
        end = now + (seconds if seconds > 0 else MIN_TIMEOUT * (1 + random.random()))  # noqa: S311
        bookmarks = self._options.bookmarks
        last = since
        ending = self._ending(watcher, stream)
        while not any(one.done() for one in ending) and now < end:
            pause = end - now
            if bookmarks:
                pause = (
                    min(pause, BOOKMARK_INTERVAL)
                    if pause > BOOKMARK_INTERVAL + LAST_BOOKMARK
                    else pause - LAST_BOOKMARK
                )
            if pause > 0:
                await asyncio.wait(ending, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            now = self._clock.monotonic()
            if not watcher.is_idle:
                # A bookmark would speak of events that have not been sent.
                await asyncio.wait(ending, timeout=min(1.0, max(end - now, 0)), return_when=asyncio.FIRST_COMPLETED)
                continue
            if bookmarks and not any(one.done() for one in ending):
                last = self._bookmark(stream, last)
                if end - now <= LAST_BOOKMARK:
                    await asyncio.wait(ending, timeout=max(end - now, 0), return_when=asyncio.FIRST_COMPLETED)
                    break
        if watcher.failed is not None and watcher.failed.done():
            watcher.failed.result()

    def _ending(self, watcher: Watcher, stream: Stream) -> list[asyncio.Future[None]]:
        """What ends a watch early: the client disconnects, the resource is redefined, its conversion webhook fails."""
        ending = [stream.closed]
        if self._context.served.custom is not None:
            ending.append(self._context.served.custom.retired)
        if watcher.failed is not None:
            ending.append(watcher.failed)
        return ending

    def _bookmark(self, stream: Stream, last: int) -> int:
        """Send the hub's revision if it has moved; every event up to it has been offered to this watcher."""
        revision = self._context.services.catalog.hub.revision
        if revision > last:
            stream.write(self._view.bookmark(revision, initial=False))
        return max(revision, last)


def _whole_revisions(events: list[Event]) -> list[Event]:
    """The first `SLICE` events, and the rest of the last one's revision: a commit may have changed several objects."""
    end = min(SLICE, len(events))
    while end < len(events) and events[end].item.revision == events[end - 1].item.revision:
        end += 1
    return events[:end]


def _named(matches: Callable[[Item], bool] | None, name: str) -> Callable[[Item], bool] | None:
    if not name:
        return matches
    if matches is None:
        return lambda item: item.name == name
    return lambda item: item.name == name and matches(item)
