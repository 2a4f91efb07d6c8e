"""Job: defaults, the generated selector, and what may change once it exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kapi.api import fielderror, names
from kapi.api.selectors import SelectorError, from_label_selector, validate_label_selector
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.apps.templated import TemplatedStrategy, check_unchanged
from kapi.registry.kinds.batch.jobspec import check_job_spec
from kapi.registry.kinds.batch.jobstatus import check_job_status, has_true_condition
from kapi.registry.kinds.core.pod.defaults import default_template
from kapi.registry.kinds.core.pod.spec import mismatched_labels
from kapi.registry.kinds.sameness import same, without
from kapi.registry.strategy import Strategy, copy_field

if TYPE_CHECKING:
    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.kinds.fieldrules import Errors
    from kapi.registry.request import Write

Spec = dict[str, Any]
_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
_SELECTED_LABEL = "batch.kubernetes.io/controller-uid"
_MANY_COMPLETIONS = 100_000
_MANY_PARALLEL = 10_000


def default_job_spec(spec: Spec) -> None:
    """Defaults of a Job's spec, also inside a CronJob; in place."""
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", fieldrules.MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    default_job_template_parts(spec)


def default_job_template_parts(spec: Spec) -> None:
    """Defaults of the parts of a Job's spec that a CronJob shares with it: the pod template and its failure rules."""
    default_template(spec)
    for rule in spec.get("podFailurePolicy", {}).get("rules") or ():
        for pattern in rule.get("onPodConditions", ()):
            if not pattern.get("status"):
                pattern["status"] = "True"


class JobStrategy(TemplatedStrategy):
    """The rules of a Job. Clients that name no deletion policy orphan its pods, as they always have."""

    default_propagation: ClassVar[str] = "Orphan"
    selectable_fields = ("status.successful",)
    unknown_field_message = 'field label "{key}" not supported for Job'

    def default(self, obj: Object) -> None:
        """One completion, one at a time, six retries; labels come from the template."""
        spec = obj.setdefault("spec", {})
        labels = spec.get("template", {}).get("metadata", {}).get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)
        default_job_spec(spec)

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Generate the selector, unless the author brings one: the Job's uid, as a label of its pods."""
        super().prepare_create(write, obj)
        if not obj["spec"].get("manualSelector"):
            _generate_selector(obj)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Validate a new Job."""
        errors: Errors = []
        _check_job(errors, obj, prefixed_labels=True)
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate a changed Job: hardly anything but parallelism, suspension and deadlines may change."""
        errors: Errors = []
        spec, before = obj["spec"], old["spec"]
        labels = before["template"].get("metadata", {}).get("labels") or {}
        prefixed = "batch.kubernetes.io/job-name" in labels and _SELECTED_LABEL in labels
        _check_job(errors, obj, prefixed_labels=prefixed)
        _check_completions_change(errors, spec, before)
        check_unchanged(errors, "spec.selector", spec.get("selector"), before.get("selector"))
        _check_template_change(errors, spec, old)
        for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
            check_unchanged(errors, f"spec.{field}", spec.get(field), before.get(field))
        return errors

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate a report about a Job."""
        errors: Errors = []
        check_job_status(errors, obj, old)
        return errors

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Warn about sizes that cannot be tracked, and about the template."""
        return size_warnings("spec", obj["spec"]) + super().warnings(obj, old)

    def selectable(self, obj: Object) -> dict[str, str]:
        """By the number of pods that succeeded."""
        return {"status.successful": str(obj.get("status", {}).get("succeeded", 0))}


def size_warnings(path: str, spec: Spec) -> list[str]:
    """Return a warning about a Job with more indexes than its status can track."""
    indexed = spec.get("completionMode") == "Indexed"
    if indexed and spec.get("completions", 0) > _MANY_COMPLETIONS and spec.get("parallelism", 0) > _MANY_PARALLEL:
        what = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4"
        advice = "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        return [f"{path}: {what}, {advice}"]
    return []


def _generate_selector(job: Object) -> None:
    """Label the template with the Job's name and uid, and select by the uid.

    Works on copies: a generated name may be tried again with another uid, from the same spec.
    """
    metadata, spec = job["metadata"], job["spec"]
    template, selector = spec["template"], spec.get("selector", {})
    generated = dict.fromkeys(_NAME_LABELS, metadata.get("name", ""))
    generated |= dict.fromkeys(_UID_LABELS, metadata.get("uid", ""))
    # What the author set stays, for validation to compare.
    given = template.get("metadata", {}).get("labels") or {}
    labels = {**generated, **given}
    # A Job without labels of its own has its template's, those made here included.
    if (metadata.get("labels") or {}) in ({}, given):
        metadata["labels"] = dict(labels)
    selected = {_SELECTED_LABEL: metadata.get("uid", ""), **(selector.get("matchLabels") or {})}
    job["spec"] = {
        **spec,
        "selector": {**selector, "matchLabels": selected},
        "template": {**template, "metadata": {**template.get("metadata", {}), "labels": labels}},
    }


