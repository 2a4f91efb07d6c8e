"""The watch cache: the current state of every resource in memory, recent events, and the fan-out to watchers.

It eats the store's change feed and nothing else; handlers read from it and never write to it. `CacheHub` follows
the store once and hands each change to the `WatchCache` of its resource. Because followers are called before a
write is acknowledged, a read here sees every acknowledged write of this process.

Promises:

* A watch from revision R is given every later event of its resource once, in revision order, or is refused with
  `TooOld`; never a silent gap.
* A watcher whose peer does not read is cut off and delays nobody, see `Watcher`.
* Events are kept for `RETENTION` seconds (at least 75 are promised), at most `MAX_EVENTS` per resource, and at most
  `MAX_EVENT_BYTES` of replaced and removed objects in all. Beyond that the oldest go, those of the resource that holds
  most of them first, so that one busy object does not cost the others their history; a watch from there is `TooOld`.

What is kept per object is its JSON after `{"kind":…,"apiVersion":…,` (the `body`), its labels and its selectable
fields. A get is a look-up, a list is a join, an event is one encode.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kapi.base.clock import SystemClock
from kapi.cache.ownerindex import OwnerIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kapi.base.clock import Clock
    from kapi.cache.watcher import Watcher
    from kapi.storage.interface import Change, Storage, Subscription

RETENTION = 300.0
MAX_EVENTS = 100_000
MAX_EVENT_BYTES = 256 * 1024 * 1024
MIN_EVENTS = 100
MIN_EVENT_BYTES = 1024 * 1024
"""What a resource keeps of its last events however old they are, if they are no larger than this."""
LOAD_PAGE = 2000

_VERSION_FIELD = b'"resourceVersion":"%d"'
_NO_FIELDS: dict[str, str] = {}


class TooOld(Exception):
    """The revision is before the oldest event kept; `oldest` is the first a watch may start from."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {revision} ({oldest})")
        self.revision = revision
        self.oldest = oldest


class Selection(NamedTuple):
    """What selectors look at; attached by the local writer as the change's note, so that nothing is decoded twice."""

    labels: dict[str, str] | None
    fields: dict[str, str] | None
    form: object = None
    """What the writer knows the value to be fit for, see `Item.form`."""
    owners: tuple[str, ...] | None = None
    """The uids of the owners an object names; None when it names none."""


class Item:
    """One object at one revision. Immutable but for what is remembered of it: a write makes a new one.

    A custom object may be stored in any version its kind had, by rules that have changed since. `version` is the
    apiVersion it is stored in (empty for kinds that have one stored version only), `form` a token of the rules its body
    is known to obey, and `forms` its bodies by other rules, made when they were first asked for.
    """

    __slots__ = (
        "body",
        "fields",
        "form",
        "forms",
        "key",
        "labels",
        "name",
        "namespace",
        "owners",
        "revision",
        "version",
    )

    def __init__(
        self,
        key: str,
        namespace: str,
        name: str,
        revision: int,
        body: bytes,
        selection: Selection,
        version: str = "",
    ) -> None:
        self.key = key
        self.namespace = namespace
        self.name = name
        self.revision = revision
        self.body = body
        self.labels = selection.labels
        self.fields = selection.fields
        self.version = version
        self.form = selection.form
        self.owners = selection.owners
        self.forms: dict[object, bytes] | None = None

    def at(self, revision: int) -> Item:
        """The same state stamped with another revision: how a deletion is shown.

        The metadata block comes first in a body and resourceVersion is the first field of that name in it, so the
        first match is the right one.
        """
        before, after = _VERSION_FIELD % self.revision, _VERSION_FIELD % revision
        selection = Selection(self.labels, self.fields, self.form, self.owners)
        body = self.body.replace(before, after, 1)
        item = Item(self.key, self.namespace, self.name, revision, body, selection, self.version)
        if self.forms is not None:
            item.forms = {form: other.replace(before, after, 1) for form, other in self.forms.items()}
        return item

    def field_values(self) -> dict[str, str]:
        """Everything a field selector may ask about."""
        return {"metadata.name": self.name, "metadata.namespace": self.namespace, **(self.fields or _NO_FIELDS)}


class Reader(Protocol):
    """Turns a stored value into what the cache keeps. Supplied per resource by the registry."""

    def split(self, value: bytes) -> tuple[str, bytes]:
        """The version a value is stored in, where that can vary, and what follows its kind and apiVersion."""
        ...

    def select(self, value: bytes) -> Selection:
        """Labels and selectable fields of a value this process did not write."""
        ...


