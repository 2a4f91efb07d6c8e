"""Watch: the stream of changes of a collection.

A watch is one registration in the watch cache and one open response. It begins with the current state (no
resourceVersion), or with the events since a revision, and lasts until its time is up, the client disconnects, or the
client is so slow that history no longer has what it has not read.

What is sent to a client that does not keep up is made as the client reads, from the items and events that the cache has
anyway, and never queued. What an open watch costs beyond that is on the memory account: its send buffer while that is
full, and objects that the cache has replaced and this watch still has to send.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from kapi.api.errors import ApiError, BadRequest, Expired
from kapi.cache.snapshot import Snapshot
from kapi.cache.watchcache import TooOld
from kapi.cache.watcher import LARGE
from kapi.codec import json
from kapi.server.handlers.options import ListOptions, list_options
from kapi.server.handlers.read import list_prefix, wait_for_latest, wait_until
from kapi.server.handlers.respond import watch_view_for
from kapi.server.handlers.selection import selector_of
from kapi.server.transport.memory import WATCH_BACKLOG, peer_name
from kapi.server.transport.message import StreamResponse
from kapi.server.transport.outgoing import SOCKET_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kapi.cache.watchcache import Event, Item, WatchCache
    from kapi.cache.watcher import Watcher
    from kapi.server.context import Context
    from kapi.server.handlers.views import View
    from kapi.server.transport.memory import Hold
    from kapi.server.transport.message import Stream
    from kapi.server.turns import Turns

MIN_TIMEOUT = 1800.0
BOOKMARK_INTERVAL = 60.0
LAST_BOOKMARK = 2.0
"""A bookmark is also sent this long before a watch ends, so that the next watch can start from there."""
SLICE = 500
"""Items that are converted by a webhook in one request."""
CATCH_UP = 100
"""Events that are read from history at once."""
PIECE = 64 * 1024
"""Bytes that are written at once."""


async def watch(context: Context) -> StreamResponse:
    """GET with watch=true; the answer is always 200, and a bad revision is answered with an ERROR event."""
    view = watch_view_for(context)
    options = list_options(context.query, context.served, watch=True)
    check_name(context, options)
    session = _Session(context, options, view)
    return StreamResponse(200, [("Content-Type", "application/json")], session.run)


def check_name(context: Context, options: ListOptions) -> None:
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
        self._selector = selector_of(options, self._store, context.info.name)
        self._clock = context.services.clock
        self._turns = context.services.turns
        self._end = 0.0
        """When the time of the watch is up."""
        self._bookmarked = 0

    async def run(self, stream: Stream) -> None:
        """Serve the watch until it ends."""
        gauge = self._context.services.metrics.watching(self._context.served)
        gauge.inc()
        below = "" if self._prefix == self._cache.prefix else self._prefix
        watcher = self._store.watcher(
            below,
            self._selector,
            self._view,
            stream,
            includes_uninitialized=self._options.includes_uninitialized,
        )
        account = self._context.services.memory
        payer = peer_name(self._context.user, self._context.request.peer.address)
        sender = Sender(stream, self._turns, account.open(WATCH_BACKLOG, payer, lambda _reason: stream.abort()))
        try:
            self._bookmarked = watcher.after = await self._begin(sender)
            seconds = self._options.timeout_seconds
            self._end = self._clock.monotonic() + (seconds if seconds > 0 else MIN_TIMEOUT * (1 + random.random()))  # noqa: S311
            while await self._catch_up(watcher, sender) and await self._follow(watcher, stream):
                pass
            self._cache.flush(watcher)
        except ApiError as error:
            stream.write(error_event(error))
        finally:
            self._cache.remove(watcher)
            sender.close()
            gauge.dec()

    async def _begin(self, sender: Sender) -> int:
        """Send the initial events if they are wanted; returns the revision to go on from."""
        options, hub = self._options, self._context.services.catalog.hub
        revision = options.revision or 0
        if options.revision is None:
            await wait_for_latest(self._context)
        if options.initial_events:
            await wait_until(self._context, revision)
            since = hub.revision
            await self._send_initial(sender, since)
            if options.bookmarks:
                sender.stream.write(self._view.bookmark(since, initial=True))
            return since
        if options.initial_events is False and not revision:
            return hub.revision
        return revision

    async def _send_initial(self, sender: Sender, revision: int) -> None:
        """Send the items of this moment as the client reads."""
        with Snapshot(self._cache, self._cache.items(self._prefix), revision) as snapshot:
            sender.hold(snapshot)
            matches = None if self._selector is None else self._selector.matches
            encode, parts = self._view.encode, self._view.event_parts
            for first in range(0, len(snapshot.items), SLICE):
                for item in await self._store.ready(list(snapshot.items[first : first + SLICE])):
                    if matches is not None and not matches(item):
                        await sender.pause()
                    elif len(item.body) > LARGE:
                        await sender.write_parts(parts("ADDED", item))
                    else:
                        await sender.write(encode("ADDED", item))
                    if sender.stream.closed.done():
                        return
            await sender.flush()
        sender.hold(None)

    async def _catch_up(self, watcher: Watcher, sender: Sender) -> bool:
        """Send what happened since as the client reads; then join the live feed in the same step, without a gap.

        Returns False if the watch has ended.
        """
        stream, since = sender.stream, watcher.after
        ending = self._ending(stream)
        while not any(one.done() for one in ending) and self._clock.monotonic() < self._end:
            if stream.is_full:
                await sender.drain()
                continue
            events = self._since(since)
            if not events:
                watcher.after = since
                watcher.behind = asyncio.get_running_loop().create_future()
                self._cache.add(watcher)
                sender.hold(None)
                return True
            since = await self._send_events(watcher, sender, await watcher.prepare(events), events[-1].item.revision)
        return False

    async def _send_events(self, watcher: Watcher, sender: Sender, events: Sequence[Event], last: int) -> int:
        """Send events until the client does not keep up; returns the revision that was reached."""
        for index, event in enumerate(events):
            shown = watcher.shown(event)
            if shown is None:
                await sender.pause()
            elif len(shown[1].body) > LARGE:
                sender.held = 0 if self._cache.get(shown[1].key) is shown[1] else len(shown[1].body)
                await sender.write_parts(self._view.event_parts(*shown))
                sender.held = 0
            else:
                await sender.write(self._view.encode(*shown))
            revision = event.item.revision
            if sender.stream.is_full and index + 1 < len(events) and events[index + 1].item.revision != revision:
                # The other events are not kept for a client that may never read them.
                await sender.flush()
                return revision
        await sender.flush()
        return last

    def _since(self, revision: int) -> list[Event]:
        try:
            return self._cache.since(revision, CATCH_UP)
        except TooOld as error:
            raise Expired(str(error)) from None

    async def _follow(self, watcher: Watcher, stream: Stream) -> bool:
        """Stay in the live feed: events are sent by themselves, bookmarks here; False if the watch has ended."""
        now, end = self._clock.monotonic(), self._end
        bookmarks = self._options.bookmarks
        assert watcher.behind is not None
        ending = self._ending(stream)
        waiting = [*ending, watcher.behind]
        while not any(one.done() for one in ending) and now < end:
            if watcher.behind.done():
                return True
            pause = end - now
            if bookmarks:
                pause = (
                    min(pause, BOOKMARK_INTERVAL)
                    if pause > BOOKMARK_INTERVAL + LAST_BOOKMARK
                    else pause - LAST_BOOKMARK
                )
            if pause > 0:
                await asyncio.wait(waiting, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            now = self._clock.monotonic()
            if bookmarks:
                # What waits to be sent with others may make this watcher leave the feed.
                self._cache.flush(watcher)
            if bookmarks and not any(one.done() for one in waiting):
                self._bookmark(stream)
                if end - now <= LAST_BOOKMARK:
                    await asyncio.wait(ending, timeout=max(end - now, 0), return_when=asyncio.FIRST_COMPLETED)
                    return False
        return False

    def _ending(self, stream: Stream) -> list[asyncio.Future[None]]:
        """What ends a watch early: the client disconnects, the resource is redefined."""
        custom = self._context.served.custom
        return [stream.closed] if custom is None else [stream.closed, custom.retired]

    def _bookmark(self, stream: Stream) -> None:
        """Send the hub's revision if it has moved; every event up to it has been sent to this watcher."""
        revision = self._context.services.catalog.hub.revision
        if revision > self._bookmarked:
            stream.write(self._view.bookmark(revision, initial=False))
            self._bookmarked = revision


