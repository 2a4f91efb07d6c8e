"""The usage of one quota, maintained object by object.

Adding up a whole namespace for each change would cost the more the larger it is. So the usage of each object is kept,
and a change applies the difference only. Of resources whose number alone matters nothing is kept: the watch cache knows
how many there are. Reads the view, writes nothing.
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

    from kapi.api.meta import GroupResource, Object
    from kapi.controlplane.controllers.view import ObjectView
    from kapi.registry.quota.amounts import Amounts
    from kapi.registry.quota.evaluators import Evaluator
    from kapi.registry.quota.scopes import Scope
    from kapi.registry.resource import Resource

SLICE: Final = 100
"""The number of objects that are evaluated before other tasks run."""

_VERBS = frozenset({"create", "list", "watch", "delete"})


class ResourceUsage:
    """The usage of the objects of one resource. `changed` are the keys of objects to evaluate again."""

    def __init__(
        self, evaluator: Evaluator, resource: Resource, names: frozenset[str], namespace: str, view: ObjectView
    ) -> None:
        self.evaluator = evaluator
        self.names = names
        self.resource = resource
        self.prefix = f"{resource.stored.prefix}{namespace}/"
        self.changed: set[str] = set()
        self.amounts: dict[str, Amounts] = {}
        """The usage of each object, by key."""
        self.total: Amounts = {}
        self.ends: dict[str, dt.datetime] = {}
        """The times after which terminating Pods are not charged any more, by key."""
        if not evaluator.only_counts:
            self.changed.update(item.key for item in view.below(self.prefix))

    def replace(self, key: str, amounts: Amounts) -> None:
        """Replace the usage of one object."""
        before = self.amounts.pop(key, None)
        if before:
            self.total = subtracted(self.total, before)
        if amounts:
            self.amounts[key] = amounts
            self.total = added(self.total, amounts)


class QuotaUsage:
    """The usage of one quota, by the key prefixes of its resources.

    `terms` are the fields of the quota that it depends on, `generation` the view's discovery generation it was made at.
    """

    def __init__(self, quota: Object, view: ObjectView) -> None:
        self._view = view
        self.terms = terms_of(quota)
        self.scopes: tuple[Scope, ...] = scopes_of(quota)
        self.resources: dict[str, ResourceUsage] = {}
        self.generation = view.discovery_generation
        self.is_complete = True
        """False when a resource is not served: it must be looked for when definitions change."""
        wanted = self.terms[0]
        for evaluator in evaluators_for(wanted):
            resource = _countable(view, evaluator.resource)
            if resource is None:
                self.is_complete = False
                continue
            names = frozenset(filter(evaluator.concerns, wanted))
            usage = ResourceUsage(evaluator, resource, names, quota["metadata"]["namespace"], view)
            self.resources[resource.stored.prefix] = usage

    async def update(self, now: dt.datetime) -> None:
        """Evaluate every object that has changed; when there are many, other tasks run in between."""
        evaluated = 0
        for usage in self.resources.values():
            usage.changed.update(key for key, end in usage.ends.items() if now > end)
            while usage.changed:
                key = usage.changed.pop()
                usage.replace(key, self._evaluate(usage, key, now))
                evaluated += 1
                if evaluated % SLICE == 0:
                    await asyncio.sleep(0)

    def _evaluate(self, usage: ResourceUsage, key: str, now: dt.datetime) -> Amounts:
        usage.ends.pop(key, None)
        item = self._view.at(key)
        if item is None:
            return {}
        obj = usage.resource.stored.decode(item)
        if usage.evaluator.resource == PODS:
            end = charged_until(obj)
            if end is not None and now <= end:
                usage.ends[key] = end
        if not is_counted(usage.evaluator, self.scopes, obj):
            return {}
        return only(usage.evaluator.usage(obj, now), usage.names)

    def used(self) -> Amounts:
        """The amounts that are used of everything the quota limits."""
        total: Amounts = {}
        for usage in self.resources.values():
            amounts = usage.total
            if usage.evaluator.only_counts and not self.scopes:
                amounts = dict.fromkeys(usage.names, Quantity(self._view.count(usage.prefix)))
            total = added(total, added(dict.fromkeys(usage.names, ZERO), amounts))
        return total

    def next_end(self) -> dt.datetime | None:
        """The time when the next terminating Pod stops being charged."""
        return min((end for usage in self.resources.values() for end in usage.ends.values()), default=None)


def terms_of(quota: Object) -> tuple[frozenset[str], object]:
    """The fields of a quota that its usage depends on: the names it limits, and its scopes."""
    spec = quota.get("spec") or {}
    return frozenset(spec.get("hard") or ()), (spec.get("scopes"), spec.get("scopeSelector"))


def _countable(view: ObjectView, name: GroupResource) -> Resource | None:
    """A resource whose objects can be counted, if it is served."""
    resource = view.resource(name)
    if resource is None or not resource.namespaced or not _VERBS.issubset(resource.verbs):
        return None
    return resource
