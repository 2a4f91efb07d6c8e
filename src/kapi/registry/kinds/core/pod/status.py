"""Validation of the status of a pod.

Kubelets write it and controllers trust it, so a few things are held fast: a terminated container that will not
restart stays terminated, the quality-of-service class never changes, addresses are addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import fielderror, names
from kapi.registry.kinds import fieldrules

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.kinds.fieldrules import Errors

Spec = dict[str, Any]

_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
_NOT_NEGATIVE = "must be a non-negative integer"


def mirror_pod_addresses(status: Spec) -> None:
    """Keep `podIP` and the first of `podIPs` the same; the older field wins when both are given. In place."""
    single, many = status.get("podIP", ""), status.get("podIPs", [])
    if single and (not many or many[0].get("ip") != single):
        status["podIPs"] = [{"ip": single}]
    elif many and not single:
        status["podIP"] = many[0].get("ip", "")


def keep_observed_generations(status: Spec, old: Spec) -> None:
    """A client that does not know `observedGeneration` does not erase it, of pod or conditions. In place."""
    if not status.get("observedGeneration") and old.get("observedGeneration"):
        status["observedGeneration"] = old["observedGeneration"]
    remembered: dict[str, list[int]] = {}
    for condition in old.get("conditions", ()):
        remembered.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration", 0))
    for condition in status.get("conditions", ()):
        generations = remembered.get(condition.get("type", ""))
        generation = generations.pop(0) if generations else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def check_pod_status(errors: Errors, pod: Object, old: Object) -> None:
    """Validate the change from `old` to `pod`, whose spec is the stored one."""
    status, before, spec = pod.get("status", {}), old.get("status", {}), old["spec"]
    _check_conditions(errors, status.get("conditions", []))
    _check_nominated_node(errors, status, before, spec)
    if status.get("observedGeneration", 0) < 0:
        errors.append(fielderror.invalid("status.observedGeneration", status["observedGeneration"], _NOT_NEGATIVE))
    quality = status.get("qosClass", "")
    if quality != before.get("qosClass", ""):
        errors.append(fielderror.invalid("status.qosClass", quality, fieldrules.IMMUTABLE))
    if not _restarts_all(spec):
        for kind, containers in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
            _check_transitions(errors, kind, status, before, (spec, spec.get(containers, [])))
    _check_transitions(errors, "ephemeralContainerStatuses", status, before, None)
    _check_addresses(errors, status, before, "podIPs")
    hosts = status.get("hostIPs")
    if hosts:
        if status.get("hostIP", "") != hosts[0].get("ip", ""):
            detail = "must be equal to `hostIP`"
            errors.append(fielderror.invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), detail))
        _check_addresses(errors, status, before, "hostIPs")


def _check_conditions(errors: Errors, conditions: list[Spec]) -> None:
    for index, condition in enumerate(conditions):
        path, kind = f"status.conditions[{index}]", condition.get("type", "")
        if condition.get("observedGeneration", 0) < 0:
            generation = condition["observedGeneration"]
            errors.append(fielderror.invalid(f"{path}.observedGeneration", generation, _NOT_NEGATIVE))
        if kind not in _SYSTEM_CONDITIONS:
            errors += fieldrules.each(f"{path}.Type", kind, names.qualified_name(kind))


def _check_nominated_node(errors: Errors, status: Spec, before: Spec, spec: Spec) -> None:
    node = status.get("nominatedNodeName", "")
    if not node or node == before.get("nominatedNodeName", ""):
        return
    errors += fieldrules.each("status.nominatedNodeName", node, names.dns_subdomain(node))
    if spec.get("nodeName"):
        detail = "may not be set on pods that are already bound to a node"
        errors.append(fielderror.forbidden("status.nominatedNodeName", detail))


# -- container states -------------------------------------------------------------------------------------------------


def _restarts_all(spec: Spec) -> bool:
    """Return True if some rule restarts all containers at once, which makes any way out of `terminated` legal."""
    return any(
        rule.get("action") == "RestartAllContainers"
        for kind in ("containers", "initContainers")
        for container in spec.get(kind, ())
        for rule in container.get("restartPolicyRules", ())
    )


def _check_transitions(
    errors: Errors, kind: str, status: Spec, before: Spec, rules: tuple[Spec, list[Spec]] | None
) -> None:
    new = {report.get("name", ""): report for report in status.get(kind, ())}
    for index, report in enumerate(before.get(kind, ())):
        ended = report.get("state", {}).get("terminated")
        name = report.get("name", "")
        if ended is None or name not in new or new[name].get("state", {}).get("terminated") is not None:
            continue
        if rules is None or not _may_restart(name, ended.get("exitCode", 0), *rules):
            detail = "may not be transitioned to non-terminated state"
            errors.append(fielderror.forbidden(f"status.{kind}[{index}].state", detail))


def _may_restart(name: str, exit_code: int, spec: Spec, containers: list[Spec]) -> bool:
    container = next((container for container in containers if container.get("name") == name), None)
    if container is None:
        return False
    if any(_matches(rule.get("exitCodes", {}), exit_code) for rule in container.get("restartPolicyRules", ())):
        return True
    policy = container.get("restartPolicy") or spec.get("restartPolicy")
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _matches(codes: Spec, exit_code: int) -> bool:
    listed = exit_code in (codes.get("values") or ())
    return listed if codes.get("operator") == "In" else codes.get("operator") == "NotIn" and not listed


# -- addresses --------------------------------------------------------------------------------------------------------


def _check_addresses(errors: Errors, status: Spec, before: Spec, field: str) -> None:
    """Valid addresses, at most one of each family; what was stored already is not validated again."""
    path, entries = f"status.{field}", status.get(field, [])
    known = {entry.get("ip") for entry in before.get(field, ())}
    for index, entry in enumerate(entries):
        address = entry.get("ip", "")
        if address not in known:
            errors += fieldrules.each(f"{path}[{index}]", address, names.ip(address))
    families = {":" in entry.get("ip", "") for entry in entries}
    if len(entries) > 2 or (len(entries) == 2 and len(families) == 1):
        errors.append(fielderror.invalid(path, entries, "may specify no more than one IP for each IP family"))
