"""Empties namespaces that are deleted, and lets go of them when nothing is left.

A pass deletes the pods first, each with its grace, and everything else once they are gone: what pods use must be there
as long as they run. What a finalizer holds is waited for, by listening to the commits and not by asking again. So an
ordinary namespace takes a pass, and one that is held up goes with the commit that removes the last object. All that is
known of a deletion is in the namespace itself, so that the next process goes on with it.

What is created while the deletion begins, by requests that were admitted before it, is found as it is committed: in
time, or even after the namespace has gone. For nothing is ever left in a namespace that is not there.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from kapi.api.errors import ApiError, Conflict, GroupResource, NotFound
from kapi.api.meta import is_deleting, parse_time
from kapi.client.errors import ClientError
from kapi.controller.reconcile import Request, Result
from kapi.controlplane.controllers.namespace import conditions
from kapi.controlplane.controllers.namespace.conditions import Found
from kapi.controlplane.controllers.namespace.content import Content

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.cache.watchcache import Event, Item, WatchCache
    from kapi.controlplane.controllers.house import House
    from kapi.controlplane.controllers.namespace.content import Left
    from kapi.registry.resource import Resource

NAME: Final = "namespace-controller"
FINALIZER: Final = "kubernetes"
PODS: Final = GroupResource("", "pods")
WORKERS: Final = 10
RESOURCES_AT_ONCE: Final = 32

REFRESH_SECONDS: Final = 1.0
"""A namespace that is held up says what it waits for, at most this often: a thousand objects may go one by one."""
OVERDUE_SECONDS: Final = 5.0
"""How long after the end of their grace pods may take to go before they are called a failure."""
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 60.0
"""Between two attempts at what failed, for example because a conversion webhook is away."""

_log = structlog.get_logger("kapi.housekeeping")


def empty_namespaces(house: House) -> None:
    """The part: see the module."""
    emptying = _Emptying(house)
    house.add(NAME, emptying.reconcile, hear=emptying.hear, initial=emptying.initial, workers=WORKERS)


@dataclass(slots=True)
class _Progress:
    """How far a namespace is after a pass that did not end it."""

    due: float
    """When the next pass may be made, in the clock's monotonic time, unless what is waited for happens before."""
    waits_for_pods: bool
    failures: int
    """How many passes in a row have failed."""


