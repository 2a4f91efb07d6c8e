"""The client for reconcilers: it reads from the informers' caches, and still sees its own writes.

It is a `Client`: the same verbs for classes, dictionaries and names of kinds, with the same answers. What is watched is
read from memory, in whatever form it is asked for; the form in which it is cached makes no difference, except that a
cache of metadata has nothing else. What this client has written is laid over the caches until they have it, see
`ownwrites`, so a reconciler that writes and is called again at once does not do its work twice.

Read from the server: kinds and namespaces that are not watched; reads that name a `resource_version` other than "0";
`fields` for which there is no index. `pages`, `watch`, `wait_for` and `sub` are those of `Client`, and writes through
what the last returns are not noted. A list of all namespaces is a list of those that are watched: a
program that is restricted to some is usually not allowed to read the others.

Promise: a read after a write through the same client shows objects at least as new as the write left them. And a
reconcile whose process has lost its lease meanwhile writes nothing through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from kapi.api.access import is_deleting
from kapi.api.errors import NotFound
from kapi.api.keys import ObjectKey
from kapi.api.meta import GroupResource, GroupVersionKind
from kapi.api.scheme import TypedObject
from kapi.api.selectors import EQUALS, FieldSelector, LabelSelector
from kapi.client.client import ALL_NAMESPACES, Client
from kapi.client.metadata import PartialObjectMetadata
from kapi.client.options import selector_text
from kapi.client.typed import ObjectList, class_decoder, dictionary_decoder
from kapi.controller.controller import reconcile_may_act
from kapi.controller.manager.ownwrites import OwnWrites
from kapi.informer.cached import revision_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Unpack

    from kapi.api.meta import Object
    from kapi.client.client import Named
    from kapi.client.options import (
        DeleteAllOptions,
        DeleteOptions,
        ListOptions,
        PatchOptions,
        ReadOptions,
        WriteOptions,
    )
    from kapi.client.typed import TypedClient
    from kapi.informer.cached import Cached
    from kapi.informer.factory import Collection
    from kapi.informer.informer import SharedInformer

T = TypeVar("T", bound=TypedObject)


class NotLeading(Exception):
    """A write of a reconcile whose process has lost its lease."""


class CachedClient(Client):
    """Reads from caches, writes to the server; see the module for what it promises. `live` is the plain client."""

    def __init__(self, live: Client) -> None:
        super().__init__(rest=live.rest, namespace=live.namespace, field_manager=live.field_manager, scheme=live.scheme)
        self.discovery, self.mapper = live.discovery, live.mapper
        self.live = live
        # The caches of a kind; whole objects come before metadata.
        self._caches: dict[GroupVersionKind, list[OwnWrites[Any]]] = {}

    def use(self, collection: Collection, informer: SharedInformer[Any]) -> None:
        """Read a collection from the cache of an informer from now on."""
        caches = self._caches.setdefault(collection.gvk, [])
        if not any(cache.informer is informer for cache in caches):
            caches.append(OwnWrites(collection, informer))
            caches.sort(key=lambda cache: cache.collection.is_metadata_only)

    # -- reading ------------------------------------------------------------------------------------------------------

    @overload
    async def list(
        self,
        target: type[T],
        *,
        namespace: str | None = None,
        index: Mapping[str, str] | None = None,
        **options: Unpack[ListOptions],
    ) -> ObjectList[T]: ...
    @overload
    async def list(
        self,
        target: Named,
        *,
        namespace: str | None = None,
        index: Mapping[str, str] | None = None,
        **options: Unpack[ListOptions],
    ) -> ObjectList[Object]: ...
    async def list(
        self,
        target: Any,
        *,
        namespace: str | None = None,
        index: Mapping[str, str] | None = None,
        **options: Unpack[ListOptions],
    ) -> Any:
        """All objects of a kind, or those that selectors select, sorted by namespace and name.

        `index` names one or several indexes of the cache, each with the value that objects are found under; see
        `Manager.index`. `fields` is answered by indexes of the same names.

        Raises:
            KeyError: there is no such index.
            ValueError: `index` is given for a kind or a namespace that is not in a cache.
        """
        return await self._read_list(target, namespace, options, index=index or {})

    async def _read(
        self, target: Any, name: str, namespace: str | None, options: ReadOptions, *, is_metadata_only: bool = False
    ) -> Any:
        gvk = await self.gvk_of(target)
        if options.get("resource_version") in (None, "", "0") and gvk in self._caches:
            where = namespace or await self._where(gvk, namespace, needed=True)
            cache = self._cache(gvk, where, is_metadata_only=is_metadata_only)
            if cache is not None:
                found = cache.get(ObjectKey(where, name))
                if found is None:
                    raise NotFound.of(GroupResource(gvk.group, (await self.mapper.by_kind(gvk)).resource), name)
                return _form(target, gvk, is_metadata_only=is_metadata_only)(found)
        return await super()._read(target, name, namespace, options, is_metadata_only=is_metadata_only)

    async def _read_list(
        self,
        target: Any,
        namespace: str | None,
        options: ListOptions,
        *,
        is_metadata_only: bool = False,
        index: Mapping[str, str] | None = None,
    ) -> Any:
        gvk = await self.gvk_of(target)
        if options.get("resource_version") in (None, "", "0") and gvk in self._caches:
            where = await self._where(gvk, namespace, needed=False)
            cache = self._cache(gvk, where, is_metadata_only=is_metadata_only)
            found = None if cache is None else _selected(cache, where, options, index or {})
            if cache is not None and found is not None:
                form = _form(target, gvk, is_metadata_only=is_metadata_only)
                items = [form(one) for one in sorted(found, key=lambda one: one.key)]
                return ObjectList(items, cache.informer.resource_version)
        if index:
            raise ValueError(f"index: {gvk.kind} is not in a cache of this client, or not in this namespace")
        answers = [
            await super(CachedClient, self)._read_list(target, place, options, is_metadata_only=is_metadata_only)
            for place in await self._places(gvk, namespace)
        ]
        if len(answers) == 1:
            return answers[0]
        return ObjectList([one for answer in answers for one in answer.items], answers[0].resource_version)

    async def _places(self, gvk: GroupVersionKind, namespace: str | None) -> tuple[str | None, ...]:
        """The namespaces to list on the server: no more than the cache will hold, which may be all that we may read."""
        if namespace != ALL_NAMESPACES:
            return (namespace,)
        restricted = [cache.collection.namespaces for cache in self._caches.get(gvk, ()) if cache.collection.namespaces]
        if not restricted or not (await self.mapper.by_kind(gvk)).namespaced:
            return (namespace,)
        return restricted[0]

    def _cache(self, gvk: GroupVersionKind, namespace: str, *, is_metadata_only: bool) -> OwnWrites[Any] | None:
        """The cache to read from, if there is one that has what is asked for."""
        for cache in self._caches[gvk]:
            has_all = is_metadata_only or not cache.collection.is_metadata_only
            if has_all and cache.covers(namespace) and cache.is_current(namespace):
                return cache
        return None

    async def _where(self, gvk: GroupVersionKind, namespace: str | None, *, needed: bool) -> str:
        return self._namespace(await self.mapper.by_kind(gvk), namespace, needed=needed)

    # -- writing ------------------------------------------------------------------------------------------------------

    def _before_write(self) -> None:
        """A reconcile that began while this process led must not write once another does."""
        if not reconcile_may_act():
            raise NotLeading("this process does not lead any more; the write was not sent")

    def _after_write(self, answer: Any, options: WriteOptions) -> Any:
        if not options.get("dry_run"):
            for cache in self._caches.get(self.scheme.gvk_of(answer), ()):
                cache.wrote(answer)
        return answer

    async def _delete(self, client: TypedClient[Any], target: Any, name: str, options: DeleteOptions) -> Any:
        """Delete an object; one that is gone already is no error."""
        gvk = await self.gvk_of(target if isinstance(target, type | str | tuple) else _kind_of(target))
        key = ObjectKey(client.namespace, name)
        # As they know the object now: its deletion may be in a cache before it is answered.
        known = [(cache, cache.get(key)) for cache in self._caches.get(gvk, ()) if cache.covers(key.namespace)]
        try:
            answer, uid = await client.delete_with_uid(name, **options)
        except NotFound:
            return None
        for cache, before in known if not options.get("dry_run") else ():
            await self._note_deletion(cache, key, before or cache.get(key), answer, uid)
        return answer

    async def _note_deletion(
        self, cache: OwnWrites[Any], key: ObjectKey, known: Cached[Any] | None, answer: Any, uid: str
    ) -> None:
        if answer is not None and is_deleting(answer):
            cache.wrote(answer)
        elif known is not None and uid in ("", known.uid):
            cache.deleted(key, known.uid, known.revision or 0)
        elif uid:
            # The cache does not know what was deleted, and may yet be shown its creation.
            cache.deleted(key, uid, await self._current_revision(cache.collection.gvk, key.namespace))

    async def _after_delete_all(self, target: Any, namespace: str | None, options: DeleteAllOptions) -> None:
        if options.get("dry_run"):
            return
        gvk = await self.gvk_of(target)
        where = await self._where(gvk, namespace, needed=True)
        caches = [cache for cache in self._caches.get(gvk, ()) if cache.covers(where)]
        if caches:
            revision = await self._current_revision(gvk, where)
            for cache in caches:
                cache.deleted_some(where, revision)

    async def _after_scale(self, target: Any, name: str, namespace: str | None, options: PatchOptions) -> None:
        gvk = await self.gvk_of(target)
        if gvk in self._caches and not options.get("dry_run"):
            self._after_write(await self.live.get(gvk, name, namespace=namespace), {})

    async def _current_revision(self, gvk: GroupVersionKind, namespace: str) -> int:
        async for page in self.live.pages(gvk, namespace=namespace, limit=1):
            return revision_number(page.resource_version) or 0
        return 0


def _kind_of(obj: Any) -> Any:
    return type(obj) if not isinstance(obj, dict) else (obj["apiVersion"], obj["kind"])


def _form(target: Any, gvk: GroupVersionKind, *, is_metadata_only: bool) -> Callable[[Cached[Any]], Any]:
    """The function that decodes a cached object as it is asked for."""
    if is_metadata_only:
        return lambda cached: PartialObjectMetadata(metadata=cached.metadata())
    decode: Callable[[bytes], Any] = class_decoder(target) if isinstance(target, type) else dictionary_decoder(gvk)
    return lambda cached: decode(cached.raw)


def _selected(
    cache: OwnWrites[Any], namespace: str, options: ListOptions, index: Mapping[str, str]
) -> list[Cached[Any]] | None:
    """The objects of a cache that selectors and indexes select; None when it has no index for a field."""
    labels = LabelSelector.parse(selector_text(options.get("labels")) or "")
    fields = FieldSelector.parse(selector_text(options.get("fields")) or "")
    indexer, wanted = cache.informer.indexer, list(index.items())
    for requirement in fields.requirements:
        if requirement.operator != EQUALS or not indexer.has_index(requirement.field):
            return None
        wanted.append((requirement.field, requirement.value))
    if not wanted:
        found = cache.values(namespace or None)
    else:
        found = [one for one in cache.by_index(*wanted[0]) if not namespace or one.key.namespace == namespace]
        for name, value in wanted[1:]:
            found = [one for one in found if value in indexer.index_values_of(name, one)]
    return [one for one in found if labels.matches(one.labels)] if labels else found
