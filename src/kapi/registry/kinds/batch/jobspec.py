"""Rules of a Job's spec, in a Job or in the template of a CronJob."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import fielderror, names
from kapi.api.go.text import quote
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.pod.spec import check_template

if TYPE_CHECKING:
    from kapi.registry.kinds.fieldrules import Errors

Spec = dict[str, Any]

_MODES = ("NonIndexed", "Indexed")
_MAX_PARALLELISM = 100_000
_MAX_FAILED_INDEXES = 100_000
_MANY_COMPLETIONS = 100_000
_MAX_WITH_MANY = 10_000
_MANAGED_BY_BYTES = 63
_MAX_FAILURE_RULES = 20
_MAX_EXIT_CODES = 255
_MAX_CONDITIONS = 20
_MAX_SUCCESS_RULES = 20
_MAX_INDEXES_BYTES = 64 * 1024
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_CONDITION_STATUSES = ("False", "True", "Unknown")
_NEEDS_INDEXED = "requires indexed completion mode"


def check_job_spec(errors: Errors, path: str, spec: Spec) -> None:
    """All but the selector, which a Job has and a template of one has not."""
    for field in (
        "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
        "backoffLimitPerIndex", "maxFailedIndexes",
    ):  # fmt: skip
        errors += fieldrules.not_negative(f"{path}.{field}", spec.get(field))
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        errors.append(fielderror.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    manager = spec.get("managedBy")
    if manager is not None:
        errors.extend(names.domain_prefixed_path(f"{path}.managedBy", manager))
        if names.byte_length(manager) > _MANAGED_BY_BYTES:
            errors.append(fielderror.too_long(f"{path}.managedBy", _MANAGED_BY_BYTES))
    _check_mode(errors, path, spec)
    if "podFailurePolicy" in spec:
        _check_failure_policy(errors, f"{path}.podFailurePolicy.rules", spec)
    if "successPolicy" in spec:
        if spec.get("completionMode") == "Indexed":
            _check_success_policy(errors, f"{path}.successPolicy.rules", spec)
        else:
            errors.append(fielderror.invalid(f"{path}.successPolicy", spec["successPolicy"], _NEEDS_INDEXED))
    _check_replacement(errors, f"{path}.podReplacementPolicy", spec)
    check_template(errors, f"{path}.template", spec.get("template", {}))
    _check_restart_policy(errors, f"{path}.template.spec.restartPolicy", spec)


def _check_restart_policy(errors: Errors, path: str, spec: Spec) -> None:
    """Job pods end. `Always` is what defaulting put there when the author said nothing."""
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy", "")
    if policy in {"", "Always"}:
        errors.append(fielderror.required(path, 'valid values: "OnFailure", "Never"'))
    elif policy not in {"OnFailure", "Never"}:
        errors.append(fielderror.not_supported(path, policy, ("OnFailure", "Never")))
    elif "podFailurePolicy" in spec and policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        errors.append(fielderror.invalid(path, policy, detail))


def _check_replacement(errors: Errors, path: str, spec: Spec) -> None:
    policy = spec.get("podReplacementPolicy")
    choices = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    if policy is not None and policy not in choices:
        errors.append(fielderror.not_supported(path, policy, choices))


def _check_mode(errors: Errors, path: str, spec: Spec) -> None:
    mode = spec.get("completionMode")
    if mode is not None and mode not in _MODES:
        errors.append(fielderror.not_supported(f"{path}.completionMode", mode, _MODES))
    if mode == "Indexed":
        _check_indexed(errors, path, spec)
    if mode in {None, "NonIndexed"}:
        errors.extend(
            fielderror.invalid(f"{path}.{field}", spec[field], _NEEDS_INDEXED)
            for field in ("backoffLimitPerIndex", "maxFailedIndexes")
            if field in spec
        )


def _check_indexed(errors: Errors, path: str, spec: Spec) -> None:
    completions, parallelism = spec.get("completions"), spec.get("parallelism", 0)
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        errors.append(fielderror.required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism > _MAX_PARALLELISM:
        detail = f"must be less than or equal to {_MAX_PARALLELISM} when completion mode is Indexed"
        errors.append(fielderror.invalid(f"{path}.parallelism", parallelism, detail))
    if failed is not None:
        if completions is not None and failed > completions:
            detail = "must be less than or equal to completions"
            errors.append(fielderror.invalid(f"{path}.maxFailedIndexes", failed, detail))
        if failed > _MAX_FAILED_INDEXES:
            detail = f"must be less than or equal to {_MAX_FAILED_INDEXES}"
            errors.append(fielderror.invalid(f"{path}.maxFailedIndexes", failed, detail))
    if completions is not None and completions > _MANY_COMPLETIONS and "backoffLimitPerIndex" in spec:
        _check_many(errors, path, parallelism, failed)


def _check_many(errors: Errors, path: str, parallelism: int, failed: int | None) -> None:
    limit = (
        f"must be less than or equal to {_MAX_WITH_MANY} when completions are above {_MANY_COMPLETIONS} and used with "
        "backoff limit per index"
    )
    if failed is None:
        detail = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        errors.append(fielderror.required(f"{path}.maxFailedIndexes", detail))
    if parallelism > _MAX_WITH_MANY:
        errors.append(fielderror.invalid(f"{path}.parallelism", parallelism, limit))
    if failed is not None and failed > _MAX_WITH_MANY:
        errors.append(fielderror.invalid(f"{path}.maxFailedIndexes", failed, limit))


# -- pod failure policy -----------------------------------------------------------------------------------------------


def _shown(choices: tuple[str, ...]) -> str:
    return f"valid values: [{' '.join(map(quote, choices))}]"


def _check_failure_policy(errors: Errors, path: str, spec: Spec) -> None:
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > _MAX_FAILURE_RULES:
        errors.append(fielderror.too_many(path, len(rules), _MAX_FAILURE_RULES))
    pod = spec.get("template", {}).get("spec", {})
    containers = {one.get("name") for kind in ("containers", "initContainers") for one in pod.get(kind, ())}
    for index, rule in enumerate(rules):
        here = f"{path}[{index}]"
        _check_action(errors, f"{here}.action", rule.get("action", ""), spec)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        if codes is not None:
            _check_exit_codes(errors, f"{here}.onExitCodes", codes, containers)
        if conditions:
            _check_conditions(errors, f"{here}.onPodConditions", conditions)
        if codes is not None and conditions:
            detail = "specifying both OnExitCodes and OnPodConditions is not supported"
            errors.append(fieldrules.invalid_without_value(here, detail))
        if codes is None and not conditions:
            detail = "specifying one of OnExitCodes and OnPodConditions is required"
            errors.append(fieldrules.invalid_without_value(here, detail))


def _check_action(errors: Errors, path: str, action: str, spec: Spec) -> None:
    if not action:
        errors.append(fielderror.required(path, _shown(_ACTIONS)))
    elif action == "FailIndex":
        if "backoffLimitPerIndex" not in spec:
            errors.append(fielderror.invalid(path, action, "requires the backoffLimitPerIndex to be set"))
    elif action not in _ACTIONS:
        errors.append(fielderror.not_supported(path, action, _ACTIONS))


def _check_exit_codes(errors: Errors, path: str, codes: Spec, containers: set[Any]) -> None:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    if not operator:
        errors.append(fielderror.required(f"{path}.operator", _shown(("In", "NotIn"))))
    elif operator not in {"In", "NotIn"}:
        errors.append(fielderror.not_supported(f"{path}.operator", operator, ("In", "NotIn")))
    container = codes.get("containerName")
    if container is not None and container not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(fielderror.invalid(f"{path}.containerName", container, detail))
    here = f"{path}.values"
    if not values:
        errors.append(fielderror.invalid(here, codes.get("values"), "at least one value is required"))
    elif len(values) > _MAX_EXIT_CODES:
        errors.append(fielderror.too_many(here, len(values), _MAX_EXIT_CODES))
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(fielderror.invalid(f"{here}[{index}]", value, "must not be 0 for the In operator"))
        if value in seen:
            errors.append(fielderror.duplicate(f"{here}[{index}]", value))
        seen.add(value)
    if values != sorted(values):
        errors.append(fielderror.invalid(here, values, "must be ordered"))


def _check_conditions(errors: Errors, path: str, patterns: list[Spec]) -> None:
    if len(patterns) > _MAX_CONDITIONS:
        errors.append(fielderror.too_many(path, len(patterns), _MAX_CONDITIONS))
    for index, pattern in enumerate(patterns):
        kind, status = pattern.get("type", ""), pattern.get("status", "")
        errors += fieldrules.each(f"{path}[{index}].type", kind, names.qualified_name(kind))
        if not status:
            errors.append(fielderror.required(f"{path}[{index}].status", _shown(_CONDITION_STATUSES)))
        elif status not in _CONDITION_STATUSES:
            errors.append(fielderror.not_supported(f"{path}[{index}].status", status, _CONDITION_STATUSES))


# -- success policy and index lists -----------------------------------------------------------------------------------


def _check_success_policy(errors: Errors, path: str, spec: Spec) -> None:
    rules, completions = spec["successPolicy"].get("rules") or [], spec.get("completions", 0)
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        errors.append(fielderror.required(path, detail))
    if len(rules) > _MAX_SUCCESS_RULES:
        errors.append(fielderror.too_many(path, len(rules), _MAX_SUCCESS_RULES))
    for index, rule in enumerate(rules):
        _check_success_rule(errors, f"{path}[{index}]", rule, completions)


def _check_success_rule(errors: Errors, path: str, rule: Spec, completions: int) -> None:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        detail = "at least one of succeededCount or succeededIndexes must be specified"
        errors.append(fielderror.required(path, detail))
    total = 0
    if indexes is not None:
        here = f"{path}.succeededIndexes"
        if names.byte_length(indexes) > _MAX_INDEXES_BYTES:
            errors.append(fielderror.too_long(here, _MAX_INDEXES_BYTES))
        try:
            total = sum(high - low + 1 for low, high in parse_indexes(indexes, completions))
        except ValueError as error:
            errors.append(fielderror.invalid(here, indexes, f"error parsing succeededIndexes: {error}"))
    if count is not None:
        here = f"{path}.succeededCount"
        errors += fieldrules.not_negative(here, count)
        if count > completions:
            detail = f"must be less than or equal to {completions} (the number of specified completions)"
            errors.append(fielderror.invalid(here, count, detail))
        if indexes is not None and count > total:
            what = "the number of indexes in the specified succeededIndexes field"
            errors.append(fielderror.invalid(here, count, f"must be less than or equal to {total} ({what})"))


def parse_indexes(text: str, completions: int) -> list[tuple[int, int]]:
    """Read `1,3-5,7` into intervals that grow and stay below `completions`; raises ValueError with the reason."""
    intervals: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        low, high = _parse_interval(part, completions)
        if intervals and intervals[-1][1] >= low:
            raise ValueError(f"non-increasing order, previous: {intervals[-1][1]}, current: {low}")
        intervals.append((low, high))
    return intervals


def _parse_interval(text: str, completions: int) -> tuple[int, int]:
    limits = text.split("-")
    if len(limits) > 2:
        rule = "violates the requirement that an index interval can have at most two parts separated by '-'"
        raise ValueError(f"the fragment {quote(text)} {rule}")
    numbers = []
    for limit in limits:
        if not (limit.isascii() and limit.isdigit() and len(limit) < 19):
            raise ValueError(f"cannot convert string to integer for index: {quote(limit)}")
        if int(limit) >= completions:
            raise ValueError(f"too large index: {quote(limit)}")
        numbers.append(int(limit))
    if len(numbers) > 1 and numbers[0] >= numbers[1]:
        raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]
