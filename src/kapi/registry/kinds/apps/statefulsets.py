"""StatefulSet: pods with names and claims of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kapi.api import fielderror, names
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.apps.templated import (
    TemplatedStrategy,
    check_at_most_all,
    check_collisions,
    check_counts,
    check_int_or_percent,
    check_not_above,
    check_selected_template,
    is_zero,
)
from kapi.registry.kinds.core.pod.claims import check_claim_spec
from kapi.registry.kinds.core.pod.defaults import default_claim_spec
from kapi.registry.kinds.core.pod.spec import check_selector
from kapi.registry.kinds.sameness import same, without

if TYPE_CHECKING:
    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.kinds.fieldrules import Errors
    from kapi.registry.request import Write
    from kapi.registry.strategy import Strategy

Spec = dict[str, Any]

_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_FROZEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_RETENTION = ("Retain", "Delete")


class StatefulSetStrategy(TemplatedStrategy):
    """The rules of a StatefulSet."""

    initial_status: ClassVar[dict[str, int]] = {"replicas": 0, "availableReplicas": 0}
    warns_about_names: ClassVar[bool] = False

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """A DNS label: the name becomes part of hostnames."""
        return names.dns_label(name, prefix=prefix)

    def default_spec(self, obj: Object, spec: Spec) -> None:
        """One replica at a time, in order; claims are kept."""
        spec.setdefault("serviceName", "")
        if not spec.get("podManagementPolicy"):
            spec["podManagementPolicy"] = "OrderedReady"
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
            strategy["rollingUpdate"].setdefault("partition", 0)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for moment in ("whenDeleted", "whenScaled"):
            if not retention.get(moment):
                retention[moment] = "Retain"
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        for claim in spec.get("volumeClaimTemplates", ()):
            claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
            claim.setdefault("metadata", {})
            default_claim_spec(claim.setdefault("spec", {}))
            claim.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare_create(self, write: Write, obj: Object) -> None:
        """`maxUnavailable` belongs to a feature that v1.36 ships switched off."""
        super().prepare_create(write, obj)
        _rolling_update(obj).pop("maxUnavailable", None)

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """As on create, unless the stored object uses it."""
        super().prepare_update(write, obj, old)
        if "maxUnavailable" not in _rolling_update(old):
            _rolling_update(obj).pop("maxUnavailable", None)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Validate a StatefulSet."""
        errors: Errors = []
        spec = obj["spec"]
        _check_policies(errors, spec)
        for index, claim in enumerate(spec.get("volumeClaimTemplates", ())):
            check_claim_spec(errors, f"spec.volumeClaimTemplates[{index}].spec", claim.get("spec", {}))
        service = spec.get("serviceName", "")
        _check_numbers(errors, spec)
        if service:
            errors += fieldrules.each("spec.serviceName", service, names.dns_label(service))
        check_selector(errors, "spec.selector", spec.get("selector"), "empty selector is invalid for statefulset")
        _check_pods(errors, spec)
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Most of the spec is immutable; what cannot change is not validated again, nor a template that was invalid."""
        errors: Errors = []
        spec, before = obj["spec"], old["spec"]
        _check_policies(errors, spec)
        _check_numbers(errors, spec)
        check_selector(errors, "spec.selector", spec.get("selector"), "empty selector is invalid for statefulset")
        about_pods: Errors = []
        _check_pods(about_pods, spec)
        if about_pods:
            stored: Errors = []
            _check_pods(stored, before)
            errors += [] if stored else about_pods
        if not same(without(spec, *_MUTABLE), without(before, *_MUTABLE)):
            errors.append(fielderror.forbidden("spec", _FROZEN))
        return errors

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The counts add up."""
        errors: Errors = []
        status = obj.get("status", {})
        counts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        check_counts(errors, status, "replicas", *counts, "observedGeneration", "collisionCount")
        check_not_above(errors, status, counts, "status.readyReplicas")
        check_collisions(errors, status, old.get("status", {}))
        return errors

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Advice about the template and the history."""
        found = super().warnings(obj, old)
        if obj["spec"].get("revisionHistoryLimit", 0) < 0:
            advice = "a negative value retains all historical revisions; a value >= 0 is recommended"
            found.append(f"spec.revisionHistoryLimit: {advice}")
        return found


def _rolling_update(obj: Object) -> Spec:
    rolling: Spec = obj["spec"].get("updateStrategy", {}).get("rollingUpdate", {})
    return rolling


def _check_policies(errors: Errors, spec: Spec) -> None:
    management = spec.get("podManagementPolicy", "")
    if management not in {"OrderedReady", "Parallel"}:
        detail = "must be 'OrderedReady' or 'Parallel'"
        errors.append(fielderror.invalid("spec.podManagementPolicy", management, detail))
    strategy = spec.get("updateStrategy", {})
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy.rollingUpdate"
    if kind == "OnDelete":
        if rolling is not None:
            shown = {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}
            errors.append(fielderror.invalid(path, shown, "only allowed for updateStrategy 'RollingUpdate'"))
    elif kind == "RollingUpdate":
        _check_rolling_update(errors, path, rolling or {})
    else:
        shown = {"Type": kind, "RollingUpdate": None}
        errors.append(fielderror.invalid("spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'"))
    for moment, policy in spec.get("persistentVolumeClaimRetentionPolicy", {}).items():
        if policy not in _RETENTION:
            path = f"spec.persistentVolumeClaimRetentionPolicy.{moment}"
            errors.append(fielderror.not_supported(path, policy, _RETENTION))


def _check_rolling_update(errors: Errors, path: str, rolling: Spec) -> None:
    errors += fieldrules.not_negative(f"{path}.partition", rolling.get("partition"))
    limit = rolling.get("maxUnavailable")
    if limit is not None:
        check_int_or_percent(errors, f"{path}.maxUnavailable", limit)
        if is_zero(limit):
            errors.append(fielderror.invalid(f"{path}.maxUnavailable", limit, "cannot be 0"))
        check_at_most_all(errors, f"{path}.maxUnavailable", limit)


def _check_numbers(errors: Errors, spec: Spec) -> None:
    errors += fieldrules.not_negative("spec.replicas", spec.get("replicas"))
    errors += fieldrules.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += fieldrules.not_negative("spec.ordinals.start", spec.get("ordinals", {}).get("start"))


def _check_pods(errors: Errors, spec: Spec) -> None:
    """The template with what the controller adds: a volume for each claim, and names that it chooses itself."""
    claims = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates", ())]
    pod = without(spec["template"].get("spec", {}), "subdomain", "hostname")
    if claims:
        # Claims of one name make one volume; they replace volumes of the template.
        made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(claims)]
        pod["volumes"] = made + [volume for volume in pod.get("volumes", ()) if volume.get("name") not in claims]
    template = {**spec["template"], "spec": pod}
    check_selected_template(errors, {**spec, "template": template}, "StatefulSet", "")


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("apps", "StatefulSet"): StatefulSetStrategy(),
}
