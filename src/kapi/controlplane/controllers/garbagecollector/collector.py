"""The garbage collector's reconciler: deletes, orphans or releases one object. See `GarbageCollector`.

Cycles in the foreground: if every object waited for its dependents, none would ever be deleted. So an object that is to
be deleted while one of its own dependents waits already stops blocking its owners. That is decided only when its owner
is seen to wait, so the last of a cycle always sees that the first does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from kapi.api.errors import Conflict, NotFound
from kapi.controller.reconcile import Result
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.garbagecollector.latedependents import LateDependents
from kapi.controlplane.controllers.garbagecollector.metadata import key_of, metadata_of
from kapi.controlplane.controllers.garbagecollector.operations import KindNotServed, Operations
from kapi.controlplane.controllers.garbagecollector.references import waits_for_dependents
from kapi.controlplane.controllers.garbagecollector.tracker import DependencyTracker, WaitingOwner, own_kind
from kapi.registry.deletion import FOREGROUND, ORPHAN

if TYPE_CHECKING:
    from collections.abc import Collection

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.context import ControllerContext
    from kapi.controlplane.controllers.garbagecollector.metadata import Metadata, Reference
    from kapi.controlplane.controllers.garbagecollector.references import ClassifiedReferences

WORKERS: Final = 64
"""Concurrent deletions share commits; an idle worker costs nothing."""
CONCURRENT_ORPHANS: Final = 64
ATTEMPTS: Final = 5
"""How often an object that changes meanwhile is reconciled at once before it is queued again."""
MAX_ABSENT: Final = 10_000
"""The number of owners that are remembered to be absent from the store."""

_DONE: Final = Result()
_OTHER_NAMESPACE: Final = "OwnerRefInvalidNamespace"


def add_garbage_collector(context: ControllerContext) -> None:
    """Add the controller; see the package."""
    tracker = DependencyTracker(context.view)
    collector = GarbageCollector(context, tracker)
    context.add(names.GARBAGE_COLLECTOR, collector, enqueue=tracker.enqueue, initial=tracker.initial, workers=WORKERS)


class GarbageCollector:
    """Reconciles objects that have owners, and objects that are being deleted.

    * Being deleted with the finalizer `orphan`: it is removed from the owner references of its dependents, then
      released.
    * Being deleted with the finalizer `foregroundDeletion`: it is released when no dependent blocks it.
    * Being deleted otherwise: nothing.
    * With owners of which at least one is solid: references to the others are removed.
    * With owners of which none is solid: it is deleted; with a delay if it is one of several that were created after
      their owner was deleted, see `latedependents`.

    An object is never deleted while a kind among its owners is not served, as the owner may exist. Nor is it because
    the view lacks an owner: unless its deletion was seen, the owner is read through the API first, as another server
    may have created it a moment ago.
    """

    def __init__(self, context: ControllerContext, tracker: DependencyTracker) -> None:
        self._view = context.view
        self._writer = context.writer
        self._tracker = tracker
        self._operations = Operations(context.writer, context.view)
        self._recorder = context.manager.recorder(names.GARBAGE_COLLECTOR)
        self._absent: set[tuple[str, Reference]] = set()
        """Owners that the API did not find, by the namespace of the dependent. A uid never exists again."""
        self._late = LateDependents(context.clock)

    async def reconcile(self, request: Request) -> Result | None:
        """Do what the state of one object requires."""
        key = key_of(request)
        is_late = key in self._tracker.late
        self._tracker.late.discard(key)
        for _ in range(ATTEMPTS):
            item = self._view.at(key)
            if item is None:
                return None
            try:
                result = await self._reconcile(item, is_late=is_late)
                if result is not None:
                    return result
            except KindNotServed:
                self._tracker.enqueue_when_served(key, [own_kind(key)])
                return None
            except (NotFound, Conflict):
                continue  # the object or its kind was deleted, or the object is not in the state that was read
        return Result(requeue=True)

    async def _reconcile(self, item: Item, *, is_late: bool) -> Result | None:
        """Take one step; return None if there is another."""
        metadata = metadata_of(item)
        if metadata.deletion_timestamp is None:
            return await self._reconcile_dependent(item, metadata, is_late=is_late) if metadata.references else _DONE
        if metadata.has(ORPHAN):
            if not await self._orphan_dependents(metadata.uid):
                return None
            await self._operations.remove_finalizer(item, metadata, ORPHAN)
        elif metadata.has(FOREGROUND):
            await self._release_unblocked(item, metadata)
        return _DONE

    # -- owners -----------------------------------------------------------------------------------------------------

    async def _release_unblocked(self, item: Item, metadata: Metadata) -> None:
        """Release an object that is being deleted in the foreground, if no dependent blocks it."""
        waiting = self._tracker.waiting_owners.setdefault(metadata.uid, WaitingOwner(item.key))
        waiting.blocker = self._blocker(metadata.uid)
        if waiting.blocker is None:
            await self._operations.remove_finalizer(item, metadata, FOREGROUND)

    def _blocker(self, uid: str) -> str | None:
        """A dependent that blocks its owner; of several the newest, which is deleted last, so that few are tried."""
        for key in reversed(self._tracker.dependents(uid)):
            item = self._view.at(key)
            if item is not None and metadata_of(item).blocks(uid):
                return key
        return None

    async def _orphan_dependents(self, uid: str) -> bool:
        """Remove an owner from the references of all its dependents; return True if there were none."""
        keys = [key for key in self._tracker.dependents(uid) if self._view.resource_at(key) is not None]
        remaining = iter(keys)

        async def work() -> None:
            for key in remaining:
                await self._orphan(key, uid)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(CONCURRENT_ORPHANS, len(keys))):
                group.create_task(work())
        return not keys

    async def _orphan(self, key: str, uid: str) -> None:
        """Remove an owner from the references of an object; if that fails, it is still a dependent at the next try."""
        item = self._view.at(key)
        if item is None:
            return
        metadata = metadata_of(item)
        try:
            await self._operations.set_references(item, metadata, _without(metadata, {uid}))
        except (NotFound, Conflict, KindNotServed):
            return

    # -- dependents -------------------------------------------------------------------------------------------------

    async def _reconcile_dependent(self, item: Item, metadata: Metadata, *, is_late: bool) -> Result | None:
        classified = self._tracker.classifier.classify(item, metadata)
        if classified.is_solid:
            return _DONE
        if classified.dangling or classified.is_out_of_scope:
            self._report(item, metadata, self._tracker.classifier.in_other_namespaces(item, metadata))
        if classified.is_out_of_scope:
            return _DONE
        if classified.unserved:
            self._tracker.enqueue_when_served(item.key, classified.unserved)
            return _DONE
        await self._read_dangling(item, classified)
        if classified.solid:
            lost = {reference.uid for reference in (*classified.dangling, *classified.waiting)}
            if lost:
                await self._operations.set_references(item, metadata, _without(metadata, lost))
            return _DONE
        if is_late and classified.dangling and (delay := self._late.delay(classified.dangling[0].uid)):
            return Result(requeue_after=delay)
        return await self._delete(item, metadata, classified)

    async def _read_dangling(self, item: Item, classified: ClassifiedReferences) -> None:
        """Read the dangling owners through the API, and classify those that exist again."""
        dangling, classified.dangling = classified.dangling, []
        for reference in dangling:
            owner = await self._read_owner(item, reference)
            if owner is None:
                classified.dangling.append(reference)
            elif "deletionTimestamp" in owner and FOREGROUND in (owner.get("finalizers") or ()):
                classified.waiting.append(reference)
            else:
                classified.solid.append(reference)

    async def _read_owner(self, item: Item, reference: Reference) -> Object | None:
        """The metadata of an owner as the store has it; None when it was deleted, or another object has its name."""
        identity = (item.namespace, reference)
        if self._tracker.classifier.was_deleted(item, reference) or identity in self._absent:
            return None
        resource = self._view.of_kind(reference.api_version, reference.kind)
        if resource is None:
            raise Conflict(f"{reference.api_version} {reference.kind} is not served any more")
        owner = await self._writer.read_metadata(resource, item.namespace, reference.name)
        if owner is not None and owner["uid"] == reference.uid:
            return owner
        if len(self._absent) >= MAX_ABSENT:
            self._absent.clear()
        self._absent.add(identity)
        return None

    async def _delete(self, item: Item, metadata: Metadata, classified: ClassifiedReferences) -> Result | None:
        """Delete an object whose owners are absent, or wait for its deletion; return None if there is another step."""
        dependents = self._tracker.dependents(metadata.uid) if classified.waiting else []
        if not dependents:
            await self._operations.delete(item, metadata, _propagation(metadata))
            return _DONE
        is_blocking = any(reference.block_owner_deletion for reference in metadata.references)
        if is_blocking and any(map(self._waits_for_dependents, dependents)):
            await self._operations.set_references(item, metadata, _unblocking(metadata))
            return None
        await self._operations.delete(item, metadata, "Foreground")
        return _DONE

    def _waits_for_dependents(self, key: str) -> bool:
        item = self._view.at(key)
        return item is not None and waits_for_dependents(item)

    def _report(self, item: Item, metadata: Metadata, references: list[Reference]) -> None:
        """Record an Event about owners in another namespace, which cannot be named from this one."""
        resource = self._view.resource_at(item.key) if references else None
        if resource is None:
            return
        regarding = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": item.name, "namespace": item.namespace, "uid": metadata.uid},
        }
        for one in references:
            named = f"{one.api_version}/{one.kind}, namespace: {item.namespace}, name: {one.name}, uid: {one.uid}"
            note = f'ownerRef [{named}] does not exist in namespace "{item.namespace}"'
            self._recorder.warning(regarding, _OTHER_NAMESPACE, note)


def _propagation(metadata: Metadata) -> str:
    """The propagation policy for the dependents of a deleted object: the one its finalizers ask for."""
    if metadata.has(ORPHAN):
        return "Orphan"
    return "Foreground" if metadata.has(FOREGROUND) else "Background"


def _without(metadata: Metadata, uids: Collection[str]) -> list[Reference]:
    return [reference for reference in metadata.references if reference.uid not in uids]


def _unblocking(metadata: Metadata) -> list[Reference]:
    """The references with blockOwnerDeletion off; two that differed in nothing else become one."""
    references = (
        msgspec.structs.replace(reference, block_owner_deletion=False) if reference.block_owner_deletion else reference
        for reference in metadata.references
    )
    return list(dict.fromkeys(references))
