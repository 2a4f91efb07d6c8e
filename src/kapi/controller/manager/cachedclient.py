"""The client for reconcilers: it reads from the informers' caches, and still sees its own writes.

A cache is a little behind the server. A reconciler that writes and is called again at once would read the object as it
was before, and do its work twice. So writes through this client are remembered until the cache has them; until then
that object is read from the server. Everything else is read from memory.

Kinds and namespaces that are not watched are read from the server. A list of all namespaces is a list of those that are
watched: a program that is restricted to some is usually not allowed to read the others.

Promise: a get after a write through the same client shows the object at least as new as the write left it. And a
reconcile whose process has lost its lease meanwhile writes nothing through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kapi.api.access import name_of, namespace_of, resource_version_of, uid_of
from kapi.api.errors import NotFound
from kapi.api.keys import ObjectKey
from kapi.api.meta import GroupResource, GroupVersionKind
from kapi.api.scheme import SCHEME, TypedObject
from kapi.client.client import ALL_NAMESPACES
from kapi.controller.controller import reconcile_may_act

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Unpack

    from kapi.client.client import Client
    from kapi.client.options import DeleteOptions, PatchOptions, WriteOptions
    from kapi.client.typed import PatchKind
    from kapi.informer.cached import Cached
    from kapi.informer.informer import SharedInformer

T = TypeVar("T", bound=TypedObject)


class NotLeading(Exception):
    """A write of a reconcile whose process has lost its lease."""


class _Written(Generic[T]):
    """The writes of one kind that are not in its cache yet: a revision, or the uid of a deleted object."""

    def __init__(self, informer: SharedInformer[T], namespaces: tuple[str, ...]) -> None:
        self.informer = informer
        self.namespaces = namespaces
        self._revisions: dict[ObjectKey, int] = {}
        self._deleted: dict[ObjectKey, str] = {}
        informer.add_raw_handler(self, name="own writes")

    def __bool__(self) -> bool:
        return bool(self._revisions or self._deleted)

    def covers(self, namespace: str) -> bool:
        """Return True if the cache holds a namespace; the empty one is that of objects without."""
        return not self.namespaces or not namespace or namespace in self.namespaces

    def wrote(self, obj: Any) -> None:
        """Note what the server answered to a write."""
        key = ObjectKey.of(obj)
        if not self.covers(key.namespace):
            return
        revision = _number(resource_version_of(obj))
        # The current object counts, even if the deletion of one of the same name has not reached the cache yet.
        self._deleted.pop(key, None)
        if revision and not self._has(key, revision):
            self._revisions[key] = revision

    def deleted(self, key: ObjectKey, uid: str) -> None:
        """Note that an object was deleted."""
        self._deleted[key] = uid

    def is_behind(self, key: ObjectKey) -> bool:
        """Return True if the cache does not have what was written yet."""
        cached = self.informer.indexer.get(key)
        if key in self._deleted:
            return cached is not None and (not self._deleted[key] or cached.uid == self._deleted[key])
        return key in self._revisions and not self._has(key, self._revisions[key])

    def forget(self, key: ObjectKey) -> None:
        """The object is gone from the server: there is nothing to wait for."""
        self._revisions.pop(key, None)
        self._deleted.pop(key, None)

    def _has(self, key: ObjectKey, revision: int) -> bool:
        cached = self.informer.indexer.get(key)
        return cached is not None and _number(cached.resource_version) >= revision

    # -- the cache has moved ----------------------------------------------------------------------------------------

    def on_add(self, obj: Cached[T], *, initial: bool) -> None:
        """See `Handler`."""
        self._seen(obj)

    def on_update(self, old: Cached[T], new: Cached[T]) -> None:
        """See `Handler`."""
        self._seen(new)

    def on_delete(self, obj: Cached[T], *, stale: bool) -> None:
        """See `Handler`."""
        self._deleted.pop(obj.key, None)
        # A deletion from before our write says nothing about what was written.
        if _number(obj.resource_version) >= self._revisions.get(obj.key, 0):
            self._revisions.pop(obj.key, None)

    def _seen(self, obj: Cached[T]) -> None:
        # Of most objects nothing was written here that the cache lacks, and all of them come by.
        if obj.key in self._revisions and _number(obj.resource_version) >= self._revisions[obj.key]:
            del self._revisions[obj.key]
        if obj.key in self._deleted and obj.metadata().deletion_timestamp:
            del self._deleted[obj.key]


class CachedClient:
    """Reads from caches, writes to the server; see the module for what it promises. `live` is the plain client."""

    def __init__(self, live: Client) -> None:
        self.live = live
        self._kinds: dict[GroupVersionKind, _Written[Any]] = {}

    def use(
        self, kind: type[Any] | GroupVersionKind, informer: SharedInformer[Any], *, namespaces: Iterable[str] = ()
    ) -> None:
        """Read a kind from the cache of an informer from now on: the namespaces that it is of, or all there are."""
        gvk = kind if isinstance(kind, GroupVersionKind) else SCHEME.gvk_of(kind)
        if gvk not in self._kinds:
            self._kinds[gvk] = _Written(informer, tuple(namespaces))

    # -- reading ----------------------------------------------------------------------------------------------------

    async def get(self, kind: type[T], key: ObjectKey) -> T:
        """One object; `NotFound` when there is none."""
        written = self._kinds.get(SCHEME.gvk_of(kind))
        if written is None or not written.informer.has_synced or not written.covers(key.namespace):
            return await self.live.get(kind, key)
        if written.is_behind(key):
            try:
                return await self.live.get(kind, key)
            except NotFound:
                written.forget(key)
                raise
        cached = written.informer.indexer.get(key)
        if cached is None:
            gvk = SCHEME.gvk_of(kind)
            raise NotFound.of(GroupResource(gvk.group, gvk.kind), key.name)
        found: T = cached.object()
        return found

    async def find(self, kind: type[T], key: ObjectKey) -> T | None:
        """One object, or None when there is none."""
        try:
            return await self.get(kind, key)
        except NotFound:
            return None

    async def list(
        self, kind: type[T], *, namespace: str = ALL_NAMESPACES, labels: Mapping[str, str] | str = ""
    ) -> list[T]:
        """Objects of a kind, in one namespace or in all that are watched, that have some labels."""
        written = self._kinds.get(SCHEME.gvk_of(kind))
        places: tuple[str, ...] = (namespace,)
        if written is not None and written.covers(namespace):
            if written.informer.has_synced and not written:
                return written.informer.lister.list(namespace=namespace or None, labels=labels or None)
            if not namespace:
                # No more than the cache will hold, which may be all that we are allowed to read.
                places = await self._namespaces(kind, written)
        answers = [await self.live.list(kind, namespace=place, labels=labels or None) for place in places]
        return [obj for answer in answers for obj in answer.items]

    async def _namespaces(self, kind: type[T], written: _Written[Any]) -> tuple[str, ...]:
        """The namespaces that a cache is restricted to, which it is not for a kind that has none."""
        if not written.namespaces or not (await self.live.mapper.by_kind(SCHEME.gvk_of(kind))).namespaced:
            return (ALL_NAMESPACES,)
        return written.namespaces

    # -- writing ----------------------------------------------------------------------------------------------------

    async def create(self, obj: T, **options: Unpack[WriteOptions]) -> T:
        """Store a new object."""
        _check_may_act()
        return self._wrote(await self.live.create(obj, **options))

    async def update(self, obj: T, **options: Unpack[WriteOptions]) -> T:
        """Put an object in the place of the stored one; `Conflict` when it was changed since it was read."""
        _check_may_act()
        return self._wrote(await self.live.update(obj, **options))

    async def update_status(self, obj: T, **options: Unpack[WriteOptions]) -> T:
        """Put the object's status in the place of the stored one."""
        _check_may_act()
        return self._wrote(await self.live.update_status(obj, **options))

    async def patch(self, obj: T, patch: Any, *, kind: PatchKind = "merge", **options: Unpack[PatchOptions]) -> T:
        """Change an object by a patch."""
        _check_may_act()
        return self._wrote(await self.live.patch(obj, patch, kind=kind, **options))

    async def patch_status(
        self, obj: T, patch: Any, *, kind: PatchKind = "merge", **options: Unpack[PatchOptions]
    ) -> T:
        """Change an object's status by a patch of the whole object."""
        _check_may_act()
        return self._wrote(await self.live.patch_status(obj, patch, kind=kind, **options))

    async def apply(self, obj: T, **options: Unpack[PatchOptions]) -> T:
        """Server-side apply."""
        _check_may_act()
        return self._wrote(await self.live.apply(obj, **options))

    async def delete(self, obj: T, **options: Unpack[DeleteOptions]) -> None:
        """Delete an object; one that is gone already is no error."""
        _check_may_act()
        gone: Any = obj
        gvk, namespace = SCHEME.gvk_of(gone), namespace_of(gone)
        written = self._kinds.get(gvk)
        if written is not None and not namespace and (await self.live.mapper.by_kind(gvk)).namespaced:
            namespace = self.live.namespace
        try:
            await self.live.delete(obj, **options)
        except NotFound:
            return
        if written is not None and written.covers(namespace):
            written.deleted(ObjectKey(namespace, name_of(gone)), uid_of(gone))

    def _wrote(self, obj: T) -> T:
        answer: Any = obj
        written = self._kinds.get(SCHEME.gvk_of(answer))
        if written is not None and name_of(answer):
            written.wrote(answer)
        return obj


def _check_may_act() -> None:
    """A reconcile that began while this process led must not write once another does."""
    if not reconcile_may_act():
        raise NotLeading("this process does not lead any more; the write was not sent")


def _number(resource_version: str) -> int:
    return int(resource_version) if resource_version.isascii() and resource_version.isdigit() else 0
