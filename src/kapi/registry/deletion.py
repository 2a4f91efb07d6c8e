"""Deletion: grace periods, finalizers, preconditions and propagation policy, as one state machine.

An object goes in one of three ways. At once, when nothing holds it. After its finalizers are gone, when it has
some: then it is only marked, and the update that removes the last finalizer removes the object (`Store.update`).
After a grace period, which only pods have: then it is marked with a time in the future, and whoever runs it deletes
it again with grace 0.

The propagation policy is written down as a finalizer (`orphan`, `foregroundDeletion`); acting on it is the garbage
collector's work.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kapi.api.errors import Conflict, GroupResource
from kapi.api.meta import format_time, parse_time
from kapi.registry.outcome import Written
from kapi.storage.interface import RevisionMismatch

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item
    from kapi.registry.outcome import Admit
    from kapi.registry.store import Store
    from kapi.registry.strategy import WriteContext

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """What a client may say about a deletion; None where it said nothing."""

    grace_period: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str | None = None
    orphan: bool | None = None


async def delete(
    store: Store, context: WriteContext, namespace: str, name: str, options: DeleteOptions, admit: Admit
) -> Written:
    """Delete an object, or mark it; `deleted` in the answer says which."""
    while True:
        item = store.get(namespace, name)
        obj = await store.load(item)
        check_preconditions(store, item, obj, options)
        await admit(None, obj)
        try:
            return await _step(store, context, item, obj, options)
        except RevisionMismatch:
            continue  # judged again on the newer state, preconditions included


async def _step(store: Store, context: WriteContext, item: Item, obj: Object, options: DeleteOptions) -> Written:
    metadata = obj["metadata"]
    grace, pending = _grace(store, context, obj, options)
    if pending:
        return Written(item)
    finalizers = metadata.get("finalizers", [])
    wanted = wanted_finalizers(store, finalizers, options)
    changed = set(wanted) != set(finalizers)
    if changed:
        metadata["finalizers"] = wanted
    if grace is None and wanted:
        _mark(context, metadata)
    if (grace is not None and grace > 0) or wanted:
        return await _keep(store, context, item, obj)
    last = item if grace is None else store.preview(item.key, obj, item)
    if context.dry_run:
        return Written(last, deleted=True)
    revision = await store.remove(item)
    return Written(last.at(revision), deleted=True)


async def _keep(store: Store, context: WriteContext, item: Item, obj: Object) -> Written:
    """The object stays for now: commit its marks."""
    if obj == store.decode(item):
        return Written(item)
    if context.dry_run:
        return Written(store.preview(item.key, obj, item))
    return Written(await store.write(item.key, obj, item.revision))


def _grace(store: Store, context: WriteContext, obj: Object, options: DeleteOptions) -> tuple[int | None, bool]:
    """The grace this deletion grants (None: the kind has none), and whether an earlier one makes it moot."""
    requested = options.grace_period
    if requested is not None and requested < 0:
        requested = 1
    grace = store.strategy.grace_period(obj, requested)
    if grace is None:
        return None, False
    metadata = obj["metadata"]
    if "deletionTimestamp" in metadata:
        return _shorten(context, metadata, requested)
    metadata["deletionTimestamp"] = format_time(context.now + dt.timedelta(seconds=grace))
    metadata["deletionGracePeriodSeconds"] = grace
    _bump(metadata)
    return grace, False


def _shorten(context: WriteContext, metadata: Object, requested: int | None) -> tuple[int | None, bool]:
    """A second deletion may only make the end come sooner."""
    current = metadata.get("deletionGracePeriodSeconds")
    if current is None:
        return None, False
    if requested is None or requested >= current:
        # Grace already at 0: the object waits for its finalizers only, or for this very request to remove it.
        return (0, False) if current == 0 and not metadata.get("finalizers") else (None, True)
    at = parse_time(metadata["deletionTimestamp"]) or context.now
    moved = at - dt.timedelta(seconds=current - requested)
    metadata["deletionTimestamp"] = format_time(max(moved, context.now))
    metadata["deletionGracePeriodSeconds"] = requested
    return requested, False


def _mark(context: WriteContext, metadata: Object) -> None:
    """Mark an object of a kind without grace: it goes when its finalizers have."""
    if "deletionTimestamp" not in metadata:
        _bump(metadata)
        metadata["deletionTimestamp"] = format_time(context.now)
    metadata["deletionGracePeriodSeconds"] = 0


def _bump(metadata: Object) -> None:
    if metadata.get("generation", 0) > 0:
        metadata["generation"] += 1


def wanted_finalizers(store: Store, finalizers: list[str], options: DeleteOptions) -> list[str]:
    """The finalizers the propagation policy asks for: explicit option, else what is there, else the kind's default."""
    if store.strategy.default_propagation == "Unsupported":
        return [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
    policy = _policy(options)
    if policy is None:
        if ORPHAN in finalizers or FOREGROUND in finalizers:
            return finalizers
        policy = store.strategy.default_propagation
    kept = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        kept.append(ORPHAN)
    elif policy == "Foreground":
        kept.append(FOREGROUND)
    return kept


def _policy(options: DeleteOptions) -> str | None:
    if options.orphan is not None:
        return "Orphan" if options.orphan else "Background"
    return options.propagation


def check_preconditions(store: Store, item: Item, obj: Object, options: DeleteOptions) -> None:
    """Conflict when an object is not the one that is to be deleted."""
    current = obj["metadata"].get("uid", "")
    if options.uid is not None and options.uid != current:
        raise Conflict.of(
            GroupResource(*store.group_kind),
            item.name,
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({current}). "
            "The object might have been deleted and then recreated",
        )
    if options.resource_version is not None and options.resource_version != str(item.revision):
        raise Conflict.of(
            GroupResource(*store.group_kind),
            item.name,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the ResourceVersion "
            f"in record ({item.revision}). The object might have been modified",
        )


def without_preconditions(options: DeleteOptions) -> DeleteOptions:
    """The same wishes for the members of a collection, whose uids and revisions the client cannot have meant."""
    return replace(options, uid=None, resource_version=None)
