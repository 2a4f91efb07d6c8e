"""Keeps the status of ResourceQuotas: what is allowed, and what is used.

A change in a namespace that has a quota is looked at when it is committed; in one without, it costs a look into a
dictionary. Reads the watch caches; writes `status` of quotas, and only when it differs.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from kapi.api.errors import Conflict, NotFound
from kapi.controller.reconcile import Request, Result
from kapi.controlplane.controllers.inventory import path_of
from kapi.controlplane.controllers.resourcequota.ledger import Ledger, terms_of
from kapi.registry.quota.amounts import amounts_of, only, printed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, WatchCache
    from kapi.controlplane.controllers.house import House
    from kapi.registry.quota.amounts import Amounts

QUOTAS: Final = "resourcequotas"
DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"

_SOON = 1.0
"""Seconds by which we are late where the exact moment does not matter."""


def count_quotas(house: House) -> None:
    """Have the status of every quota say what is used."""
    controller = QuotaController(house)
    house.add("resourcequota-controller", controller, hear=controller.heard, initial=house.every(QUOTAS), workers=2)


class QuotaController:
    """One ledger per quota that was seen, by namespace."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._ledgers: dict[str, dict[Request, Ledger]] = {}
        self._quotas = house.prefix(QUOTAS)
        self._definitions = house.prefix(DEFINITIONS)

    def heard(self, cache: WatchCache, event: Event) -> Iterable[Request]:
        """The quotas that a change may matter to."""
        item = event.item
        ledgers = self._ledgers.get(item.namespace)
        if ledgers is None:
            if cache.prefix == self._quotas:
                return (Request(item.namespace, item.name),)
            return self._incomplete() if cache.prefix == self._definitions else ()
        concerned = [Request(item.namespace, item.name)] if cache.prefix == self._quotas else []
        for request, ledger in ledgers.items():
            account = ledger.accounts.get(cache.prefix)
            if account is None:
                continue
            if not account.evaluator.only_counts:
                account.changed.add(item.key)
            elif event.previous is not None and not event.deleted:
                continue
            concerned.append(request)
        return concerned

    def _incomplete(self) -> list[Request]:
        """Quotas that are about resources nobody has defined so far."""
        every = (pair for ledgers in self._ledgers.values() for pair in ledgers.items())
        return [request for request, ledger in every if not ledger.is_complete]

    async def reconcile(self, request: Request) -> Result | None:
        """Bring the books of one quota up to date, and its status if that changes."""
        quota = self._house.inventory.get(QUOTAS, *request)
        if quota is None:
            self._forget(request)
            return None
        ledger = self._ledger(request, quota)
        await ledger.settle(self._house.clock.now())
        # The quota may have been changed while we looked at many objects; then it comes again, and is a Conflict now.
        status = status_of(quota, ledger.used())
        if status is not None:
            await self._write(request, {**quota, "status": status})
        end = ledger.next_end()
        if end is None:
            return None
        return Result(requeue_after=max((end - self._house.clock.now()).total_seconds(), 0.0) + _SOON)

    def _ledger(self, request: Request, quota: Object) -> Ledger:
        ledgers = self._ledgers.setdefault(request.namespace, {})
        ledger = ledgers.get(request)
        if ledger is None or ledger.terms != terms_of(quota) or self._may_be_completed(ledger):
            ledger = ledgers[request] = Ledger(quota, self._house.inventory)
        return ledger

    def _may_be_completed(self, ledger: Ledger) -> bool:
        return not ledger.is_complete and ledger.served != self._house.inventory.catalog.changes

    def _forget(self, request: Request) -> None:
        ledgers = self._ledgers.get(request.namespace)
        if ledgers is not None:
            ledgers.pop(request, None)
            if not ledgers:
                del self._ledgers[request.namespace]

    async def _write(self, request: Request, quota: Object) -> None:
        served = self._house.inventory.of_kind("v1", "ResourceQuota")
        assert served is not None
        # One that was changed since has been heard of, and comes again.
        with contextlib.suppress(NotFound, Conflict):
            await self._house.client.rest.request("PUT", path_of(served, *request, "status"), body=quota)


def status_of(quota: Object, used: Amounts) -> Object | None:
    """The status a quota ought to have; None when it has it.

    What nobody can count now is said to be what it was.
    """
    hard = (quota.get("spec") or {}).get("hard") or {}
    status = quota.get("status") or {}
    before = amounts_of(status.get("used"))
    wanted = only({**before, **used}, hard)
    if amounts_of(status.get("hard")) == amounts_of(hard) and before == wanted:
        return None
    return {"hard": hard, "used": printed(wanted)}
