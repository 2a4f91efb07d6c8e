"""What a namespace on its way out says about its content, as the five conditions that tools know.

Pure: from what a pass over the content found to the conditions. Types, reasons and texts are those of Kubernetes. Two
of them can never be true here, because what is served is not discovered but known; they are there for who asks.

One deliberate difference: what is still there is always said to be. Kubernetes says that all content is removed while
it waits for pods, and of kinds whose deletion failed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.api.meta import format_time

if TYPE_CHECKING:
    import datetime as dt

    from kapi.api.errors import GroupResource
    from kapi.api.meta import Object

CONTENT_FAILURE: Final = "NamespaceDeletionContentFailure"
CONTENT_REMAINING: Final = "NamespaceContentRemaining"
FINALIZERS_REMAINING: Final = "NamespaceFinalizersRemaining"

_FINE: Final = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    CONTENT_FAILURE: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    CONTENT_REMAINING: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS_REMAINING: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
"""Every condition in its order, with what it says when there is nothing to say."""


@dataclass(slots=True)
class Found:
    """What a pass over the content of a namespace has found when it was done."""

    remaining: Counter[GroupResource] = field(default_factory=Counter)
    """How many objects are left, by resource."""
    finalizers: Counter[str] = field(default_factory=Counter)
    """How many of them wait for each finalizer."""
    failures: list[str] = field(default_factory=list)
    """Why kinds could not be deleted."""
    fresh: int = 0
    """How many objects came in while the others were deleted."""
    grace: float = 0.0
    """Seconds after which all that has a grace period should be gone."""

    @property
    def is_nothing(self) -> bool:
        """Whether the namespace is known to be empty."""
        return not self.remaining and not self.failures


class Verdict(NamedTuple):
    """A condition but for its type and its time."""

    status: str
    reason: str
    message: str


def verdicts(found: Found) -> dict[str, Verdict]:
    """What each condition has to say."""
    said = {name: Verdict("False", *fine) for name, fine in _FINE.items()}
    if found.failures:
        text = f"Failed to delete all resource types, {len(found.failures)} remaining: "
        said[CONTENT_FAILURE] = Verdict("True", "ContentDeletionFailed", text + ", ".join(sorted(found.failures)))
    if found.remaining:
        counts = found.remaining.items()
        left = (f"{name.resource}.{name.group} has {count} resource instances" for name, count in counts)
        text = "Some resources are remaining: "
        said[CONTENT_REMAINING] = Verdict("True", "SomeResourcesRemain", text + ", ".join(sorted(left)))
    if found.finalizers:
        left = (f"{name} in {count} resource instances" for name, count in found.finalizers.items())
        text = "Some content in the namespace has finalizers remaining: "
        said[FINALIZERS_REMAINING] = Verdict("True", "SomeFinalizersRemain", text + ", ".join(sorted(left)))
    return said


def put(namespace: Object, found: Found, now: dt.datetime) -> bool:
    """Have a namespace say what was found, in place; whether that is news. Other conditions stay as they are."""
    conditions: list[Object] = namespace.setdefault("status", {}).setdefault("conditions", [])
    known = {condition.get("type"): condition for condition in conditions}
    changed = False
    for name, verdict in verdicts(found).items():
        old = known.get(name)
        if old is None:
            old = {"type": name, "status": "", "lastTransitionTime": ""}
            conditions.append(old)
        elif Verdict(*(old.get(key, "") for key in Verdict._fields)) == verdict:
            continue
        changed = True
        if old["status"] != verdict.status:
            old["lastTransitionTime"] = format_time(now)
        old.update(verdict._asdict())
    return changed
