"""Validation of the status of a Job.

Controllers other than the built-in one may run Jobs (`managedBy`), so the server holds them to the same story:
finished Jobs stay finished, counters do not run backwards, times make sense. A rule is applied only when what it is
about has changed, so that an old, odd status does not block unrelated reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import fielderror
from kapi.api.meta import parse_time
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.batch.jobspec import parse_indexes
from kapi.registry.kinds.sameness import same

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.kinds.fieldrules import Errors

Spec = dict[str, Any]

_PATH = "status.conditions"


def has_true_condition(status: Spec, kind: str) -> bool:
    """Return True if a condition is there and True."""
    return any(one.get("type") == kind and one.get("status") == "True" for one in status.get("conditions", ()))


class _Facts:
    """The conditions of a status that the rules ask about."""

    __slots__ = ("complete", "failed", "failure_target", "finished", "success_met")

    def __init__(self, status: Spec) -> None:
        self.complete = has_true_condition(status, "Complete")
        self.failed = has_true_condition(status, "Failed")
        self.failure_target = has_true_condition(status, "FailureTarget")
        self.success_met = has_true_condition(status, "SuccessCriteriaMet")
        self.finished = self.complete or self.failed


def check_job_status(errors: Errors, job: Object, old: Object) -> None:
    """Validate the change from `old` to `job`, whose spec is the stored one."""
    status, before = job.get("status", {}), old.get("status", {})
    now, then = _Facts(status), _Facts(before)
    for field in ("active", "succeeded", "failed", "ready", "terminating"):
        errors += fieldrules.not_negative(f"status.{field}", status.get(field))
    _check_uncounted(errors, status.get("uncountedTerminatedPods", {}))
    _check_conditions(errors, job["spec"], now, then, changed=_changed(status, before, "failedIndexes"))
    _check_times(errors, status, before, now, then)
    _check_finished(errors, job["spec"], status, before, (now, then))
    _check_indexes(errors, job["spec"], status, before)
    _check_transitions(errors, job["spec"], status, before)
    _check_success_criteria(errors, job["spec"], now, then)


def _changed(status: Spec, before: Spec, field: str) -> bool:
    return not same({"value": status.get(field)}, {"value": before.get(field)})


def _check_uncounted(errors: Errors, pods: Spec) -> None:
    seen: set[str] = set()
    for kind in ("succeeded", "failed"):
        for index, uid in enumerate(pods.get(kind, ())):
            path = f"status.uncountedTerminatedPods.{kind}[{index}]"
            if not uid:
                errors.append(fielderror.invalid(path, uid, "must not be empty"))
            elif uid in seen:
                errors.append(fielderror.duplicate(path, uid))
            seen.add(uid)


def _check_conditions(errors: Errors, spec: Spec, now: _Facts, then: _Facts, *, changed: bool) -> None:
    complete, failed = now.complete != then.complete, now.failed != then.failed
    if (complete or failed) and now.complete and now.failed:
        errors.append(fieldrules.invalid_without_value(_PATH, "cannot set Complete=True and Failed=true conditions"))
    if (complete or now.failure_target != then.failure_target) and now.complete and now.failure_target:
        errors.append(
            fieldrules.invalid_without_value(_PATH, "cannot set Complete=True and FailureTarget=true conditions")
        )
    if (failed or changed) and now.failed and not now.failure_target:
        detail = "cannot set Failed=True condition without the FailureTarget=true condition"
        errors.append(fieldrules.invalid_without_value(_PATH, detail))
    if (complete or now.success_met != then.success_met) and now.complete and not now.success_met:
        detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        errors.append(fieldrules.invalid_without_value(_PATH, detail))


def _check_times(errors: Errors, status: Spec, before: Spec, now: _Facts, then: _Facts) -> None:
    start, end, path = status.get("startTime"), status.get("completionTime"), "status.completionTime"
    end_changed = end != before.get("completionTime")
    if now.complete != then.complete or end_changed:
        if end is not None and not now.complete:
            detail = "cannot set completionTime when there is no Complete=True condition"
            errors.append(fielderror.invalid(path, end, detail))
        if end is None and now.complete:
            errors.append(fielderror.required(path, "completionTime is required for Complete jobs"))
    if (start != before.get("startTime") or end_changed) and start is not None and end is not None:
        started, ended = parse_time(start), parse_time(end)
        if started is not None and ended is not None and ended < started:
            errors.append(fielderror.invalid(path, end, "must be equal to or after `startTime`"))


def _check_finished(errors: Errors, spec: Spec, status: Spec, before: Spec, facts: tuple[_Facts, _Facts]) -> None:
    """A finished Job has started, and has no pods that run, end, or wait to be counted."""
    now, then = facts
    turned = now.finished != then.finished
    if now.finished:
        active = status.get("active", 0)
        if (turned or _changed(status, before, "active")) and active > 0:
            errors.append(fielderror.invalid("status.active", active, "active>0 is invalid for finished job"))
        nothing_to_do = spec.get("suspend") and spec.get("completions") == 0
        if (turned or _changed(status, before, "startTime")) and "startTime" not in status and not nothing_to_do:
            errors.append(fielderror.required("status.startTime", "startTime is required for finished job"))
        pods = status.get("uncountedTerminatedPods", {})
        if (turned or _changed(status, before, "uncountedTerminatedPods")) and any(pods.values()):
            detail = "must be empty for finished job"
            errors.append(fielderror.invalid("status.uncountedTerminatedPods", pods, detail))
        terminating = status.get("terminating", 0)
        if (turned or _changed(status, before, "terminating")) and terminating > 0:
            detail = "terminating>0 is invalid for finished job"
            errors.append(fielderror.invalid("status.terminating", terminating, detail))
    ready = status.get("ready")
    reported = _changed(status, before, "ready") or _changed(status, before, "active")
    if reported and ready is not None and ready > status.get("active", 0):
        errors.append(fielderror.invalid("status.ready", ready, "cannot set more ready pods than active"))


def _check_indexes(errors: Errors, spec: Spec, status: Spec, before: Spec) -> None:
    completions = spec.get("completions")
    done, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    done_changed, failed_changed = (
        _changed(status, before, "completedIndexes"),
        _changed(status, before, "failedIndexes"),
    )
    parsed: dict[str, list[tuple[int, int]]] = {}
    per_index = "backoffLimitPerIndex" in spec
    for field, text, wanted in (
        ("completedIndexes", done, done_changed),
        ("failedIndexes", failed, failed_changed and per_index),
    ):
        if completions is None or text is None:
            continue
        try:
            parsed[field] = parse_indexes(text, completions)
        except ValueError as error:
            if wanted:
                errors.append(fielderror.invalid(f"status.{field}", text, f"error parsing {field}: {error}"))
    if done_changed and done and spec.get("completionMode") != "Indexed":
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(fielderror.invalid("status.completedIndexes", done, detail))
    if failed_changed and failed is not None and not per_index:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(fielderror.invalid("status.failedIndexes", failed, detail))
    if done_changed or failed_changed:
        _check_overlap(errors, parsed.get("completedIndexes", []), parsed.get("failedIndexes", []), failed)


def _check_overlap(
    errors: Errors, done: list[tuple[int, int]], failed: list[tuple[int, int]], shown: str | None
) -> None:
    for low, high in failed:
        for start, end in done:
            if start <= high and low <= end:
                detail = f"failedIndexes and completedIndexes overlap at index: {max(start, low)}"
                errors.append(fielderror.invalid("status.failedIndexes", shown, detail))
                return


def _check_transitions(errors: Errors, spec: Spec, status: Spec, before: Spec) -> None:
    for kind in ("Failed", "Complete", "FailureTarget"):
        if has_true_condition(before, kind) and not has_true_condition(status, kind):
            errors.append(fieldrules.invalid_without_value(_PATH, f"cannot disable the terminal {kind}=True condition"))
    if status.get("failed", 0) < before.get("failed", 0):
        detail = "cannot decrease the failed counter"
        errors.append(fielderror.invalid("status.failed", status.get("failed", 0), detail))
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if not elastic and status.get("succeeded", 0) < before.get("succeeded", 0):
        detail = "cannot decrease the succeeded counter"
        errors.append(fielderror.invalid("status.succeeded", status.get("succeeded", 0), detail))
    end, old_end = status.get("completionTime"), before.get("completionTime")
    if end is not None and old_end is not None and end != old_end:
        errors.append(fielderror.invalid("status.completionTime", end, fieldrules.IMMUTABLE))
    start, old_start = status.get("startTime"), before.get("startTime")
    if old_start is not None and start != old_start and not spec.get("suspend") and not _resumes(status, before):
        detail = "field is immutable for unsuspended job once set"
        errors.append(fielderror.invalid("status.startTime", start, detail))


def _resumes(status: Spec, before: Spec) -> bool:
    now_false = any(
        one.get("type") == "Suspended" and one.get("status") == "False" for one in status.get("conditions", ())
    )
    return has_true_condition(before, "Suspended") and now_false


def _check_success_criteria(errors: Errors, spec: Spec, now: _Facts, then: _Facts) -> None:
    details = []
    if now.success_met and now.failed:
        details.append("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if now.success_met and now.failure_target:
        details.append("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if "successPolicy" in spec and now.complete and not now.success_met:
        details.append("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
    if then.success_met and not now.success_met:
        details.append("cannot disable the SuccessCriteriaMet=True condition")
    if then.complete and not then.success_met and now.success_met:
        details.append("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
    errors.extend(fieldrules.invalid_without_value(_PATH, detail) for detail in details)