class _Emptying:
    """The reconciler of namespaces, and the ears it has."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._content = Content(house.inventory, house.client)
        self._namespaces = house.inventory.catalog.store("namespaces")
        self._definitions = house.inventory.catalog.store("customresourcedefinitions.apiextensions.k8s.io")
        self._active: set[str] = set()
        """The namespaces that are there and not deleted, kept with the commits."""
        self._progress: dict[str, _Progress] = {}

    # -- hearing ----------------------------------------------------------------------------------------------------

    def initial(self) -> list[Request]:
        """Namespaces whose deletion was begun, and those that are gone but for their content."""
        self._active = {item.name for item in self._namespaces.cache.items() if _is_active(item)}
        there = {item.name for item in self._namespaces.cache.items()}
        return [Request("", name) for name in (there | self._content.namespaces()) - self._active]

    def hear(self, cache: WatchCache, event: Event) -> Iterable[Request]:
        """The namespace that is on its way out, when something happens to it or in it."""
        namespace = event.item.namespace
        if namespace:
            if namespace in self._active:
                return ()
            if event.previous is None:
                self._progress.pop(namespace, None)  # what is new has to be deleted, not waited for
            return (Request("", namespace),)
        if cache is self._namespaces.cache:
            return self._hear_namespace(event)
        if cache is self._definitions.cache:
            return [Request("", name) for name in self._progress]  # perhaps a kind is served again
        return ()

    def _hear_namespace(self, event: Event) -> Iterable[Request]:
        name = event.item.name
        if not event.deleted and _is_active(event.item):
            self._active.add(name)
            self._progress.pop(name, None)
            return ()
        self._active.discard(name)
        return (Request("", name),)

    # -- reconciling ------------------------------------------------------------------------------------------------

    async def reconcile(self, request: Request) -> Result | None:
        """Bring the end of a namespace closer."""
        name = request.name
        if name in self._active:
            return None
        wait = self._wait(name)
        if wait > 0:
            return Result(requeue_after=wait)
        found = await self._empty(name)
        try:
            await self._tell(name, found)
        except (Conflict, NotFound):
            return None  # the change that came between has been heard, and has queued it again
        return self._next(name, found)

    def _wait(self, name: str) -> float:
        """For how long a pass would be too early: something happened, but not what is waited for."""
        progress = self._progress.get(name)
        if progress is None:
            return 0.0
        content = self._content
        is_held = content.has_pods(name) if progress.waits_for_pods else bool(content.resources(name))
        return progress.due - self._house.clock.monotonic() if is_held else 0.0

    def _next(self, name: str, found: Found) -> Result | None:
        """Remember how far we are, and say when to go on if nothing happens."""
        before = self._progress.pop(name, None)
        if found.is_nothing or name in self._active:
            return None
        if found.fresh and not found.failures:
            return Result(requeue=True)
        failures = 0
        pause = REFRESH_SECONDS
        if found.failures:
            _log.warning("a namespace could not be emptied; trying again", namespace=name, errors=found.failures)
            failures = before.failures + 1 if before is not None else 1
            pause = min(FIRST_PAUSE * 2 ** min(failures - 1, 20), LONGEST_PAUSE)
        due = self._house.clock.monotonic() + pause
        self._progress[name] = _Progress(due, PODS in found.remaining, failures)
        return Result(requeue_after=pause if failures else found.grace)

    # -- a pass -----------------------------------------------------------------------------------------------------

    async def _empty(self, name: str) -> Found:
        """Delete what is in a namespace, pods first; nothing else while there are pods."""
        found = Found()
        for resource in self._content.resources(name):
            if resource.group_resource == PODS:
                await self._delete(resource, name, found)
        if found.is_nothing:
            room = asyncio.Semaphore(RESOURCES_AT_ONCE)
            async with asyncio.TaskGroup() as group:
                for resource in self._content.resources(name):
                    group.create_task(self._delete(resource, name, found, room))
        return found

    async def _delete(self, resource: Resource, name: str, found: Found, room: asyncio.Semaphore | None = None) -> None:
        """Delete what there is of a resource, and note what stays."""
        left = self._content.survey(resource, name)
        if left.fresh and name not in self._active:
            try:
                async with room or contextlib.nullcontext():
                    await self._content.delete(resource, name)
            except NotFound:
                return  # the kind is not served any more
            except (ApiError, ClientError) as error:
                found.failures.append(str(error))
            left = self._content.survey(resource, name)
        if not left.total:
            return
        found.remaining[resource.group_resource] = left.total
        found.finalizers.update(left.finalizers)
        found.fresh += left.fresh
        if not left.fresh and not left.finalizers:
            self._judge_grace(resource, name, left, found)

    def _judge_grace(self, resource: Resource, name: str, left: Left, found: Found) -> None:
        """Nothing but time holds what is left: see how much of it there is."""
        ends = parse_time(left.until) or self._house.clock.now()
        seconds = (ends - self._house.clock.now()).total_seconds() + OVERDUE_SECONDS
        found.grace = max(found.grace, seconds)
        if seconds <= 0:
            where = f"{resource.group}/{resource.version}, Resource={resource.resource}"
            found.failures.append(f"unexpected items still remain in namespace: {name} for gvr: {where}")

    async def _tell(self, name: str, found: Found) -> None:
        """Have a namespace say how far it is; if it is empty, let go of it."""
        namespace = self._house.inventory.get("namespaces", "", name)
        if namespace is None or not is_deleting(namespace):
            return
        path, rest = f"/api/v1/namespaces/{name}", self._house.client.rest
        if conditions.put(namespace, found, self._house.clock.now()):
            namespace = await rest.request("PUT", f"{path}/status", body=namespace)
        finalizers = namespace.get("spec", {}).get("finalizers", [])
        if found.is_nothing and FINALIZER in finalizers:
            others = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
            await rest.request("PUT", f"{path}/finalize", body={**namespace, "spec": {"finalizers": others}})


def _is_active(item: Item) -> bool:
    return item.fields is None or item.fields["status.phase"] != "Terminating"
