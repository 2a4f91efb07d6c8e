"""Deletes the content of terminating namespaces, and finalizes them when nothing is left.

A pass deletes the Pods first, each with its grace period, and everything else once they are gone: what Pods use must
exist as long as they run. Objects with finalizers are waited for by listening to commits, not by polling. So an
ordinary namespace takes one pass, and one whose deletion is blocked is removed with the commit that removes the last
object. All that is known of a deletion is in the namespace itself, so that the next process continues it.

Objects that are created while the deletion begins, by requests that were admitted before it, are found as they are
committed, even after the namespace was removed: nothing is ever left in a namespace that does not exist.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from kapi.api.errors import ApiError, Conflict, NotFound
from kapi.api.meta import GroupResource, is_deleting, parse_time
from kapi.client.errors import ClientError
from kapi.controller.reconcile import Request, Result
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.namespace.conditions import DeletionResult, update_conditions
from kapi.controlplane.controllers.namespace.content import NamespaceContent
from kapi.registry.custom.definitions import RESOURCE as DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.cache.watchcache import Event, Item
    from kapi.controlplane.controllers.context import ControllerContext
    from kapi.controlplane.controllers.namespace.content import Remaining
    from kapi.registry.resource import Resource

FINALIZER: Final = "kubernetes"
PODS: Final = GroupResource("", "pods")
WORKERS: Final = 10
CONCURRENT_RESOURCES: Final = 32

STATUS_SECONDS: Final = 1.0
"""The shortest time between two status updates of a namespace: its objects may be removed one by one."""
OVERDUE_SECONDS: Final = 5.0
"""The time after the end of their grace period when Pods that still exist are reported as a failure."""
FIRST_BACKOFF: Final = 0.1
MAX_BACKOFF: Final = 60.0
"""Between two attempts after a failure, for example when a conversion webhook is unavailable."""

_log = structlog.get_logger("kapi.controllers")


def add_namespace_controller(context: ControllerContext) -> None:
    """Add the controller; see the module."""
    controller = NamespaceController(context)
    context.add(names.NAMESPACE, controller, enqueue=controller.enqueue, initial=controller.initial, workers=WORKERS)


@dataclass(slots=True)
class _Progress:
    """The progress of a namespace after a pass that left something behind."""

    due: float
    """The monotonic time of the next pass, unless what is waited for happens before."""
    waits_for_pods: bool
    failures: int
    """The number of failed passes in a row."""


class NamespaceController:
    """Reconciles terminating namespaces, and namespaces that do not exist but have content."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._content = NamespaceContent(context.view, context.writer)
        self._namespaces = context.view.prefix("namespaces")
        self._definitions = context.view.prefix(DEFINITIONS)
        self._active: set[str] = set()
        """The namespaces that exist and are not terminating, maintained from commits."""
        self._progress: dict[str, _Progress] = {}

    # -- events -----------------------------------------------------------------------------------------------------

    def initial(self) -> list[Request]:
        """Terminating namespaces, and namespaces that do not exist but have content."""
        namespaces = self._context.view.items("namespaces")
        self._active = {item.name for item in namespaces if _is_active(item)}
        existing = {item.name for item in namespaces}
        return [Request("", name) for name in sorted((existing | self._content.namespaces()) - self._active)]

    def enqueue(self, prefix: str, event: Event) -> Iterable[Request]:
        """The terminating namespace that changed, or in which an object changed."""
        namespace = event.item.namespace
        if namespace:
            if namespace in self._active:
                return ()
            if event.previous is None:
                self._progress.pop(namespace, None)  # a new object has to be deleted, not waited for
            return (Request("", namespace),)
        if prefix == self._namespaces:
            return self._enqueue_namespace(event)
        if prefix == self._definitions:
            return [Request("", name) for name in self._progress]  # perhaps a kind is served again
        return ()

    def _enqueue_namespace(self, event: Event) -> Iterable[Request]:
        name = event.item.name
        if not event.deleted and _is_active(event.item):
            self._active.add(name)
            self._progress.pop(name, None)
            return ()
        self._active.discard(name)
        return (Request("", name),)

    # -- reconciling ------------------------------------------------------------------------------------------------

    async def reconcile(self, request: Request) -> Result | None:
        """Make one pass over the content of a terminating namespace, and update its status."""
        name = request.name
        if name in self._active:
            return None
        delay = self._delay(name)
        if delay > 0:
            return Result(requeue_after=delay)
        result = await self._delete_content(name)
        try:
            await self._update(name, result)
        except (Conflict, NotFound):
            return None  # it was changed since it was read, and that change has enqueued it again
        return self._next(name, result)

    def _delay(self, name: str) -> float:
        """The seconds to wait when something changed, but not what is waited for; 0 when a pass is due."""
        progress = self._progress.get(name)
        if progress is None:
            return 0.0
        content = self._content
        is_blocked = content.has_pods(name) if progress.waits_for_pods else bool(content.resources(name))
        return progress.due - self._context.clock.monotonic() if is_blocked else 0.0

    def _next(self, name: str, result: DeletionResult) -> Result | None:
        """Record the progress; the time of the next pass if nothing changes before."""
        before = self._progress.pop(name, None)
        if result.is_empty or name in self._active:
            return None
        if result.undeleted and not result.failures:
            return Result(requeue=True)
        failures = 0
        delay = STATUS_SECONDS
        if result.failures:
            _log.warning("deleting namespace content failed; will retry", namespace=name, errors=result.failures)
            failures = before.failures + 1 if before is not None else 1
            delay = min(FIRST_BACKOFF * 2 ** min(failures - 1, 20), MAX_BACKOFF)
        due = self._context.clock.monotonic() + delay
        self._progress[name] = _Progress(due, PODS in result.remaining, failures)
        return Result(requeue_after=delay if failures else result.grace)

    # -- a pass -----------------------------------------------------------------------------------------------------

    async def _delete_content(self, name: str) -> DeletionResult:
        """Delete the Pods of a namespace, and everything else if there are none left."""
        result = DeletionResult()
        for resource in self._content.resources(name):
            if resource.group_resource == PODS:
                await self._delete(resource, name, result)
        if result.is_empty:
            limit = asyncio.Semaphore(CONCURRENT_RESOURCES)
            async with asyncio.TaskGroup() as group:
                for resource in self._content.resources(name):
                    group.create_task(self._delete(resource, name, result, limit))
        return result

    async def _delete(
        self, resource: Resource, name: str, result: DeletionResult, limit: asyncio.Semaphore | None = None
    ) -> None:
        """Delete the objects of a resource, and record what remains."""
        remaining = self._content.remaining(resource, name)
        if remaining.undeleted and name not in self._active:
            try:
                async with limit or contextlib.nullcontext():
                    await self._content.delete(resource, name)
            except NotFound:
                return  # the kind is not served any more
            except (ApiError, ClientError) as error:
                result.failures.append(str(error))
            remaining = self._content.remaining(resource, name)
        if not remaining.total:
            return
        result.remaining[resource.group_resource] = remaining.total
        result.finalizers.update(remaining.finalizers)
        result.undeleted += remaining.undeleted
        if not remaining.undeleted and not remaining.finalizers:
            self._check_grace(resource, name, remaining, result)

    def _check_grace(self, resource: Resource, name: str, remaining: Remaining, result: DeletionResult) -> None:
        """Record the grace period that the remaining objects wait for, or a failure if it is over."""
        now = self._context.clock.now()
        seconds = ((parse_time(remaining.grace_end) or now) - now).total_seconds() + OVERDUE_SECONDS
        result.grace = max(result.grace, seconds)
        if seconds <= 0:
            where = f"{resource.group}/{resource.version}, Resource={resource.resource}"
            result.failures.append(f"unexpected items still remain in namespace: {name} for gvr: {where}")

    async def _update(self, name: str, result: DeletionResult) -> None:
        """Update the conditions of a namespace; if it is empty, remove its finalizer."""
        namespace = self._context.view.get("namespaces", "", name)
        if namespace is None or not is_deleting(namespace):
            return
        if update_conditions(namespace, result, self._context.clock.now()):
            namespace = await self._context.writer.update(namespace, "status")
        finalizers = namespace.get("spec", {}).get("finalizers", [])
        if result.is_empty and FINALIZER in finalizers:
            others = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
            await self._context.writer.update({**namespace, "spec": {"finalizers": others}}, "finalize")


def _is_active(item: Item) -> bool:
    return item.fields is None or item.fields["status.phase"] != "Terminating"
