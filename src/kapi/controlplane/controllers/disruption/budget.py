"""The numbers of a budget: expected, desired and healthy Pods, and how many disruptions are allowed. Pure."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from kapi.api.meta import parse_time
from kapi.api.values import scale_int_or_percent
from kapi.controller.objects.conditions import find_condition, set_condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kapi.api.meta import Object
    from kapi.base.clock import Clock

DELETION_SECONDS: Final = 120.0
"""The time in which a Pod whose eviction was allowed must be deleted; after that it counts again."""

CONDITION: Final = "DisruptionAllowed"
SUFFICIENT, INSUFFICIENT, FAILED = "SufficientPods", "InsufficientPods", "SyncFailed"


# -- Pods -------------------------------------------------------------------------------------------------------------


class Owner(msgspec.Struct, frozen=True):
    """An owner reference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = msgspec.field(name="apiVersion", default="")
    controller: bool | None = None


class _Metadata(msgspec.Struct):
    uid: str = ""
    deleted: str | None = msgspec.field(name="deletionTimestamp", default=None)
    owners: list[Owner] | None = msgspec.field(name="ownerReferences", default=None)


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Body(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Body).decode


class PodState(NamedTuple):
    """The state of a Pod that a budget depends on."""

    name: str
    uid: str = ""
    is_ready: bool = False
    is_deleting: bool = False
    controller: Owner | None = None


def pod_state(name: str, body: bytes) -> PodState:
    """Read the state of a stored Pod, decoding nothing else."""
    pod = _decode(b"{" + body)
    conditions = pod.status.conditions or ()
    return PodState(
        name,
        pod.metadata.uid,
        is_ready=any(one.type == "Ready" and one.status == "True" for one in conditions),
        is_deleting=bool(pod.metadata.deleted),
        controller=next((owner for owner in pod.metadata.owners or () if owner.controller), None),
    )


# -- numbers ----------------------------------------------------------------------------------------------------------


class BudgetNumbers(NamedTuple):
    """The numbers of a budget's status."""

    expected: int
    desired: int
    healthy: int

    @property
    def allowed(self) -> int:
        """The number of Pods that may be disrupted; 0 while none are expected, so that new ones are not evicted."""
        return max(self.healthy - self.desired, 0) if self.expected > 0 else 0


def needs_scale(spec: Mapping[str, Any]) -> bool:
    """Return True if a budget depends on the scale of controllers, not only on the Pods there are."""
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def expected_and_desired(spec: Mapping[str, Any], *, matching: int, scale: int) -> tuple[int, int]:
    """The number of Pods that are expected, and the number of them that must be healthy.

    `matching` is the number of Pods there are, `scale` the replicas of their controllers. Raises ValueError for a text
    that is not a percentage.
    """
    unavailable, available = spec.get("maxUnavailable"), spec.get("minAvailable")
    if unavailable is not None:
        return scale, max(scale - scale_int_or_percent(unavailable, scale, round_up=True), 0)
    if available is None:
        return 0, 0
    if isinstance(available, int):
        return matching, available
    return scale, scale_int_or_percent(available, scale, round_up=True)


class DisruptedPods(NamedTuple):
    """Pods whose eviction was allowed: those to be deleted yet, those not deleted in time, and the next time-out."""

    pending: dict[str, str]
    not_deleted: list[PodState]
    recheck: dt.datetime | None


def still_disrupted(budget: Object, pods: Iterable[PodState], now: dt.datetime) -> DisruptedPods:
    """The Pods in `status.disruptedPods` that are not deleted yet, and those that are overdue."""
    known: dict[str, str] = (budget.get("status") or {}).get("disruptedPods") or {}
    pending: dict[str, str] = {}
    not_deleted: list[PodState] = []
    ends: list[dt.datetime] = []
    for pod in pods if known else ():
        evicted = parse_time(known.get(pod.name) or "")
        if pod.is_deleting or evicted is None:
            continue
        end = evicted + dt.timedelta(seconds=DELETION_SECONDS)
        if end < now:
            not_deleted.append(pod)
        else:
            pending[pod.name] = known[pod.name]
            ends.append(end)
    return DisruptedPods(pending, not_deleted, min(ends, default=None))


def count_healthy(pods: Iterable[PodState], disrupted: DisruptedPods, now: dt.datetime) -> int:
    """The number of Pods that are ready and neither being deleted nor about to be."""
    evicted_pods = {
        name
        for name, evicted in disrupted.pending.items()
        if (at := parse_time(evicted)) is not None and at + dt.timedelta(seconds=DELETION_SECONDS) > now
    }
    return sum(1 for pod in pods if pod.is_ready and not pod.is_deleting and pod.name not in evicted_pods)


# -- status -----------------------------------------------------------------------------------------------------------


def status_of(budget: Object, numbers: BudgetNumbers, disrupted: Mapping[str, str], clock: Clock) -> Object | None:
    """The status a budget ought to have; None when it has it."""
    before = budget.get("status") or {}
    generation = budget["metadata"].get("generation", 0)
    wanted: Object = {
        "currentHealthy": numbers.healthy,
        "desiredHealthy": numbers.desired,
        "disruptionsAllowed": numbers.allowed,
        "expectedPods": numbers.expected,
        "observedGeneration": generation,
    }
    status, reason = ("True", SUFFICIENT) if numbers.allowed else ("False", INSUFFICIENT)
    conditions = [dict(one) for one in before.get("conditions") or ()]
    found = find_condition(conditions, CONDITION)
    if (
        found is not None
        and (found["status"], found.get("reason")) == (status, reason)
        and (before.get("disruptedPods") or {}) == disrupted
        and all(before.get(name, 0) == value for name, value in wanted.items())
    ):
        return None
    set_condition(conditions, CONDITION, status, reason=reason, observed_generation=generation, clock=clock, cls=dict)
    return {"conditions": conditions, **wanted, **({"disruptedPods": dict(disrupted)} if disrupted else {})}


def failed_status(budget: Object, why: str, clock: Clock) -> Object | None:
    """The status of a budget whose numbers cannot be computed: no disruptions. None when it has it."""
    before = budget.get("status") or {}
    conditions = [dict(one) for one in before.get("conditions") or ()]
    changed = set_condition(
        conditions,
        CONDITION,
        "False",
        reason=FAILED,
        message=why,
        observed_generation=before.get("observedGeneration"),
        clock=clock,
        cls=dict,
    )
    if not changed and not before.get("disruptionsAllowed"):
        return None
    zeros = {"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    return {**zeros, **before, "conditions": conditions, "disruptionsAllowed": 0}


# -- texts ------------------------------------------------------------------------------------------------------------


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A selector as Go prints it in Events."""
    if selector is None:
        return "nil"
    labels: Mapping[str, str] = selector.get("matchLabels") or {}
    pairs = "".join(f"{key}: {labels[key]}," for key in sorted(labels))
    expressions: Sequence[Mapping[str, Any]] = selector.get("matchExpressions") or ()
    listed = "".join(
        f"LabelSelectorRequirement{{Key:{one.get('key', '')},Operator:{one.get('operator', '')},"
        f"Values:[{' '.join(one.get('values') or ())}],}},"
        for one in expressions
    )
    requirements = f"[]LabelSelectorRequirement{{{listed}}}"
    return f"&LabelSelector{{MatchLabels:map[string]string{{{pairs}}},MatchExpressions:{requirements},}}"
