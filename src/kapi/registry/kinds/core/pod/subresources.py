"""The sub-resources of a Pod that change it in ways its main endpoint forbids.

`EphemeralContainersStrategy` and `ResizeStrategy` are strategies for updates of `pods/ephemeralcontainers` and
`pods/resize`. `bind` and `evaluate_eviction` are decisions about a stored pod, written as pure functions: the
handlers load what they need, ask, and store the answer in the same transaction. Binding and eviction do not count
as changes of desired state, so neither bumps the generation.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from kapi.api import fielderror
from kapi.api.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    PlainError,
    TooManyRequests,
)
from kapi.api.go.text import quote
from kapi.api.meta import GroupResource, format_time, is_deleting
from kapi.api.selectors import SelectorError, from_label_selector
from kapi.registry.kinds.core.pod.containers import is_sidecar
from kapi.registry.kinds.core.pod.defaults import drop_disabled_fields
from kapi.registry.kinds.core.pod.pods import PodStrategy, check_annotation_changes, check_pod
from kapi.registry.kinds.core.pod.resources import quality_of_service
from kapi.registry.kinds.core.pod.spec import MIRROR_ANNOTATION
from kapi.registry.kinds.sameness import difference, same, without
from kapi.registry.strategy import copy_field

if TYPE_CHECKING:
    import datetime as dt

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.kinds.fieldrules import Errors
    from kapi.registry.request import Write

_KEPT_METADATA = ("deletionTimestamp", "generation", "labels", "annotations", "finalizers", "ownerReferences")
_ONLY_CPU_AND_MEMORY = "only cpu and memory resources are mutable"
_MAX_DISRUPTED_PODS = 2000
_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


def _keep_all_but_spec(obj: Object, old: Object) -> None:
    """These endpoints take one part of the spec from the client; metadata and status stay as stored."""
    copy_field(obj, old, "status")
    for field in _KEPT_METADATA:
        copy_field(obj["metadata"], old["metadata"], field)


# -- pods/ephemeralcontainers -----------------------------------------------------------------------------------------


class EphemeralContainersStrategy(PodStrategy):
    """Containers for debugging may be added to a pod, never changed or removed."""

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Take `spec.ephemeralContainers` and nothing else."""
        added = obj["spec"].get("ephemeralContainers")
        obj["spec"] = without(old["spec"], "ephemeralContainers")
        if added:
            obj["spec"]["ephemeralContainers"] = added
        _keep_all_but_spec(obj, old)

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate the result and what became of the containers there were."""
        if MIRROR_ANNOTATION in (old["metadata"].get("annotations") or {}):
            return [fielderror.forbidden("", "static pods do not support ephemeral containers")]
        errors: Errors = []
        check_pod(errors, obj)
        check_annotation_changes(errors, obj, old)
        path = "spec.ephemeralContainers"
        new = {container.get("name"): container for container in obj["spec"].get("ephemeralContainers", ())}
        for container in old["spec"].get("ephemeralContainers", ()):
            shown = quote(container.get("name", ""))
            now = new.get(container.get("name"))
            if now is None:
                detail = f"existing ephemeral containers {shown} may not be removed\n"
                errors.append(fielderror.forbidden(path, detail))
            elif not same(container, now):
                detail = f"existing ephemeral containers {shown} may not be changed\n{difference(container, now)}"
                errors.append(fielderror.forbidden(path, detail))
        return errors


# -- pods/resize ------------------------------------------------------------------------------------------------------


class ResizeStrategy(PodStrategy):
    """CPU and memory of a running pod may change, as long as its quality-of-service class does not."""

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Take resources and resize policies; everything else stays, unless containers came, went or moved."""
        spec, before = obj["spec"], old["spec"]
        kinds = ("containers", "initContainers")
        if any(len(spec.get(kind, ())) != len(before.get(kind, ())) for kind in kinds):
            return
        merged = {kind: _with_new_resources(spec[kind], before[kind]) for kind in kinds if kind in before}
        obj["spec"] = {**before, **merged}
        copy_field(obj["spec"], spec, "resources")
        _keep_all_but_spec(obj, old)
        drop_disabled_fields(obj["spec"], before)

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate a resize."""
        if MIRROR_ANNOTATION in (old["metadata"].get("annotations") or {}):
            return [fielderror.forbidden("", "static pods cannot be resized")]
        if old["spec"].get("os", {}).get("name") == "windows":
            return [fielderror.forbidden("", "windows pods cannot be resized")]
        errors: Errors = []
        check_pod(errors, obj)
        quality = old.get("status", {}).get("qosClass") or quality_of_service(old)
        if quality != quality_of_service(obj):
            shown = obj.get("status", {}).get("qosClass", "")
            errors.append(fielderror.invalid("spec", shown, "Pod QOS Class may not change as a result of resizing"))
        if not _node_can_resize(old):
            errors.append(fielderror.forbidden("spec", "Pod running on node without support for resize"))
        masked = copy.copy(obj["spec"])
        _check_pod_level(errors, masked, old["spec"])
        if old.get("status", {}).get("nodeAllocatableResourceClaimStatuses"):
            detail = "pods with node allocatable resource claims cannot be resized"
            errors.append(fielderror.forbidden("spec", detail))
        if _check_same_containers(errors, obj["spec"], old["spec"]):
            _check_resized_containers(errors, masked, old["spec"])
            if not errors and not same(masked, old["spec"]):
                errors.append(fielderror.forbidden("spec", _ONLY_CPU_AND_MEMORY))
        return errors


def _with_new_resources(new: list[dict[str, Any]], old: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if any(container.get("name") != before.get("name") for container, before in zip(new, old, strict=True)):
        # Renamed or moved: left as it came, for validation to refuse.
        return new
    merged = []
    for container, before in zip(new, old, strict=True):
        result = dict(before)
        for field in ("resources", "resizePolicy"):
            copy_field(result, container, field)
        merged.append(result)
    return merged


def _node_can_resize(pod: Object) -> bool:
    """A node that resizes reports the resources of its running containers; one that runs none might."""
    for report in pod.get("status", {}).get("containerStatuses", ()):
        if "running" in report.get("state", {}):
            return "resources" in report
    return True


def _was_removed(new: dict[str, Any], old: dict[str, Any], side: str) -> bool:
    return not (old.get(side) or {}).keys() <= (new.get(side) or {}).keys()


def _mask_compute(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """`new` resources with the cpu and memory of `old`: what differs still may not."""
    masked = {}
    for side in ("limits", "requests"):
        amounts = without(new.get(side) or {}, "cpu", "memory")
        for name in ("cpu", "memory"):
            copy_field(amounts, old.get(side) or {}, name)
        masked[side] = amounts
    return masked


def _check_pod_level(errors: Errors, masked: dict[str, Any], old: dict[str, Any]) -> None:
    new_level, old_level = masked.get("resources"), old.get("resources")
    if not new_level and not old_level:
        return
    if not new_level:
        errors.append(fielderror.forbidden("spec.resources", "pod-level resources cannot be removed"))
        return
    for side in ("requests", "limits"):
        if _was_removed(new_level, old_level or {}, side):
            detail = f"pod-level resource {side} cannot be removed"
            errors.append(fielderror.forbidden(f"spec.resources.{side}", detail))
    masked["resources"] = {**new_level, **_mask_compute(new_level, old_level or {})}
    if not same({"resources": masked["resources"]}, {"resources": old_level}) and any(masked["resources"].values()):
        errors.append(fielderror.forbidden("spec", "only cpu and memory resources are mutable at pod-level"))
    else:
        copy_field(masked, old, "resources")


def _check_same_containers(errors: Errors, spec: dict[str, Any], old: dict[str, Any]) -> bool:
    before = len(errors)
    for kind in ("containers", "initContainers"):
        new_list, old_list = spec.get(kind, []), old.get(kind, [])
        if len(new_list) != len(old_list):
            errors.append(fielderror.forbidden(f"spec.{kind}", f"{kind} may not be added or removed on resize"))
            continue
        for index, (container, stored) in enumerate(zip(new_list, old_list, strict=True)):
            if container.get("name") != stored.get("name"):
                detail = f"{kind} may not be renamed or reordered on resize"
                errors.append(fielderror.forbidden(f"spec.{kind}[{index}].name", detail))
    return len(errors) == before


def _check_resized_containers(errors: Errors, masked: dict[str, Any], old: dict[str, Any]) -> None:
    """Only cpu and memory differ, and none was taken away; `masked` becomes what else has changed."""
    for kind in ("initContainers", "containers"):
        for index, (container, stored) in enumerate(zip(masked.get(kind, ()), old.get(kind, ()), strict=True)):
            for side in ("requests", "limits"):
                if _was_removed(container.get("resources") or {}, stored.get("resources") or {}, side):
                    detail = f"resource {side} cannot be removed"
                    errors.append(fielderror.forbidden(f"spec.{kind}[{index}].resources.{side}", detail))
    for kind in ("containers", "initContainers"):
        if kind not in masked:
            continue
        results = []
        for index, (container, stored) in enumerate(zip(masked[kind], old.get(kind, ()), strict=True)):
            resources = _mask_compute(container.get("resources") or {}, stored.get("resources") or {})
            result = {**container, "resources": resources}
            results.append(result)
            if not same(result, stored):
                _refuse_other_change(errors, kind, index)
            if kind == "initContainers" and not is_sidecar(container) and not same(container, stored):
                _refuse_restarting_init(errors, index, container)
        masked[kind] = results


def _refuse_other_change(errors: Errors, kind: str, index: int) -> None:
    if kind == "containers":
        errors.append(fielderror.forbidden("spec", _ONLY_CPU_AND_MEMORY))
    else:
        detail = "only cpu and memory resources for init or sidecar containers are mutable"
        errors.append(fielderror.forbidden(f"spec.initContainers[{index}]", detail))


def _refuse_restarting_init(errors: Errors, index: int, container: dict[str, Any]) -> None:
    if any(policy.get("restartPolicy") == "RestartContainer" for policy in container.get("resizePolicy", ())):
        detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
        errors.append(fielderror.forbidden(f"spec.initContainers[{index}]", detail))


# -- pods/binding -----------------------------------------------------------------------------------------------------


def validate_binding(binding: Object) -> list[FieldError]:
    """The rules of a Binding: it points to a node and says which."""
    errors: Errors = []
    target = binding.get("target", {})
    if target.get("kind", "") not in {"", "Node"}:
        errors.append(fielderror.not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(fielderror.required("target.name"))
    return errors


def check_binding(name: str, binding: Object) -> None:
    """Refuse a Binding that makes no sense, before any pod is looked up.

    Raises `BadRequest` when the names differ and, like kube-apiserver, an untyped 500 for an invalid target.
    """
    if binding["metadata"].get("name", "") != name:
        raise BadRequest("name in URL does not match name in Binding object")
    texts = [str(error) for error in validate_binding(binding)]
    if texts:
        raise PlainError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def bind(pod: Object, binding: Object, now: dt.datetime) -> Object:
    """The pod as it is once assigned to the binding's node; raises `Conflict` when it may not be assigned.

    `pod` is not changed. The binding's annotations and labels are copied onto the pod.
    """
    name, spec = pod["metadata"]["name"], pod["spec"]
    refusal = ""
    if is_deleting(pod):
        refusal = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        refusal = f"pod {name} is already assigned to node {quote(spec['nodeName'])}"
    elif spec.get("schedulingGates"):
        refusal = f"pod {name} has non-empty .spec.schedulingGates"
    if refusal:
        raise Conflict.of(GroupResource("", "pods/binding"), name, refusal)
    metadata = dict(pod["metadata"])
    for field in ("annotations", "labels"):
        extra = binding["metadata"].get(field)
        if extra:
            metadata[field] = {**(metadata.get(field) or {}), **extra}
    status = without(pod.get("status", {}), "nominatedNodeName")
    _set_condition(status, {"type": "PodScheduled", "status": "True"}, now)
    return {**pod, "metadata": metadata, "spec": {**spec, "nodeName": binding["target"]["name"]}, "status": status}


def _set_condition(status: dict[str, Any], condition: dict[str, Any], now: dt.datetime) -> None:
    """Add or replace a condition in `status`, whose list is copied; the transition time moves only with the status."""
    conditions = list(status.get("conditions", ()))
    condition = {**condition, "lastTransitionTime": format_time(now)}
    for index, old in enumerate(conditions):
        if old.get("type") == condition["type"]:
            if old.get("status") == condition["status"]:
                copy_field(condition, old, "lastTransitionTime")
            conditions[index] = condition
            break
    else:
        conditions.append(condition)
    status["conditions"] = conditions


# -- pods/eviction ----------------------------------------------------------------------------------------------------


class EvictionDecision(NamedTuple):
    """The decision about an eviction.

    When `refusal` is set, raise it. Otherwise store `budget` if there is one (its status counts this eviction), then
    mark and delete the pod; with `pin_resource_version` the deletion must fail if the pod has changed since it was
    decided. Such a conflict is answered to the client as `budget_busy(budget_name)` when there is a budget; without
    one, decide again.
    """

    refusal: ApiError | None = None
    budget: Object | None = None
    budget_name: str = ""
    pin_resource_version: bool = False


def evaluate_eviction(pod: Object, budgets: list[Object], now: dt.datetime) -> EvictionDecision:
    """Decide an eviction by the disruption budgets of the pod's namespace."""
    phase = pod.get("status", {}).get("phase", "")
    terminal = phase in {"Succeeded", "Failed"} or is_deleting(pod)
    if terminal or phase == "Pending":
        return EvictionDecision(pin_resource_version=not terminal)
    matching = [budget for budget in budgets if _guards(budget, pod)]
    if len(matching) > 1:
        what = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        return EvictionDecision(refusal=PlainError(what))
    if not matching:
        return EvictionDecision()
    budget = matching[0]
    name = budget["metadata"]["name"]
    if not _is_ready(pod) and _lets_unready_pods_go(budget):
        return EvictionDecision(budget_name=name, pin_resource_version=True)
    refusal = _refusal(budget)
    if refusal is not None:
        return EvictionDecision(refusal=refusal, budget_name=name)
    return EvictionDecision(budget=_counted(budget, pod["metadata"]["name"], now), budget_name=name)


