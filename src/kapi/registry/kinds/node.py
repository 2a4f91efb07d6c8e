"""The kind of the group node.k8s.io: RuntimeClass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.fielderror import FieldError, duplicate
from kapi.api.selectors import validate_labels
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.pod.placement import check_tolerations
from kapi.registry.kinds.core.pod.resources import CONTAINER, check_requirements
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

_DEPRECATED_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


class RuntimeClassStrategy(Strategy):
    """The rules of RuntimeClass."""

    allow_unconditional_update = False
    allow_create_on_update = True

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """A handler the node agents know by name, and what running under it costs."""
        errors = fieldrules.required_string("handler", obj.get("handler"), fieldrules.dns_label)
        if "overhead" in obj:
            limits = {"limits": obj["overhead"].get("podFixed") or {}}
            check_requirements(errors, "overhead", limits, CONTAINER, frozenset())
        scheduling = obj.get("scheduling") or {}
        errors += validate_labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
        tolerations = scheduling.get("tolerations") or []
        check_tolerations(errors, "scheduling.tolerations", tolerations)
        keys = (tuple(one.get(field, "") for field in ("key", "operator", "value", "effect")) for one in tolerations)
        for index in fieldrules.repeated(keys):
            errors.append(duplicate(f"scheduling.tolerations[{index}]", tolerations[index]))
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The handler stays."""
        return fieldrules.unchanged("handler", obj.get("handler"), old.get("handler"))

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Labels nodes no longer have."""
        selector = (obj.get("scheduling") or {}).get("nodeSelector") or {}
        return [f"scheduling.nodeSelector: {_DEPRECATED_LABELS[key]}" for key in selector if key in _DEPRECATED_LABELS]


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("node.k8s.io", "RuntimeClass"): RuntimeClassStrategy(),
}
