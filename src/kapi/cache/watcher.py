"""Watchers: each is offered the events of a watch cache, selects some, and writes them to a response stream.

A watcher whose client does not read is closed when `MAX_PENDING` bytes wait for it. It delays no other: an event is
offered without waiting, and is encoded once for all watchers that want the same representation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from kapi.cache.watchcache import Event, Item, WatchCache

MAX_PENDING = 4 * 1024 * 1024


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
    def pending(self) -> int:
        """Bytes written and not yet sent."""
        ...

    def write(self, data: bytes) -> None:
        """Send without waiting."""
        ...

    def abort(self) -> None:
        """Close the connection at once."""
        ...


class Watcher:
    """One watch: its selection, its encoder, its stream.

    `matches` is None when everything in `prefix` matches.
    """

    __slots__ = ("after", "cache", "encoder", "matches", "outlet", "prefix")

    def __init__(
        self, cache: WatchCache, prefix: str, matches: Callable[[Item], bool] | None, encoder: Encoder, outlet: Outlet
    ) -> None:
        self.cache = cache
        self.prefix = prefix
        self.matches = matches
        self.encoder = encoder
        self.outlet = outlet
        self.after = 0
        """Events up to this revision are not sent: the watch began at a revision that had not been reached."""

    @property
    def is_idle(self) -> bool:
        """True when everything offered has been sent."""
        return True

    @property
    def failed(self) -> asyncio.Future[None] | None:
        """Done with the reason when no more events can be sent; None for a watcher that cannot fail."""
        return None

    async def flush(self) -> None:
        """Wait until everything offered has been sent; raises the reason when it cannot be."""

    async def close(self) -> None:
        """Release what the watcher holds."""

    def offer(self, events: Iterable[Event]) -> None:
        """Send what these events mean to this watcher, in one write; close it if its client does not keep up."""
        chunks = [chunk for event in events if (chunk := self._chunk(event)) is not None]
        if not chunks:
            return
        self.outlet.write(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        if self.outlet.pending > MAX_PENDING:
            self.cache.remove(self)
            self.outlet.abort()

    def _chunk(self, event: Event) -> bytes | None:
        item = event.item
        if item.revision <= self.after or (self.prefix and not item.key.startswith(self.prefix)):
            return None
        kind = self._kind(event)
        if kind is None:
            return None
        if kind == "DELETED" and not event.deleted and event.previous is not None:
            # It left the selection: the client is sent the state it last knew, at this revision.
            item = event.previous.at(item.revision)
        encoder = self.encoder
        if encoder.share is None:
            return encoder.encode(kind, item)
        key = (encoder.share, kind)
        chunk = event.chunks.get(key)
        if chunk is None:
            chunk = event.chunks[key] = encoder.encode(kind, item)
        return chunk

    def _kind(self, event: Event) -> str | None:
        matches = self.matches
        previous = event.previous
        if matches is None:
            if event.deleted:
                return "DELETED"
            return "MODIFIED" if previous is not None else "ADDED"
        before = previous is not None and matches(previous)
        after = not event.deleted and matches(event.item)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None
