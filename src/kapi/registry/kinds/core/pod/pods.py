"""Pod and PodTemplate: what the server fills in, accepts, and lets change.

A pod's spec is a contract with the node that runs it, so nearly all of it is frozen once created; the exceptions
are listed where they are validated. Sub-resources that change more (ephemeral containers, resize, binding, eviction)
are in `subresources`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kapi.api import fielderror, names
from kapi.api.meta import format_time
from kapi.registry.initializers import is_unseen
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.pod.containers import check_image_whitespace
from kapi.registry.kinds.core.pod.defaults import default_pod, default_template, drop_disabled_fields
from kapi.registry.kinds.core.pod.placement import (
    check_only_added_tolerations,
    check_only_narrowed_nodes,
    check_only_removed_gates,
    merge_label_keys,
)
from kapi.registry.kinds.core.pod.profiles import copy_app_armor_profiles
from kapi.registry.kinds.core.pod.resources import quality_of_service
from kapi.registry.kinds.core.pod.spec import (
    MIRROR_ANNOTATION,
    check_pod_annotations,
    check_pod_spec,
    check_template,
)
from kapi.registry.kinds.core.pod.status import check_pod_status, keep_observed_generations, mirror_pod_addresses
from kapi.registry.kinds.core.pod.warnings import name_warnings, pod_warnings, template_warnings
from kapi.registry.kinds.sameness import difference, same
from kapi.registry.strategy import Strategy, copy_field

if TYPE_CHECKING:
    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.kinds.fieldrules import Errors
    from kapi.registry.request import Write

_UPDATABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_TERMINAL_PHASES = frozenset({"Failed", "Succeeded"})


class PodStrategy(Strategy):
    """The rules of a Pod at its main endpoint and at /status."""

    tracks_generation: ClassVar[bool] = True
    returns_deleted_object: ClassVar[bool] = True
    has_status = True
    selectable_aliases: ClassVar[dict[str, str]] = {"spec.host": "spec.nodeName"}
    selectable_fields = (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    )

    def default(self, obj: Object) -> None:
        """Fill in what the author left out."""
        default_pod(obj)

    def prepare_create(self, write: Write, obj: Object) -> None:
        """A new pod is Pending, has a quality-of-service class, and its label keys are merged into its selectors."""
        spec = obj["spec"]
        drop_disabled_fields(spec, None)
        obj["status"] = {"phase": "Pending", "qosClass": quality_of_service(obj)}
        if spec.get("schedulingGates"):
            obj["status"]["conditions"] = [_gated_condition(write)]
        merge_label_keys(spec, obj["metadata"].get("labels") or {})
        write.warnings += copy_app_armor_profiles(obj)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Validate a new pod."""
        errors: Errors = []
        check_pod(errors, obj)
        spec = obj["spec"]
        if spec.get("ephemeralContainers"):
            errors.append(fielderror.forbidden("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            detail = "cannot be set until all schedulingGates have been cleared"
            errors.append(fielderror.forbidden("spec.nodeName", detail))
        return errors

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Nothing but the fields of switched-off features is taken away; what initializers add counts for the class."""
        drop_disabled_fields(obj["spec"], old["spec"])
        if is_unseen(write, old):
            obj.setdefault("status", {})["qosClass"] = quality_of_service(obj)

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate a changed pod: still valid, and changed only where pods may change."""
        errors: Errors = []
        check_pod(errors, obj)
        check_annotation_changes(errors, obj, old)
        _check_spec_changes(errors, obj["spec"], old["spec"])
        return errors

    def generation_changed(self, obj: Object, old: Object) -> bool:
        """Any change of meaning in the spec."""
        return not same(obj.get("spec"), old.get("spec"))

    def prepare_status(self, write: Write, obj: Object, old: Object) -> None:
        """A kubelet reports status; it may not touch owners or deletion, nor forget what was observed."""
        for field in ("deletionTimestamp", "ownerReferences"):
            copy_field(obj["metadata"], old["metadata"], field)
        status, before = obj.setdefault("status", {}), old.get("status", {})
        if not status.get("qosClass"):
            copy_field(status, before, "qosClass")
        keep_observed_generations(status, before)
        mirror_pod_addresses(status)

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate a report about a pod."""
        errors: Errors = []
        check_annotation_changes(errors, obj, old)
        check_pod_status(errors, obj, old)
        return errors

    def grace_period(self, obj: Object, requested: int | None) -> int | None:
        """Return the requested grace period, or the spec's own; zero for a pod that no node runs."""
        spec = obj.get("spec", {})
        if not spec.get("nodeName") or obj.get("status", {}).get("phase") in _TERMINAL_PHASES:
            return 0
        seconds: int = spec.get("terminationGracePeriodSeconds", 0) if requested is None else requested
        return 1 if seconds < 0 else seconds

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Advice on create only: updates of pods are frequent and rarely made by people."""
        if old is not None:
            return []
        return name_warnings(obj["metadata"].get("name", ""), "the Pod's hostname") + pod_warnings(
            "", obj["metadata"], obj["spec"]
        )

    def selectable(self, obj: Object) -> dict[str, str]:
        """Return the fields that schedulers and kubelets select pods by."""
        spec, status = obj.get("spec", {}), obj.get("status", {})
        addresses = status.get("podIPs")
        return {
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.restartPolicy": spec.get("restartPolicy", ""),
            "spec.schedulerName": spec.get("schedulerName", ""),
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
            "status.phase": status.get("phase", ""),
            "status.podIP": addresses[0].get("ip", "") if addresses else "",
            "status.podIPs": "",
            "status.nominatedNodeName": status.get("nominatedNodeName", ""),
        }


def _gated_condition(write: Write) -> dict[str, Any]:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastTransitionTime": format_time(write.now),
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


# -- validation -------------------------------------------------------------------------------------------------------


def check_pod(errors: Errors, pod: Object) -> None:
    """The rules of a pod whatever is being done to it."""
    spec, metadata = pod["spec"], pod["metadata"]
    check_pod_annotations(errors, "metadata.annotations", metadata.get("annotations") or {}, spec)
    check_pod_spec(errors, "spec", spec, pod=pod)
    if not spec.get("serviceAccountName"):
        _forbid_tokens(errors, spec)
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            check_image_whitespace(errors, f"spec.{kind}[{index}]", container)


def _forbid_tokens(errors: Errors, spec: dict[str, Any]) -> None:
    for index, volume in enumerate(spec.get("volumes", ())):
        for position, source in enumerate(volume.get("projected", {}).get("sources") or ()):
            if "serviceAccountToken" in source:
                path = f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken"
                errors.append(fielderror.forbidden(path, "must not be specified when serviceAccountName is not set"))


def check_annotation_changes(errors: Errors, pod: Object, old: Object) -> None:
    """The mark of a mirror pod stays as it is."""
    new, before = pod["metadata"].get("annotations") or {}, old["metadata"].get("annotations") or {}
    path = f"metadata.annotations[{MIRROR_ANNOTATION}]"
    if MIRROR_ANNOTATION in before:
        if new.get(MIRROR_ANNOTATION) != before[MIRROR_ANNOTATION]:
            errors.append(fielderror.forbidden(path, "may not remove or update mirror pod annotation"))
    elif MIRROR_ANNOTATION in new:
        errors.append(fielderror.forbidden(path, "may not add mirror pod annotation"))


def _check_spec_changes(errors: Errors, spec: dict[str, Any], old: dict[str, Any]) -> None:
    for kind in ("containers", "initContainers"):
        if len(spec.get(kind, ())) != len(old.get(kind, ())):
            errors.append(fielderror.forbidden(f"spec.{kind}", "pod updates may not add or remove containers"))
            return
    if not _deadline_may_change(errors, spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")):
        return
    check_only_added_tolerations(errors, "spec.tolerations", spec.get("tolerations", []), old.get("tolerations", []))
    check_only_removed_gates(
        errors, "spec.schedulingGates", spec.get("schedulingGates", []), old.get("schedulingGates", [])
    )
    if same(spec, old):
        return
    masked = _with_allowed_changes_undone(spec, old)
    if old.get("schedulingGates"):
        check_only_narrowed_nodes(errors, "spec", spec, old)
        _undo_node_choice(masked, old)
    if not same(masked, old):
        what = f"pod updates may not change fields other than {','.join(_UPDATABLE)}"
        errors.append(fielderror.forbidden("spec", f"{what}\n{difference(old, masked)}"))


def _deadline_may_change(errors: Errors, deadline: int | None, old: int | None) -> bool:
    """A deadline may be set once and shortened; False when it is so wrong that nothing else is validated."""
    path = "spec.activeDeadlineSeconds"
    if deadline is None:
        if old is not None:
            errors.append(fielderror.invalid(path, None, "must not update from a positive integer to nil value"))
        return True
    sentences = names.in_range(deadline, 0, fieldrules.MAX_INT32)
    errors += fieldrules.each(path, deadline, sentences)
    if not sentences and old is not None and old < deadline:
        errors.append(fielderror.invalid(path, deadline, "must be less than or equal to previous value"))
        return False
    return not sentences


def _with_allowed_changes_undone(spec: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """The new spec with the old values in all fields that may change: what is left to differ is forbidden."""
    masked = dict(spec)
    for kind in ("containers", "initContainers"):
        if kind in spec:
            pairs = zip(spec[kind], old.get(kind, ()), strict=False)
            masked[kind] = [{**container, "image": before.get("image", "")} for container, before in pairs]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        copy_field(masked, old, field)
    if old.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        copy_field(masked, old, "terminationGracePeriodSeconds")
    return masked


def _undo_node_choice(masked: dict[str, Any], old: dict[str, Any]) -> None:
    copy_field(masked, old, "nodeSelector")
    affinity = dict(masked.get("affinity", {}))
    copy_field(affinity, old.get("affinity", {}), "nodeAffinity")
    masked["affinity"] = affinity


# -- PodTemplate ------------------------------------------------------------------------------------------------------


class PodTemplateStrategy(Strategy):
    """A pod template as an object of its own."""

    tracks_generation: ClassVar[bool] = True
    returns_deleted_object: ClassVar[bool] = True

    def default(self, obj: Object) -> None:
        """The defaults of any template."""
        default_template(obj)

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Drop the fields of switched-off features."""
        drop_disabled_fields(obj["template"]["spec"], None)

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Drop the fields of switched-off features that are not in use."""
        drop_disabled_fields(obj["template"]["spec"], old.get("template", {}).get("spec"))

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """The rules of any template."""
        errors: Errors = []
        check_template(errors, "template", obj["template"])
        return errors

    def generation_changed(self, obj: Object, old: Object) -> bool:
        """The template stands where other kinds have a spec."""
        return not same(obj.get("template"), old.get("template"))

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Advice about the template."""
        return template_warnings("template", obj["template"])


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("", "Pod"): PodStrategy(),
    ("", "PodTemplate"): PodTemplateStrategy(),
}
