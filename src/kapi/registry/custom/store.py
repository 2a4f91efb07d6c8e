"""The store of one version of a custom kind.

All versions of a kind keep their objects under the same keys, in the storage version; each has a store of its own,
whose users see everything in its version. What is stored may be in an older storage version, or obey an older schema.
When it is read, it is pruned and defaulted by the version it is stored in, then converted, and pruned once more by the
version asked for, which fills nothing in; the result is remembered with the item. So an object written by the current
rules is served as the bytes it is stored as, and others cost one conversion. A field that the storage version does not
have is not stored.

Conversion by webhook is a request to another server. `fetch`, `find_ready` and `ready` wait for it; `body`, `decode`
and `field_values` are for items that these returned.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from kapi.api.errors import Forbidden, TooManyRequests
from kapi.base.offloop import off_loop
from kapi.cache.watchcache import Item, Selection, prefix_of
from kapi.registry.custom.conversion import relabel
from kapi.registry.custom.watcher import ConvertingWatcher
from kapi.registry.encoding import HubObject, StoredObject, copy_of, decode, encode, head_of, owners_of
from kapi.registry.store import ReadyItem, Store
from kapi.schema.structural.defaulting import DefaultsTooLarge
from kapi.storage.interface import Check, RevisionMismatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kapi.api.meta import GroupVersionKind, Object
    from kapi.cache.selector import ItemSelector
    from kapi.cache.watcher import Encoder, Outlet, Watcher
    from kapi.registry.custom.conversion import Converter
    from kapi.registry.custom.strategy import CustomStrategy
    from kapi.registry.request import Write
    from kapi.schema.customschema import CustomSchema
    from kapi.storage.interface import Operation

MOST_FORMS = 8
"""The number of encoded forms of one object that are cached; beyond it the oldest is dropped."""


async def compile_schema(schema: CustomSchema) -> None:
    """Compile a schema off the event loop before its first use: one of thousands of rules takes a second."""
    if not schema.is_compiled:
        await off_loop(schema.compile)


class Form:
    """A token: objects of this form obey one version of one definition as it is now."""

    __slots__ = ()


class CustomStore(Store):
    """The objects of a custom kind in one version.

    Promise: what `body` and `decode` return has no field that the schema does not know, and has the defaults of the
    version it is stored in, even when what is stored has not.
    """

    strategy: CustomStrategy
    storage_version = ""
    """The apiVersion objects are stored in."""
    schemas: Mapping[str, CustomSchema]
    """The schemas of all versions there are, by apiVersion."""
    is_retired = False
    """True once the definition has changed: requests that still hold this store must not write with it."""
    selects_kept_fields = False
    is_built_in = False
    """True for a kind of this server that is served like a custom one; its definition is not stored."""
    definition_key: str
    """The storage key of the definition."""

    def configure(
        self,
        schemas: Mapping[str, CustomSchema],
        storage_version: str,
        converter: Converter | None,
        definition_key: str,
    ) -> None:
        """Set what the definition says of this version; once, before use."""
        self.schemas = schemas
        self.definition_key = definition_key
        self._definitions = self.hub.cache(prefix_of(definition_key))
        self.storage_version = storage_version
        self.converter = converter
        self.api_version = self.gvk.api_version
        self.form = Form()
        self._asked: dict[Item, asyncio.Future[None]] = {}

    @property
    def storage_gvk(self) -> GroupVersionKind:
        """The kind at the storage version."""
        return self.gvk._replace(version=self.storage_version.rpartition("/")[2])

    # -- reading ----------------------------------------------------------------------------------------------------

    def body(self, item: Item) -> bytes:
        """The object's bytes in this version, without the head."""
        if item.form is self.form:
            return item.body
        if item.forms is not None and (body := item.forms.get(self.form)) is not None:
            return body
        obj = self._stored_object(item)
        if item.version != self.api_version:
            if self.converter is not None:
                raise RuntimeError(f"{item.key} in {item.version} was not prepared for {self.api_version}")
            obj = self._pruned(relabel(obj, self.api_version))
        return self._remember(item, obj)

    def decode(self, item: Item) -> HubObject:
        """The object in this version; the caller may change it."""
        return HubObject(decode(self.head, self.body(item)))

    async def find_ready(self, namespace: str, name: str) -> ReadyItem | None:
        """The latest state, converted, or None."""
        await compile_schema(self.schemas[self.api_version])
        item = self.find(namespace, name)
        if item is not None:
            await self._prepare((item,))
        return cast("ReadyItem | None", item)

    async def fetch(self, namespace: str, name: str) -> ReadyItem:
        """The latest state, converted; NotFound otherwise."""
        item = self.get(namespace, name)
        await self._prepare((item,))
        return ReadyItem(item)

    async def ready(self, items: list[Item]) -> list[ReadyItem]:
        """The items, converted."""
        await self._prepare(items)
        return cast("list[ReadyItem]", items)

    async def ready_for_fields(self, prefix: str) -> None:
        """Convert every item below a key prefix, and those that are written meanwhile."""
        if self.converter is None:
            return
        items: list[Item] = []
        while items != (current := self.cache.items(prefix)):
            items = current
            await self._prepare(items)

    def watcher(
        self,
        prefix: str,
        selector: ItemSelector | None,
        encoder: Encoder,
        outlet: Outlet,
        *,
        includes_uninitialized: bool = False,
    ) -> Watcher:
        """A watcher of this version; where a webhook converts, one that has its events converted first."""
        watcher = super().watcher(prefix, selector, encoder, outlet, includes_uninitialized=includes_uninitialized)
        return watcher if self.converter is None else ConvertingWatcher(watcher, self._prepare)

    async def _prepare(self, items: Iterable[Item]) -> None:
        """Have items converted that only a webhook can convert, in one request; afterwards reading never waits."""
        if self.converter is None:
            return
        items = list(items)
        while foreign := [item for item in items if self._is_foreign(item)]:
            fresh = [item for item in foreign if item not in self._asked]
            # Many may want the same, for example all watchers of an event. One of them asks.
            await (self._ask(self.converter, fresh) if fresh else asyncio.shield(self._asked[foreign[0]]))

    def _is_foreign(self, item: Item) -> bool:
        return (
            item.version != self.api_version
            and item.form is not self.form
            and (item.forms is None or self.form not in item.forms)
        )

    async def _ask(self, converter: Converter, items: list[Item]) -> None:
        """Have items converted. Other requests that wait for them get the same error, but not its cancellation."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked |= dict.fromkeys(items, done)
        try:
            converted = await converter.convert([self._stored_object(item) for item in items], self.api_version)
            for item, obj in zip(items, converted, strict=True):
                self._remember(item, self._pruned(obj))
        except Exception as error:
            done.set_exception(error)
            done.exception()  # perhaps no other request waits for it
            raise
        finally:
            for item in items:
                del self._asked[item]
            if not done.done():
                done.set_result(None)

    def field_values(self, item: Item) -> dict[str, str]:
        """The values that a field selector may name, in this version."""
        values = {"metadata.name": item.name, "metadata.namespace": item.namespace}
        if self.strategy.selectable_fields:
            values |= (
                item.fields if item.form is self.form and item.fields else self.strategy.selectable(self.decode(item))
            )
        return values

    def _stored_object(self, item: Item) -> Object:
        """The stored object, pruned and defaulted by today's schema of the version it is stored in."""
        return self._shaped(decode(head_of(item.version, self.gvk.kind), item.body))

    def _shaped(self, obj: Object) -> Object:
        schema = self.schemas.get(obj["apiVersion"])
        if schema is not None:
            schema.coerce(obj, lenient=True)
            # A definition may have got large defaults after many items were stored. The object is served with those
            # that fit, since an error would make every list of the kind fail; writing it back is refused.
            with suppress(DefaultsTooLarge):
                schema.default(obj)
        return obj

    def _pruned(self, obj: Object) -> Object:
        self.schemas[obj["apiVersion"]].coerce(obj, lenient=True)
        return obj

    def _remember(self, item: Item, obj: Object) -> bytes:
        body = encode(obj)[len(self.head) :]
        if body == item.body and item.version == self.api_version:
            item.form = self.form
            # Another version of the definition may have named other fields to select by.
            item.fields = self.strategy.selectable(obj) if self.strategy.selectable_fields else None
            return item.body
        forms = item.forms or {}
        if len(forms) >= MOST_FORMS:
            forms.pop(next(iter(forms)))
        item.forms = {**forms, self.form: body}
        return body

    async def convert(self, obj: Object, api_version: str) -> Object:
        """An object of this kind, which says what version it is in, in another version."""
        if obj["apiVersion"] == api_version:
            return obj
        if self.converter is None:
            return relabel(obj, api_version)
        return (await self.converter.convert([obj], api_version))[0]

    # -- writing ----------------------------------------------------------------------------------------------------

    def check_creation(self, name: str) -> None:
        """Raise Forbidden while the definition is being deleted."""
        if self.is_terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise Forbidden.of(self.resource, name, why)

    def complete(self, write: Write, obj: HubObject) -> None:
        """Fill in the defaults that reading would: those of a status that was dropped, and around scaled replicas."""
        if self.api_version == self.storage_version and (write.subresource == "scale" or self._lacks_status(obj)):
            self.strategy.default(obj)

    def _lacks_status(self, obj: Object) -> bool:
        return "status" not in obj and self.schemas[self.storage_version].defaults_status

    async def unchanged(self, item: ReadyItem) -> ReadyItem:
        """The item, committed once more if it would be stored in another form today.

        That is how objects are migrated to another storage version: by writing back what was read.
        """
        if item.form is self.form and item.version == self.storage_version:
            return item
        stored = await self._to_storage(self.decode(item))
        if item.version == self.storage_version and decode(head_of(item.version, self.gvk.kind), item.body) == stored:
            return item
        restored = await self._commit(item.key, stored, item.revision)
        await self._prepare((restored,))
        return restored

    async def put(self, key: str, obj: HubObject, expected: int, companions: Sequence[Operation] = ()) -> ReadyItem:
        """Commit an object in the storage version; the item returned can be shown in this one."""
        stored = StoredObject(obj) if self.api_version == self.storage_version else await self._to_storage(copy_of(obj))
        item = await self._commit(key, stored, expected, companions)
        if self.converter is None or self.api_version == self.storage_version:
            return item
        if self._lacks_status(stored):
            await self._prepare((item,))
            return item
        # What was sent is shown without asking the webhook to convert it back.
        obj["metadata"]["resourceVersion"] = str(item.revision)
        body = encode(obj)[len(self.head) :]
        shown = Item(key, item.namespace, item.name, item.revision, body, self._selection(obj, body), self.api_version)
        return ReadyItem(shown)

    async def _to_storage(self, obj: HubObject) -> StoredObject:
        """The object in the storage version, without the fields that version does not have."""
        return StoredObject(self._pruned(await self.convert(obj, self.storage_version)))

    def preview(self, key: str, obj: HubObject, current: Item | None = None) -> ReadyItem:
        """The item a dry run answers with, pruned and defaulted as storing it would."""
        if self.converter is None and self.api_version != self.storage_version:
            stored = self._shaped(relabel(copy_of(obj), self.storage_version))
            obj = HubObject(self._pruned(relabel(stored, self.api_version)))
        return super().preview(key, obj, current)

    async def _commit(
        self, key: str, stored: StoredObject, expected: int, companions: Sequence[Operation] = ()
    ) -> ReadyItem:
        """Commit an object unless its definition has changed since the object was validated.

        The revision of the definition is compared in the commit, so that this holds if another server changes it. Most
        changes of a definition leave a version as it was; then the object is committed under the new one.
        """
        while True:
            check = self._definition_check()
            if not expected:
                self.check_creation(stored["metadata"]["name"])
            try:
                return await self._put(key, stored, expected, (check, *companions))
            except RevisionMismatch as lost:
                if lost.key != self.definition_key:
                    raise
            await self.catch_up()

    def _definition_check(self) -> Check:
        """The comparison with the definition that this store was made of; TooManyRequests when there is another now."""
        definition = self._definitions.get(self.definition_key)
        if self.is_built_in:
            return Check(self.definition_key, 0)  # The definition is not stored.
        if self.is_retired or definition is None:
            raise TooManyRequests(
                f"the definition of {self.resource} changed while the request was handled; try again",
                details={"retryAfterSeconds": 1},
            )
        return Check(self.definition_key, definition.revision)

    def _selection(self, obj: Object, *encoded: bytes) -> Selection:
        # Reading drops nulls that writing lets pass. Most objects have none, and their bytes tell so at once.
        has_null = any(b"null" in part for part in encoded) and _has_null(obj)
        fits = obj["apiVersion"] == self.api_version and not has_null
        fields = self.strategy.selectable(obj) if fits and self.strategy.selectable_fields else None
        metadata = obj["metadata"]
        form = self.form if fits else None
        return Selection(metadata.get("labels"), fields, form, owners_of(metadata), "initializers" in metadata)


def _has_null(value: Any) -> bool:
    """Return True if there is a null anywhere in a value."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        values = current.values() if isinstance(current, dict) else current
        if None in values:
            return True
        waiting += [below for below in values if isinstance(below, (dict, list))]
    return False
