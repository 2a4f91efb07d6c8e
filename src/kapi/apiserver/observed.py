"""A backing that does not report changes, observed: a copy of its objects in the watch cache, compared with each read.

Every object that passes through, read or written, is compared with the copy, and a difference is committed to it; so
are those that a list no longer has. That gives the changes their resourceVersions and sends them to watches. While
there are watches, the backing is listed every `poll_seconds`, for what other programs change. Reads ask the backing
first, and see what it has now.

The copy is in the storage of the server. In memory, its resourceVersions begin with the time of the start, so that none
is given out twice, and a client that was connected to the process before is told to list again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from kapi.apiserver.backing import BackedStore
from kapi.apiserver.definitions import SERVERS_OWN
from kapi.apiserver.resources import ListOptions, Page, Request
from kapi.registry.custom.store import CustomStore, compile_schema
from kapi.registry.encoding import HubObject
from kapi.registry.request import SERVER
from kapi.registry.updatescope import StatusScope, UpdateScope
from kapi.storage.interface import RevisionMismatch

if TYPE_CHECKING:
    from typing import Any

    from kapi.api.meta import Object
    from kapi.apiserver.resources import Resource
    from kapi.cache.watchcache import Item, WatchCache
    from kapi.registry.store import ReadyItem

_log = structlog.get_logger("kapi.apiserver")


class ObservedStore(BackedStore):
    """The objects of a resource that is polled, and their copy."""

    def connect(self, backing: Resource[Any]) -> None:
        """Set the resource that has the objects; once, before use."""
        super().connect(backing)
        # The copy has a place for field owners.
        self.object_scope, self.status_scope = UpdateScope(self.strategy), StatusScope(self.strategy)
        self._refreshing = asyncio.Lock()
        self._begun = self._finished = 0

    async def run(self) -> None:
        """Compare the copy with the backing while there are watches, until cancelled."""
        assert self.backing.poll_seconds is not None
        while True:
            await asyncio.sleep(self.backing.poll_seconds)
            if not self.cache.watchers:
                continue
            try:
                await self.refresh()
            except Exception:
                _log.exception("a resource could not be listed; watches do not see its changes", resource=self.resource)

    async def refresh(self) -> None:
        """Compare the copy with a list of the backing that begins after this was called."""
        wanted = self._begun + 1
        async with self._refreshing:
            if self._finished >= wanted:
                return  # another request has waited for the same
            self._begun = number = self._begun + 1
            await compile_schema(self.schemas[self.api_version])
            changes = _Changes(self.cache, self.hub.revision)
            listed = await self.backing.list(Request(SERVER), ListOptions())
            await self._compare_all(listed.items if isinstance(listed, Page) else listed, changes)
            self._finished = number

    async def _compare_all(self, listed: Any, changes: _Changes) -> None:
        """Bring the copy up to date, but for what has changed since the list was asked for: it may be older."""
        found: set[str] = set()
        for number, obj in enumerate(listed):
            document = self.document(obj)
            key = self._key_of(document)
            found.add(key)
            if key not in changes:
                await self._observe(key, document, self.cache.get(key))
            if number % 100 == 99:
                await asyncio.sleep(0)
        for item in self.cache.items():
            if item.key not in found and item.key not in changes:
                await self._forget(item)

    # -- reading ----------------------------------------------------------------------------------------------------

    async def find_ready(self, namespace: str, name: str) -> ReadyItem | None:
        """Read an object and compare it with the copy; None if there is none."""
        changes = _Changes(self.cache, self.hub.revision)
        obj = await self.read(namespace, name)
        known = self.find(namespace, name)
        if obj is None and known is None:
            return None
        key = self.key(namespace, name)
        if key in changes:
            # The object was written while it was read. What was read may be older than the copy.
            return None if known is None else (await self.ready([known]))[0]
        if obj is not None:
            return await self._observe(key, self.document(obj), known)
        assert known is not None
        await self._forget(known)
        return None

    # -- writing ----------------------------------------------------------------------------------------------------

    async def _written(self, key: str, obj: HubObject, written: Any) -> ReadyItem:
        """Bring the copy up to date. The field owners of the request stay in the copy."""
        owners = obj["metadata"].get("managedFields")
        return await self._observe(key, self.document(written), self.cache.get(key), owners)

    async def _deleted(self, item: Item) -> int:
        """Remove an object from the copy."""
        current = self.cache.get(item.key)
        if current is not None:
            await self._forget(current)
        return self.hub.revision

    # -- the copy ---------------------------------------------------------------------------------------------------

    def _key_of(self, document: Object) -> str:
        metadata = document["metadata"]
        return self.key(metadata.get("namespace", ""), metadata["name"])

    async def _observe(
        self, key: str, document: Object, current: Item | None, owners: list[Object] | None = None
    ) -> ReadyItem:
        """Return the item of an object in the copy, which is changed if the object is not as it was."""
        while True:
            before = None if current is None else self.decode(current)
            if before is not None:
                owners = owners if owners is not None else before["metadata"].get("managedFields")
                if _content(before) == _content(document) and owners == before["metadata"].get("managedFields"):
                    assert current is not None
                    return (await self.ready([current]))[0]
            metadata = {name: value for name, value in document["metadata"].items() if name not in SERVERS_OWN}
            if owners:
                metadata["managedFields"] = owners
            obj = HubObject({**document, "metadata": metadata})
            try:
                return await CustomStore.put(self, key, obj, 0 if current is None else current.revision)
            except RevisionMismatch:
                await CustomStore.catch_up(self)
                current = self.cache.get(key)

    async def _forget(self, item: Item) -> None:
        """Remove an object from the copy, unless it was changed meanwhile."""
        try:
            await CustomStore.remove(self, item)
        except RevisionMismatch:
            return


class _Changes:
    """The keys of a watch cache that have changed, or were deleted, after a revision."""

    def __init__(self, cache: WatchCache, revision: int) -> None:
        self._cache = cache
        self._seen = revision
        self._keys: set[str] = set()

    def __contains__(self, key: str) -> bool:
        if self._cache.last_change > self._seen:
            self._keys.update(event.item.key for event in self._cache.since(self._seen))
            self._seen = self._cache.last_change
        return key in self._keys


def _content(document: Object) -> Object:
    """Return an object without what is kept in the copy alone."""
    metadata = {name: value for name, value in document["metadata"].items() if name not in SERVERS_OWN}
    return {**document, "metadata": metadata}
