"""The base of all kinds with a pod template: flags, defaulting, preparation, and the counts in status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kapi.api import fielderror, names
from kapi.api.selectors import SelectorError, from_label_selector
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.pod.defaults import default_template, drop_disabled_fields
from kapi.registry.kinds.core.pod.spec import check_always_restarts, check_template, mismatched_labels
from kapi.registry.kinds.core.pod.warnings import name_warnings, template_warnings
from kapi.registry.kinds.sameness import same
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.kinds.fieldrules import Errors
    from kapi.registry.request import Write

Spec = dict[str, Any]


class TemplatedStrategy(Strategy):
    """A kind whose `spec.template` makes pods. Subclasses add their own defaults and rules."""

    tracks_generation: ClassVar[bool] = True
    has_status = True
    initial_status: ClassVar[dict[str, int]] = {}
    """Counts that clients always find in the status, zero on a new object."""
    warns_about_names: ClassVar[bool] = True
    """True if names that are bad host names get a warning."""

    def default(self, obj: Object) -> None:
        """The kind's own defaults, then those of its template."""
        spec = obj.setdefault("spec", {})
        self.default_spec(obj, spec)
        default_template(spec)

    def default_spec(self, obj: Object, spec: Spec) -> None:
        """Defaults of the spec around the template, in place."""

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Start with an empty status and without the fields of switched-off features."""
        obj["status"] = dict(self.initial_status)
        drop_disabled_fields(obj["spec"]["template"]["spec"], None)

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Drop the fields of switched-off features that are not in use."""
        drop_disabled_fields(obj["spec"]["template"]["spec"], old["spec"].get("template", {}).get("spec"))

    def prepare_status(self, write: Write, obj: Object, old: Object) -> None:
        """Counts left out are zero."""
        obj["status"] = {**self.initial_status, **obj.get("status", {})}

    def generation_changed(self, obj: Object, old: Object) -> bool:
        """Any change of meaning in the spec."""
        return not same(obj.get("spec"), old.get("spec"))

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Advice about the template, when it is new or something changed."""
        if old is not None and not self.generation_changed(obj, old):
            return []
        found = []
        if old is None and self.warns_about_names:
            found = name_warnings(obj["metadata"].get("name", ""), "Pod names and hostnames")
        return found + template_warnings("spec.template", obj["spec"].get("template", {}))


def check_selected_template(errors: Errors, spec: Spec, kind: str, bad_selector: str) -> None:
    """The template of a long-running workload, which the workload's own selector must select."""
    try:
        selector = from_label_selector(spec.get("selector"))
    except SelectorError:
        errors.append(fielderror.invalid("spec.selector", spec.get("selector"), bad_selector))
        return
    template = spec["template"]
    labels = template.get("metadata", {}).get("labels")
    if selector and not selector.matches(labels or {}):
        errors.append(mismatched_labels("spec.template", labels))
    check_template(errors, "spec.template", template)
    check_always_restarts(errors, "spec.template", template, kind)


def check_unchanged(errors: Errors, path: str, new: Any, old: Any) -> None:
    """A field that may not change once the object exists."""
    if not same({"value": new}, {"value": old}):
        errors.append(fielderror.invalid(path, new, fieldrules.IMMUTABLE))


def check_selector_unchanged(errors: Errors, spec: Spec, old: Spec) -> None:
    """Selectors decide what is owned; changing one would orphan pods."""
    check_unchanged(errors, "spec.selector", spec.get("selector"), old.get("selector"))


# -- counts in status -------------------------------------------------------------------------------------------------


def check_counts(errors: Errors, status: Spec, *fields: str) -> None:
    """Counts that may not be negative."""
    for field in fields:
        errors += fieldrules.not_negative(f"status.{field}", status.get(field))


def check_not_above(errors: Errors, status: Spec, fields: tuple[str, ...], ready: str) -> None:
    """No count is above `replicas`, and available ones are ready; `ready` is what the kind's message calls those."""
    total = status.get("replicas", 0)
    for field in fields:
        count = status.get(field, 0)
        if count > total:
            errors.append(fielderror.invalid(f"status.{field}", count, "cannot be greater than status.replicas"))
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        errors.append(fielderror.invalid("status.availableReplicas", available, f"cannot be greater than {ready}"))


def check_collisions(errors: Errors, status: Spec, old: Spec) -> None:
    """The collision count only grows; it salts the names of children."""
    before, now = old.get("collisionCount"), status.get("collisionCount")
    if before is not None and (now is None or now < before):
        errors.append(fielderror.invalid("status.collisionCount", now or 0, "cannot be decremented"))


# -- numbers or percentages -------------------------------------------------------------------------------------------


def check_int_or_percent(errors: Errors, path: str, value: int | str) -> None:
    """A count, or a percentage as text."""
    if isinstance(value, int):
        errors += fieldrules.not_negative(path, value)
    else:
        errors += fieldrules.each(path, value, names.percent(value))


def check_at_most_all(errors: Errors, path: str, value: int | str) -> None:
    """A percentage of no more than a hundred."""
    if isinstance(value, str) and not names.percent(value) and int(value[:-1]) > 100:
        errors.append(fielderror.invalid(path, value, "must not be greater than 100%"))


def is_zero(value: int | str) -> bool:
    """Return True if a count or percentage is zero, or is neither."""
    if isinstance(value, int):
        return value == 0
    digits = value.removesuffix("%")
    return not (digits.isascii() and digits.isdigit() and int(digits))


def unknown_strategy(path: str, strategy: Spec, choices: tuple[str, ...]) -> FieldError:
    """Return the error about an unknown strategy; it shows the whole of it with the names of the internal Go type."""
    rolling = strategy.get("rollingUpdate")
    shown = {"Type": strategy.get("type", ""), "RollingUpdate": None}
    if rolling is not None:
        shown["RollingUpdate"] = {
            "MaxUnavailable": rolling.get("maxUnavailable", 0),
            "MaxSurge": rolling.get("maxSurge", 0),
        }
    return fielderror.not_supported(path, shown, choices)
