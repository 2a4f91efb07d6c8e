"""ReplicaSet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.apps.templated import (
    TemplatedStrategy,
    check_counts,
    check_not_above,
    check_selected_template,
    check_selector_unchanged,
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
_COUNTS = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")


class ReplicaSetStrategy(TemplatedStrategy):
    """The rules of a ReplicaSet."""

    initial_status: ClassVar[dict[str, int]] = {"replicas": 0}

    def default_spec(self, obj: Object, spec: Spec) -> None:
        """One replica."""
        spec.setdefault("replicas", 1)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Validate a ReplicaSet; the words say deployment because kube-apiserver's do."""
        errors: Errors = []
        spec = obj["spec"]
        errors += fieldrules.not_negative("spec.replicas", spec.get("replicas"))
        errors += fieldrules.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        check_selector(errors, "spec.selector", spec.get("selector"), "empty selector is invalid for deployment")
        check_selected_template(errors, spec, "ReplicaSet", "invalid label selector")
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """As on create, with the selector fixed."""
        errors = self.validate_create(write, obj)
        check_selector_unchanged(errors, obj["spec"], old["spec"])
        return errors

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The counts add up."""
        errors: Errors = []
        status = obj.get("status", {})
        check_counts(errors, status, "replicas", *_COUNTS, "observedGeneration", "terminatingReplicas")
        check_not_above(errors, status, _COUNTS, "readyReplicas")
        return errors


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("apps", "ReplicaSet"): ReplicaSetStrategy(),
}
