"""Watchers: each is offered the events of a watch cache, selects some, and writes them to a response stream.

An event is offered without waiting, and is encoded once for all watchers that want the same representation; those that
select the same are written the same bytes, see `watcherindex`. A watcher
has no queue: when its client does not keep up, or an event is too large to be written at once, it leaves the live feed
and remembers the revision it had reached. It then reads the events that follow from the history of the cache as its
client reads, and joins the feed again when it has caught up. So a client that does not read costs its send buffer,
whatever is written meanwhile; and if it is so slow that history no longer has what it needs, it is told so (410).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from kapi.cache.item import Event, Item
    from kapi.cache.selector import Equality, ItemSelector
    from kapi.cache.watchcache import WatchCache

LARGE = 64 * 1024
"""An event of an object beyond this many bytes is written in pieces, as the client reads."""


class Encoder(Protocol):
    """Encodes watch events. Watchers with equal `share` keys get the same bytes."""

    share: object
    """Equal for encoders that produce equal bytes; None for one that must not be shared."""

    def encode(self, kind: str, item: Item) -> bytes:
        """The event `kind` (ADDED, MODIFIED, DELETED) of an item."""
        ...


class Outlet(Protocol):
    """The response stream of a watcher, as far as the cache uses it."""

    @property
    def framing(self) -> object:
        """Equal for streams that frame the same bytes in the same way."""
        ...

    @property
    def is_full(self) -> bool:
        """True while the client has not taken enough of what was written."""
        ...

    def write(self, data: bytes) -> None:
        """Send without waiting."""
        ...

    def frame(self, data: bytes) -> bytes:
        """What `write` would send for some bytes, to be sent to several streams of the same framing."""
        ...

    def write_framed(self, framed: bytes) -> bool:
        """Send what `frame` returned; returns True if the client has not taken enough of what was written."""
        ...

    def abort(self) -> None:
        """Close the connection at once."""
        ...


class Watcher:
    """One watch: its selection, its encoder, its stream.

    `prefix` is that of the keys in a namespace, or empty; there is no `selector` when everything in it matches. Objects
    that initializers have not finished are hidden unless `includes_uninitialized` is set: for the client they are
    created when they are initialized.
    """

    __slots__ = (
        "after",
        "behind",
        "cache",
        "encoder",
        "equality",
        "identity",
        "includes_uninitialized",
        "matches",
        "outlet",
        "prefix",
        "selector",
    )

    def __init__(
        self,
        cache: WatchCache,
        prefix: str,
        selector: ItemSelector | None,
        encoder: Encoder,
        outlet: Outlet,
        *,
        includes_uninitialized: bool = False,
    ) -> None:
        self.cache = cache
        self.prefix = prefix
        self.selector = selector
        self.matches: Callable[[Item], bool] | None = None if selector is None else selector.matches
        self.equality: Equality | None = (
            selector.equalities[0] if selector is not None and selector.equalities else None
        )
        """What the watcher is found by in the index."""
        self.encoder = encoder
        self.outlet = outlet
        self.includes_uninitialized = includes_uninitialized
        self.identity = self._identity()
        """Equal for watchers of a prefix and an equality that are sent the same bytes."""
        self.after = 0
        """Events up to this revision are not sent: the watch began there, or they have been sent."""
        self.behind: asyncio.Future[None] | None = None
        """Done when the watcher has left the feed."""

    def _identity(self) -> object:
        selected = None if self.selector is None else self.selector.identity
        if self.encoder.share is None or (self.selector is not None and selected is None):
            return self
        return self.encoder.share, selected, self.includes_uninitialized, self.outlet.framing

    def offer(self, events: Sequence[Event], last: int) -> bool:
        """Send what these events mean to this watcher, in one write; with them it has reached the revision `last`.

        Returns True if it has left the feed.
        """
        data = self._encoded(events)
        if not data:
            return False
        self.after = last
        self.outlet.write(data)
        if self.outlet.is_full:
            self.fall_behind(last)
            return True
        return False

    def framed(self, events: Sequence[Event]) -> bytes:
        """What every watcher of the same identity is sent for these events; empty if they do not concern it."""
        data = self._encoded(events)
        return self.outlet.frame(data) if data else b""

    def _encoded(self, events: Sequence[Event]) -> bytes:
        chunks = [chunk for event in events if (chunk := self._chunk(event)) is not None]
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def offer_large(self, events: Sequence[Event]) -> bool:
        """Leave the feed before these events if they concern this watcher: some are too large for one write.

        Returns True if it has left.
        """
        if any(self.shown(event) is not None for event in events):
            self.fall_behind(events[0].item.revision - 1)
            return True
        return False

    def fall_behind(self, revision: int) -> None:
        """Leave the feed; everything up to this revision has been sent."""
        self.after = max(self.after, revision)
        self.cache.leave(self)
        if self.behind is not None and not self.behind.done():
            self.behind.set_result(None)

    async def prepare(self, events: Sequence[Event]) -> Sequence[Event]:
        """The events as they can be encoded."""
        return events

    def shown(self, event: Event) -> tuple[str, Item] | None:
        """The type and the object of the event that the client is sent; None if it does not concern this watcher."""
        item = event.item
        if item.revision <= self.after or (self.prefix and not item.key.startswith(self.prefix)):
            return None
        kind = self._kind(event)
        if kind is None:
            return None
        if kind == "DELETED" and not event.deleted and event.previous is not None:
            # It left the selection: the client is sent the state it last knew, at this revision.
            item = event.previous.at(item.revision)
        return kind, item

    def _chunk(self, event: Event) -> bytes | None:
        shown = self.shown(event)
        if shown is None:
            return None
        encoder = self.encoder
        if encoder.share is None:
            return encoder.encode(*shown)
        key = (encoder.share, shown[0])
        chunk = event.chunks.get(key)
        if chunk is None:
            chunk = event.chunks[key] = encoder.encode(*shown)
        return chunk

    def _kind(self, event: Event) -> str | None:
        matches = self.matches
        previous = event.previous
        if self.cache.had_uninitialized and not self.includes_uninitialized:
            before = previous is not None and not previous.is_uninitialized and (matches is None or matches(previous))
            after = not event.item.is_uninitialized and (matches is None or matches(event.item))
            after = after and not event.deleted
        elif matches is None:
            if event.deleted:
                return "DELETED"
            return "MODIFIED" if previous is not None else "ADDED"
        else:
            before = previous is not None and matches(previous)
            after = not event.deleted and matches(event.item)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None
