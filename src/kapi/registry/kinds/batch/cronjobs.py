"""CronJob."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kapi.api import fielderror
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.batch.cron import ScheduleError, parse_schedule, time_zone_sentences
from kapi.registry.kinds.batch.jobs import default_job_template_parts, size_warnings
from kapi.registry.kinds.batch.jobspec import check_job_spec
from kapi.registry.kinds.core.pod.defaults import drop_disabled_fields
from kapi.registry.kinds.core.pod.warnings import name_warnings, template_warnings
from kapi.registry.kinds.sameness import same
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.kinds.fieldrules import Errors
    from kapi.registry.request import Write

Spec = dict[str, Any]
_CRON_NAME_LENGTH = 52
"""The controller appends eleven characters to make the name of a Job, which is a label of 63."""


class CronJobStrategy(Strategy):
    """The rules of a CronJob."""

    tracks_generation: ClassVar[bool] = True
    has_status = True

    def default(self, obj: Object) -> None:
        """Runs may overlap; three good runs and one bad one are remembered."""
        spec = obj.setdefault("spec", {})
        if not spec.get("concurrencyPolicy"):
            spec["concurrencyPolicy"] = "Allow"
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        job = spec.setdefault("jobTemplate", {})
        job.setdefault("metadata", {})
        # The Job itself gets its defaults when it is made.
        default_job_template_parts(job.setdefault("spec", {}))

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Start with an empty status."""
        obj["status"] = {}
        drop_disabled_fields(_pod_spec(obj), None)

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Drop the fields of switched-off features that are not in use."""
        drop_disabled_fields(_pod_spec(obj), _pod_spec(old))

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Validate a new CronJob; its name must be short enough for a time stamp after it."""
        errors: Errors = []
        _check_cron_spec(errors, obj["spec"], None)
        name = obj["metadata"].get("name", "")
        if len(name) > _CRON_NAME_LENGTH:
            errors.append(fielderror.invalid("metadata.name", name, "must be no more than 52 characters"))
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """As on create, but for the name, and for a time zone that was there before."""
        errors: Errors = []
        _check_cron_spec(errors, obj["spec"], old["spec"])
        return errors

    def generation_changed(self, obj: Object, old: Object) -> bool:
        """Any change of meaning in the spec."""
        return not same(obj.get("spec"), old.get("spec"))

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Advice about the name, the Job template, and time zones in the schedule."""
        spec = obj["spec"]
        found: list[str] = []
        if old is None:
            found += name_warnings(obj["metadata"].get("name", ""), "Pod names and hostnames")
        if old is None or self.generation_changed(obj, old):
            job = spec["jobTemplate"].get("spec", {})
            found += size_warnings("spec.jobTemplate.spec", job)
            found += template_warnings("spec.jobTemplate.spec.template", job.get("template", {}))
        if old is not None and "TZ" in spec.get("schedule", ""):
            see = "see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            found.append(f"cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, {see}")
        return found


def _pod_spec(cron_job: Object) -> Spec:
    spec: Spec = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return spec


def _check_cron_spec(errors: Errors, spec: Spec, old: Spec | None) -> None:
    schedule = spec.get("schedule", "")
    if schedule:
        _check_schedule(errors, "spec.schedule", schedule, spec, old)
    else:
        errors.append(fielderror.required("spec.schedule"))
    errors += fieldrules.not_negative("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    zone = spec.get("timeZone")
    if zone is not None and (old is None or old.get("timeZone") != zone):
        errors += fieldrules.each("spec.timeZone", zone, time_zone_sentences(zone))
    policy = spec.get("concurrencyPolicy", "")
    errors += fieldrules.required_choice("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace"))
    job = spec["jobTemplate"].get("spec", {})
    check_job_spec(errors, "spec.jobTemplate.spec", job)
    if "selector" in job:
        detail = "`selector` will be auto-generated"
        errors.append(fielderror.invalid("spec.jobTemplate.spec.selector", job["selector"], detail))
    if job.get("manualSelector"):
        path = "spec.jobTemplate.spec.manualSelector"
        errors.append(fielderror.not_supported(path, value=True, supported=("nil", "false")))
    errors += fieldrules.not_negative("spec.successfulJobsHistoryLimit", spec.get("successfulJobsHistoryLimit"))
    errors += fieldrules.not_negative("spec.failedJobsHistoryLimit", spec.get("failedJobsHistoryLimit"))


def _check_schedule(errors: Errors, path: str, schedule: str, spec: Spec, old: Spec | None) -> None:
    try:
        parse_schedule(schedule)
    except ScheduleError as error:
        errors.append(fielderror.invalid(path, schedule, str(error)))
    if "TZ" not in schedule:
        return
    # Stored schedules with a zone in them are tolerated until they change to have none.
    if old is None or "TZ" not in old.get("schedule", ""):
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.append(fielderror.invalid(path, schedule, detail))
    elif "timeZone" in spec:
        errors.append(
            fielderror.invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")
        )


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("batch", "CronJob"): CronJobStrategy(),
}