def _guards(budget: Object, pod: Object) -> bool:
    if budget["metadata"].get("namespace") != pod["metadata"].get("namespace"):
        return False
    try:
        return from_label_selector(budget.get("spec", {}).get("selector")).matches(pod["metadata"].get("labels"))
    except SelectorError:
        return False


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


def _lets_unready_pods_go(budget: Object) -> bool:
    if budget.get("spec", {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired: int = status.get("desiredHealthy", 0)
    healthy: int = status.get("currentHealthy", 0)
    return 0 < desired <= healthy


def _refusal(budget: Object) -> ApiError | None:
    name, status = budget["metadata"]["name"], budget.get("status", {})
    resource = GroupResource("policy", "poddisruptionbudget")
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        return budget_busy(name)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        return Forbidden.of(resource, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods", ())) > _MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        return Forbidden.of(resource, name, why)
    if allowed == 0:
        cause = {"reason": "DisruptionBudget", "message": _why_none_allowed(name, status)}
        return TooManyRequests(_VIOLATES, details={"causes": [cause]})
    return None


def budget_busy(name: str) -> TooManyRequests:
    """The refusal while a budget's status is behind its spec: try again in ten seconds."""
    message = f"The disruption budget {name} is still being processed by the server."
    cause = {"reason": "DisruptionBudget", "message": message}
    return TooManyRequests(_VIOLATES, details={"causes": [cause], "retryAfterSeconds": 10})


def _why_none_allowed(name: str, status: dict[str, Any]) -> str:
    conditions = status.get("conditions", ())
    condition: dict[str, Any] = next((one for one in conditions if one.get("type") == "DisruptionAllowed"), {})
    explained = condition.get("status") == "False" and condition.get("message")
    desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    if explained and condition.get("reason") == "SyncFailed":
        # The counts are not to be trusted when their computation failed.
        why = f"does not allow evicting pods currently because it failed sync: {condition['message']}"
    elif healthy <= desired:
        why = f"needs {desired} healthy pods and has {healthy} currently"
    elif explained:
        why = f"does not allow evicting pods currently ({condition.get('reason', '')}): {condition['message']}"
    else:
        why = "does not allow evicting pods currently"
    return f"The disruption budget {name} {why}"


def _counted(budget: Object, pod_name: str, now: dt.datetime) -> Object:
    """The budget after one more disruption; the pod counts as disrupted until its deletion is seen."""
    status = dict(budget.get("status", {}))
    status["disruptionsAllowed"] = status.get("disruptionsAllowed", 0) - 1
    status["disruptedPods"] = {**status.get("disruptedPods", {}), pod_name: format_time(now)}
    if status["disruptionsAllowed"] == 0:
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": status.get("observedGeneration", 0),
            "reason": "InsufficientPods",
            "message": "",
        }
        _set_condition(status, condition, now)
    return {**budget, "status": status}


def mark_evicted(pod: Object, now: dt.datetime) -> Object:
    """The pod with the condition that tells its controller why it is deleted."""
    status = dict(pod.get("status", {}))
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    _set_condition(status, condition, now)
    return {**pod, "status": status}
