"""CSIDriver, CSINode and CSIStorageCapacity: what CSI drivers report of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError, duplicate, invalid, required
from kapi.api.selectors import validate_label_selector
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.persistentvolumes import driver_name_errors
from kapi.registry.kinds.fieldrules import spec_of
from kapi.registry.kinds.sameness import same, without
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
LIFECYCLE_MODES = ("Persistent", "Ephemeral")
_MAX_NODE_ID_BYTES = 256
_MIN_TOKEN_SECONDS = 600
_MAX_TOKEN_SECONDS = 1 << 32
_TOKENS_IN_SECRETS = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)


class CSIDriverStrategy(Strategy):
    """The rules of CSIDriver."""

    allow_unconditional_update = False
    returns_deleted_object = True

    def default(self, obj: Object) -> None:
        """Fill in the defaults of a driver."""
        spec = spec_of(obj)
        spec.setdefault("attachRequired", True)
        spec.setdefault("podInfoOnMount", False)
        spec.setdefault("storageCapacity", False)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]
        spec.setdefault("requiresRepublish", False)
        spec.setdefault("seLinuxMount", False)

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Drop the field of a feature that is off."""
        obj["spec"].pop("preventPodSchedulingIfMissing", None)

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Drop the field of a feature that is off."""
        self.prepare_create(write, obj)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Known policies, and token requests that can be served."""
        spec = obj["spec"]
        errors = fieldrules.one_of("spec.fsGroupPolicy", spec.get("fsGroupPolicy"), GROUP_POLICIES)
        errors += _token_request_errors(spec.get("tokenRequests") or [])
        for mode in spec.get("volumeLifecycleModes") or ():
            errors += fieldrules.one_of("spec.volumeLifecycleModes", mode, LIFECYCLE_MODES)
        period = spec.get("nodeAllocatableUpdatePeriodSeconds")
        if period is not None and period < 10:
            path = "spec.nodeAllocatableUpdatePeriodSeconds"
            errors.append(invalid(path, period, "must be greater than or equal to 10 seconds"))
        field = "serviceAccountTokenInSecrets"
        if field in spec and not spec.get("tokenRequests"):
            detail = f"{field} is set but no tokenRequests are specified"
            errors.append(invalid(f"spec.{field}", spec[field], detail))
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate that the fields about attaching volumes are unchanged."""
        errors = self.validate_create(write, obj)
        now, was = obj["spec"], old["spec"]
        errors += fieldrules.unchanged("spec.attachedRequired", now["attachRequired"], was.get("attachRequired"))
        modes = "volumeLifecycleModes"
        return errors + fieldrules.unchanged(f"spec.{modes}", now[modes], was.get(modes))

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Tokens belong into secrets."""
        spec = obj["spec"]
        requests = spec.get("tokenRequests") or []
        stored = (old or {"spec": {}})["spec"].get("tokenRequests") or []
        return [_TOKENS_IN_SECRETS] if requests != stored and "serviceAccountTokenInSecrets" not in spec else []

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """The name of a driver."""
        rest = super().validate_name(name.lower(), prefix=prefix)
        return ["must be no more than 63 characters", *rest] if len(name.encode()) > 63 else rest


def _token_request_errors(requests: list[dict[str, Any]]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, request in enumerate(requests):
        path = f"spec.tokenRequests[{index}]"
        audience, seconds = request.get("audience", ""), request.get("expirationSeconds")
        if audience in seen:
            errors.append(duplicate(f"{path}.audience", audience))
            continue
        seen.add(audience)
        errors += token_lifetime_errors(f"{path}.expirationSeconds", seconds)
    return errors


def token_lifetime_errors(path: str, seconds: int | None) -> list[FieldError]:
    """Validate the lifetime of a service account token."""
    if seconds is None:
        return []
    if seconds < _MIN_TOKEN_SECONDS:
        return [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > _MAX_TOKEN_SECONDS:
        return [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


class CSINodeStrategy(Strategy):
    """The rules of CSINode: which drivers a node has, under which identity."""

    allow_unconditional_update = False
    returns_deleted_object = True

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Each driver once, with an identity."""
        errors: list[FieldError] = []
        seen: set[str] = set()
        for index, driver in enumerate(obj.get("spec", {}).get("drivers") or ()):
            path = f"spec.drivers[{index}]"
            errors += _node_driver_errors(path, driver)
            name = driver.get("name", "")
            if name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """A registered driver keeps all but its limits."""
        errors = self.validate_create(write, obj)
        stored = {driver.get("name"): driver for driver in old.get("spec", {}).get("drivers") or ()}
        for driver in obj.get("spec", {}).get("drivers") or ():
            before = stored.get(driver.get("name"))
            if before is not None:
                now, was = without(driver, "allocatable"), without(before, "allocatable")
                errors += [] if same(now, was) else fieldrules.unchanged("spec.drivers", now, was)
        return errors


def _node_driver_errors(path: str, driver: dict[str, Any]) -> list[FieldError]:
    errors = driver_name_errors(f"{path}.name", driver.get("name", ""))
    node_id = driver.get("nodeID", "")
    if not node_id:
        errors.append(required(f"{path}.nodeID"))
    if len(node_id.encode()) > _MAX_NODE_ID_BYTES:
        errors.append(invalid(f"{path}.nodeID", node_id, f"must be {_MAX_NODE_ID_BYTES} characters or less"))
    count = (driver.get("allocatable") or {}).get("count")
    if count is not None:
        errors += fieldrules.not_negative(f"{path}.allocatable.count", count)
    keys = driver.get("topologyKeys") or []
    repeated = frozenset(fieldrules.repeated(keys))
    for index, key in enumerate(keys):
        if index in repeated:
            errors.append(duplicate(path, key))
        errors += fieldrules.required_string(path, key, fieldrules.qualified_name)
    return errors


class CSIStorageCapacityStrategy(Strategy):
    """The rules of CSIStorageCapacity: how much capacity one part of the cluster has for a class."""

    allow_unconditional_update = False

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """A class, and amounts that are not negative."""
        errors: list[FieldError] = []
        if "nodeTopology" in obj:
            errors += validate_label_selector(obj["nodeTopology"], "nodeTopology")
        errors += fieldrules.dns_subdomain("storageClassName", obj.get("storageClassName", ""))
        if "capacity" in obj:
            errors += fieldrules.non_negative_quantity("capacity", obj["capacity"])
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate that the topology and the class are unchanged."""
        return [
            error
            for field in ("nodeTopology", "storageClassName")
            if not same(obj.get(field), old.get(field))
            for error in fieldrules.unchanged(field, obj.get(field), old.get(field))
        ]


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("storage.k8s.io", "CSIDriver"): CSIDriverStrategy(),
    ("storage.k8s.io", "CSINode"): CSINodeStrategy(),
    ("storage.k8s.io", "CSIStorageCapacity"): CSIStorageCapacityStrategy(),
}
