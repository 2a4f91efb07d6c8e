"""Reading the store anew, when its feed has a gap that cannot be filled.

A server that was cut off from its cluster for longer than history is kept cannot learn what happened meanwhile, only
what is there now. Stopping would be safe, but every server that was cut off would have to be started again. So the
caches take over the state of a revision, and the difference to what they held is told to the parts of this server that
listen: roles, definitions and controllers are brought up to date as by ordinary changes, one for each object that
differs. An object that was deleted and created again is told as both, for it has another uid.

Clients are not told the difference, because it is not what happened: watches end with 410 Gone, and clients list.

The feed stands still meanwhile, so nothing else changes the caches. The store is read page by page; then
all of them are replaced between two awaits, so that no list is a mixture; then listeners are called, some events at a
time. The store lets reads of the latest state wait until that is done.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kapi.cache.item import Event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from kapi.cache.item import Item
    from kapi.cache.watchcache import CacheHub, WatchCache

_T = TypeVar("_T")

STEP: Final = 200
"""Objects that are read, compared or told before other work may run."""
_UID: Final = b'"uid":"'


class _Difference(NamedTuple):
    """An object as a cache held it and as it is; None where it is absent."""

    cache: WatchCache
    key: str
    before: Item | None
    after: Item | None


async def relist(hub: CacheHub, revision: int) -> None:
    """Make the caches hold what the store held at a revision, and call their listeners with the difference."""
    items: dict[WatchCache, dict[str, Item]] = {}
    invalid = set(hub.invalid.parts)
    differences = [one async for one in _read(hub, revision, items, invalid)]
    differences += [one async for one in _absent(hub, items)]
    for key in invalid:
        hub.invalid.clear(key)
    dropped = [cache.replace(items.get(cache, {}), revision) for cache in hub.caches]
    hub.revision = revision
    for step in _steps(differences):
        for cache, key, before, after in step:
            cache.index(key, before, after)
            if before is not None:
                cache.tell_snapshots(before)
        await asyncio.sleep(0)
    for step in _steps(differences):
        _notify(hub, step, revision)
        await asyncio.sleep(0)
    for events in dropped:
        while events:
            # Many objects are freed with them.
            del events[-STEP:]
            await asyncio.sleep(0)


def _steps(sequence: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (sequence[at : at + STEP] for at in range(0, len(sequence), STEP))


async def _read(
    hub: CacheHub, revision: int, items: dict[WatchCache, dict[str, Item]], invalid: set[str]
) -> AsyncIterator[_Difference]:
    """Read all objects into `items`, and yield those that are new or changed; keys that exist are not `invalid`."""
    start = ""
    while True:
        page = await hub.storage.range("/registry/", start=start, limit=STEP, revision=revision, counted=False)
        for entry in page.entries:
            cache = hub.cache_of(entry.key)
            if cache is None:
                continue
            invalid.discard(entry.key)
            before = cache.get(entry.key)
            if before is not None and before.revision == entry.revision:
                items.setdefault(cache, {})[entry.key] = before
                continue
            hub.invalid.clear(entry.key)
            item = cache.read(entry.key, entry.value, entry.revision)
            if item is not None:
                items.setdefault(cache, {})[entry.key] = item
                yield _Difference(cache, entry.key, before, item)
        if not page.more:
            return
        start = page.entries[-1].key + "\0"


async def _absent(hub: CacheHub, items: dict[WatchCache, dict[str, Item]]) -> AsyncIterator[_Difference]:
    """Yield what the caches hold and `items` do not."""
    for cache in list(hub.caches):
        present = items.get(cache, {})
        for step in _steps(cache.items()):
            for item in step:
                if item.key not in present:
                    hub.invalid.clear(item.key)
                    yield _Difference(cache, item.key, item, None)
            await asyncio.sleep(0)


def _notify(hub: CacheHub, differences: Sequence[_Difference], revision: int) -> None:
    now = hub.clock.monotonic()
    events: dict[WatchCache, list[Event]] = {}
    for cache, _, before, after in differences:
        told = events.setdefault(cache, [])
        is_deleted = before is not None and (after is None or _uid(before) != _uid(after))
        if before is not None and is_deleted:
            told.append(Event(before.at(revision), before, deleted=True, time=now))
        if after is not None:
            told.append(Event(after, None if is_deleted else before, deleted=False, time=now))
    for cache, told in events.items():
        cache.notify(told)


def _uid(item: Item) -> bytes:
    """The uid in a body. It comes before anything a user can nest, and inside a string its quotes would be escaped."""
    start = item.body.find(_UID) + len(_UID)
    return item.body[start : item.body.find(b'"', start)]
