"""The write path: every create, update, patch, apply, sub-resource write and delete goes through here, in these steps.

    convert to the stored version → default → record field owners → mutating admission
      → check again what admission changed → prepare → validate → validating admission → commit

`create`, `update` and `delete` are the three ways in; `_wanted` has the steps up to mutating admission, which creates
and updates share. All of it runs inside one retry loop (`_until_committed`): when another client has changed the object
meanwhile, everything is decided again on the newer state, admission included. A dry run skips the commit only.

A request is described by one `Write`, which strategies, admission plug-ins and field managers are all given. Handlers
decode a request, build its `Write`, call one function of this module and encode what it returns.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from kapi.api.depth import nests_deeper
from kapi.api.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Invalid,
    NotFound,
    PlainError,
    RequestEntityTooLarge,
)
from kapi.api.fielderror import bounded, invalid
from kapi.api.go.text import quote
from kapi.api.limits import OBJECT_BYTES, OBJECT_DEPTH, OFF_LOOP_BYTES
from kapi.api.meta import GroupKind, format_time, is_deleting
from kapi.api.names import generate_name
from kapi.api.objectmeta import annotation_size_errors, validate_object_meta, validate_object_meta_update
from kapi.api.ownership import managedfields
from kapi.base.offloop import off_loop
from kapi.registry import deletion, initializers
from kapi.registry.deletion import DeleteOptions
from kapi.registry.encoding import HubObject, copy_of, decode, is_marked
from kapi.registry.request import CREATE, UPDATE
from kapi.registry.store import ReadyItem
from kapi.registry.strategy import copy_field
from kapi.registry.uid import new_uid
from kapi.schema.builtin.typed import TypeMismatch
from kapi.storage.interface import RevisionMismatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item
    from kapi.registry.request import Write
    from kapi.registry.store import Store
    from kapi.registry.updatescope import UpdateScope

GENERATE_ATTEMPTS = 8
MAX_REVISION_DIGITS = 19

_SYSTEM_FIELDS = frozenset({"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"})
_DUPLICATE_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, "
    "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)
_AFTER_ADMISSION = " after mutating admission happens"
_INVALID_MANAGED_FIELDS = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating "
    "admission controller; please fix your requests: {}"
)

_encode = msgspec.json.Encoder().encode
_canonical = msgspec.json.Encoder(order="sorted").encode

T = TypeVar("T")


# -- the wanted state ------------------------------------------------------------------------------------------------


class Source:
    """The wanted state of an object: a request body, or what a patch or an apply makes of the current state."""

    applies = False
    """Server-side apply: merging the configuration has recorded the field owners."""
    is_patch = False
    """A patch or an apply. A uid in its wanted state is a forbidden change; in a body it is a precondition."""
    version = ""
    """The resourceVersion that the object must be at; empty if it may be at any."""
    off_loop = False
    """Set before each call: the request or the object is large, and work on it belongs in a thread."""

    async def __call__(self, live: Callable[[], Object] | None) -> Object:
        """The wanted state in the version of the request; called again when another client was faster.

        `live` returns the current state in that version, a fresh copy each time; it is None when there is no object.
        """
        raise NotImplementedError


class Body(Source):
    """The body of a creation, which is the wanted state. It is changed in place: a creation is not decided again."""

    def __init__(self, obj: Object) -> None:
        self._obj = obj

    async def __call__(self, live: Callable[[], Object] | None) -> Object:
        """The body."""
        return self._obj


class Replacement(Source):
    """The body of a PUT, which is the wanted state.

    With a resourceVersion a lost race is a Conflict, so the body is used on that version alone and changed in place.
    Without one, or where the object is missing and perhaps created, the write may be decided again, so every attempt
    gets a copy.
    """

    def __init__(self, obj: Object) -> None:
        self._obj = obj
        version = obj["metadata"].get("resourceVersion", "")
        self.version = "" if version == "0" else version

    async def __call__(self, live: Callable[[], Object] | None) -> Object:
        """The body, or a copy of it."""
        if self.version and live is not None:
            return self._obj
        obj: Object = await off_loop(copy_of, self._obj) if self.off_loop else copy_of(self._obj)
        return obj


class Written(NamedTuple):
    """The outcome of a write: the state now, and whether the write created or deleted the object, or left it as is."""

    item: ReadyItem
    created: bool = False
    deleted: bool = False
    is_unchanged: bool = False


async def _until_committed(write: Write, attempt: Callable[[], Coroutine[Any, Any, Written]]) -> Written:
    """Repeat an attempt while what it read changes before its commit: the one place where a lost race is handled.

    A commit compares what the attempt has read with what is stored. A refusal, and an update that changes nothing, are
    not compared by anything, and where several servers share the store this one may not have heard of the latest
    write. So these are decided a second time if the object has changed.
    """
    is_current = False
    while True:
        written: Written | None = None
        refusal: ApiError | None = None
        try:
            written = await attempt()
        except RevisionMismatch:
            pass
        except ApiError as error:
            refusal = error
        if written is None and refusal is None:
            is_current = await write.store.catch_up()
            continue
        try:
            is_final = is_current or (written is not None and not written.is_unchanged) or not await _is_outdated(write)
            if is_final and refusal is not None:
                raise refusal
        finally:
            # Its traceback refers to this frame.
            del refusal
        if is_final and written is not None:
            return written
        is_current = True


async def _is_outdated(write: Write) -> bool:
    """Return True if the object is not any more, or was never, in the state in which the write has found it."""
    version = write.old["metadata"]["resourceVersion"] if write.old else None
    if await write.store.is_latest(write.namespace, write.name, version):
        return False
    write.old = None
    return True


# -- convert, default, record field owners, mutating admission -------------------------------------------------------


async def _wanted(write: Write, source: Source, scope: UpdateScope, item: Item | None) -> HubObject:
    """The object to store, through every step up to mutating admission; `item` is None on create."""
    old = write.old
    source.off_loop = write.object_bytes >= OFF_LOOP_BYTES
    wanted = await source(None if item is None else partial(scope.live, write, item))
    if source.off_loop:
        obj = await off_loop(_defaulted, write, source, scope, wanted)
    else:
        obj = _defaulted(write, source, scope, wanted)
    metadata = obj["metadata"]
    if write.field_managers is not None and not source.applies:
        await scope.record_owners(write, write.field_managers, obj)
    entries = metadata.get("managedFields")
    await write.admission.mutate(write, obj, None if old is None else scope.admitted(old))
    if write.object_bytes < OFF_LOOP_BYTES:
        _check_after_admission(write, scope, obj, entries)
    else:
        await off_loop(_check_after_admission, write, scope, obj, entries)
    return obj if item is None else scope.merge(write, obj, item)


def _defaulted(write: Write, source: Source, scope: UpdateScope, wanted: Object) -> HubObject:
    """The wanted object in the version of the store, measured, and with its defaults; in a thread where it is large."""
    obj = scope.convert_in(write, wanted)
    _check_size(write, scope, obj)
    metadata, old = obj["metadata"], write.old
    if old is None:
        for key in _SYSTEM_FIELDS.intersection(metadata):
            del metadata[key]
        write.name = metadata.get("name", "")
    if not source.is_patch:  # as in kube-apiserver, which checks a patched object once, after admission
        _drop_duplicate_owners(write, metadata, "")
    if not (source.applies and old is not None and _applies_nothing(write, obj, old)):
        scope.default(write, obj)
    return obj


def _check_size(write: Write, scope: UpdateScope, obj: HubObject) -> bytes:
    """Refuse an object that is too large to be stored before any further work that grows with its size.

    Returns the part that is stored as JSON. The store checks the bytes that it is given once more. The digits of a
    resourceVersion are not among them.
    """
    try:
        data = _encode(scope.stored_part(obj))
    except RecursionError:
        raise _too_deep() from None
    write.object_bytes = len(data)
    if len(data) > OBJECT_BYTES + MAX_REVISION_DIGITS:
        raise _too_large(write, scope, obj)
    return data


def _too_large(write: Write, scope: UpdateScope, obj: HubObject) -> ApiError:
    metadata = obj["metadata"]
    errors = annotation_size_errors(metadata.get("annotations") or {}, "metadata.annotations")
    errors += scope.strategy.size_errors(obj)
    if errors:
        return Invalid.of(write.store.group_kind, metadata.get("name", ""), errors)
    return RequestEntityTooLarge(f"limit is {OBJECT_BYTES}")


def _too_deep() -> BadRequest:
    return BadRequest(f"the object nests deeper than {OBJECT_DEPTH} levels: exceeded max depth")


def _applies_nothing(write: Write, obj: Object, old: Object) -> bool:
    """Return True if an apply changes field owners only: then a custom object gets no defaults it did not have.

    Another version than the stored one may have defaults of its own.
    """
    if write.resource.custom is None:
        return False
    before, after = ({**one, "metadata": {**one["metadata"], "managedFields": None}} for one in (old, obj))
    return before == after


def _check_after_admission(write: Write, scope: UpdateScope, obj: HubObject, entries: list[Object] | None) -> None:
    """Check what a plug-in may have broken: size, namespace, owner references, managedFields, which are restored."""
    if nests_deeper(_check_size(write, scope, obj), OBJECT_DEPTH):
        raise _too_deep()
    metadata = obj["metadata"]
    if metadata.get("namespace", "") != (write.namespace if write.store.namespaced else ""):
        _restore_namespace(write, metadata)
    _drop_duplicate_owners(write, metadata, _AFTER_ADMISSION)
    changed = metadata.get("managedFields")
    if changed is entries or changed == entries:
        return
    try:
        managedfields.decode(changed or [])
    except (ValueError, AttributeError) as error:
        write.warnings.append(_INVALID_MANAGED_FIELDS.format(error))
        metadata["managedFields"] = entries
        if not entries:
            del metadata["managedFields"]


def _restore_namespace(write: Write, metadata: Object) -> None:
    """Set the namespace of an object to that of the request; BadRequest if it names another."""
    if not write.store.namespaced:
        del metadata["namespace"]
    elif metadata.get("namespace"):
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    else:
        metadata["namespace"] = write.namespace


def _drop_duplicate_owners(write: Write, metadata: Object, when: str) -> None:
    """Keep identical owner references once, and warn."""
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) < 2:
        return
    kept: dict[bytes, Object] = {}
    duplicates: list[str] = []
    for owner in owners:
        identity = _canonical(owner)
        if identity in kept:
            duplicates.append(str(owner.get("uid", "")))
        else:
            kept[identity] = owner
    if duplicates:
        write.warnings.append(_DUPLICATE_OWNERS.format(when, ", ".join(duplicates)))
        metadata["ownerReferences"] = list(kept.values())


# -- create ----------------------------------------------------------------------------------------------------------


async def create(write: Write, source: Source) -> Written:
    """Store a new object."""
    store = write.store
    write.operation, write.old = CREATE, None
    obj = await _wanted(write, source, store.object_scope, None)
    metadata = obj["metadata"]
    store.check_creation(metadata.get("name", ""))
    _refuse_version(write, metadata)
    generated = not metadata.get("name") and bool(metadata.get("generateName"))
    for attempt in range(GENERATE_ATTEMPTS):
        if generated:
            metadata["name"] = generate_name(metadata["generateName"])
        # Each name is tried with an object whose top level and metadata are its own.
        candidate = HubObject({**obj, "metadata": dict(metadata)}) if generated else obj
        prepare_create(write, candidate)
        await _validate(write, candidate, partial(create_errors, write, candidate))
        try:
            await write.admission.validate(write, candidate, None)
            store.complete(write, candidate)
            return await _reported(write, _insert(write, candidate))
        except AlreadyExists:
            if not generated or attempt == GENERATE_ATTEMPTS - 1:
                raise
        finally:
            if write.finish is not None:
                _fail(write)
    raise AssertionError("unreachable")


def _refuse_version(write: Write, metadata: Object) -> None:
    version = metadata.pop("resourceVersion", "")
    number = version.isascii() and version.isdigit() and len(version) <= MAX_REVISION_DIGITS
    if not write.dry_run and number and int(version) != 0:
        raise PlainError("resourceVersion should not be set on objects to be created")


def prepare_create(write: Write, obj: Object) -> None:
    """Set the fields of a new object that belong to the server, in place."""
    metadata, strategy = obj["metadata"], write.store.strategy
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = format_time(write.now)
    if strategy.has_status and not strategy.keeps_status_on_create:
        write.store.schema().reset_status(obj)
    if strategy.tracks_generation:
        metadata["generation"] = 1
    strategy.prepare_create(write, obj)


def create_errors(write: Write, obj: Object) -> list[FieldError]:
    """Validate a new object that was prepared."""
    store, strategy = write.store, write.store.strategy
    errors = validate_object_meta(
        obj["metadata"],
        namespaced=store.namespaced,
        name_rule=strategy.validate_name,
        path="metadata",
        builtin=not strategy.allows_any_finalizer,
    )
    errors += strategy.validate_create(write, obj)
    if "initializers" in obj["metadata"]:
        errors += initializers.initializer_errors(obj["metadata"], None)
    if strategy.validates_by_schema:
        errors += store.schema().validate(obj)
    return errors


async def _validate(write: Write, obj: Object, errors: Callable[[], list[FieldError]]) -> None:
    """Raise Invalid, or add the warnings about the object.

    Large objects are validated off the event loop, and their errors take a bounded memory.
    """
    if write.object_bytes < write.store.strategy.validates_off_loop_from:
        _raise_or_warn(write, obj, errors())
    else:
        await off_loop(lambda: _raise_or_warn(write, obj, bounded(errors)))


def _raise_or_warn(write: Write, obj: Object, errors: list[FieldError]) -> None:
    if errors:
        raise Invalid.of(write.store.group_kind, obj["metadata"].get("name", ""), errors)
    write.warnings += write.store.strategy.warnings(obj, write.old)


async def _insert(write: Write, obj: HubObject) -> Written:
    store, metadata = write.store, obj["metadata"]
    name = metadata["name"]
    try:
        key = store.key(metadata.get("namespace", ""), name)
    except ValueError:
        wrong = invalid("metadata.name", name, "may not contain control characters")
        raise Invalid.of(store.group_kind, name, [wrong]) from None
    if store.cache.get(key) is not None:
        await store.catch_up()  # Another server may have deleted it a moment ago.
        if (existing := store.cache.get(key)) is not None:
            raise _exists(store, metadata, existing)
    if write.dry_run:
        return Written(store.preview(key, obj), created=True)
    try:
        return Written(await _commit(write, key, obj, 0), created=True)
    except RevisionMismatch:
        raise _exists(store, metadata, store.cache.get(key)) from None


def _exists(store: Store, metadata: Object, existing: Item | None) -> AlreadyExists:
    if metadata.get("generateName"):
        return AlreadyExists.generated(store.resource, metadata["name"])
    # The metadata is the same in every version, so there is nothing to convert.
    deleting = existing is not None and is_marked(existing.body)
    return AlreadyExists.of(store.resource, metadata["name"], deleting=deleting)


# -- update ----------------------------------------------------------------------------------------------------------


async def update(
    write: Write,
    source: Source,
    scope: UpdateScope | None = None,
    *,
    may_create: Callable[[], Awaitable[None]] | None = None,
) -> Written:
    """Change an object, as far as the scope of an endpoint allows.

    The wanted state is conditional when it carries a resourceVersion: then a lost race is a Conflict. Otherwise the
    update is decided again on the winner's state until it is committed.

    Where `may_create` is given, an object that does not exist is created; it raises when the user may not create.
    """
    scope = scope or write.store.object_scope
    return await _until_committed(write, partial(_update_or_create, write, source, scope, may_create))


async def _update_or_create(
    write: Write, source: Source, scope: UpdateScope, may_create: Callable[[], Awaitable[None]] | None
) -> Written:
    store = write.store
    item = await store.find_ready(write.namespace, write.name)
    if item is not None and source.version and source.version != str(item.revision):
        await store.catch_up()  # Another server may have written that version a moment ago.
        item = await store.find_ready(write.namespace, write.name)
    if item is not None:
        write.operation = UPDATE
        return await _update(write, source, scope, item)
    if may_create is None:
        raise NotFound.of(store.resource, write.name)
    await may_create()
    name = write.name
    try:
        return await create(write, _Missing(write, source))
    except AlreadyExists:
        # Another client was faster to create it: update that.
        write.name = name
        raise RevisionMismatch(store.key(write.namespace, name), 0, 0) from None


class _Missing(Source):
    """The wanted state of an object that an update or an apply creates because there is none."""

    def __init__(self, write: Write, source: Source) -> None:
        self._write = write
        self._source = source
        self.applies, self.is_patch = source.applies, source.is_patch

    async def __call__(self, live: Callable[[], Object] | None) -> Object:
        """The wanted state, whose resourceVersion is ignored and which must not have a uid."""
        self._source.off_loop = self.off_loop
        obj = await self._source(None)
        metadata, write = obj["metadata"], self._write
        if metadata.get("uid"):
            key = write.store.key(write.namespace, write.name)
            raise Conflict.of(
                write.store.resource,
                write.name,
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: ",
            )
        metadata.pop("resourceVersion", None)
        return obj


async def _decoded(store: Store, item: ReadyItem) -> HubObject:
    """The object of an item, which the caller may change; a large one is decoded off the event loop."""
    if len(item.body) < OFF_LOOP_BYTES:
        return store.decode(item)
    # What an item remembers about itself is changed on the event loop only.
    return HubObject(await off_loop(decode, store.head, store.body(item)))


async def _update(write: Write, source: Source, scope: UpdateScope, item: ReadyItem) -> Written:
    store = write.store
    old = write.old = await _decoded(store, item)
    write.object_bytes = max(write.object_bytes, len(item.body))
    obj = await _wanted(write, source, scope, item)
    _check_preconditions(store, item, obj, old, is_patch=source.is_patch)
    prepare_update(write, scope, obj, old)
    errors = partial(update_errors, write, scope, obj, old)
    is_valid = True
    try:
        await _validate(write, obj, errors)
    except Invalid:
        if not _drop_unknown(write, old):
            raise
        is_valid = False
    if not is_valid:
        await _validate(write, obj, errors)
    try:
        await write.admission.validate(write, scope.admitted(obj), scope.admitted(old))
        store.complete(write, obj)
        return await _reported(write, _replace(write, item, obj, old))
    finally:
        if write.finish is not None:
            _fail(write)


def _drop_unknown(write: Write, old: HubObject) -> bool:
    """Remove, in place, the fields of a stored object that this server does not know; returns True if there are any.

    A server of the next release, on the same store, may have written them. This one removes them when it changes the
    object, as kube-apiserver does, which must not count as a change of a field that cannot be changed. Stored objects
    are not searched for such fields before a write is refused: that would cost every update as much as decoding it.
    """
    if write.resource.custom is not None:
        return False
    try:
        return bool(write.store.schema().coerce(old))
    except TypeMismatch:
        return False


def _check_preconditions(store: Store, item: Item, obj: Object, old: Object, *, is_patch: bool) -> None:
    metadata = obj["metadata"]
    name = item.name
    wanted = metadata.get("uid")
    current = old["metadata"].get("uid")
    if not wanted:
        metadata["uid"] = current
    elif wanted != current and not is_patch:
        raise Conflict.of(
            store.resource,
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
        if not store.strategy.allow_unconditional_update:
            raise Invalid.of(
                GroupKind(store.resource.group, store.resource.resource),
                name,
                [invalid("metadata.resourceVersion", 0, "must be specified for an update")],
            )
    elif int(version) != item.revision:
        raise Conflict.modified(store.resource, name)
    metadata["resourceVersion"] = old["metadata"]["resourceVersion"]


def prepare_update(write: Write, scope: UpdateScope, obj: Object, old: Object) -> None:
    """Restore the fields of a changed object that belong to the server, in place."""
    metadata, before = obj["metadata"], old["metadata"]
    for key in ("generation", "creationTimestamp", "selfLink"):
        copy_field(metadata, before, key)
    if "deletionTimestamp" in before:
        metadata["deletionTimestamp"] = before["deletionTimestamp"]
        if "deletionGracePeriodSeconds" in before:
            metadata.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
    if "initializers" in metadata or "initializers" in before:
        if write.subresource:
            copy_field(metadata, before, "initializers")
        initializers.finish(metadata)
    scope.prepare(write, obj, old)


def update_errors(write: Write, scope: UpdateScope, obj: Object, old: Object) -> list[FieldError]:
    """Validate a changed object that was prepared."""
    store = write.store
    builtin = not store.strategy.allows_any_finalizer
    errors = validate_object_meta(
        obj["metadata"], namespaced=store.namespaced, name_rule=_any_name, path="metadata", builtin=builtin
    )
    errors += validate_object_meta_update(obj["metadata"], old["metadata"], builtin=builtin)
    if "initializers" in old["metadata"] and not write.subresource:
        # An initializer may change what is immutable afterwards: no client has seen the object yet.
        errors += store.strategy.validate_create(write, obj)
    else:
        errors += scope.validate(write, obj, old)
    if "initializers" in obj["metadata"]:
        errors += initializers.initializer_errors(obj["metadata"], old["metadata"])
    if store.strategy.validates_by_schema:
        errors += store.schema().validate(obj)
    return errors


def _any_name(name: str, *, prefix: bool = False) -> list[str]:
    """Names were validated when the object was created; rules may have grown stricter since."""
    return []


async def guaranteed_update(write: Write, change: Callable[[Item, HubObject], HubObject]) -> Written:
    """Change an object on the server's own behalf: without defaulting, admission and validation.

    `change` is given the current state, which it may change, and returns the new one; it is called again when another
    client was faster. It raises to give up.
    """
    store = write.store

    async def attempt() -> Written:
        item = await store.fetch(write.namespace, write.name)
        old = write.old = await _decoded(store, item)
        return await _replace(write, item, change(item, await _decoded(store, item)), old)

    return await _until_committed(write, attempt)


# -- delete ----------------------------------------------------------------------------------------------------------


async def delete(write: Write) -> Written:
    """Delete an object, or mark it for deletion; `deleted` in the outcome says which."""
    return await _until_committed(write, partial(_delete, write))


async def _delete(write: Write) -> Written:
    store, options = write.store, write.options
    assert isinstance(options, DeleteOptions)
    item = await store.fetch(write.namespace, write.name)
    old = write.old = await _decoded(store, item)
    store.check_deletion(item, old, options)
    if is_deleting(old) and store.is_held(old):
        return Written(item, is_unchanged=True)
    await write.admission.mutate(write, None, old)
    await write.admission.validate(write, None, old)
    plan = deletion.plan(write, old, options)
    if write.dry_run:
        shown = item if plan.marked is old else store.preview(item.key, plan.marked, item)
        return Written(shown, deleted=plan.deletes)
    if plan.marked is old:
        return await _remove(write, item, old) if plan.deletes else Written(item, is_unchanged=True)
    if not plan.deletes:
        return Written(await store.put(item.key, plan.marked, item.revision))
    # A request may be cancelled while it waits. An object that is marked is deleted all the same.
    return await asyncio.shield(asyncio.ensure_future(_mark_and_remove(write, item, plan.marked, options)))


async def _mark_and_remove(write: Write, item: Item, marked: HubObject, options: DeleteOptions) -> Written:
    """Delete an object of a kind with graceful deletion at once: watchers see the mark first, as in Kubernetes."""
    last = await write.store.put(item.key, marked, item.revision)
    if options.resource_version is not None:
        write.options = replace(options, resource_version=str(last.revision))
    try:
        return await _remove(write, last, marked)
    except RevisionMismatch as lost:
        if lost.actual:
            raise
        return Written(last, deleted=True)  # another client deleted it after it was marked


# -- admission alone -------------------------------------------------------------------------------------------------


async def admit(write: Write, obj: Object) -> None:
    """Run admission for what is created but not stored (a Binding, an Eviction), and for CONNECT."""
    await write.admission.mutate(write, obj, None)
    await write.admission.validate(write, obj, None)


# -- commit ----------------------------------------------------------------------------------------------------------


async def _replace(write: Write, item: ReadyItem, obj: HubObject, old: HubObject) -> Written:
    """Commit a changed object, its deletion if the change ends one, or nothing if nothing changed."""
    store = write.store
    small = len(item.body) < OFF_LOOP_BYTES
    is_same = _same(obj, old) if small else await off_loop(_same, obj, old)
    if is_same and not store.storage.is_stale(item.key):
        kept = await store.unchanged(item)  # A custom object may have been committed once more, in its form of today.
        return Written(kept, is_unchanged=kept is item)
    deleted = store.should_delete(obj, old)
    if write.dry_run:
        return Written(store.preview(item.key, obj, item), deleted=deleted)
    if deleted:
        await _remove(write, item, old)
        return Written(store.preview(item.key, obj, item), deleted=True)
    committed = await _commit(write, item.key, obj, item.revision)
    if committed.is_uninitialized and initializers.has_failed(obj):
        # The result is there for a moment, so that the client that waits for the object sees why it is deleted.
        return await _remove(write, committed, obj)
    return Written(committed)


async def _commit(write: Write, key: str, obj: HubObject, expected: int) -> ReadyItem:
    """Commit an object, with what its kind commits together with it.

    When a companion has changed meanwhile, the kind chooses again; the object is not decided again.
    """
    store = write.store
    while True:
        companions = store.strategy.commit_with(write, obj, write.old)
        if companions is None:
            return await store.put(key, obj, expected)
        chosen = obj if companions.obj is None else HubObject(companions.obj)
        try:
            return await _followed(store.put(key, chosen, expected, companions.operations), companions.done)
        except RevisionMismatch as lost:
            if lost.key == key:
                raise
        await store.catch_up()


async def _remove(write: Write, item: ReadyItem, old: HubObject) -> Written:
    """Commit the deletion of an object, with what its kind commits together with it."""
    store = write.store
    companions = store.strategy.commit_with(write, None, old)
    if companions is None:
        revision = await store.remove(item)
    else:
        revision = await _followed(store.remove(item, companions.operations), companions.done)
    return Written(ReadyItem(item.at(revision)), deleted=True)


def _reported(write: Write, commit: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """The commit, after which its outcome is reported to the plug-in that waits for it, if one does."""
    if write.finish is None:
        return commit
    finish, write.finish = write.finish, None
    return _followed(commit, finish)


def _fail(write: Write) -> None:
    """Report to the plug-in that waits for the outcome that there is no commit."""
    finish, write.finish = write.finish, None
    if finish is not None:
        finish(False)


async def _followed(commit: Coroutine[Any, Any, T], done: Callable[[bool], None] | None) -> T:
    """Commit, and report the outcome, even if the request is cancelled while the commit is on its way."""
    if done is None:
        return await commit
    task = asyncio.ensure_future(commit)
    task.add_done_callback(lambda ended: done(not ended.cancelled() and ended.exception() is None))
    return await asyncio.shield(task)


def _same(obj: Object, old: Object) -> bool:
    """Return True if a write would change nothing but times in managedFields, which are then restored.

    In Python `True == 1`, so equal objects are compared as JSON too.
    """
    managedfields.keep_times(old, obj)
    return obj == old and _canonical(obj) == _canonical(old)
