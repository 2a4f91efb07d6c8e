"""Node: taints, capacity, addresses and pod ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kapi.api import names
from kapi.api.fielderror import FieldError, duplicate, forbidden, invalid, not_supported, required, show
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.pod.resources import check_quantity
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class NodeStrategy(Strategy):
    """The rules of Node.

    Unlike other kinds, a Node may be created with its status: that is how a node registers itself.
    """

    has_status = True
    keeps_status_on_create: ClassVar[bool] = True
    selectable_fields = ("spec.unschedulable",)

    def default(self, obj: Object) -> None:
        """All of a node can be allocated, unless it says otherwise; its first pod network is also the list's first."""
        spec = obj.get("spec", {})
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif spec.get("podCIDRs") and not spec.get("podCIDR"):
            spec["podCIDR"] = spec["podCIDRs"][0]
        status = obj.get("status")
        if status and "capacity" in status and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Taints, resources and pod networks."""
        spec = obj.get("spec", {})
        errors = _taint_errors("metadata.taints", spec.get("taints") or [])
        errors += _resource_errors(obj)
        return errors + _pod_cidr_errors(spec.get("podCIDRs") or [])

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Networks and provider are set once."""
        errors = self.validate_create(write, obj)
        return errors + self.validate_status(write, obj, old)

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate every update, of the node or of its status."""
        errors = _resource_errors(obj) + _address_errors(obj.get("status", {}).get("addresses") or [])
        spec, before = obj.get("spec", {}), old.get("spec", {})
        networks = before.get("podCIDRs") or []
        if networks and networks != (spec.get("podCIDRs") or []):
            text = 'node updates may not change podCIDR except from "" to valid'
            errors.append(forbidden("spec.podCIDRs", text))
        provider = before.get("providerID")
        if provider and provider != spec.get("providerID"):
            text = 'node updates may not change providerID except from "" to valid'
            errors.append(forbidden("spec.providerID", text))
        errors += _taint_errors("metadata.taints", spec.get("taints") or [])
        if spec.get("externalID", "") != before.get("externalID", ""):
            errors.append(forbidden("spec.externalID", "may not be updated"))
        return errors

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Warn about deprecated fields."""
        spec = obj.get("spec", {})
        warnings = []
        if "configSource" in spec:
            warnings.append("spec.configSource: the feature is removed")
        if spec.get("externalID"):
            warnings.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
        for index, value in enumerate(spec.get("podCIDRs") or ()):
            warnings += fieldrules.cidr_warnings(f"spec.podCIDRs[{index}]", value)
        return warnings

    def selectable(self, obj: Object) -> dict[str, str]:
        """By whether pods may be scheduled to it."""
        return {"spec.unschedulable": "true" if obj.get("spec", {}).get("unschedulable") else "false"}


def _taint_errors(path: str, taints: list[dict[str, Any]]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        where = f"{path}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        errors += fieldrules.qualified_name(f"{where}.key", key)
        sentences = names.label_value(value)
        if sentences:
            errors.append(invalid(f"{where}.value", value, ";".join(sentences)))
        if not effect:
            errors.append(required(f"{where}.effect"))
        elif effect not in TAINT_EFFECTS:
            errors.append(not_supported(f"{where}.effect", effect, TAINT_EFFECTS))
        if (effect, key) in seen:
            printed = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            text = f"Duplicate value: {show(printed)}: taints must be unique by key and effect pair"
            errors.append(FieldError("FieldValueDuplicate", where, text))
        seen.add((effect, key))
    return errors


def _resource_errors(node: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("capacity", "allocatable"):
        for name, amount in (node.get("status", {}).get(field) or {}).items():
            check_quantity(errors, f"status.{field}.{name}", name, amount)
    return errors


def _pod_cidr_errors(networks: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, value in enumerate(networks):
        errors += fieldrules.cidr(f"spec.podCIDRs[{index}]", value)
    families = {":" in value for value in networks}
    if len(networks) > 2 or (len(networks) == 2 and len(families) < 2):
        text = "may specify no more than one CIDR for each IP family"
        errors.append(invalid("spec.podCIDRs", networks, text))
    return errors


def _address_errors(addresses: list[dict[str, str]]) -> list[FieldError]:
    pairs = [(address.get("type"), address.get("address")) for address in addresses]
    return [
        duplicate(f"status.addresses[{index}]", {"Type": pairs[index][0], "Address": pairs[index][1]})
        for index in fieldrules.repeated(pairs)
    ]


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("", "Node"): NodeStrategy(),
}
