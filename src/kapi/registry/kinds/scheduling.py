"""PriorityClass: which pods go first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kapi.api.errors import Forbidden
from kapi.api.fielderror import FieldError, forbidden, required
from kapi.api.meta import GroupResource
from kapi.registry.kinds import fieldrules
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

RESOURCE = GroupResource("scheduling.k8s.io", "priorityclasses")
HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")


class PriorityClassStrategy(Strategy):
    """The rules of PriorityClass."""

    tracks_generation = True
    validates_off_loop_from = sys.maxsize
    """Never: the other classes are read."""

    def default(self, obj: Object) -> None:
        """Higher priorities may push lower ones out."""
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """The top of the range is the system's; only one class is the default."""
        errors = _reserved_errors(obj)
        policy = obj.get("preemptionPolicy", "")
        errors += (
            fieldrules.one_of("preemptionPolicy", policy, PREEMPTION_POLICIES)
            if policy
            else [required("preemptionPolicy")]
        )
        if not errors:
            _refuse_second_default(write, obj)
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Value and policy stay."""
        errors = []
        if obj.get("value", 0) != old.get("value", 0):
            errors.append(forbidden("value", "may not be changed in an update."))
        errors += fieldrules.unchanged("preemptionPolicy", obj.get("preemptionPolicy"), old.get("preemptionPolicy"))
        if not errors:
            _refuse_second_default(write, obj)
        return errors

    def generation_changed(self, obj: Object, old: Object) -> bool:
        """Nothing that matters can change."""
        return False


def _reserved_errors(obj: Object) -> list[FieldError]:
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if not name.startswith("system-"):
        if value <= HIGHEST_USER_PRIORITY:
            return []
        return [forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")]
    if name not in SYSTEM_CLASSES:
        complaint = f"{name} is not a known system priority class"
    elif value != SYSTEM_CLASSES[name]:
        complaint = f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
    elif obj.get("globalDefault"):
        complaint = f"globalDefault of {name} PriorityClass must be false"
    else:
        return []
    text = f"priority class names with 'system-' prefix are reserved for system use only. error: {complaint}"
    return [forbidden("metadata.name", text)]


def _refuse_second_default(write: Write, obj: Object) -> None:
    """Raises `Forbidden`: kube-apiserver makes this check in admission, so it is a 403 and not a 422."""
    if not obj.get("globalDefault"):
        return
    name = obj["metadata"].get("name", "")
    for other in write.lookup.list(str(RESOURCE)):
        if other.get("globalDefault") and other["metadata"]["name"] != name:
            taken = (
                f"PriorityClass {other['metadata']['name']} is already marked as default. Only one default can exist"
            )
            raise Forbidden.of(RESOURCE, name, taken)


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("scheduling.k8s.io", "PriorityClass"): PriorityClassStrategy(),
}