class Event:
    """One change of one object: `previous` is None for an addition, `deleted` says the item is its last state."""

    __slots__ = ("chunks", "deleted", "item", "previous", "time")

    def __init__(self, item: Item, previous: Item | None, *, deleted: bool, time: float) -> None:
        self.item = item
        self.previous = previous
        self.deleted = deleted
        self.time = time
        self.chunks: dict[object, bytes] = {}
        """Encoded forms made while the event is handed out, by (encoder, type); emptied afterwards."""

    @property
    def size(self) -> int:
        """Bytes that are kept for this event alone: the state before it, and the last state if there is none after."""
        before = 0 if self.previous is None else len(self.previous.body)
        return before + len(self.item.body) if self.deleted else before


# Stands where an event has been forgotten until the list is cut: the event's objects go at once.
_FORGOTTEN = Event(Item("", "", "", 0, b"", Selection(None, None)), None, deleted=True, time=0.0)


class WatchCache:
    """The state and recent history of one resource. All methods run on the event loop and never wait."""

    def __init__(self, prefix: str, reader: Reader, hub: CacheHub) -> None:
        self.prefix = prefix
        self.hub = hub
        self._reader = reader
        self._items: dict[str, Item] = {}
        self._keys: list[str] = []
        self._events: list[Event] = []
        self._revisions: list[int] = []
        self._start = 0
        self.event_bytes = 0
        """What the kept events hold of the past."""
        self._watchers: dict[Watcher, None] = {}
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
        first, last = self._span(prefix, "")
        items = self._items
        return [items[key] for key in self._keys[first:last]]

    def page(self, prefix: str, start: str, limit: int) -> tuple[list[Item], int]:
        """Part of `items`: at most `limit` from the key `start` on, and how many come after those."""
        first, last = self._span(prefix, start)
        end = min(first + limit, last)
        items = self._items
        return [items[key] for key in self._keys[first:end]], last - end

    def _span(self, prefix: str, start: str) -> tuple[int, int]:
        """Where in the keys a prefix begins and ends, not before a key."""
        keys = self._keys
        first, last = 0, len(keys)
        if prefix and prefix != self.prefix:
            first = bisect_left(keys, prefix)
            last = bisect_left(keys, prefix[:-1] + chr(ord(prefix[-1]) + 1), first)
        return (bisect_left(keys, start, first, last), last) if start else (first, last)

    @property
    def watchers(self) -> int:
        """How many watches are open."""
        return len(self._watchers)

    # -- the feed ---------------------------------------------------------------------------------------------------

    def load(self, key: str, value: bytes, revision: int) -> None:
        """Take in an object as it was at the start of history; no event."""
        self._store(self.item(key, value, revision))

    def apply(self, changes: Sequence[Change]) -> None:
        """Take in committed changes and offer them to the watchers."""
        now = self.hub.clock.monotonic()
        events = [event for change in changes if (event := self._apply(change, now)) is not None]
        if not events:
            return
        for listener in self._listeners:
            listener(events)
        for hears_all in self.hub.listeners:
            hears_all(self, events)
        if self._watchers:
            for watcher in list(self._watchers):
                watcher.offer(events)
            for event in events:
                event.chunks = {}
        self.trim(now)
        self.hub.make_room()

    def _apply(self, change: Change, now: float) -> Event | None:
        previous = self._items.get(change.key)
        if change.value is None:
            if previous is None:
                return None
            item = previous.at(change.revision)
            del self._items[change.key]
            del self._keys[bisect_left(self._keys, change.key)]
            if previous.owners:
                self.hub.owners.replace(change.key, previous.owners, None)
        else:
            item = self.item(change.key, change.value, change.revision, change.note)
            self._store(item)
        event = Event(item, previous, deleted=change.value is None, time=now)
        self._events.append(event)
        self._revisions.append(change.revision)
        self.event_bytes += event.size
        self.hub.event_bytes += event.size
        return event

    def item(self, key: str, value: bytes, revision: int, note: object = None) -> Item:
        """What is kept of a value; the note spares decoding it."""
        namespace, _, name = key[len(self.prefix) :].rpartition("/")
        selection = note if isinstance(note, Selection) else self._reader.select(value)
        version, body = self._reader.split(value)
        return Item(key, namespace, name, revision, body, selection, version)

    def _store(self, item: Item) -> None:
        previous = self._items.get(item.key)
        if previous is None:
            insort(self._keys, item.key)
        self._items[item.key] = item
        before = None if previous is None else previous.owners
        if before or item.owners:
            self.hub.owners.replace(item.key, before, item.owners)

    def trim(self, now: float) -> None:
        """Forget events that are too many or too old."""
        oldest = now - self.hub.retention
        while (count := len(self._events) - self._start) and (
            count > MAX_EVENTS
            or ((count > MIN_EVENTS or self.event_bytes > MIN_EVENT_BYTES) and self._events[self._start].time < oldest)
        ):
            self._forget()
        self._cut()

    def shed(self, size: int) -> None:
        """Forget the oldest events until so many bytes are free."""
        wanted = self.event_bytes - size
        while self.event_bytes > wanted and self._start < len(self._events):
            self._forget()
        self._cut()

    def _forget(self) -> None:
        event = self._events[self._start]
        self.event_bytes -= event.size
        self.hub.event_bytes -= event.size
        self.floor = event.item.revision
        self._events[self._start] = _FORGOTTEN
        self._start += 1

    def _cut(self) -> None:
        # Cutting a list moves what remains; done rarely enough it costs nothing per event.
        if self._start > 1024 and self._start * 2 > len(self._events):
            del self._events[: self._start], self._revisions[: self._start]
            self._start = 0

    # -- watching ---------------------------------------------------------------------------------------------------

    def since(self, revision: int) -> list[Event]:
        """Every kept event after a revision; `TooOld` when some of them are gone."""
        if revision < self.floor:
            raise TooOld(revision, self.floor)
        first = bisect_right(self._revisions, revision, self._start)
        return self._events[first:]

    def add(self, watcher: Watcher) -> None:
        """Start offering events to a watcher; it has been given everything before now."""
        self._watchers[watcher] = None

    def remove(self, watcher: Watcher) -> None:
        """Stop offering events to a watcher."""
        self._watchers.pop(watcher, None)

    def listen(self, listener: Callable[[Sequence[Event]], None]) -> None:
        """Call a part of this server with events, before a watcher hears of them and the write is acknowledged."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[Sequence[Event]], None]) -> None:
        """Stop calling a listener."""
        self._listeners.remove(listener)

    def count(self, prefix: str) -> int:
        """How many items are below a key prefix."""
        first, last = self._span(prefix, "")
        return last - first


class CacheHub:
    """All caches, fed from one store. `revision` is the last one taken in: reads reflect it, bookmarks may say it."""

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
        """Whether history has been read: a cache made from then on knows nothing of what was before."""
        self.event_bytes = 0
        """What all caches hold of the past."""
        self.owners = OwnerIndex()
        self.listeners: list[Callable[[WatchCache, Sequence[Event]], None]] = []
        """Parts of this server that hear the events of every resource, as `WatchCache.listen` has it; never raising."""
        self._reader_for = reader_for
        self._caches: dict[str, WatchCache] = {}
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._subscription: Subscription | None = None

    async def load(self) -> None:
        """Read the store as it was at the oldest kept revision, then everything since, then follow it live."""
        floor = self.storage.compacted
        self.revision = self.floor = floor
        for cache in self._caches.values():
            cache.floor = floor
        start = ""
        while floor:
            page = await self.storage.range("/registry/", start=start, limit=LOAD_PAGE, revision=floor)
            for entry in page.entries:
                self.cache(prefix_of(entry.key)).load(entry.key, entry.value, entry.revision)
            if not page.more:
                break
            start = page.entries[-1].key + "\0"
        self._subscription = await self.storage.follow(floor, self._take)
        self.loaded = True

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

    def drop(self, prefix: str) -> None:
        """Forget the cache of a resource that is gone for good; if it comes back, watches start from then."""
        cache = self._caches.pop(prefix, None)
        if cache is not None:
            self.event_bytes -= cache.event_bytes

    def make_room(self) -> None:
        """Forget events until their bytes are within the bound, where there are most of them."""
        while self.event_bytes > MAX_EVENT_BYTES:
            largest = max(self._caches.values(), key=lambda cache: cache.event_bytes)
            largest.shed(self.event_bytes - MAX_EVENT_BYTES)

    async def keep_trimmed(self, interval: float) -> None:
        """Forget what has become too old in resources that nobody writes to any more; until cancelled."""
        while True:
            await asyncio.sleep(interval)
            now = self.clock.monotonic()
            for cache in list(self._caches.values()):
                cache.trim(now)

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
            await asyncio.wait_for(future, seconds)
        except TimeoutError:
            return False
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
        return True

    def _take(self, revision: int, changes: Sequence[Change]) -> None:
        self.revision = revision
        if changes:
            first = prefix_of(changes[0].key)
            groups: dict[str, list[Change]] = {}
            for change in changes:
                prefix = first if change.key.startswith(first) else prefix_of(change.key)
                groups.setdefault(prefix, []).append(change)
            for prefix, group in groups.items():
                self.cache(prefix).apply(group)
        if self._waiting:
            for wanted, future in self._waiting:
                if wanted <= revision and not future.done():
                    future.set_result(None)


def prefix_of(key: str) -> str:
    """The resource part of a key: `/registry/core/pods/default/x` → `/registry/core/pods/`."""
    end = key.index("/", key.index("/", len("/registry/")) + 1)
    return key[: end + 1]
