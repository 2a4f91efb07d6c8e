"""The definition controller: accepts names that have become free, and deletes the instances of deleted definitions.

It acts on the commits of definitions, and of instances while it waits for the last one to be deleted; nothing is
polled. Its progress is in the definitions themselves, so that it continues after a restart.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from kapi.api.errors import ApiError, NotFound
from kapi.registry.custom.definitions import RESOURCE
from kapi.registry.custom.version import outline_of
from kapi.registry.deletion import DeleteOptions
from kapi.registry.kinds.apiextensions import conditions
from kapi.registry.request import DELETE, UPDATE, Write
from kapi.registry.write import delete, guaranteed_update
from kapi.storage.interface import OutcomeUnknown, StorageBusy, StorageUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item, WatchCache
    from kapi.registry.catalog import Catalog
    from kapi.registry.encoding import HubObject
    from kapi.registry.resource import Resource

FIRST_BACKOFF = 0.1
MAX_BACKOFF = 30.0
"""Seconds between two attempts at what failed, for example because a conversion webhook does not answer."""

_log = structlog.get_logger("kapi.registry")


class DefinitionController:
    """Reconciles definitions. `run` until cancelled."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._store = catalog.store(RESOURCE)
        resource = catalog.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert resource is not None
        self._resource = resource
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        """The names of definitions that changed while they were reconciled."""
        self._conflicting: set[str] = set()
        """The names of definitions whose names conflict with another's; they are reconciled when that one changes."""

    async def run(self) -> None:
        """Reconcile all definitions, then those that change."""
        cache = self._store.cache
        cache.listen(self._on_events)
        try:
            for item in cache.items():
                with self._catalog.hub.invalid.guard(item.key, "registry.custom.definitioncontroller"):
                    self._reconcile(item)
            await asyncio.get_running_loop().create_future()
        finally:
            cache.unlisten(self._on_events)
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            name = event.item.name
            if event.deleted:
                self._conflicting.discard(name)
            else:
                self._reconcile(event.item)
            group = name.partition(".")[2]
            for other in sorted(one for one in self._conflicting if one != name and one.endswith(f".{group}")):
                self._reconcile_again(other)

    def _reconcile_again(self, name: str) -> None:
        item = self._store.find("", name)
        if item is not None:
            self._reconcile(item)

    def _reconcile(self, item: Item) -> None:
        if item.name in self._tasks:
            self._again.add(item.name)
            return
        self._conflicting.discard(item.name)
        outline = outline_of(item)
        if outline.metadata.deletion_timestamp is not None:
            work = self._finalize
        elif not outline.is_true("NamesAccepted") or outline.status.accepted_names != outline.spec.names:
            self._conflicting.add(item.name)
            work = self._accept_names
        else:
            return
        task = asyncio.ensure_future(self._retry(item.name, work))
        self._tasks[item.name] = task
        task.add_done_callback(lambda done: self._finished(item.name, done))

    def _finished(self, name: str, task: asyncio.Task[None]) -> None:
        del self._tasks[name]
        changed = name in self._again
        self._again.discard(name)
        if changed and not task.cancelled():
            self._reconcile_again(name)

    async def _retry(self, name: str, work: Callable[[str], Coroutine[object, object, None]]) -> None:
        backoff = FIRST_BACKOFF
        while True:
            try:
                await work(name)
            except NotFound:
                return
            except (ApiError, StorageBusy, StorageUnreachable, OutcomeUnknown) as error:
                _log.warning("reconciling a definition failed; trying again", definition=name, error=str(error))
            except Exception:
                # A bug of ours. It is kept to this definition: the others must not wait for it.
                _log.exception("reconciling a definition failed; trying again", definition=name)
            else:
                return
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, MAX_BACKOFF)

    # -- names ------------------------------------------------------------------------------------------------------

    async def _accept_names(self, name: str) -> None:
        """Accept the names of a definition that are free now."""
        now = self._catalog.clock.now()
        await self._change(name, lambda obj: conditions.update(obj, self._others(name), now))

    def _others(self, name: str) -> list[Object]:
        group = name.partition(".")[2]
        return [
            self._store.decode(item)
            for item in self._store.cache.items()
            if item.name != name and item.name.endswith(f".{group}")
        ]

    # -- deletion ---------------------------------------------------------------------------------------------------

    async def _finalize(self, name: str) -> None:
        """Delete the instances of a definition, wait until none is left, and remove the finalizer."""
        definition = self._store.decode(self._store.get("", name))
        if conditions.FINALIZER not in definition["metadata"].get("finalizers", ()):
            return
        # Once this is committed, every instance that was created before is in the watch cache, and no other is created:
        # the commit of an instance compares the definition, and creations are refused while it is being deleted.
        await self._set_terminating(name, conditions.DELETION_IN_PROGRESS)
        served = self._catalog.definitions.get(name)
        state = conditions.NEVER_ESTABLISHED
        if served is not None:
            await self._delete_instances(name, served.storage)
            state = conditions.DELETION_COMPLETED
        await self._change(name, lambda obj: conditions.end_deletion(obj, state, self._catalog.clock.now()))

    async def _delete_instances(self, name: str, resource: Resource) -> None:
        cache = self._catalog.custom_cache(resource.group_resource)
        try:
            for item in cache.items():
                try:
                    await delete(self._write(DELETE, resource, namespace=item.namespace, name=item.name))
                except NotFound:
                    continue
        except ApiError as error:
            await self._set_terminating(name, conditions.deletion_failed(error.message))
            raise
        await _until_empty(cache)

    async def _set_terminating(self, name: str, state: conditions.State) -> None:
        await self._change(
            name, lambda obj: conditions.put(obj, conditions.TERMINATING, state, self._catalog.clock.now())
        )

    # -- writing ----------------------------------------------------------------------------------------------------

    async def _change(self, name: str, change: Callable[[Object], None]) -> None:
        def changed(item: Item, obj: HubObject) -> HubObject:
            change(obj)
            return obj

        write = self._write(UPDATE, self._resource, name=name)
        await guaranteed_update(write, changed)

    def _write(self, operation: str, resource: Resource, *, namespace: str = "", name: str) -> Write:
        clock = self._catalog.clock
        options = DeleteOptions() if operation == DELETE else None
        return Write(
            operation, resource, namespace=namespace, name=name, options=options, lookup=self._catalog, now=clock.now()
        )


async def _until_empty(cache: WatchCache) -> None:
    """Wait until a resource has no objects."""
    if not len(cache):
        return
    empty: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_events(events: Sequence[Event]) -> None:
        if not len(cache) and not empty.done():
            empty.set_result(None)

    cache.listen(on_events)
    try:
        await empty
    finally:
        cache.unlisten(on_events)
