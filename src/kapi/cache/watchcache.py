"""The watch cache: the current state of every resource in memory, recent events, and the fan-out to watchers.

It is fed by the store's change feed and nothing else; handlers read from it and never write to it. `CacheHub` follows
the store once and hands each change to the `WatchCache` of its resource. Because followers are called before a
commit of this server is acknowledged, a read here sees every commit that this server has acknowledged; what other
servers have acknowledged it sees after `wait_for(await storage.latest())`.

Promises:

* A watch from revision R is given every later event of its resource once, in revision order, or is refused with
  `TooOld`; never a silent gap. Events of one revision are offered together. (A client resumes from the revision of the
  last event it has read: one that is cut off between two events of one revision would miss the second. So a commit
  should change one object of a resource; several resources may share it.)
* A watcher whose client does not read delays no other, and costs its send buffer, see `Watcher`.
* Events are kept for `RETENTION` seconds (at least 75 are promised), at most `MAX_EVENTS` per resource, and at most
  `MAX_EVENT_BYTES` of replaced and deleted objects in all. Beyond that the oldest are dropped, those of the resource
  that holds most of them first, so that one busy object does not cost the others their history; a watch from there is
  `TooOld`.
* When the store cannot deliver some changes any more (this server was cut off from its cluster for longer than history
  is kept), the store is read anew, see `relist`. Open watches end with `TooOld`.
* No stored value makes the cache raise, whatever its bytes: what it or a listener cannot process is skipped and told,
  see `InvalidObjects`.

What is kept per object is its JSON after `{"kind":…,"apiVersion":…,` (the `body`), its labels and its selectable
fields. A get is a look-up, a list is a join, an event is one encode.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kapi.base.clock import SystemClock
from kapi.cache.fanout import FanOut
from kapi.cache.invalidobjects import InvalidObjects
from kapi.cache.item import Event, Item, Selection, item_class
from kapi.cache.itemindex import ItemIndexes
from kapi.cache.ownerindex import OwnerIndex
from kapi.cache.sortedkeys import SortedKeys
from kapi.storage.interface import Compacted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kapi.base.clock import Clock
    from kapi.cache.selector import ItemSelector
    from kapi.cache.snapshot import Snapshot
    from kapi.cache.watcher import Watcher
    from kapi.storage.interface import Change, Entry, Storage, Subscription

__all__ = ["CacheHub", "Event", "Item", "Reader", "Selection", "TooOld", "WatchCache", "item_class", "prefix_of"]

RETENTION = 300.0
MAX_EVENTS = 100_000
MAX_EVENT_BYTES = 256 * 1024 * 1024
MIN_EVENTS = 100
MIN_EVENT_BYTES = 1024 * 1024
"""What a resource keeps of its last events however old they are, if they are no larger than this."""
LOAD_PAGE = 2000


class TooOld(Exception):
    """The revision is before the oldest event kept; `oldest` is the first a watch may start from."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {revision} ({oldest})")
        self.revision = revision
        self.oldest = oldest


class Reader(Protocol):
    """Turns a stored value into what the cache keeps. Supplied per resource by the registry."""

    def split(self, value: bytes) -> tuple[str, bytes]:
        """The version a value is stored in, where that can vary, and what follows its kind and apiVersion."""
        ...

    def select(self, value: bytes) -> Selection:
        """Labels and selectable fields of a value this process did not write."""
        ...


# Stands where an event has been dropped until the list is cut: the memory of the event's objects is freed at once.
_DROPPED = Event(Item("", "", "", 0, b"", Selection(None, None)), None, deleted=True, time=0.0)


