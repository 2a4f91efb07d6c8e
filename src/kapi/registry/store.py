"""The store of one kind: reads from the watch cache, commits to storage, and the version objects are in meanwhile.

A `Store` knows keys, bytes and versions. The steps of a write are in `write.py`, which reads and commits through here,
always with the revision it read, so that of two concurrent writers one has to start again.

Objects of custom kinds may have to be converted by a webhook before they can be shown. `fetch` and `ready` wait for
that; what they return can be decoded and encoded without waiting. Views accept a `ReadyItem` only, so a handler that
forgets the conversion is a type error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType, cast

from kapi.api.errors import Conflict, NotFound, RequestEntityTooLarge, Timeout
from kapi.api.limits import OBJECT_BYTES
from kapi.api.meta import GroupKind, GroupResource
from kapi.cache.watchcache import Item, Selection, item_class
from kapi.cache.watcher import Watcher
from kapi.registry.encoding import HubObject, decode, draft, encode, head_of, owners_of
from kapi.registry.updatescope import StatusScope, UpdateScope
from kapi.storage.interface import Delete, Put
from kapi.storage.keys import object_key, resource_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from kapi.api.meta import GroupVersionKind, Object
    from kapi.cache.selector import ItemSelector
    from kapi.cache.watchcache import CacheHub
    from kapi.cache.watcher import Encoder, Outlet
    from kapi.registry.custom.conversion import Converter
    from kapi.registry.deletion import DeleteOptions
    from kapi.registry.encoding import StoredObject
    from kapi.registry.request import Write
    from kapi.registry.strategy import Strategy
    from kapi.schema.builtin.typed import ObjectSchema
    from kapi.storage.interface import Entry, Operation, Storage

CATCH_UP_SECONDS = 3.0
"""The seconds that a writer who lost a race waits for the watch cache to catch up."""

ReadyItem = NewType("ReadyItem", Item)
"""An item that its store can show without waiting: nothing is left to be converted by a webhook."""


class Store:
    """All objects of one stored kind.

    Invariants: a stored object always satisfies its strategy's rules as of its write; its key is built from its own
    name and namespace; its uid and creationTimestamp never change.
    """

    converter: Converter | None = None
    """The webhook that converts between the versions of the kind; None where none is needed."""
    is_terminating = False
    """True while the definition of a custom kind is being deleted: nothing new is created then."""
    selects_kept_fields = True
    """True if `field_values` are always those that the watch cache keeps with an item."""

    @property
    def storage_gvk(self) -> GroupVersionKind:
        """The kind and version that objects are written in."""
        return self.gvk

    def __init__(
        self,
        *,
        gvk: GroupVersionKind,
        resource: GroupResource,
        namespaced: bool,
        strategy: Strategy,
        storage: Storage,
        hub: CacheHub,
        schema: Callable[[], ObjectSchema],
        stored_as: tuple[GroupResource, Strategy] | None = None,
    ) -> None:
        stored, selects = stored_as or (resource, strategy)
        self.gvk = gvk
        """The stored version; its group differs from the resource's where two groups share what is stored."""
        self.resource = resource
        self.group_kind = GroupKind(resource.group, gvk.kind)
        self.namespaced = namespaced
        self.strategy = strategy
        self.storage = storage
        self.hub = hub
        self.schema = schema
        self.head = head_of(gvk.api_version, gvk.kind)
        self.prefix = resource_prefix(stored.group, stored.resource)
        self.cache = hub.cache(self.prefix)
        self.object_scope = UpdateScope(strategy)
        """The main endpoint."""
        self.status_scope = StatusScope(strategy)
        """The /status endpoint."""
        self._stored = stored
        self._selects = selects

    # -- reading ----------------------------------------------------------------------------------------------------

    def key(self, namespace: str, name: str) -> str:
        """The storage key of an object; ValueError for names no object can have."""
        return object_key(self._stored.group, self._stored.resource, namespace if self.namespaced else "", name)

    def find(self, namespace: str, name: str) -> Item | None:
        """The latest state, or None."""
        try:
            return self.cache.get(self.key(namespace, name))
        except ValueError:
            return None

    def get(self, namespace: str, name: str) -> Item:
        """The latest state; NotFound otherwise."""
        item = self.find(namespace, name)
        if item is None:
            raise NotFound.of(self.resource, name)
        return item

    async def find_ready(self, namespace: str, name: str) -> ReadyItem | None:
        """The latest state, ready to be shown, or None."""
        return cast("ReadyItem | None", self.find(namespace, name))

    async def fetch(self, namespace: str, name: str) -> ReadyItem:
        """The latest state, ready to be shown; NotFound otherwise."""
        return ReadyItem(self.get(namespace, name))

    async def ready(self, items: list[Item]) -> list[ReadyItem]:
        """The items, ready to be shown; conversion by a webhook is one request for all of them."""
        return cast("list[ReadyItem]", items)

    async def ready_for_fields(self, prefix: str) -> None:
        """Make every item below a key prefix ready for `field_values`, which a field selector reads."""

    def body(self, item: Item) -> bytes:
        """The bytes of a ready item as this store shows it, without the head."""
        return item.body

    def decode(self, item: Item) -> HubObject:
        """The object of a ready item; the caller may change it."""
        return HubObject(decode(self.head, item.body))

    def field_values(self, item: Item) -> dict[str, str]:
        """The values of a ready item that a field selector may name."""
        return item.field_values()

    def item_of(self, entry: Entry) -> Item:
        """An entry read from history, as the cache would hold it."""
        return self.cache.item(entry.key, entry.value, entry.revision)

    def watcher(
        self,
        prefix: str,
        selector: ItemSelector | None,
        encoder: Encoder,
        outlet: Outlet,
        *,
        includes_uninitialized: bool = False,
    ) -> Watcher:
        """A watcher of this kind, which converts events where they have to be."""
        return Watcher(self.cache, prefix, selector, encoder, outlet, includes_uninitialized=includes_uninitialized)

    async def convert(self, obj: Object, api_version: str) -> Object:
        """An object of this kind, which says what version it is in, in another version."""
        raise NotImplementedError(f"{self.resource} is converted by its resource")

    # -- what kinds decide about their writes, besides the strategy ---------------------------------------------------

    def check_creation(self, name: str) -> None:
        """Raise when no object of this kind may be created now."""

    def complete(self, write: Write, obj: HubObject) -> None:
        """Add to an object that was validated what reading it would add, in place."""

    def should_delete(self, obj: Object, old: Object) -> bool:
        """Return True if this update ends a deletion: the last finalizer is removed and no grace period remains."""
        before = old["metadata"]
        return (
            "deletionTimestamp" in before
            and not before.get("deletionGracePeriodSeconds")
            and not obj["metadata"].get("finalizers")
        )

    def is_held(self, obj: Object) -> bool:
        """Return True if an object that is marked for deletion must not be deleted yet."""
        return False

    def mark_deletion(self, write: Write, old: HubObject, options: DeleteOptions) -> HubObject | None:
        """The object as its first deletion leaves it, for kinds that are emptied first; None for all others."""
        return None

    def check_deletion(self, item: Item, obj: Object, options: DeleteOptions) -> None:
        """Raise Conflict when an object is not the one that is to be deleted."""
        current = obj["metadata"].get("uid", "")
        if options.uid is not None and options.uid != current:
            raise Conflict.of(
                GroupResource(*self.group_kind),
                item.name,
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({current}). "
                "The object might have been deleted and then recreated",
            )
        if options.resource_version is not None and options.resource_version != str(item.revision):
            raise Conflict.of(
                GroupResource(*self.group_kind),
                item.name,
                f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
                f"ResourceVersion in record ({item.revision}). The object might have been modified",
            )

    # -- committing -------------------------------------------------------------------------------------------------

    def put(
        self, key: str, obj: HubObject, expected: int, companions: Sequence[Operation] = ()
    ) -> Coroutine[Any, Any, ReadyItem]:
        """Commit an object as it is, and companions; RevisionMismatch when a key is not at the expected revision."""
        return self._put(key, cast("StoredObject", obj), expected, companions)

    async def _put(self, key: str, obj: StoredObject, expected: int, companions: Sequence[Operation] = ()) -> ReadyItem:
        value = draft(obj)
        if len(value.before) + len(value.after) > OBJECT_BYTES:
            raise RequestEntityTooLarge(f"limit is {OBJECT_BYTES}")
        selection = self._selection(obj, *value)
        if (caught_up := self.cache.fan_out.caught_up) is not None:
            await caught_up.wait()
        if companions:
            revision = await self.storage.commit((Put(key, value, expected, selection), *companions))
        else:
            revision = await self.storage.put(key, value, expected, selection)
        # The cache has taken the write in before we hear of it, unless a later one has replaced it already.
        item = self.cache.get(key)
        if item is None or item.revision != revision:
            item = self.cache.item(key, value.render(revision), revision, selection)
        return ReadyItem(item)

    def put_operation(self, key: str, obj: HubObject, expected: int) -> Put:
        """The operation that commits an object as it is, for commits of several objects."""
        value = draft(cast("StoredObject", obj))
        if len(value.before) + len(value.after) > OBJECT_BYTES:
            raise RequestEntityTooLarge(f"limit is {OBJECT_BYTES}")
        return Put(key, value, expected, self._selection(obj, *value))

    async def remove(self, item: Item, companions: Sequence[Operation] = ()) -> int:
        """Commit the removal of an item, and companions; RevisionMismatch when a key is not at the expected revision.

        Returns the revision of the commit.
        """
        if (caught_up := self.cache.fan_out.caught_up) is not None:
            await caught_up.wait()
        if companions:
            return await self.storage.commit((Delete(item.key, item.revision), *companions))
        return await self.storage.delete(item.key, item.revision)

    async def catch_up(self) -> bool:
        """Wait for the watch cache to have what storage has; False if it does not get there in time.

        It has it already, unless another server wrote it.
        """
        return await self.hub.wait_for(await self.storage.latest(), seconds=CATCH_UP_SECONDS)

    async def is_latest(self, namespace: str, name: str, version: str | None) -> bool:
        """Return True if the latest version of an object is this one; None if there is none.

        Raises:
            Timeout: the watch cache is behind, and does not get further in time.
        """
        if not await self.catch_up():
            raise Timeout("Timeout: the server could not confirm the state of the object with its store", details={})
        item = self.find(namespace, name)
        return (str(item.revision) if item is not None else None) == version

    async def unchanged(self, item: ReadyItem) -> ReadyItem:
        """The outcome of an update that changes nothing."""
        return item

    def preview(self, key: str, obj: HubObject, current: Item | None = None) -> ReadyItem:
        """The item a dry run answers with; without a revision when the object does not exist yet."""
        metadata = obj["metadata"]
        if current is None:
            metadata.pop("resourceVersion", None)
        else:
            metadata["resourceVersion"] = str(current.revision)
        revision = current.revision if current is not None else 0
        body = encode(obj)[len(self.head) :]
        selection = self._selection(obj, body)
        kind = item_class(selection)
        return ReadyItem(kind(key, metadata.get("namespace", ""), metadata["name"], revision, body, selection))

    def _selection(self, obj: Object, *_encoded: bytes) -> Selection:
        """What the watch cache is told about an object, which is encoded in these parts."""
        fields = self._selects.selectable(obj) if self._selects.selectable_fields else None
        metadata = obj["metadata"]
        return Selection(metadata.get("labels"), fields, None, owners_of(metadata), "initializers" in metadata)
