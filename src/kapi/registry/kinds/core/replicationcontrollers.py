"""ReplicationController: a ReplicaSet whose selector is a plain map."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kapi.api import fielderror
from kapi.api.selectors import LabelSelector
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.apps.replicasets import ReplicaSetStrategy
from kapi.registry.kinds.core.pod.defaults import default_template
from kapi.registry.kinds.core.pod.spec import (
    check_always_restarts,
    check_template,
    mismatched_labels,
)

if TYPE_CHECKING:
    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.kinds.fieldrules import Errors
    from kapi.registry.request import Write
    from kapi.registry.strategy import Strategy


class ReplicationControllerStrategy(ReplicaSetStrategy):
    """The rules of a ReplicationController, whose selector is a plain map and may change."""

    default_propagation: ClassVar[str] = "Orphan"
    selectable_fields = ("status.replicas",)

    def default(self, obj: Object) -> None:
        """Selector and labels come from the template, which may be missing altogether."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        template = spec.get("template")
        if template is None:
            return
        labels = template.get("metadata", {}).get("labels")
        if labels:
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            if not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = dict(labels)
        default_template(spec)

    def prepare_create(self, write: Write, obj: Object) -> None:
        """As for all kinds with a template, when there is one."""
        if "template" in obj["spec"]:
            super().prepare_create(write, obj)

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """As for all kinds with a template, when there is one."""
        if "template" in obj["spec"]:
            super().prepare_update(write, obj, old)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Validate a ReplicationController."""
        errors: Errors = []
        spec = obj["spec"]
        selector, template = spec.get("selector"), spec.get("template")
        errors += fieldrules.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        if not selector:
            errors.append(fielderror.required("spec.selector"))
        errors += fieldrules.not_negative("spec.replicas", spec.get("replicas"))
        if template is None:
            errors.append(fielderror.required("spec.template"))
            return errors
        labels = template.get("metadata", {}).get("labels")
        if selector and not LabelSelector.of(selector).matches(labels or {}):
            errors.append(mismatched_labels("spec.template", labels))
        check_template(errors, "spec.template", template)
        check_always_restarts(errors, "spec.template", template, "ReplicationController")
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """As on create: nothing of a ReplicationController is fixed."""
        return self.validate_create(write, obj)

    def selectable(self, obj: Object) -> dict[str, str]:
        """By the number of pods there are."""
        return {"status.replicas": str(obj.get("status", {}).get("replicas", 0))}


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("", "ReplicationController"): ReplicationControllerStrategy(),
}
