"""Lease: who leads, who is alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.fielderror import FieldError, forbidden, invalid
from kapi.registry.kinds import fieldrules
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write


class LeaseStrategy(Strategy):
    """The rules of Lease: who holds it, since when, for how long."""

    allow_unconditional_update = False
    allow_create_on_update = True

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Durations are positive."""
        spec = obj.get("spec", {})
        errors: list[FieldError] = []
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        transitions = spec.get("leaseTransitions")
        if transitions is not None:
            errors += fieldrules.not_negative("spec.leaseTransitions", transitions)
        strategy = spec.get("strategy")
        if strategy is not None:
            errors += _lease_strategy_errors("spec.strategy.strategy", strategy)
        if spec.get("preferredHolder") and not strategy:
            text = "may only be specified if `strategy` is defined"
            errors.append(forbidden("spec.preferredHolder", text))
        return errors


def _lease_strategy_errors(path: str, strategy: str) -> list[FieldError]:
    if "/" not in strategy:
        return fieldrules.one_of(path, strategy, ("OldestEmulationVersion",))
    return fieldrules.qualified_name(path, strategy)


STRATEGIES: dict[tuple[str, str], Strategy] = {("coordination.k8s.io", "Lease"): LeaseStrategy()}
