"""The watcher of a version that a webhook converts to.

Other watchers write an event when they are offered it. This one leaves the live feed instead, and has the events
converted as it reads them from history, one batch at a time. A slow webhook delays its own watchers only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.cache.watchcache import Event
from kapi.cache.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from kapi.cache.watchcache import Item


class ConvertingWatcher(Watcher):
    """A watcher whose events are converted first; what cannot be converted ends the watch with the reason."""

    __slots__ = ("_convert",)

    def __init__(self, watcher: Watcher, convert: Callable[[Iterable[Item]], Awaitable[None]]) -> None:
        super().__init__(
            watcher.cache,
            watcher.prefix,
            watcher.selector,
            watcher.encoder,
            watcher.outlet,
            includes_uninitialized=watcher.includes_uninitialized,
        )
        self._convert = convert

    def _identity(self) -> object:
        return self  # each reads its events from history

    def offer(self, events: Sequence[Event], last: int) -> bool:
        """Leave the feed before these events, if they concern this watcher: they have to be converted."""
        return self.offer_large(events)

    def offer_large(self, events: Sequence[Event]) -> bool:
        """Leave the feed before these events, if they concern this watcher."""
        if any(self._is_near(event) for event in events):
            self.fall_behind(events[0].item.revision - 1)
            return True
        return False

    async def prepare(self, events: Sequence[Event]) -> Sequence[Event]:
        """The events that concern this watcher, converted."""
        near = [event for event in events if self._is_near(event)]
        await self._convert(self._to_convert(near))
        return [_with_last_state(event) for event in near]

    def _is_near(self, event: Event) -> bool:
        item = event.item
        return item.revision > self.after and item.key.startswith(self.prefix)

    def _to_convert(self, events: list[Event]) -> list[Item]:
        """The items to convert for these events: former states only where a selector may read them."""
        items: dict[Item, None] = {}
        for event in events:
            if event.previous is not None and (self.matches is not None or event.deleted):
                items[event.previous] = None
            if not event.deleted:
                items[event.item] = None
        return list(items)


def _with_last_state(event: Event) -> Event:
    """The event; of a deletion, with the last state as it was converted."""
    if not event.deleted or event.previous is None:
        return event
    last = event.previous.at(event.item.revision)
    return Event(last, event.previous, deleted=True, time=event.time)
