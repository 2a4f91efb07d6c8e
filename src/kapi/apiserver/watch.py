"""The watch of a resource that reports its changes: the events that its `watch` yields, as Kubernetes sends them.

Kapi adds what a backing need not know: initial events, selectors, bookmarks, the end of the time, and back-pressure.
The next event is asked for when the client has taken the last.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import structlog

from kapi.api.errors import ApiError, InternalError
from kapi.apiserver.selection import backed_store, given, request_of, select
from kapi.registry.custom.store import compile_schema
from kapi.server.handlers.selection import selector_of
from kapi.server.handlers.watch import BOOKMARK_INTERVAL, MIN_TIMEOUT, Sender, error_event
from kapi.server.transport.memory import WATCH_BACKLOG, peer_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kapi.apiserver.resources import Event
    from kapi.registry.store import ReadyItem
    from kapi.server.context import Context
    from kapi.server.handlers.options import ListOptions as ReadOptions
    from kapi.server.handlers.views import View
    from kapi.server.transport.message import Stream

_log = structlog.get_logger("kapi.apiserver")


class BackedWatch:
    """One open watch."""

    def __init__(self, context: Context, options: ReadOptions, view: View) -> None:
        self._context = context
        self._store = backed_store(context)
        self._request = request_of(context)
        self._options = options
        self._view = view
        selector = selector_of(options, self._store, context.info.name)
        self._matches = None if selector is None else selector.matches
        self._shown: dict[str, bool] = {}
        """Objects that the client was told of, by key, and whether they match now."""
        self._revision = options.revision or 0
        """Everything up to this resourceVersion has been sent."""
        self._bookmarked = 0

    async def run(self, stream: Stream) -> None:
        """Serve the watch until its time is up, the backing ends it, or the client disconnects."""
        context = self._context
        gauge = context.services.metrics.watching(context.served)
        gauge.inc()
        payer = peer_name(context.user, context.request.peer.address)
        hold = context.services.memory.open(WATCH_BACKLOG, payer, lambda _reason: stream.abort())
        sender = Sender(stream, context.services.turns, hold)
        try:
            await compile_schema(self._store.schemas[self._store.api_version])
            await self._begin(sender)
            await self._follow(sender)
        except ApiError as error:
            stream.write(error_event(error))
        except Exception as error:
            _log.exception("watch failed", audit_id=context.audit_id, resource=str(context.served.group_resource))
            why = f"{type(error).__name__}, see the log for {context.audit_id}"
            stream.write(error_event(InternalError.of(why)))
        finally:
            sender.close()
            gauge.dec()

    async def _begin(self, sender: Sender) -> None:
        """Send the initial events if they are wanted."""
        options = self._options
        if not options.initial_events and options.revision:
            return
        items, meta = await select(self._context, options._replace(limit=0))
        if not meta.revision:
            raise TypeError(f"{type(self._store.backing).__name__}.list: a watch needs a Page with a resource_version")
        self._revision = meta.revision
        if not options.initial_events:
            return
        for item in items:
            if self._matches is None or self._matches(item):
                self._shown[item.key] = True
                await sender.write(self._view.encode("ADDED", item))
        await sender.flush()
        if options.bookmarks:
            sender.stream.write(self._view.bookmark(self._revision, initial=True))

    async def _follow(self, sender: Sender) -> None:
        clock, options, stream = self._context.services.clock, self._options, sender.stream
        seconds = options.timeout_seconds
        end = clock.monotonic() + (seconds if seconds > 0 else MIN_TIMEOUT * (1 + random.random()))  # noqa: S311
        start = replace(given(options), resource_version=str(self._revision), limit=0)
        events = aiter(self._store.backing.watch(self._request, start))
        following = asyncio.ensure_future(_next(events))
        try:
            while (left := end - clock.monotonic()) > 0 and not stream.closed.done():
                pause = min(left, BOOKMARK_INTERVAL) if options.bookmarks else left
                await asyncio.wait((following, stream.closed), timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    event = following.result()
                    if event is None:
                        return
                    await self._send(sender, event)
                    following = asyncio.ensure_future(_next(events))
                elif options.bookmarks and self._revision > self._bookmarked:
                    self._bookmarked = self._revision
                    stream.write(self._view.bookmark(self._revision, initial=False))
        finally:
            following.cancel()
            await asyncio.wait((following,))
            if hasattr(events, "aclose"):
                await events.aclose()

    async def _send(self, sender: Sender, event: Event[Any]) -> None:
        item = self._store.item_of_object(event.object)
        kind = self._kind(event, item)
        self._revision = max(self._revision, item.revision)
        if kind is not None:
            await sender.write(self._view.encode(kind, item))
            await sender.flush()

    def _kind(self, event: Event[Any], item: ReadyItem) -> str | None:
        """Return the type of the event that the client is sent; None if it does not concern the client.

        Without the state before, an object that the client may know and that does not match is reported as deleted.
        """
        if self._context.info.namespace not in ("", item.namespace):
            return None
        if self._matches is None:
            return event.type
        before = self._shown.get(item.key, event.type != "ADDED")
        if event.old is not None:
            before = self._matches(self._store.item_of_object(event.old))
        after = event.type != "DELETED" and self._matches(item)
        if event.type == "DELETED":
            self._shown.pop(item.key, None)
        else:
            self._shown[item.key] = after
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None


async def _next(events: AsyncIterator[Event[Any]]) -> Event[Any] | None:
    """Return the next event; None when there are no more."""
    return await anext(events, None)
