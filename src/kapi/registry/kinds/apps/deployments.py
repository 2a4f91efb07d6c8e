"""Deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kapi.api import fielderror
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.apps.templated import (
    TemplatedStrategy,
    check_at_most_all,
    check_collisions,
    check_counts,
    check_int_or_percent,
    check_not_above,
    check_selected_template,
    check_selector_unchanged,
    is_zero,
    unknown_strategy,
)
from kapi.registry.kinds.core.pod.spec import (
    check_selector,
)

if TYPE_CHECKING:
    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.kinds.fieldrules import Errors
    from kapi.registry.request import Write
    from kapi.registry.strategy import Strategy

Spec = dict[str, Any]


class DeploymentStrategy(TemplatedStrategy):
    """A Deployment: replica sets, one after the other."""

    resets_labels_on_status: ClassVar[bool] = True

    def default_spec(self, obj: Object, spec: Spec) -> None:
        """One replica, rolling update by quarters, ten old revisions, ten minutes to make progress."""
        spec.setdefault("replicas", 1)
        strategy = spec.setdefault("strategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Validate a Deployment."""
        errors: Errors = []
        spec = obj["spec"]
        errors += fieldrules.not_negative("spec.replicas", spec.get("replicas"))
        check_selector(errors, "spec.selector", spec.get("selector"), "empty selector is invalid for deployment")
        check_selected_template(errors, spec, "ReplicaSet", "invalid label selector")
        _check_deployment_strategy(errors, "spec.strategy", spec.get("strategy", {}))
        ready = spec.get("minReadySeconds", 0)
        errors += fieldrules.not_negative("spec.minReadySeconds", ready)
        errors += fieldrules.not_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None:
            errors += fieldrules.not_negative("spec.progressDeadlineSeconds", deadline)
            if deadline <= ready:
                detail = "must be greater than minReadySeconds"
                errors.append(fielderror.invalid("spec.progressDeadlineSeconds", deadline, detail))
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """As on create, with the selector fixed."""
        errors = self.validate_create(write, obj)
        check_selector_unchanged(errors, obj["spec"], old["spec"])
        return errors

    def generation_changed(self, obj: Object, old: Object) -> bool:
        """Annotations count as well: the controller copies them to its replica sets."""
        before, now = old["metadata"].get("annotations") or {}, obj["metadata"].get("annotations") or {}
        return before != now or super().generation_changed(obj, old)

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The counts add up."""
        errors: Errors = []
        status = obj.get("status", {})
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
        check_counts(errors, status, "observedGeneration", *counts, "terminatingReplicas", "collisionCount")
        fields = ("updatedReplicas", "readyReplicas", "availableReplicas")
        check_not_above(errors, status, fields, "readyReplicas")
        check_collisions(errors, status, old.get("status", {}))
        return errors


def _check_deployment_strategy(errors: Errors, path: str, strategy: Spec) -> None:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            errors.append(fielderror.forbidden(f"{path}.rollingUpdate", detail))
    elif kind == "RollingUpdate":
        _check_rolling_deployment(errors, f"{path}.rollingUpdate", rolling or {})
    else:
        errors.append(unknown_strategy(path, strategy, ("Recreate", "RollingUpdate")))


def _check_rolling_deployment(errors: Errors, path: str, rolling: Spec) -> None:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    check_int_or_percent(errors, f"{path}.maxUnavailable", unavailable)
    check_int_or_percent(errors, f"{path}.maxSurge", surge)
    if is_zero(unavailable) and is_zero(surge):
        detail = "may not be 0 when `maxSurge` is 0"
        errors.append(fielderror.invalid(f"{path}.maxUnavailable", unavailable, detail))
    check_at_most_all(errors, f"{path}.maxUnavailable", unavailable)


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("apps", "Deployment"): DeploymentStrategy(),
}