class Sender:
    """Writes the events of one watch no faster than the client reads, in turns with the other watches."""

    def __init__(self, stream: Stream, turns: Turns, hold: Hold) -> None:
        self.stream = stream
        self.held = 0
        """Bytes of the object that is being written, if the cache no longer has it."""
        self._turns = turns
        self._hold = hold
        self._snapshot: Snapshot[Item] | None = None
        self._group: list[bytes] = []
        self._size = 0
        self._skipped = 0

    def hold(self, snapshot: Snapshot[Item] | None) -> None:
        """Charge what a snapshot keeps; None when there is nothing that waits to be sent."""
        self._snapshot = snapshot
        if snapshot is None:
            self._hold.resize(0, progressed=True)
        else:
            snapshot.grown = self._charge

    def _charge(self, *, progressed: bool = False) -> None:
        kept = 0 if self._snapshot is None else self._snapshot.held
        self._hold.resize(self.stream.pending + SOCKET_BYTES + self.held + kept, progressed=progressed)

    async def write(self, event: bytes) -> None:
        """Send a small event, together with others."""
        self._group.append(event)
        self._size += len(event)
        if self._size >= PIECE:
            await self.flush()
        else:
            await self.pause()

    async def write_parts(self, parts: Iterable[bytes]) -> None:
        """Send a large event in pieces."""
        await self.flush()
        for part in parts:
            for at in range(0, len(part), PIECE):
                await self._send(memoryview(part)[at : at + PIECE])

    async def flush(self) -> None:
        """Send the small events that wait to be sent together."""
        if self._group:
            group = b"".join(self._group)
            self._group, self._size = [], 0
            await self._send(group)

    async def pause(self) -> None:
        """Let other work run, after every few events."""
        self._skipped += 1
        if self._skipped % CATCH_UP == 0:
            async with self._turns.turn:
                await asyncio.sleep(0)

    async def _send(self, data: bytes | memoryview) -> None:
        async with self._turns.turn:
            self.stream.write(data)
            # The next in line writes in the next turn of the loop.
            await asyncio.sleep(0)
        if self.stream.is_full:
            await self.drain()

    async def drain(self) -> None:
        """Wait until the client has taken most of what was written; a client that takes too long is disconnected."""
        self._charge(progressed=True)
        await self.stream.drain()

    def close(self) -> None:
        """Release what was charged."""
        self._hold.release()


def error_event(error: ApiError) -> bytes:
    """Return the event that ends a watch with an error."""
    return b'{"type":"ERROR","object":%b}\n' % json.encode(error.status())
