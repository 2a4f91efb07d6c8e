"""The generic registry: every write of every kind goes through here, in the same steps.

`Store` owns one stored kind. It reads from the watch cache and writes to storage with the revision it read, so two
writers cannot both win; what differs between kinds is asked of the `Strategy`. Admission comes in as functions, so
this room knows nothing of requests.

A dry run goes through every step but the last: nothing is reserved and nothing is committed.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from kapi.api.errors import AlreadyExists, Conflict, GroupKind, Invalid, NotFound, PlainError, RequestEntityTooLarge
from kapi.api.fielderror import invalid
from kapi.api.go.text import quote
from kapi.api.meta import format_time, is_deleting
from kapi.api.names import generate_name
from kapi.api.objectmeta import validate_object_meta, validate_object_meta_update
from kapi.api.ownership.managedfields import keep_times
from kapi.cache.watchcache import Item, Selection
from kapi.codec.limits import OBJECT_BYTES
from kapi.registry import deletion
from kapi.registry.encoding import decode, draft, encode, head_of, owners_of
from kapi.registry.outcome import Written
from kapi.registry.strategy import Strategy, WriteContext, copy_field
from kapi.registry.uid import new_uid
from kapi.storage.interface import RevisionMismatch
from kapi.storage.keys import object_key, resource_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kapi.api.errors import GroupResource
    from kapi.api.fielderror import FieldError
    from kapi.api.meta import GroupVersionKind, Object
    from kapi.cache.watchcache import CacheHub
    from kapi.registry.deletion import DeleteOptions
    from kapi.registry.outcome import Admit, Build
    from kapi.schema.builtin.typed import ObjectSchema
    from kapi.storage.interface import Entry, Storage

GENERATE_ATTEMPTS = 8
MAX_REVISION_DIGITS = 19

_canonical = msgspec.json.Encoder(order="sorted").encode


class Rules:
    """What an endpoint of a kind may change. This one is the main endpoint's."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy

    def prepare(self, context: WriteContext, obj: Object, old: Object) -> None:
        """Restore what this endpoint may not touch, then let the kind correct the rest."""
        strategy = self.strategy
        if strategy.has_status:
            copy_field(obj, old, "status")
        strategy.prepare_update(context, obj, old)
        if strategy.tracks_generation and strategy.generation_changed(obj, old):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate(self, context: WriteContext, obj: Object, old: Object) -> list[FieldError]:
        """Judge the change."""
        return self.strategy.validate_update(context, obj, old)


class StatusRules(Rules):
    """The /status endpoint: status, and metadata as far as the kind lets it through."""

    def prepare(self, context: WriteContext, obj: Object, old: Object) -> None:
        """Everything but status and metadata is the stored one's."""
        for key in obj.keys() - {"metadata", "status"}:
            del obj[key]
        for key in old.keys() - {"metadata", "status"}:
            obj[key] = old[key]
        if self.strategy.resets_metadata_on_status:
            entries = obj["metadata"].get("managedFields")
            obj["metadata"] = {**old["metadata"], **({"managedFields": entries} if entries else {})}
        elif self.strategy.resets_labels_on_status:
            copy_field(obj["metadata"], old["metadata"], "labels")
        self.strategy.prepare_status(context, obj, old)

    def validate(self, context: WriteContext, obj: Object, old: Object) -> list[FieldError]:
        """Judge the status."""
        return self.strategy.validate_status(context, obj, old)


