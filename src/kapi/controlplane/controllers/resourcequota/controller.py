"""Keeps `status.hard` and `status.used` of ResourceQuotas up to date.

A change in a namespace that has a quota is recorded when it is committed; in one without, it costs a dictionary
look-up. Reads the view; writes `status` of quotas, and only when it differs.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import structlog

from kapi.api.errors import Conflict, NotFound, RequestEntityTooLarge
from kapi.controller.reconcile import Request, Result
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.context import request_for
from kapi.controlplane.controllers.resourcequota.usage import QuotaUsage, terms_of
from kapi.registry.custom.definitions import RESOURCE as DEFINITIONS
from kapi.registry.quota.amounts import added, amounts_of, only, printed
from kapi.registry.quota.charges import total

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.controlplane.controllers.context import ControllerContext
    from kapi.registry.quota.amounts import Amounts

QUOTAS: Final = "resourcequotas"

_log = structlog.get_logger("kapi.controllers")

_DELAY = 1.0
"""Seconds added to a timer whose exact moment does not matter."""


def add_resourcequota_controller(context: ControllerContext) -> None:
    """Add the controller; see the module."""
    controller = ResourceQuotaController(context)
    context.add(names.RESOURCEQUOTA, controller, enqueue=controller.enqueue, initial=context.all_of(QUOTAS), workers=2)


class ResourceQuotaController:
    """Reconciles ResourceQuotas, with one `QuotaUsage` for each, by namespace."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._usages: dict[str, dict[Request, QuotaUsage]] = {}
        self._quotas = context.view.prefix(QUOTAS)
        self._definitions = context.view.prefix(DEFINITIONS)

    def enqueue(self, prefix: str, event: Event) -> Iterable[Request]:
        """The quotas that a change may matter to."""
        item = event.item
        usages = self._usages.get(item.namespace)
        if usages is None:
            if prefix == self._quotas:
                return (request_for(item),)
            return self._incomplete() if prefix == self._definitions else ()
        requests = [request_for(item)] if prefix == self._quotas else []
        for request, usage in usages.items():
            resource = usage.resources.get(prefix)
            if resource is None:
                continue
            if not resource.evaluator.only_counts:
                resource.changed.add(item.key)
            elif event.previous is not None and not event.deleted:
                continue
            requests.append(request)
        return requests

    def _incomplete(self) -> list[Request]:
        """Quotas for resources that are not defined so far."""
        every = (pair for usages in self._usages.values() for pair in usages.items())
        return [request for request, usage in every if not usage.is_complete]

    async def reconcile(self, request: Request) -> Result | None:
        """Bring the usage of one quota up to date, and its status if that changes."""
        quota = self._context.view.get(QUOTAS, *request)
        if quota is None:
            self._drop(request)
            return None
        usage = self._usage(request, quota)
        await usage.update(self._context.clock.now())
        if status_of(quota, self._used(request, usage)) is not None:
            # The lock keeps admission from charging the quota meanwhile, see `Charges`.
            async with self._context.charges.lock(request.namespace):
                await self._correct(request, usage)
        return self._next(request, usage)

    async def _correct(self, request: Request, usage: QuotaUsage) -> None:
        """Write the status, if it differs from what there is now."""
        quota = self._context.view.get(QUOTAS, *request)
        if quota is None or usage.terms != terms_of(quota):
            return  # It has changed while many objects were read; then it was enqueued again.
        await usage.update(self._context.clock.now())
        status = status_of(quota, self._used(request, usage))
        if status is not None:
            await self._write(quota, status)

    def _used(self, request: Request, usage: QuotaUsage) -> Amounts:
        """The amounts that are used, and those that were charged for objects that are not committed yet."""
        return added(usage.used(), only(total(self._pending(request)), usage.terms[0]))

    def _pending(self, request: Request) -> list[Amounts]:
        view = self._context.view
        item = view.find(QUOTAS, *request)
        return [] if item is None else self._context.charges.pending(request.namespace, item.key, view.at)

    def _next(self, request: Request, usage: QuotaUsage) -> Result | None:
        """When to look again: when a Pod stops being charged, or soon, when the outcome of a write was not known."""
        if self._pending(request):
            return Result(requeue_after=_DELAY)
        end = usage.next_end()
        if end is None:
            return None
        return Result(requeue_after=max((end - self._context.clock.now()).total_seconds(), 0.0) + _DELAY)

    async def _write(self, quota: Object, status: Object) -> None:
        try:
            with contextlib.suppress(NotFound, Conflict):
                await self._context.writer.update({**quota, "status": status}, "status")
        except RequestEntityTooLarge:
            # The status repeats `spec.hard` twice. Another attempt would fail the same way until the quota changes.
            metadata = quota["metadata"]
            _log.warning("quota too large for a status", namespace=metadata["namespace"], name=metadata["name"])

    def _usage(self, request: Request, quota: Object) -> QuotaUsage:
        usages = self._usages.setdefault(request.namespace, {})
        usage = usages.get(request)
        if usage is None or usage.terms != terms_of(quota) or self._may_be_completed(usage):
            usage = usages[request] = QuotaUsage(quota, self._context.view)
        return usage

    def _may_be_completed(self, usage: QuotaUsage) -> bool:
        return not usage.is_complete and usage.generation != self._context.view.discovery_generation

    def _drop(self, request: Request) -> None:
        usages = self._usages.get(request.namespace)
        if usages is not None:
            usages.pop(request, None)
            if not usages:
                del self._usages[request.namespace]


def status_of(quota: Object, used: Amounts) -> Object | None:
    """The status a quota ought to have; None when it has it.

    Amounts of resources that are not served keep their last value.
    """
    hard = (quota.get("spec") or {}).get("hard") or {}
    status = quota.get("status") or {}
    before = amounts_of(status.get("used"))
    wanted = only({**before, **used}, hard)
    if amounts_of(status.get("hard")) == amounts_of(hard) and before == wanted:
        return None
    return {"hard": hard, "used": printed(wanted)}