def _check_job(errors: Errors, job: Object, *, prefixed_labels: bool) -> None:
    spec, name = job["spec"], job["metadata"].get("name", "")
    if not spec.get("manualSelector") and "selector" in spec:
        _check_generated_selector(errors, job, prefixed_labels=prefixed_labels)
    check_job_spec(errors, "spec", spec)
    selector, labels = spec.get("selector"), spec["template"].get("metadata", {}).get("labels")
    if selector is None:
        errors.append(fielderror.required("spec.selector"))
    errors.extend(validate_label_selector(selector, "spec.selector"))
    if not _selects(selector, labels or {}):
        errors.append(mismatched_labels("spec.template", labels))
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0:
        longest = f"{name}-{completions - 1}"
        if names.dns_label(longest):
            detail = f"will not able to create pod with invalid DNS label: {longest}"
            errors.append(fielderror.invalid("metadata.name", name, detail))


def _selects(selector: Spec | None, labels: dict[str, str]) -> bool:
    """Return True if labels are selected; an invalid selector counts, as it has errors of its own."""
    try:
        return from_label_selector(selector).matches(labels)
    except SelectorError:
        return True


def _check_generated_selector(errors: Errors, job: Object, *, prefixed_labels: bool) -> None:
    """With a generated selector, the template must carry the labels that were generated with it."""
    uid, name = job["metadata"].get("uid", ""), job["metadata"].get("name", "")
    if not uid:
        errors.append(fielderror.required("metadata.uid"))
    labels = job["spec"]["template"].get("metadata", {}).get("labels") or {}
    expected = {_UID_LABELS[0]: uid, _NAME_LABELS[0]: name}
    if prefixed_labels:
        expected |= {_UID_LABELS[1]: uid, _NAME_LABELS[1]: name}
    for key, value in expected.items():
        path = "spec.template.metadata.labels"
        if key not in labels:
            errors.append(fielderror.required(f"{path}[{key}]", f"must be '{value}'"))
        elif labels[key] != value:
            errors.append(fielderror.invalid(f"{path}[{key}]", labels, f"must be '{value}'"))
    if not _selects(job["spec"]["selector"], expected):
        errors.append(fielderror.invalid("spec.selector", job["spec"]["selector"], "`selector` not auto-generated"))


def _check_completions_change(errors: Errors, spec: Spec, old: Spec) -> None:
    new, before = spec.get("completions"), old.get("completions")
    if spec.get("completionMode") != "Indexed":
        check_unchanged(errors, "spec.completions", new, before)
    elif new != before and new is not None and new != spec.get("parallelism"):
        detail = "can only be modified in tandem with spec.parallelism"
        errors.append(fielderror.invalid("spec.completions", new, detail))


def _check_template_change(errors: Errors, spec: Spec, old: Object) -> None:
    """The template is fixed, except for placement and resources of a Job that is suspended and has no pods."""
    template, before = spec["template"], old["spec"]["template"]
    status = old.get("status", {})
    suspended = old["spec"].get("suspend", False)
    idle = "startTime" not in status or has_true_condition(status, "Suspended")
    if not (suspended and idle and not status.get("active")):
        check_unchanged(errors, "spec.template", template, before)
        return
    pod, stored = template.get("spec", {}), dict(before.get("spec", {}))
    for field in ("nodeSelector", "tolerations", "schedulingGates"):
        copy_field(stored, pod, field)
    affinity = dict(stored.get("affinity", {}))
    copy_field(affinity, pod.get("affinity", {}), "nodeAffinity")
    stored["affinity"] = affinity
    for kind in ("containers", "initContainers"):
        _adopt_resources(stored, pod, kind)
    if not same(pod, stored):
        errors.append(fielderror.immutable("spec.template.spec", pod))


def _adopt_resources(stored: Spec, pod: Spec, kind: str) -> None:
    new, old = pod.get(kind, []), stored.get(kind, [])
    if not old or len(new) != len(old):
        return
    stored[kind] = [
        {**without(before, "resources"), "resources": after.get("resources", {})}
        if before.get("name") == after.get("name")
        else before
        for before, after in zip(old, new, strict=True)
    ]


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("batch", "Job"): JobStrategy(),
}
