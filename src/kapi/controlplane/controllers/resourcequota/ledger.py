"""A ledger: what the objects of a namespace count for in one quota, kept up to date object by object.

Adding up a namespace from nothing for each change would cost the more the larger it is. So what each object counts for
is kept, and when one changes only the difference is taken over. Of resources whose number alone matters nothing is
kept: the watch cache knows how many there are. Reads the inventory, writes nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kapi.api.values import Quantity
from kapi.registry.quota.amounts import ZERO, added, only, subtracted
from kapi.registry.quota.evaluators import PODS, charged_until, evaluators_for, is_counted
from kapi.registry.quota.scopes import scopes_of

if TYPE_CHECKING:
    import datetime as dt

    from kapi.api.errors import GroupResource
    from kapi.api.meta import Object
    from kapi.cache.watchcache import WatchCache
    from kapi.controlplane.controllers.inventory import Inventory
    from kapi.registry.quota.amounts import Amounts
    from kapi.registry.quota.evaluators import Evaluator
    from kapi.registry.quota.scopes import Scope
    from kapi.registry.resource import Resource

SLICE: Final = 100
"""Objects looked at before others have their turn."""

_VERBS = frozenset({"create", "list", "watch", "delete"})


class Account:
    """What the objects of one resource count for. `changed` are the keys to look at again."""

    def __init__(self, evaluator: Evaluator, resource: Resource, names: frozenset[str], namespace: str) -> None:
        self.evaluator = evaluator
        self.names = names
        self.resource = resource
        self.prefix = f"{resource.stored.prefix}{namespace}/"
        self._hub = resource.stored.hub
        self.changed: set[str] = set()
        self.entries: dict[str, Amounts] = {}
        self.total: Amounts = {}
        self.ending: dict[str, dt.datetime] = {}
        """Pods that stop being charged by themselves, and when."""
        if not evaluator.only_counts:
            self.changed.update(item.key for item in self.cache.items(self.prefix))

    @property
    def cache(self) -> WatchCache:
        """Where the objects are; asked for each time, as a custom kind may go and come back."""
        return self._hub.cache(self.resource.stored.prefix)

    def enter(self, key: str, amounts: Amounts) -> None:
        """Replace what one object counts for."""
        before = self.entries.pop(key, None)
        if before:
            self.total = subtracted(self.total, before)
        if amounts:
            self.entries[key] = amounts
            self.total = added(self.total, amounts)


class Ledger:
    """The accounts of one quota, by the key prefixes of their resources.

    `terms` is what of the quota they depend on, `served` the state of what is served that they were opened at.
    """

    def __init__(self, quota: Object, inventory: Inventory) -> None:
        self.terms = terms_of(quota)
        self.scopes: tuple[Scope, ...] = scopes_of(quota)
        self.accounts: dict[str, Account] = {}
        self.served = inventory.catalog.changes
        self.is_complete = True
        """False when it is about a resource that is not served: one that is defined later must be looked for."""
        wanted = self.terms[0]
        for evaluator in evaluators_for(wanted):
            resource = _quotable(inventory, evaluator.resource)
            if resource is None:
                self.is_complete = False
                continue
            names = frozenset(filter(evaluator.concerns, wanted))
            account = Account(evaluator, resource, names, quota["metadata"]["namespace"])
            self.accounts[resource.stored.prefix] = account

    async def settle(self, now: dt.datetime) -> None:
        """Look at every object that has changed; when there are many, others have their turn in between."""
        looked = 0
        for account in self.accounts.values():
            account.changed.update(key for key, end in account.ending.items() if now > end)
            while account.changed:
                key = account.changed.pop()
                account.enter(key, self._usage(account, key, now))
                looked += 1
                if looked % SLICE == 0:
                    await asyncio.sleep(0)

    def _usage(self, account: Account, key: str, now: dt.datetime) -> Amounts:
        account.ending.pop(key, None)
        item = account.cache.get(key)
        if item is None:
            return {}
        obj = account.resource.stored.decode(item)
        if account.evaluator.resource == PODS:
            end = charged_until(obj)
            if end is not None and now <= end:
                account.ending[key] = end
        if not is_counted(account.evaluator, self.scopes, obj):
            return {}
        return only(account.evaluator.usage(obj, now), account.names)

    def used(self) -> Amounts:
        """What is used of everything the quota is about."""
        total: Amounts = {}
        for account in self.accounts.values():
            counted = account.total
            if account.evaluator.only_counts and not self.scopes:
                number = Quantity(account.cache.count(account.prefix))
                counted = dict.fromkeys(account.names, number)
            total = added(total, added(dict.fromkeys(account.names, ZERO), counted))
        return total

    def next_end(self) -> dt.datetime | None:
        """When the first Pod stops being charged by itself."""
        return min((end for account in self.accounts.values() for end in account.ending.values()), default=None)


def terms_of(quota: Object) -> tuple[frozenset[str], object]:
    """What of a quota its accounts depend on: the names it limits, and its scopes."""
    spec = quota.get("spec") or {}
    return frozenset(spec.get("hard") or ()), (spec.get("scopes"), spec.get("scopeSelector"))


def _quotable(inventory: Inventory, name: GroupResource) -> Resource | None:
    """A resource whose objects can be counted, if it is served."""
    resource = inventory.resource(name)
    if resource is None or not resource.namespaced or not _VERBS.issubset(resource.verbs):
        return None
    return resource
