"""PodDisruptionBudget: how many pods of a set must stay up when some are moved on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.fielderror import FieldError, invalid
from kapi.api.selectors import validate_label_selector
from kapi.registry.kinds import fieldrules
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")

_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class PodDisruptionBudgetStrategy(Strategy):
    """The rules of PodDisruptionBudget."""

    has_status = True
    tracks_generation = True
    allow_unconditional_update = False

    def prepare_create(self, write: Write, obj: Object) -> None:
        """No controller has looked at it yet."""
        obj["status"] = dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """One of the two bounds, in pods or per cent, for the pods of a selector."""
        spec = obj.get("spec", {})
        errors: list[FieldError] = []
        if "minAvailable" in spec and "maxUnavailable" in spec:
            text = "minAvailable and maxUnavailable cannot be both set"
            errors.append(invalid("spec", _as_printed(spec), text))
        for field in ("minAvailable", "maxUnavailable"):
            if field in spec:
                errors += share_errors(f"spec.{field}", spec[field])
        errors += validate_label_selector(spec.get("selector"), "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None:
            errors += fieldrules.one_of("spec.unhealthyPodEvictionPolicy", policy, EVICTION_POLICIES)
        return errors

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Counts are counts."""
        status = obj.get("status", {})
        return [
            error for field in _COUNTS for error in fieldrules.not_negative(f"status.{field}", status.get(field, 0))
        ]


def share_errors(path: str, value: int | str) -> list[FieldError]:
    """A number of pods or a percentage up to 100."""
    if isinstance(value, int):
        return fieldrules.not_negative(path, value)
    errors = fieldrules.each(path, value, names.percent(value))
    if not errors and int(value.removesuffix("%")) > 100:
        errors.append(invalid(path, value, "must not be greater than 100%"))
    return errors


def _as_printed(spec: dict[str, Any]) -> dict[str, Any]:
    """kube-apiserver prints its internal structure, whose field names are capitalised."""
    return {
        "MinAvailable": spec.get("minAvailable"),
        "Selector": spec.get("selector"),
        "MaxUnavailable": spec.get("maxUnavailable"),
        "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
    }


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("policy", "PodDisruptionBudget"): PodDisruptionBudgetStrategy(),
}
