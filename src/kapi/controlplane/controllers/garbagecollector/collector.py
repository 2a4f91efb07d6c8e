"""What is done about an object: deleted, let go of, or released from waiting. See `Collector`.

Cycles in the foreground: if everybody waited for everybody, nobody would go. So whoever is told to go while one of its
own dependents waits already stops being waited for. One is told only when its owner is seen to wait, so the last of a
cycle always sees that the first does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from kapi.api.errors import Conflict, NotFound
from kapi.controller.reconcile import Result
from kapi.controlplane.controllers.garbagecollector.changes import Changes, Unreachable
from kapi.controlplane.controllers.garbagecollector.hearing import Emptying, Hearing, own_kind
from kapi.controlplane.controllers.garbagecollector.judgement import is_emptying
from kapi.controlplane.controllers.garbagecollector.metadata import key_of, metadata_of
from kapi.registry.deletion import FOREGROUND, ORPHAN

if TYPE_CHECKING:
    from collections.abc import Collection

    from kapi.cache.watchcache import Item
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.garbagecollector.judgement import Judgement
    from kapi.controlplane.controllers.garbagecollector.metadata import Metadata, Reference
    from kapi.controlplane.controllers.house import House

NAME: Final = "garbage-collector-controller"
WORKERS: Final = 64
"""Deletions that are under way together share commits; a worker without work costs nothing."""
ORPHANED_TOGETHER: Final = 64
TRIES: Final = 5
"""How often an object that changes under our hands is judged again before others have their turn."""

_MISPLACED: Final = "OwnerRefInvalidNamespace"


def collect_garbage(house: House) -> None:
    """Delete what belongs to nobody any more, and see deletions through that concern dependents."""
    hearing = Hearing(house.inventory)
    collector = Collector(house, hearing)
    house.add(NAME, collector, hear=hearing.hear, initial=hearing.initial, workers=WORKERS)


class Collector:
    """Looks at one object and does what its state asks for.

    * Being deleted with `orphan`: every dependent stops naming it, then it is released.
    * Being deleted with `foregroundDeletion`: it is released when no dependent blocks it.
    * Being deleted otherwise: nothing; it goes by itself.
    * With owners of which at least one stays: it stays, and names only those.
    * With owners of which none stays: it is deleted.

    An object is never deleted while a kind among its owners is not served: perhaps the owner is there.
    """

    def __init__(self, house: House, hearing: Hearing) -> None:
        self._inventory = house.inventory
        self._hearing = hearing
        self._changes = Changes(house.client, house.inventory)
        self._recorder = house.manager.recorder(NAME)

    async def reconcile(self, request: Request) -> Result | None:
        """Bring one object to where it should be."""
        key = key_of(request)
        for _ in range(TRIES):
            item = self._inventory.hub.find(key)
            if item is None:
                return None
            try:
                if await self._looked_after(item):
                    return None
            except Unreachable:
                self._hearing.park(key, [own_kind(key)])
                return None
            except (NotFound, Conflict):
                continue  # it is gone, its kind is, or it is not what was judged
        return Result(requeue=True)

    async def _looked_after(self, item: Item) -> bool:
        """Take one step; whether it was the last."""
        metadata = metadata_of(item)
        if metadata.deletion_timestamp is None:
            return not metadata.references or await self._judged(item, metadata)
        if metadata.has(ORPHAN):
            if not await self._dependents_orphaned(metadata.uid):
                return False
            await self._changes.drop_finalizer(item, metadata, ORPHAN)
        elif metadata.has(FOREGROUND):
            await self._release(item, metadata)
        return True

    # -- those that own ---------------------------------------------------------------------------------------------

    async def _release(self, item: Item, metadata: Metadata) -> None:
        """Let an object go that waits for its dependents, if there are none left to wait for."""
        waiting = self._hearing.emptying.setdefault(metadata.uid, Emptying(item.key))
        waiting.blocker = self._blocker(metadata.uid)
        if waiting.blocker is None:
            await self._changes.drop_finalizer(item, metadata, FOREGROUND)

    def _blocker(self, uid: str) -> str | None:
        """A dependent that blocks its owner; of several the one that will go last, so that few are asked for."""
        find = self._inventory.hub.find
        for key in reversed(self._hearing.dependents(uid)):
            item = find(key)
            if item is not None and metadata_of(item).blocks(uid):
                return key
        return None

    async def _dependents_orphaned(self, uid: str) -> bool:
        """Ask all dependents of an owner not to name it any more; whether there were none left to ask."""
        keys = [key for key in self._hearing.dependents(uid) if self._inventory.resource_at(key) is not None]
        waiting = iter(keys)

        async def work() -> None:
            for key in waiting:
                await self._forsake(key, uid)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(ORPHANED_TOGETHER, len(keys))):
                group.create_task(work())
        return not keys

    async def _forsake(self, key: str, uid: str) -> None:
        """Have an object not name an owner; one that changed meanwhile is asked again, with those that came late."""
        item = self._inventory.hub.find(key)
        if item is None:
            return
        metadata = metadata_of(item)
        try:
            await self._changes.set_references(item, metadata, _without(metadata, {uid}))
        except (NotFound, Conflict, Unreachable):
            return

    # -- those that are owned ---------------------------------------------------------------------------------------

    async def _judged(self, item: Item, metadata: Metadata) -> bool:
        judgement = self._hearing.judge.judge(item, metadata)
        if judgement.is_fine:
            return True
        if judgement.dangling or judgement.is_out_of_scope:
            self._report(item, metadata, self._hearing.judge.misplaced(item, metadata))
        if judgement.is_out_of_scope:
            return True
        if judgement.unserved:
            self._hearing.park(item.key, judgement.unserved)
            return True
        if judgement.solid:
            lost = {reference.uid for reference in (*judgement.dangling, *judgement.waiting)}
            await self._changes.set_references(item, metadata, _without(metadata, lost))
            return True
        return await self._delete(item, metadata, judgement)

    async def _delete(self, item: Item, metadata: Metadata, judgement: Judgement) -> bool:
        """Delete an object whose owners are gone, or wait for it to go."""
        dependents = self._hearing.dependents(metadata.uid) if judgement.waiting else []
        if not dependents:
            await self._changes.delete(item, metadata, _policy(metadata))
            return True
        is_blocking = any(reference.block_owner_deletion for reference in metadata.references)
        if is_blocking and any(map(self._is_emptying, dependents)):
            await self._changes.set_references(item, metadata, _unblocking(metadata))
            return False
        await self._changes.delete(item, metadata, "Foreground")
        return True

    def _is_emptying(self, key: str) -> bool:
        item = self._inventory.hub.find(key)
        return item is not None and is_emptying(item)

    def _report(self, item: Item, metadata: Metadata, misplaced: list[Reference]) -> None:
        """Tell people of owners that are in another namespace, where nobody can name them from."""
        resource = self._inventory.resource_at(item.key) if misplaced else None
        if resource is None:
            return
        regarding = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": item.name, "namespace": item.namespace, "uid": metadata.uid},
        }
        for one in misplaced:
            named = f"{one.api_version}/{one.kind}, namespace: {item.namespace}, name: {one.name}, uid: {one.uid}"
            note = f'ownerRef [{named}] does not exist in namespace "{item.namespace}"'
            self._recorder.warning(regarding, _MISPLACED, note)


def _policy(metadata: Metadata) -> str:
    """What is to become of the dependents of what is deleted: what its finalizers ask for."""
    if metadata.has(ORPHAN):
        return "Orphan"
    return "Foreground" if metadata.has(FOREGROUND) else "Background"


def _without(metadata: Metadata, uids: Collection[str]) -> list[Reference]:
    return [reference for reference in metadata.references if reference.uid not in uids]


def _unblocking(metadata: Metadata) -> list[Reference]:
    """References that block nobody; two that differed in nothing else become one."""
    references = (
        msgspec.structs.replace(reference, block_owner_deletion=False) if reference.block_owner_deletion else reference
        for reference in metadata.references
    )
    return list(dict.fromkeys(references))