class Store:
    """All objects of one stored kind.

    Invariants: a stored object always satisfies its strategy's rules as of its write; its key is built from its own
    name and namespace; its uid and creationTimestamp never change.
    """

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
        self.head = head_of(gvk.api_version, gvk.kind)
        self.prefix = resource_prefix(stored.group, stored.resource)
        self.cache = hub.cache(self.prefix)
        self.rules = Rules(strategy)
        self.status_rules = StatusRules(strategy)
        self._schema = schema
        self._stored = stored
        self._selects = selects
        self._by_schema = type(strategy).validate_create is Strategy.validate_create

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

    @property
    def is_remote(self) -> bool:
        """Whether showing an item may take asking somebody else, so that items must be prepared first."""
        return False

    def body(self, item: Item) -> bytes:
        """The bytes of an item as this store shows it, without the head."""
        return item.body

    def decode(self, item: Item) -> Object:
        """The object of an item; yours to change."""
        return decode(self.head, item.body)

    async def load(self, item: Item) -> Object:
        """The object of an item, even if somebody must be asked to convert it; yours to change."""
        return self.decode(item)

    async def prepare(self, items: Iterable[Item]) -> None:
        """Get ready to show items; afterwards `body`, `decode` and `field_values` have no reason to wait."""

    def field_values(self, item: Item) -> dict[str, str]:
        """Everything a field selector may ask about."""
        return item.field_values()

    def item_of(self, entry: Entry) -> Item:
        """An entry read from history, as the cache would hold it."""
        return self.cache.item(entry.key, entry.value, entry.revision)

    # -- create -----------------------------------------------------------------------------------------------------

    async def create(self, context: WriteContext, obj: Object, admit: Admit) -> Written:
        """Store a new object. `obj` is decoded, defaulted and through mutating admission; it is changed in place."""
        metadata = obj["metadata"]
        self._refuse_version(context, metadata)
        generated = not metadata.get("name") and bool(metadata.get("generateName"))
        for attempt in range(GENERATE_ATTEMPTS):
            if generated:
                metadata["name"] = generate_name(metadata["generateName"])
            candidate = obj if not generated else {**obj, "metadata": dict(metadata)}
            self._prepare_create(context, candidate)
            await self._judge(context, candidate, partial(self._create_errors, context, candidate))
            context.warnings += self.strategy.warnings(candidate, None)
            await admit(candidate, None)
            try:
                return await self._insert(context, candidate)
            except AlreadyExists:
                if not generated or attempt == GENERATE_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _refuse_version(self, context: WriteContext, metadata: Object) -> None:
        version = metadata.pop("resourceVersion", "")
        number = version.isascii() and version.isdigit() and len(version) <= MAX_REVISION_DIGITS
        if not context.dry_run and number and int(version) != 0:
            raise PlainError("resourceVersion should not be set on objects to be created")

    def _prepare_create(self, context: WriteContext, obj: Object) -> None:
        metadata = obj["metadata"]
        metadata["uid"] = new_uid()
        metadata["creationTimestamp"] = format_time(context.now)
        strategy = self.strategy
        if strategy.has_status and not strategy.keeps_status_on_create:
            obj.pop("status", None)
        if strategy.tracks_generation:
            metadata["generation"] = 1
        strategy.prepare_create(context, obj)

    def _create_errors(self, context: WriteContext, obj: Object) -> list[FieldError]:
        metadata, strategy = obj["metadata"], self.strategy
        errors = validate_object_meta(
            metadata,
            namespaced=self.namespaced,
            name_rule=strategy.validate_name,
            path="metadata",
            builtin=not strategy.allows_any_finalizer,
        )
        errors += strategy.validate_create(context, obj)
        if self._by_schema:
            errors += self._schema().validate(obj)
        return errors

    async def _judge(self, context: WriteContext, obj: Object, judge: Callable[[], list[FieldError]]) -> None:
        """Raise what is wrong with an object; kinds whose rules may take long have this done beside the event loop."""
        errors = await asyncio.to_thread(judge) if self.strategy.judges_slowly(obj) else judge()
        self._raise(obj["metadata"].get("name", ""), errors)

    async def _insert(self, context: WriteContext, obj: Object) -> Written:
        metadata = obj["metadata"]
        name = metadata["name"]
        try:
            key = self.key(metadata.get("namespace", ""), name)
        except ValueError:
            self._raise(name, [invalid("metadata.name", name, "may not contain control characters")])
            raise
        existing = self.cache.get(key)
        if existing is not None:
            raise self._exists(metadata, existing)
        if context.dry_run:
            return Written(self.preview(key, obj), created=True)
        try:
            return Written(await self._commit(context, key, obj, None, 0), created=True)
        except RevisionMismatch:
            raise self._exists(metadata, self.cache.get(key)) from None

    def _exists(self, metadata: Object, existing: Item | None) -> AlreadyExists:
        if metadata.get("generateName"):
            return AlreadyExists.generated(self.resource, metadata["name"])
        # Its metadata is the same in every version, so nobody need be asked to convert it.
        deleting = existing is not None and is_deleting(decode(self.head, existing.body))
        return AlreadyExists.of(self.resource, metadata["name"], deleting=deleting)

    # -- update -----------------------------------------------------------------------------------------------------

    async def update(
        self,
        context: WriteContext,
        namespace: str,
        name: str,
        build: Build,
        admit: Admit,
        *,
        rules: Rules | None = None,
        patch: bool = False,
    ) -> Written:
        """Change an object to what `build` makes of it.

        A uid in the wanted state is a precondition, unless it is the result of a `patch`; there it is a forbidden
        change.

        The wanted state is conditional when it carries a resourceVersion: then a lost race is a Conflict. Otherwise the
        update is built anew on the winner's state until it goes through.
        """
        rules = rules or self.rules
        while True:
            item = self.get(namespace, name)
            old = await self.load(item)
            obj = await build(old, partial(self.decode, item))
            self._check_preconditions(item, obj, old, patch=patch)
            self._prepare_update(context, rules, obj, old)
            await self._judge(context, obj, partial(self._update_errors, context, rules, obj, old))
            context.warnings += self.strategy.warnings(obj, old)
            await admit(obj, old)
            keep_times(old, obj)
            if _same(obj, old):
                return Written(item)
            deleted = self.should_delete(obj, old)
            if context.dry_run:
                return Written(self.preview(item.key, obj, item), deleted=deleted)
            try:
                if deleted:
                    await self.remove(item)
                    return Written(self.preview(item.key, obj, item), deleted=True)
                return Written(await self._commit(context, item.key, obj, old, item.revision))
            except RevisionMismatch:
                continue  # `build` decides again on the newer state; a stale resourceVersion is then a Conflict

    def _check_preconditions(self, item: Item, obj: Object, old: Object, *, patch: bool) -> None:
        metadata = obj["metadata"]
        name = item.name
        wanted = metadata.get("uid")
        current = old["metadata"].get("uid")
        if not wanted:
            metadata["uid"] = current
        elif wanted != current and not patch:
            raise Conflict.of(
                self.resource,
                name,
                f"StorageError: invalid object, Code: 4, Key: {item.key}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {current}",
            )
        version = metadata.get("resourceVersion") or "0"
        if not (version.isascii() and version.isdigit()):
            raise PlainError(f"strconv.ParseUint: parsing {quote(version)}: invalid syntax")
        if len(version) > MAX_REVISION_DIGITS:
            raise PlainError(f"strconv.ParseUint: parsing {quote(version)}: value out of range")
        if int(version) == 0:
            if not self.strategy.allow_unconditional_update:
                raise Invalid.of(
                    GroupKind(self.resource.group, self.resource.resource),
                    name,
                    [invalid("metadata.resourceVersion", 0, "must be specified for an update")],
                )
        elif int(version) != item.revision:
            raise Conflict.modified(self.resource, name)
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]

    def _prepare_update(self, context: WriteContext, rules: Rules, obj: Object, old: Object) -> None:
        metadata, before = obj["metadata"], old["metadata"]
        for key in ("generation", "creationTimestamp", "selfLink"):
            copy_field(metadata, before, key)
        if "deletionTimestamp" in before:
            metadata["deletionTimestamp"] = before["deletionTimestamp"]
            if "deletionGracePeriodSeconds" in before:
                metadata.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
        rules.prepare(context, obj, old)

    def _update_errors(self, context: WriteContext, rules: Rules, obj: Object, old: Object) -> list[FieldError]:
        builtin = not self.strategy.allows_any_finalizer
        errors = validate_object_meta(
            obj["metadata"], namespaced=self.namespaced, name_rule=_any_name, path="metadata", builtin=builtin
        )
        errors += validate_object_meta_update(obj["metadata"], old["metadata"], builtin=builtin)
        errors += rules.validate(context, obj, old)
        if self._by_schema:
            errors += self._schema().validate(obj)
        return errors

    def should_delete(self, obj: Object, old: Object) -> bool:
        """Whether this update is the last act of a deletion: the final finalizer is gone and no grace remains."""
        before = old["metadata"]
        return (
            "deletionTimestamp" in before
            and not before.get("deletionGracePeriodSeconds")
            and not obj["metadata"].get("finalizers")
        )

    # -- delete -----------------------------------------------------------------------------------------------------

    async def delete(
        self, context: WriteContext, namespace: str, name: str, options: DeleteOptions, admit: Admit
    ) -> Written:
        """Delete an object, or mark it for deletion; `deleted` in the answer says which."""
        return await deletion.delete(self, context, namespace, name, options, admit)

    # -- committing -------------------------------------------------------------------------------------------------

    async def _commit(self, context: WriteContext, key: str, obj: Object, old: Object | None, expected: int) -> Item:
        release = self.strategy.reserve(context, obj, old)
        if release is None:
            return await self.write(key, obj, expected)
        # A request may be cancelled while its write is on the way to disk. The reservation follows the write, not the
        # request: what was committed keeps it.
        write = asyncio.ensure_future(self.write(key, obj, expected))
        write.add_done_callback(lambda done: release(not done.cancelled() and done.exception() is None))
        return await asyncio.shield(write)

    async def write(self, key: str, obj: Object, expected: int) -> Item:
        """Commit an object as it is, past all rules; RevisionMismatch when the key is not at `expected`."""
        value = draft(obj)
        if len(value.before) + len(value.after) > OBJECT_BYTES:
            raise RequestEntityTooLarge(f"limit is {OBJECT_BYTES}")
        selection = self._selection(obj)
        revision = await self.storage.put(key, value, expected, selection)
        # The cache has taken the write in before we hear of it, unless a later one has replaced it already.
        item = self.cache.get(key)
        if item is not None and item.revision == revision:
            return item
        return self.cache.item(key, value.render(revision), revision, selection)

    async def remove(self, item: Item) -> int:
        """Commit the removal of an item; RevisionMismatch when it is not the latest."""
        if getattr(self.strategy.removed, "__func__", None) is Strategy.removed:
            return await self.storage.delete(item.key, item.revision)
        # As with reservations: what the object held is given back when it is gone, even if the request no longer waits.
        removal = asyncio.ensure_future(self.storage.delete(item.key, item.revision))
        removal.add_done_callback(lambda done: self._removed(item, done))
        return await asyncio.shield(removal)

    def _removed(self, item: Item, removal: asyncio.Future[int]) -> None:
        if not removal.cancelled() and removal.exception() is None:
            self.strategy.removed(item.namespace, item.name)

    def preview(self, key: str, obj: Object, current: Item | None = None) -> Item:
        """What the object would look like if this were not a dry run; without a revision when it is not there yet."""
        metadata = obj["metadata"]
        if current is None:
            metadata.pop("resourceVersion", None)
        else:
            metadata["resourceVersion"] = str(current.revision)
        revision = current.revision if current is not None else 0
        body = encode(obj)[len(self.head) :]
        return Item(key, metadata.get("namespace", ""), metadata["name"], revision, body, self._selection(obj))

    def _selection(self, obj: Object) -> Selection:
        fields = self._selects.selectable(obj) if self._selects.selectable_fields else None
        metadata = obj["metadata"]
        return Selection(metadata.get("labels"), fields, owners=owners_of(metadata))

    def _raise(self, name: str, errors: list[FieldError]) -> None:
        if errors:
            raise Invalid.of(self.group_kind, name, errors)


def _same(obj: Object, old: Object) -> bool:
    """Whether a write would change nothing. Python thinks `True == 1`; the second look settles such doubts."""
    return obj == old and _canonical(obj) == _canonical(old)


def _any_name(name: str, *, prefix: bool = False) -> list[str]:
    """Names were judged when the object was made; rules may have grown stricter since."""
    return []
