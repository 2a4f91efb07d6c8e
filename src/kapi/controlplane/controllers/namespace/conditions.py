"""The five conditions of a terminating namespace, which report the progress of its deletion.

Pure: from the result of a deletion pass to the conditions. Types, reasons and messages are those of Kubernetes. Two of
them can never be true here, because what is served is not discovered but known; they are set for clients that read
them.

One deliberate difference: content that remains is always reported. Kubernetes reports that all content is removed
while it waits for Pods, and for kinds whose deletion failed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.api.meta import format_time

if TYPE_CHECKING:
    import datetime as dt

    from kapi.api.meta import GroupResource, Object

CONTENT_FAILURE: Final = "NamespaceDeletionContentFailure"
CONTENT_REMAINING: Final = "NamespaceContentRemaining"
FINALIZERS_REMAINING: Final = "NamespaceFinalizersRemaining"

_FALSE: Final = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    CONTENT_FAILURE: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    CONTENT_REMAINING: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS_REMAINING: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
"""Every condition in its order, with the reason and message it has when its status is False."""


@dataclass(slots=True)
class DeletionResult:
    """The result of one pass over the content of a namespace."""

    remaining: Counter[GroupResource] = field(default_factory=Counter)
    """The number of objects that remain, by resource."""
    finalizers: Counter[str] = field(default_factory=Counter)
    """The number of remaining objects that have each finalizer."""
    failures: list[str] = field(default_factory=list)
    """The messages of deletions that failed."""
    undeleted: int = 0
    """The number of objects that were created while the others were deleted."""
    grace: float = 0.0
    """The seconds until all grace periods are over."""

    @property
    def is_empty(self) -> bool:
        """True if the namespace is known to be empty."""
        return not self.remaining and not self.failures


class ConditionState(NamedTuple):
    """A condition without its type and time."""

    status: str
    reason: str
    message: str


def condition_states(result: DeletionResult) -> dict[str, ConditionState]:
    """The state of each condition after a pass, by type."""
    states = {name: ConditionState("False", *texts) for name, texts in _FALSE.items()}
    if result.failures:
        text = f"Failed to delete all resource types, {len(result.failures)} remaining: "
        message = text + ", ".join(sorted(result.failures))
        states[CONTENT_FAILURE] = ConditionState("True", "ContentDeletionFailed", message)
    if result.remaining:
        counts = result.remaining.items()
        left = (f"{name.resource}.{name.group} has {count} resource instances" for name, count in counts)
        message = "Some resources are remaining: " + ", ".join(sorted(left))
        states[CONTENT_REMAINING] = ConditionState("True", "SomeResourcesRemain", message)
    if result.finalizers:
        left = (f"{name} in {count} resource instances" for name, count in result.finalizers.items())
        message = "Some content in the namespace has finalizers remaining: " + ", ".join(sorted(left))
        states[FINALIZERS_REMAINING] = ConditionState("True", "SomeFinalizersRemain", message)
    return states


def update_conditions(namespace: Object, result: DeletionResult, now: dt.datetime) -> bool:
    """Set the conditions of a namespace in place; return True if any changed. Other conditions stay as they are."""
    conditions: list[Object] = namespace.setdefault("status", {}).setdefault("conditions", [])
    current = {condition.get("type"): condition for condition in conditions}
    changed = False
    for name, state in condition_states(result).items():
        condition = current.get(name)
        if condition is None:
            condition = {"type": name, "status": "", "lastTransitionTime": ""}
            conditions.append(condition)
        elif ConditionState(*(condition.get(key, "") for key in ConditionState._fields)) == state:
            continue
        changed = True
        if condition["status"] != state.status:
            condition["lastTransitionTime"] = format_time(now)
        condition.update(state._asdict())
    return changed
