"""Keeps the status of PodDisruptionBudgets, which evictions go by, and takes back announcements of disruptions.

Budgets are looked at when they change, and when a Pod that they select does. Reads the watch caches; writes `status` of
budgets when it differs, and the DisruptionTarget condition of Pods that were not deleted after all.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import ApiError, Conflict, NotFound
from kapi.api.go.text import quote
from kapi.api.meta import format_time, is_deleting, parse_time
from kapi.api.selectors import NOTHING, SelectorError, from_label_selector
from kapi.controller.objects.conditions import find_condition
from kapi.controller.reconcile import Request, Result
from kapi.controlplane.controllers.disruption.budget import (
    Sums,
    count_healthy,
    expected_and_desired,
    facts_of,
    failed_status,
    needs_scale,
    selector_text,
    status_of,
    still_disrupted,
)
from kapi.controlplane.controllers.disruption.scale import ScaleError, expected_scale
from kapi.controlplane.controllers.house import itself
from kapi.controlplane.controllers.inventory import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.api.selectors import LabelSelector
    from kapi.cache.watchcache import Event, Item
    from kapi.controller.recorder import EventRecorder
    from kapi.controlplane.controllers.disruption.budget import PodFacts
    from kapi.controlplane.controllers.house import House

BUDGETS: Final = "poddisruptionbudgets.policy"
PODS: Final = "pods"
STALE_SECONDS: Final = 120.0
"""How long a Pod may be announced to be disrupted without being deleted."""

_TARGET = "DisruptionTarget"
_TARGET_FIELD = b'"DisruptionTarget"'
_SLACK = 0.01
"""Seconds after a moment at which it is certainly over."""

_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of "
    "the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
    'set ".spec.minAvailable" field of the PDB to an integer value.'
)


def count_disruptions(house: House) -> None:
    """Have every budget say how many of its Pods may go."""
    budgets = Budgets(house, house.manager.recorder("controllermanager"))
    house.add(
        "disruption-controller",
        budgets,
        hear={BUDGETS: budgets.heard_budget, PODS: budgets.heard_pod},
        initial=budgets.started,
    )
    stale = StaleTargets(house)
    house.add("disruption-target-controller", stale, hear={PODS: stale.heard}, initial=stale.started)


class Budgets:
    """Does the sums of one budget at a time.

    `_selectors` has the budgets of each namespace that has any. `_facts` has what is known of the Pods each selected,
    by revision, so that those that have not changed since are not read again.
    """

    def __init__(self, house: House, recorder: EventRecorder) -> None:
        self._house = house
        self._recorder = recorder
        self._selectors: dict[str, dict[Request, LabelSelector]] = {}
        self._facts: dict[Request, dict[str, tuple[int, PodFacts]]] = {}

    # -- hearing ----------------------------------------------------------------------------------------------------

    def started(self) -> Iterable[Request]:
        """Learn which budgets there are; look at each."""
        for item in self._house.inventory.items(BUDGETS):
            self._note(item)
        return self._house.every(BUDGETS)()

    def heard_budget(self, event: Event) -> Iterable[Request]:
        """The budget itself."""
        if event.deleted:
            key = Request(event.item.namespace, event.item.name)
            selectors = self._selectors.get(key.namespace, {})
            selectors.pop(key, None)
            if not selectors:
                self._selectors.pop(key.namespace, None)
        else:
            self._note(event.item)
        return itself(event)

    def heard_pod(self, event: Event) -> Iterable[Request]:
        """The budgets that select the Pod, or did."""
        item, previous = event.item, event.previous
        selectors = self._selectors.get(item.namespace)
        if selectors is None:
            return ()
        return [
            key
            for key, selector in selectors.items()
            if selector.matches(item.labels) or (previous is not None and selector.matches(previous.labels))
        ]

    def _note(self, item: Item) -> None:
        """Budgets are few and seldom change, so that they may be decoded here."""
        budget = self._house.inventory.decode(BUDGETS, item)
        try:
            selector = from_label_selector((budget.get("spec") or {}).get("selector"))
        except SelectorError:
            selector = NOTHING
        self._selectors.setdefault(item.namespace, {})[Request(item.namespace, item.name)] = selector

    # -- counting ---------------------------------------------------------------------------------------------------

    async def reconcile(self, request: Request) -> Result | None:
        """Bring the status of one budget up to date; when that cannot be done, allow nothing."""
        budget = self._house.inventory.get(BUDGETS, *request)
        if budget is None:
            self._facts.pop(request, None)
            return None
        try:
            return await self._count(request, budget)
        except (ScaleError, SelectorError, ValueError, ApiError) as error:
            status = failed_status(budget, str(error), self._house.clock)
            await self._write(request, budget, status)
            return None

    async def _count(self, request: Request, budget: Object) -> Result | None:
        spec, say = budget.get("spec") or {}, self._recorder
        try:
            selector = from_label_selector(spec.get("selector"))
        except SelectorError as error:
            say.warning(budget, "NoPods", f"Failed to get pods: {error}")
            raise
        pods = self._selected(request, selector)
        if not pods:
            say.normal(budget, "NoPods", "No matching pods found")
        scale = 0
        unmanaged: list[str] = []
        try:
            if needs_scale(spec):
                scale, unmanaged = await expected_scale(self._house, request.namespace, pods)
            expected, desired = expected_and_desired(spec, matching=len(pods), scale=scale)
        except (ScaleError, ValueError, ApiError) as error:
            text = f"Failed to calculate the number of expected pods: {error}"
            say.warning(budget, "CalculateExpectedPodCountFailed", text)
            raise
        if unmanaged:
            say.warning(budget, "UnmanagedPods", _UNMANAGED.format(selector_text(spec.get("selector"))))
        now = self._house.clock.now()
        disrupted = still_disrupted(budget, pods, now)
        for pod in disrupted.stayed:
            # The reference names the namespace twice, and people may look for that text.
            text = f"Pod was expected by PDB {request.namespace}/{request.namespace} to be deleted but it wasn't"
            say.warning(_reference(request.namespace, pod), "NotDeleted", text)
        sums = Sums(expected, desired, count_healthy(pods, disrupted, now))
        await self._write(request, budget, status_of(budget, sums, disrupted.awaited, self._house.clock))
        if disrupted.recheck is None:
            return None
        return Result(requeue_after=(disrupted.recheck - now).total_seconds() + _SLACK)

    def _selected(self, request: Request, selector: LabelSelector) -> list[PodFacts]:
        """The Pods a budget selects; read are only those that have changed since the last time."""
        before = self._facts.get(request, {})
        known: dict[str, tuple[int, PodFacts]] = {}
        for item in self._house.inventory.items(PODS, request.namespace):
            if not selector.matches(item.labels):
                continue
            fact = before.get(item.key)
            if fact is None or fact[0] != item.revision:
                fact = (item.revision, facts_of(item.name, item.body))
                if request in self._facts:
                    self._say_if_shared(request, item, fact[1])
            known[item.key] = fact
        self._facts[request] = known
        return [facts for _, facts in known.values()]

    def _say_if_shared(self, request: Request, item: Item, pod: PodFacts) -> None:
        """Tell people of a changed Pod that several budgets select, as it cannot be evicted; the first budget does."""
        selectors = self._selectors.get(request.namespace, {})
        if len(selectors) < 2:
            return
        first = min((key for key, selector in selectors.items() if selector.matches(item.labels)), default=request)
        others = sum(1 for selector in selectors.values() if selector.matches(item.labels))
        if others > 1 and first == request:
            text = (
                f"Pod {quote(request.namespace)}/{quote(pod.name)} matches multiple PodDisruptionBudgets.  "
                f"Chose {quote(request.name)} arbitrarily."
            )
            self._recorder.warning(_reference(request.namespace, pod), "MultiplePodDisruptionBudgets", text)

    async def _write(self, request: Request, budget: Object, status: Object | None) -> None:
        served = self._house.inventory.of_kind("policy/v1", "PodDisruptionBudget")
        assert served is not None
        if status is None:
            return
        # One that was changed since, as by an eviction, has been heard of and comes again.
        with contextlib.suppress(NotFound, Conflict):
            body = {**budget, "status": status}
            await self._house.client.rest.request("PUT", path_of(served, *request, "status"), body=body)


def _reference(namespace: str, pod: PodFacts) -> Object:
    """As much of a Pod as an event about it needs."""
    metadata = {"namespace": namespace, "name": pod.name, "uid": pod.uid}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


# -- announcements that did not come true -----------------------------------------------------------------------------


class StaleTargets:
    """Takes the DisruptionTarget condition back from Pods that were not deleted in time."""

    def __init__(self, house: House) -> None:
        self._house = house

    def started(self) -> Iterable[Request]:
        """Every Pod that has been announced to be disrupted."""
        items = self._house.inventory.items(PODS)
        return [Request(item.namespace, item.name) for item in items if _TARGET_FIELD in item.body]

    def heard(self, event: Event) -> Iterable[Request]:
        """The Pod, if it may have been announced."""
        return () if event.deleted or _TARGET_FIELD not in event.item.body else itself(event)

    async def reconcile(self, request: Request) -> Result | None:
        """Take the condition back when its time is over."""
        pod = self._house.inventory.get(PODS, *request)
        announced = None if pod is None else announced_at(pod)
        if pod is None or announced is None:
            return None
        now = self._house.clock.now()
        left = STALE_SECONDS - (now - announced).total_seconds()
        if left > 0:
            return Result(requeue_after=left)
        served = self._house.inventory.of_kind("v1", "Pod")
        assert served is not None
        # One that was changed since has been heard of, and comes again.
        with contextlib.suppress(NotFound, Conflict):
            await self._house.client.rest.request("PUT", path_of(served, *request, "status"), body=taken_back(pod, now))
        return None


def announced_at(pod: Object) -> dt.datetime | None:
    """When a Pod was announced to be disrupted, by others than its node, if neither it nor the Pod has ended."""
    status = pod.get("status") or {}
    condition: dict[str, Any] | None = find_condition(status.get("conditions"), _TARGET)
    if (
        condition is None
        or condition.get("status") != "True"
        or condition.get("reason") == "TerminationByKubelet"
        or is_deleting(pod)
        or status.get("phase") in {"Failed", "Succeeded"}
    ):
        return None
    return parse_time(condition.get("lastTransitionTime") or "") or dt.datetime.min.replace(tzinfo=dt.UTC)


def taken_back(pod: Object, now: dt.datetime) -> Object:
    """The Pod with the announcement taken back."""
    condition = {"type": _TARGET, "status": "False", "lastTransitionTime": format_time(now)}
    generation = pod["metadata"].get("generation")
    if generation:
        condition["observedGeneration"] = generation
    status = pod["status"]
    conditions = [condition if one.get("type") == _TARGET else one for one in status["conditions"]]
    return {**pod, "status": {**status, "conditions": conditions}}
