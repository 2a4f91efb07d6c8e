"""DaemonSet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kapi.api import fielderror
from kapi.api.selectors import SelectorError, from_label_selector, validate_label_selector
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.apps.templated import (
    TemplatedStrategy,
    check_at_most_all,
    check_collisions,
    check_counts,
    check_int_or_percent,
    check_selector_unchanged,
    is_zero,
    unknown_strategy,
)
from kapi.registry.kinds.core.pod.spec import (
    check_always_restarts,
    check_template,
    mismatched_labels,
)
from kapi.registry.kinds.core.pod.warnings import template_warnings
from kapi.registry.kinds.sameness import same

if TYPE_CHECKING:
    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.kinds.fieldrules import Errors
    from kapi.registry.request import Write
    from kapi.registry.strategy import Strategy

Spec = dict[str, Any]
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""The annotation that counts the changes of a DaemonSet's template; once a field of the spec."""


class DaemonSetStrategy(TemplatedStrategy):
    """A DaemonSet: one pod on each node."""

    initial_status: ClassVar[dict[str, int]] = {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }
    warns_about_names: ClassVar[bool] = False

    def default_spec(self, obj: Object, spec: Spec) -> None:
        """Rolling update, one node at a time, ten old revisions."""
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        # The count is a field of kube-apiserver's internal type, so every decoded DaemonSet shows it.
        _set_template_generation(obj, _template_generation(obj))

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Count the template's first version."""
        super().prepare_create(write, obj)
        _set_template_generation(obj, max(1, _template_generation(obj)))

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Count another version when the template has changed; clients cannot set the count."""
        super().prepare_update(write, obj, old)
        changed = not same(obj["spec"].get("template"), old["spec"].get("template"))
        _set_template_generation(obj, _template_generation(old) + changed)

    def prepare_status(self, write: Write, obj: Object, old: Object) -> None:
        """A status report does not touch the count of template versions."""
        super().prepare_status(write, obj, old)
        _set_template_generation(obj, _template_generation(old))

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Validate a DaemonSet."""
        errors: Errors = []
        spec = obj["spec"]
        selector, template = spec.get("selector"), spec["template"]
        errors.extend(validate_label_selector(selector, "spec.selector"))
        labels = template.get("metadata", {}).get("labels")
        try:
            if not from_label_selector(selector).matches(labels or {}):
                errors.append(mismatched_labels("spec.template", labels))
        except SelectorError:
            pass  # the selector's own errors are in the list already
        if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(fielderror.invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
        check_template(errors, "spec.template", template)
        check_always_restarts(errors, "spec.template", template, "DaemonSet")
        errors += fieldrules.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        _check_daemon_strategy(errors, "spec.updateStrategy", spec.get("updateStrategy", {}))
        errors += fieldrules.not_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """As on create, with the selector fixed."""
        errors: Errors = []
        check_selector_unchanged(errors, obj["spec"], old["spec"])
        return errors + self.validate_create(write, obj)

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The counts are counts."""
        errors: Errors = []
        status = obj.get("status", {})
        more = (
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        )
        check_counts(errors, status, *self.initial_status, *more)
        check_collisions(errors, status, old.get("status", {}))
        return errors

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Advice only when the template is new or changed."""
        if old is not None and same(obj["spec"].get("template"), old["spec"].get("template")):
            return []
        return template_warnings("spec.template", obj["spec"].get("template", {}))


def _template_generation(obj: Object) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _set_template_generation(obj: Object, generation: int) -> None:
    metadata = obj["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), TEMPLATE_GENERATION: str(generation)}


def _check_daemon_strategy(errors: Errors, path: str, strategy: Spec) -> None:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return
    if kind != "RollingUpdate":
        errors.append(unknown_strategy(path, strategy, ("RollingUpdate", "OnDelete")))
    elif rolling is None:
        errors.append(fielderror.required(f"{path}.rollingUpdate"))
    else:
        _check_rolling_daemon(errors, f"{path}.rollingUpdate", rolling)


def _check_rolling_daemon(errors: Errors, path: str, rolling: Spec) -> None:
    limits = {field: rolling.get(field, 0) for field in ("maxUnavailable", "maxSurge")}
    for check in (check_int_or_percent, check_at_most_all):
        for field, value in limits.items():
            check(errors, f"{path}.{field}", value)
    takes_down, adds = not is_zero(limits["maxUnavailable"]), not is_zero(limits["maxSurge"])
    if takes_down and adds:
        detail = "may not be set when maxUnavailable is non-zero"
        errors.append(fielderror.invalid(f"{path}.maxSurge", limits["maxSurge"], detail))
    elif not takes_down and not adds:
        errors.append(fielderror.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("apps", "DaemonSet"): DaemonSetStrategy(),
}
