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
* No stored value makes the cache raise, whatever its bytes: what it or a listener cannot process is skipped and told,
  see `InvalidObjects`.

What is kept per object is its JSON after `{"kind":…,"apiVersion":…,` (the `body`), its labels and its selectable
fields. A get is a look-up, a list is a join, an event is one encode.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kapi.base.clock import SystemClock
from kapi.cache.invalidobjects import InvalidObjects
from kapi.cache.ownerindex import OwnerIndex
from kapi.cache.watcher import LARGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kapi.base.clock import Clock
    from kapi.cache.snapshot import Snapshot
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
    """What selectors look at; this server's writes carry it as the note of the change, which spares decoding."""

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


# Stands where an event has been dropped until the list is cut: the memory of the event's objects is freed at once.
_DROPPED = Event(Item("", "", "", 0, b"", Selection(None, None)), None, deleted=True, time=0.0)


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
        """Bytes of replaced and deleted objects that the kept events hold."""
        self._watchers: dict[Watcher, None] = {}
        self._behind: dict[Watcher, None] = {}
        self.snapshots: dict[Snapshot[Any], None] = {}
        """Snapshots of items that are being written to clients."""
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
        item = self._read(key, value, revision)
        if item is not None:
            self._store(item)

    def apply(self, changes: Sequence[Change]) -> None:
        """Take in committed changes and offer them to the watchers."""
        now = self.hub.clock.monotonic()
        events = [event for change in changes if (event := self._apply(change, now)) is not None]
        if not events:
            return
        for listener in self._listeners:
            self._call(listener, events)
        for listener_of_all in self.hub.listeners:
            self._call(partial(listener_of_all, self), events)
        if self._watchers:
            self._offer(events)
        self.trim(now)
        self.hub.limit_event_bytes()

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

    def _offer(self, events: Sequence[Event]) -> None:
        """Offer events to the watchers; one whose selector or encoder raises is closed, as a gap would be a lie."""
        is_large = any(len(event.item.body) > LARGE for event in events)
        for watcher in list(self._watchers):
            try:
                (watcher.offer_large if is_large else watcher.offer)(events)
            except Exception as error:
                self.hub.invalid.record(events[0].item.key, "watch", error)
                self.remove(watcher)
                watcher.outlet.abort()
        for event in events:
            event.chunks = {}

    def _apply(self, change: Change, now: float) -> Event | None:
        if self.hub.invalid.parts:
            self.hub.invalid.clear(change.key)
        previous = self._items.get(change.key)
        item = None if change.value is None else self._read(change.key, change.value, change.revision, change.note)
        is_deleted = item is None
        if item is not None:
            self._store(item)
        elif previous is not None:
            item = previous.at(change.revision)
            self._remove(previous)
        else:
            return None
        if self.snapshots and previous is not None:
            for snapshot in list(self.snapshots):
                snapshot.replaced(previous)
        event = Event(item, previous, deleted=is_deleted, time=now)
        self._events.append(event)
        self._revisions.append(change.revision)
        self.event_bytes += event.size
        self.hub.event_bytes += event.size
        return event

    def _read(self, key: str, value: bytes, revision: int, note: object = None) -> Item | None:
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
        del self._keys[bisect_left(self._keys, item.key)]
        if item.owners:
            self.hub.owners.replace(item.key, item.owners, None)

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
        self._watchers[watcher] = None

    def leave(self, watcher: Watcher) -> None:
        """Stop offering events to a watcher that reads them from history for a while."""
        if self._watchers.pop(watcher, watcher) is None:
            self._behind[watcher] = None

    def remove(self, watcher: Watcher) -> None:
        """Stop offering events to a watcher."""
        self._watchers.pop(watcher, None)
        self._behind.pop(watcher, None)

    def listen(self, listener: Callable[[Sequence[Event]], None]) -> None:
        """Call a part of this server with events, before they are sent to watchers and the write is acknowledged."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[Sequence[Event]], None]) -> None:
        """Stop calling a listener."""
        self._listeners.remove(listener)

    def count(self, prefix: str) -> int:
        """How many items are below a key prefix."""
        first, last = self._span(prefix, "")
        return last - first


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
        floor = self.storage.compacted
        self.revision = self.floor = floor
        for cache in self._caches.values():
            cache.floor = floor
        start = ""
        while floor:
            page = await self.storage.range("/registry/", start=start, limit=LOAD_PAGE, revision=floor)
            for entry in page.entries:
                owner = self._cache_of(entry.key)
                if owner is not None:
                    owner.load(entry.key, entry.value, entry.revision)
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

    def _cache_of(self, key: str) -> WatchCache | None:
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
        groups: dict[WatchCache, list[Change]] = {}
        cache: WatchCache | None = None
        for change in changes:
            # Most batches are of one resource.
            if cache is None or not change.key.startswith(cache.prefix):
                cache = self._cache_of(change.key)
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