class WatchCache:
    """The state and recent history of one resource. All methods run on the event loop and never wait."""

    def __init__(self, prefix: str, reader: Reader, hub: CacheHub) -> None:
        self.prefix = prefix
        self.hub = hub
        self._reader = reader
        self._items: dict[str, Item] = {}
        self._keys = SortedKeys()
        self.indexes = ItemIndexes()
        self._events: list[Event] = []
        self._revisions: list[int] = []
        self._start = 0
        self.event_bytes = 0
        """Bytes of replaced and deleted objects that the kept events hold."""
        self.fan_out = FanOut(hub.storage, hub.invalid)
        self._watchers = self.fan_out.watchers
        self._behind: dict[Watcher, None] = {}
        self.snapshots: dict[Snapshot[Any], None] = {}
        """Snapshots of items that are being written to clients."""
        self.had_uninitialized = False
        """True if there is, or was, an object that initializers have not finished."""
        self._listeners: list[Callable[[Sequence[Event]], None]] = []
        self.floor = hub.revision if hub.loaded else hub.floor
        """A watch may start from here or later."""

    # -- reading ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: str) -> Item | None:
        """The latest state of a key."""
        return self._items.get(key)

    def items(self, prefix: str = "") -> list[Item]:
        """All items below a key prefix (the resource's own when empty), in key order."""
        items = self._items
        return [items[key] for key in self._keys.between(*self._span(prefix, ""))[0]]

    def page(self, prefix: str, start: str, limit: int) -> tuple[list[Item], int]:
        """Part of `items`: at most `limit` from the key `start` on, and how many come after those."""
        items = self._items
        keys, rest = self._keys.between(*self._span(prefix, start), limit)
        return [items[key] for key in keys], rest

    def candidates(self, prefix: str, start: str, selector: ItemSelector) -> list[Item]:
        """Items below a key prefix from the key `start` on, in key order, among them all that a selector matches."""
        keys = self.indexes.find(selector, self.hub.clock.monotonic())
        if keys is None:
            return self.page(prefix, start, len(self._items))[0]
        items, least = self._items, max(prefix, start)
        return [items[key] for key in keys if key >= least and key.startswith(prefix)]

    def _span(self, prefix: str, start: str) -> tuple[str, str | None]:
        """The first key that may begin with a prefix, not before `start`, and the first one after those."""
        if not prefix or prefix == self.prefix:
            return start, None
        return max(prefix, start), prefix[:-1] + chr(ord(prefix[-1]) + 1)

    @property
    def last_change(self) -> int:
        """The revision of the last change that it took in."""
        return self._revisions[-1] if self._revisions else self.floor

    @property
    def watchers(self) -> int:
        """How many watches are open, those that are behind included."""
        return len(self._watchers) + len(self._behind)

    # -- the feed ---------------------------------------------------------------------------------------------------

    def load(self, key: str, value: bytes, revision: int) -> None:
        """Take in an object as it was at the start of history; no event."""
        item = self.read(key, value, revision)
        if item is not None:
            self._store(item)

    def clear(self, floor: int) -> None:
        """Drop what was loaded, to load it anew as of another revision."""
        for item in list(self._items.values()):
            self._remove(item)
        self.drop_bytes(self.event_bytes + 1)
        self.floor = floor

    def apply(self, changes: Sequence[Change]) -> None:
        """Take in committed changes and offer them to the watchers."""
        now = self.hub.clock.monotonic()
        events = [event for change in changes if (event := self._apply(change, now)) is not None]
        if not events:
            return
        self.notify(events)
        self.fan_out.offer(events)
        self.trim(now)
        self.hub.limit_event_bytes()

    def notify(self, events: Sequence[Event]) -> None:
        """Call the parts of this server that listen."""
        for listener in self._listeners:
            self._call(listener, events)
        for listener_of_all in self.hub.listeners:
            self._call(partial(listener_of_all, self), events)

    def _call(self, listener: Callable[[Sequence[Event]], None], events: Sequence[Event]) -> None:
        """Call a listener; if it raises, call it again event by event, so that it misses only those it cannot process.

        One call per batch is the cheaper one when nothing is wrong, which is always. It makes listeners process some
        events twice when something is: they have to be idempotent.
        """
        try:
            listener(events)
        except Exception:
            for event in events:
                with self.hub.invalid.guard(event.item.key, _name_of(listener)):
                    listener((event,))

    def _apply(self, change: Change, now: float) -> Event | None:
        if self.hub.invalid.parts:
            self.hub.invalid.clear(change.key)
        previous = self._items.get(change.key)
        item = None if change.value is None else self.read(change.key, change.value, change.revision, change.note)
        is_deleted = item is None
        if item is not None:
            self._store(item)
        elif previous is not None:
            item = previous.at(change.revision)
            self._remove(previous)
        else:
            return None
        if self.snapshots and previous is not None:
            self.tell_snapshots(previous)
        event = Event(item, previous, deleted=is_deleted, time=now)
        self._events.append(event)
        self._revisions.append(change.revision)
        self.event_bytes += event.size
        self.hub.event_bytes += event.size
        return event

    def tell_snapshots(self, replaced: Item) -> None:
        """Tell those who are sending an item that it is kept in memory for them alone."""
        for snapshot in list(self.snapshots):
            snapshot.replaced(replaced)

    def replace(self, items: dict[str, Item], revision: int) -> list[Event]:
        """Hold these items, in order of their keys, as of a revision, and no history; returns the events dropped.

        Every watch that is open ends with `TooOld`, since what happened meanwhile is not known.
        """
        dropped, self._events, self._revisions, self._start = self._events, [], [], 0
        self.hub.event_bytes -= self.event_bytes
        self.event_bytes = 0
        self._items, self._keys, self.floor = items, SortedKeys(list(items)), revision
        self.fan_out.drop()
        self.indexes.clear()
        for watcher in list(self._watchers):
            watcher.fall_behind(0)
        return dropped

    def read(self, key: str, value: bytes, revision: int, note: object = None) -> Item | None:
        """What is kept of any value: without labels if those cannot be read, None if nothing can."""
        try:
            return self.item(key, value, revision, note)
        except Exception as error:
            self.hub.invalid.record(key, "watch cache", error)
        try:
            return self.item(key, value, revision, Selection(None, None))
        except Exception:
            return None

    def _remove(self, item: Item) -> None:
        del self._items[item.key]
        self._keys.remove(item.key)
        self.index(item.key, item, None)

    def index(self, key: str, before: Item | None, after: Item | None) -> None:
        """Update what is known of all objects together: indexes, owners, and how many are not initialized."""
        if self.indexes:
            self.indexes.replace(key, before, after)
        owned = None if before is None else before.owners
        owners = None if after is None else after.owners
        if owned or owners:
            self.hub.owners.replace(key, owned, owners)
        if (after is not None and after.is_uninitialized) or (before is not None and before.is_uninitialized):
            self.had_uninitialized = True
            self.hub.uninitialized += bool(after and after.is_uninitialized) - bool(before and before.is_uninitialized)

    def item(self, key: str, value: bytes, revision: int, note: object = None) -> Item:
        """What is kept of a value; the note spares decoding it."""
        namespace, _, name = key[len(self.prefix) :].rpartition("/")
        selection = note if isinstance(note, Selection) else self._reader.select(value)
        version, body = self._reader.split(value)
        return item_class(selection)(key, namespace, name, revision, body, selection, version)

    def _store(self, item: Item) -> None:
        previous = self._items.get(item.key)
        if previous is None:
            self._keys.add(item.key)
        self._items[item.key] = item
        self.index(item.key, previous, item)

    def trim(self, now: float) -> None:
        """Drop events that are too many or too old."""
        oldest = now - self.hub.retention
        while (count := len(self._events) - self._start) and (
            count > MAX_EVENTS
            or ((count > MIN_EVENTS or self.event_bytes > MIN_EVENT_BYTES) and self._events[self._start].time < oldest)
        ):
            self._drop_oldest()
        self._cut()

    def drop_bytes(self, size: int) -> None:
        """Drop the oldest events until so many bytes are free."""
        wanted = self.event_bytes - size
        while self.event_bytes > wanted and self._start < len(self._events):
            self._drop_oldest()
        self._cut()

    def _drop_oldest(self) -> None:
        event = self._events[self._start]
        self.event_bytes -= event.size
        self.hub.event_bytes -= event.size
        self.floor = event.item.revision
        self._events[self._start] = _DROPPED
        self._start += 1

    def _cut(self) -> None:
        # Cutting a list moves what remains; done rarely enough it costs nothing per event.
        if self._start > 1024 and self._start * 2 > len(self._events):
            del self._events[: self._start], self._revisions[: self._start]
            self._start = 0

    # -- watching ---------------------------------------------------------------------------------------------------

    def since(self, revision: int, limit: int = MAX_EVENTS) -> list[Event]:
        """The kept events after a revision; `TooOld` when some of them are gone.

        At most `limit`, and the rest of the last one's revision: a commit may have changed several objects.
        """
        if revision < self.floor:
            raise TooOld(revision, self.floor)
        revisions = self._revisions
        first = bisect_right(revisions, revision, self._start)
        end = min(first + limit, len(revisions))
        while first < end < len(revisions) and revisions[end] == revisions[end - 1]:
            end += 1
        return self._events[first:end]

    def add(self, watcher: Watcher) -> None:
        """Start offering events to a watcher; it has been given everything before now."""
        self._behind.pop(watcher, None)
        self._watchers.add(watcher)

    def leave(self, watcher: Watcher) -> None:
        """Stop offering events to a watcher that reads them from history for a while."""
        if self._watchers.remove(watcher):
            self._behind[watcher] = None

    def remove(self, watcher: Watcher) -> None:
        """Stop offering events to a watcher."""
        self._watchers.remove(watcher)
        self._behind.pop(watcher, None)

    def flush(self, watcher: Watcher) -> None:
        """Send every event up to now to a watcher in the feed; or it leaves the feed, to read them from history."""
        self.fan_out.flush(watcher)

    def listen(self, listener: Callable[[Sequence[Event]], None]) -> None:
        """Call a part of this server with events, before they are sent to watchers and the write is acknowledged."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[Sequence[Event]], None]) -> None:
        """Stop calling a listener."""
        self._listeners.remove(listener)

    def count(self, prefix: str) -> int:
        """How many items are below a key prefix."""
        return self._keys.between(*self._span(prefix, ""), 0)[1]


class CacheHub:
    """All caches, fed from one store. `revision` is the last one it was given: reads reflect it, bookmarks send it."""

    def __init__(
        self,
        storage: Storage,
        reader_for: Callable[[str], Reader],
        *,
        clock: Clock | None = None,
        retention: float = RETENTION,
    ) -> None:
        self.storage = storage
        self.clock = clock or SystemClock()
        self.retention = retention
        self.revision = 0
        self.floor = 0
        self.loaded = False
        """True once history has been read: a cache created from then on knows nothing of what was before."""
        self.event_bytes = 0
        """Bytes of replaced and deleted objects that the events of all caches hold."""
        self.uninitialized = 0
        """The number of objects that initializers have not finished."""
        self.owners = OwnerIndex()
        self.listeners: list[Callable[[WatchCache, Sequence[Event]], None]] = []
        """Parts of this server that are called with the events of every resource, as `WatchCache.listen` has it."""
        self.invalid = InvalidObjects()
        self._reader_for = reader_for
        self._caches: dict[str, WatchCache] = {}
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._subscription: Subscription | None = None

    async def load(self) -> None:
        """Read the store as it was at the oldest kept revision, then everything since, then follow it live."""
        is_read = True
        try:
            await self._load(self.storage.compacted)
        except Compacted:
            is_read = False
        if not is_read:
            # Another server has compacted the store meanwhile. The present is kept for longer than reading it takes.
            await self._load(await self.storage.latest())
        self.loaded = True

    async def _load(self, floor: int) -> None:
        self.revision = self.floor = floor
        for cache in self._caches.values():
            cache.clear(floor)
        start = ""
        while floor:
            page = await self.storage.range("/registry/", start=start, limit=LOAD_PAGE, revision=floor, counted=False)
            self._load_page(page.entries)
            if not page.more:
                break
            start = page.entries[-1].key + "\0"
        self._subscription = await self.storage.follow(floor, self._take)

    def _load_page(self, entries: Sequence[Entry]) -> None:
        cache: WatchCache | None = None
        for key, value, revision in entries:
            # Keys come in order, so most are of the same resource as the one before.
            if cache is None or not key.startswith(cache.prefix):
                cache = self.cache_of(key)
            if cache is not None:
                cache.load(key, value, revision)

    def close(self) -> None:
        """Stop following the store."""
        if self._subscription is not None:
            self._subscription.close()

    def cache(self, prefix: str) -> WatchCache:
        """The cache of a resource, by its key prefix `/registry/<group>/<resource>/`."""
        cache = self._caches.get(prefix)
        if cache is None:
            cache = self._caches[prefix] = WatchCache(prefix, self._reader_for(prefix), self)
        return cache

    def cache_of(self, key: str) -> WatchCache | None:
        """The cache of a key's resource; None for a key that is not one of an object."""
        try:
            return self.cache(prefix_of(key))
        except Exception as error:
            self.invalid.record(key, "watch cache", error)
            return None

    def drop(self, prefix: str) -> None:
        """Drop the cache of a resource that is no longer defined; if it is defined again, watches start from then."""
        cache = self._caches.pop(prefix, None)
        if cache is not None:
            self.event_bytes -= cache.event_bytes

    def limit_event_bytes(self) -> None:
        """Drop events until their bytes are within the bound, where there are most of them."""
        while self.event_bytes > MAX_EVENT_BYTES:
            largest = max(self._caches.values(), key=lambda cache: cache.event_bytes)
            largest.drop_bytes(self.event_bytes - MAX_EVENT_BYTES)

    async def keep_trimmed(self, interval: float) -> None:
        """Drop events that have become too old in resources that are no longer written to; until cancelled."""
        while True:
            await asyncio.sleep(interval)
            now = self.clock.monotonic()
            for cache in list(self._caches.values()):
                cache.trim(now)
                cache.indexes.drop_unused(now)

    def find(self, key: str) -> Item | None:
        """The latest state of any key."""
        cache = self._caches.get(prefix_of(key))
        return None if cache is None else cache.get(key)

    @property
    def caches(self) -> Iterable[WatchCache]:
        """Every cache there is."""
        return self._caches.values()

    async def wait_for(self, revision: int, *, seconds: float) -> bool:
        """Wait until a revision has been taken in; False when the time is up first."""
        if revision <= self.revision:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = (revision, future)
        self._waiting.append(waiting)
        try:
            # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with the result.
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            return False
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
        return True

    def _take(self, revision: int, changes: Sequence[Change]) -> None:
        self.revision = revision
        groups: dict[WatchCache, list[Change]] = {}
        cache: WatchCache | None = None
        for change in changes:
            # Most batches are of one resource.
            if cache is None or not change.key.startswith(cache.prefix):
                cache = self.cache_of(change.key)
            if cache is not None:
                groups.setdefault(cache, []).append(change)
        for cache, group in groups.items():
            cache.apply(group)
        if self._waiting:
            for wanted, future in self._waiting:
                if wanted <= revision and not future.done():
                    future.set_result(None)


def prefix_of(key: str) -> str:
    """The resource part of a key: `/registry/core/pods/default/x` → `/registry/core/pods/`; ValueError without one."""
    if not key.startswith("/registry/"):
        raise ValueError("the key does not begin with /registry/")
    end = key.index("/", key.index("/", len("/registry/")) + 1)
    return key[: end + 1]


def _name_of(listener: Callable[..., None]) -> str:
    """The part of the server that a listener belongs to, for logs."""
    function = listener.func if isinstance(listener, partial) else listener
    return f"{function.__module__}.{function.__qualname__}".removeprefix("kapi.")
