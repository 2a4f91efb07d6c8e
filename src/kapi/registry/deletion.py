"""Deletion: grace periods, finalizers and propagation policy, as one decision.

An object is deleted at once when nothing holds it. With finalizers it is only marked, and the update that removes the
last finalizer deletes it (`write.update`). With a grace period, which only pods have, it is marked with a time in the
future, and the kubelet deletes it again with grace 0.

The propagation policy is recorded as a finalizer (`orphan`, `foregroundDeletion`); the garbage collector acts on it.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kapi.api.meta import format_time, is_deleting, parse_time
from kapi.registry.encoding import HubObject

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.strategy import Strategy

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of a deletion; None where the client gave none."""

    grace_period: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str | None = None
    orphan: bool | None = None
    dry_run: bool = False


class Plan(NamedTuple):
    """The decision: the object with its marks (the very same one if there are none), and whether it is deleted."""

    marked: HubObject
    deletes: bool


def plan(write: Write, old: HubObject, options: DeleteOptions) -> Plan:
    """Decide on a deletion that was admitted; `old` is not changed."""
    store = write.store
    emptied_first = None if is_deleting(old) else store.mark_deletion(write, old, options)
    if emptied_first is not None:
        return Plan(emptied_first, deletes=False)
    metadata = dict(old["metadata"])
    grace, pending = _grace(write, {**old, "metadata": metadata}, options)
    if pending:
        return Plan(old, deletes=False)
    finalizers = metadata.get("finalizers", [])
    wanted = wanted_finalizers(store.strategy, finalizers, options)
    if set(wanted) != set(finalizers):
        metadata["finalizers"] = wanted
    if grace is None and wanted:
        _mark(write, metadata)
    marked = old if metadata == old["metadata"] else HubObject({**old, "metadata": metadata})
    if wanted or (grace is not None and grace > 0):
        return Plan(marked, deletes=False)
    return Plan(old if grace is None else marked, deletes=True)


def _grace(write: Write, obj: Object, options: DeleteOptions) -> tuple[int | None, bool]:
    """The grace period of this deletion (None: the kind has none), and whether an earlier deletion is still pending."""
    requested = options.grace_period
    if requested is not None and requested < 0:
        requested = 1
    grace = write.store.strategy.grace_period(obj, requested)
    if grace is None:
        return None, False
    metadata = obj["metadata"]
    if "deletionTimestamp" in metadata:
        return _shorten(write, metadata, requested)
    metadata["deletionTimestamp"] = format_time(write.now + dt.timedelta(seconds=grace))
    metadata["deletionGracePeriodSeconds"] = grace
    _bump(metadata)
    return grace, False


def _shorten(write: Write, metadata: Object, requested: int | None) -> tuple[int | None, bool]:
    """The grace period of a second deletion, which may only shorten that of the first."""
    current = metadata.get("deletionGracePeriodSeconds")
    if current is None:
        return None, False
    if requested is None or requested >= current:
        # The grace period is over: the object waits for its finalizers only, or for this very request to delete it.
        return (0, False) if current == 0 and not metadata.get("finalizers") else (None, True)
    at = parse_time(metadata["deletionTimestamp"]) or write.now
    moved = at - dt.timedelta(seconds=current - requested)
    metadata["deletionTimestamp"] = format_time(max(moved, write.now))
    metadata["deletionGracePeriodSeconds"] = requested
    return requested, False


def _mark(write: Write, metadata: Object) -> None:
    """Mark an object of a kind without a grace period, which is deleted once its finalizers are removed."""
    if "deletionTimestamp" not in metadata:
        _bump(metadata)
        metadata["deletionTimestamp"] = format_time(write.now)
    metadata["deletionGracePeriodSeconds"] = 0


def _bump(metadata: Object) -> None:
    if metadata.get("generation", 0) > 0:
        metadata["generation"] += 1


def wanted_finalizers(strategy: Strategy, finalizers: list[str], options: DeleteOptions) -> list[str]:
    """The finalizers by the propagation policy: the explicit option, else what is there, else the kind's default."""
    if strategy.default_propagation == "Unsupported":
        return [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
    policy = _policy(options)
    if policy is None:
        if ORPHAN in finalizers or FOREGROUND in finalizers:
            return finalizers
        policy = strategy.default_propagation
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


def without_preconditions(options: DeleteOptions) -> DeleteOptions:
    """The options for each object of a collection: one uid or revision cannot be that of all of them."""
    return replace(options, uid=None, resource_version=None)
