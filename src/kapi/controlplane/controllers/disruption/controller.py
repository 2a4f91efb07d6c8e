"""Keeps the status of PodDisruptionBudgets up to date, and clears stale DisruptionTarget conditions.

Budgets are reconciled when they change, and when a Pod that they select does. Reads the view; writes `status` of
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
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.context import enqueue_object, request_for
from kapi.controlplane.controllers.disruption.budget import (
    BudgetNumbers,
    count_healthy,
    expected_and_desired,
    failed_status,
    needs_scale,
    pod_state,
    selector_text,
    status_of,
    still_disrupted,
)
from kapi.controlplane.controllers.disruption.scale import ScaleError, expected_scale

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.api.selectors import LabelSelector
    from kapi.cache.watchcache import Event, Item
    from kapi.controller.recorder import EventRecorder
    from kapi.controlplane.controllers.context import ControllerContext
    from kapi.controlplane.controllers.disruption.budget import PodState

BUDGETS: Final = "poddisruptionbudgets.policy"
PODS: Final = "pods"
STALE_POD_DISRUPTION: Final = "stale-pod-disruption"
STALE_SECONDS: Final = 120.0
"""The time after which the DisruptionTarget condition of a Pod that was not deleted is cleared."""

_TARGET = "DisruptionTarget"
_TARGET_FIELD = b'"DisruptionTarget"'
_SLACK = 0.01
"""Seconds added to a timer so that its moment is certainly over."""

_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of "
    "the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
    'set ".spec.minAvailable" field of the PDB to an integer value.'
)


def add_disruption_controller(context: ControllerContext) -> None:
    """Add the controller of budgets and the one of stale DisruptionTarget conditions."""
    budgets = DisruptionController(context, context.manager.recorder("controllermanager"))
    context.add(
        names.DISRUPTION,
        budgets,
        enqueue={BUDGETS: budgets.enqueue_budget, PODS: budgets.enqueue_pod},
        initial=budgets.initial,
    )
    stale = StalePodDisruptionController(context)
    context.add(STALE_POD_DISRUPTION, stale, enqueue={PODS: stale.enqueue}, initial=stale.initial)


class DisruptionController:
    """Reconciles PodDisruptionBudgets.

    `_selectors` are the selectors of the budgets, by namespace. `_states` are the states of the Pods each budget
    selected, with their revisions, so that Pods that have not changed since are not read again.
    """

    def __init__(self, context: ControllerContext, recorder: EventRecorder) -> None:
        self._context = context
        self._recorder = recorder
        self._selectors: dict[str, dict[Request, LabelSelector]] = {}
        self._states: dict[Request, dict[str, tuple[int, PodState]]] = {}

    # -- events -----------------------------------------------------------------------------------------------------

    def initial(self) -> Iterable[Request]:
        """Index the budgets there are; each is reconciled."""
        for item in self._context.view.items(BUDGETS):
            self._index(item)
        return self._context.all_of(BUDGETS)()

    def enqueue_budget(self, event: Event) -> Iterable[Request]:
        """The budget that changed."""
        if event.deleted:
            key = Request(event.item.namespace, event.item.name)
            selectors = self._selectors.get(key.namespace, {})
            selectors.pop(key, None)
            if not selectors:
                self._selectors.pop(key.namespace, None)
        else:
            self._index(event.item)
        return enqueue_object(event)

    def enqueue_pod(self, event: Event) -> Iterable[Request]:
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

    def _index(self, item: Item) -> None:
        """Index the selector of a budget. Budgets are few and rarely change, so they may be decoded here."""
        budget = self._context.view.decode(BUDGETS, item)
        try:
            selector = from_label_selector((budget.get("spec") or {}).get("selector"))
        except SelectorError:
            selector = NOTHING
        self._selectors.setdefault(item.namespace, {})[Request(item.namespace, item.name)] = selector

    # -- reconciling ------------------------------------------------------------------------------------------------

    async def reconcile(self, request: Request) -> Result | None:
        """Bring the status of one budget up to date; when that fails, allow no disruptions."""
        budget = self._context.view.get(BUDGETS, *request)
        if budget is None:
            self._states.pop(request, None)
            return None
        try:
            return await self._reconcile(request, budget)
        except (ScaleError, SelectorError, ValueError, ApiError) as error:
            status = failed_status(budget, str(error), self._context.clock)
            await self._update(budget, status)
            return None

    async def _reconcile(self, request: Request, budget: Object) -> Result | None:
        spec, recorder = budget.get("spec") or {}, self._recorder
        try:
            selector = from_label_selector(spec.get("selector"))
        except SelectorError as error:
            recorder.warning(budget, "NoPods", f"Failed to get pods: {error}")
            raise
        pods = self._selected(request, selector)
        if not pods:
            recorder.normal(budget, "NoPods", "No matching pods found")
        scale = 0
        unmanaged: list[str] = []
        try:
            if needs_scale(spec):
                scale, unmanaged = await expected_scale(self._context, request.namespace, pods)
            expected, desired = expected_and_desired(spec, matching=len(pods), scale=scale)
        except (ScaleError, ValueError, ApiError) as error:
            text = f"Failed to calculate the number of expected pods: {error}"
            recorder.warning(budget, "CalculateExpectedPodCountFailed", text)
            raise
        if unmanaged:
            recorder.warning(budget, "UnmanagedPods", _UNMANAGED.format(selector_text(spec.get("selector"))))
        now = self._context.clock.now()
        disrupted = still_disrupted(budget, pods, now)
        for pod in disrupted.not_deleted:
            # Kubernetes prints the namespace twice, and people may search for that text.
            text = f"Pod was expected by PDB {request.namespace}/{request.namespace} to be deleted but it wasn't"
            recorder.warning(_reference(request.namespace, pod), "NotDeleted", text)
        numbers = BudgetNumbers(expected, desired, count_healthy(pods, disrupted, now))
        await self._update(budget, status_of(budget, numbers, disrupted.pending, self._context.clock))
        if disrupted.recheck is None:
            return None
        return Result(requeue_after=(disrupted.recheck - now).total_seconds() + _SLACK)

    def _selected(self, request: Request, selector: LabelSelector) -> list[PodState]:
        """The Pods a budget selects; only those that have changed since the last time are read."""
        before = self._states.get(request, {})
        known: dict[str, tuple[int, PodState]] = {}
        for item in self._context.view.items(PODS, request.namespace):
            if not selector.matches(item.labels):
                continue
            state = before.get(item.key)
            if state is None or state[0] != item.revision:
                state = (item.revision, pod_state(item.name, item.body))
                if request in self._states:
                    self._record_if_shared(request, item, state[1])
            known[item.key] = state
        self._states[request] = known
        return [state for _, state in known.values()]

    def _record_if_shared(self, request: Request, item: Item, pod: PodState) -> None:
        """Record an Event on a changed Pod that several budgets select, for the first of them: it cannot be evicted."""
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

    async def _update(self, budget: Object, status: Object | None) -> None:
        if status is None:
            return
        # Conflict: it was changed since it was read, as by an eviction, and that change has enqueued it again.
        with contextlib.suppress(NotFound, Conflict):
            await self._context.writer.update({**budget, "status": status}, "status")


def _reference(namespace: str, pod: PodState) -> Object:
    """The fields of a Pod that an Event about it refers to."""
    metadata = {"namespace": namespace, "name": pod.name, "uid": pod.uid}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


# -- stale disruption targets -----------------------------------------------------------------------------------------


class StalePodDisruptionController:
    """Clears the DisruptionTarget condition of Pods that were not deleted in time."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def initial(self) -> Iterable[Request]:
        """Every Pod that has, or had, a DisruptionTarget condition."""
        items = self._context.view.items(PODS)
        return [request_for(item) for item in items if _TARGET_FIELD in item.body]

    def enqueue(self, event: Event) -> Iterable[Request]:
        """The Pod, if it may have a DisruptionTarget condition."""
        return () if event.deleted or _TARGET_FIELD not in event.item.body else enqueue_object(event)

    async def reconcile(self, request: Request) -> Result | None:
        """Clear the condition when it is stale."""
        pod = self._context.view.get(PODS, *request)
        since = None if pod is None else disruption_target_since(pod)
        if pod is None or since is None:
            return None
        now = self._context.clock.now()
        left = STALE_SECONDS - (now - since).total_seconds()
        if left > 0:
            return Result(requeue_after=left)
        # Conflict: it was changed since it was read, and that change has enqueued it again.
        with contextlib.suppress(NotFound, Conflict):
            await self._context.writer.update(without_disruption_target(pod, now), "status")
        return None


def disruption_target_since(pod: Object) -> dt.datetime | None:
    """The time since which a running Pod is a DisruptionTarget; None if it is not, or its kubelet terminates it."""
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


def without_disruption_target(pod: Object, now: dt.datetime) -> Object:
    """The Pod with its DisruptionTarget condition set to False."""
    condition = {"type": _TARGET, "status": "False", "lastTransitionTime": format_time(now)}
    generation = pod["metadata"].get("generation")
    if generation:
        condition["observedGeneration"] = generation
    status = pod["status"]
    conditions = [condition if one.get("type") == _TARGET else one for one in status["conditions"]]
    return {**pod, "status": {**status, "conditions": conditions}}
