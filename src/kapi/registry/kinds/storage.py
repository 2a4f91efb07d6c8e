"""The kinds of storage.k8s.io: classes, attachments, drivers and what drivers report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError, duplicate, forbidden, invalid, required, too_long
from kapi.api.selectors import validate_label_selector
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.core.volumes import driver_name_errors, volume_spec_errors
from kapi.registry.kinds.fieldrules import spec_of
from kapi.registry.kinds.sameness import same, without
from kapi.registry.strategy import Strategy, WriteContext

if TYPE_CHECKING:
    from kapi.api.meta import Object

BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
RECLAIM_POLICIES = ("Delete", "Retain")
GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
LIFECYCLE_MODES = ("Persistent", "Ephemeral")

_MAX_PARAMETERS = 512
_MAX_PARAMETER_BYTES = 256 * 1024
_MAX_NODE_ID_BYTES = 256
_MAX_MESSAGE_BYTES = 1024
_MIN_TOKEN_SECONDS = 600
_MAX_TOKEN_SECONDS = 1 << 32
_TOKENS_IN_SECRETS = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)


def _provisioner_errors(path: str, name: str) -> list[FieldError]:
    return fieldrules.qualified_name(path, name.lower()) if name else [required(path)]


def _map_bytes(pairs: dict[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in pairs.items())


def _parameter_errors(path: str, parameters: dict[str, str], *, needed: bool = False) -> list[FieldError]:
    if len(parameters) > _MAX_PARAMETERS:
        return [too_long(path, _MAX_PARAMETERS)]
    errors = [invalid(path, "", "field can not be empty.")] if "" in parameters else []
    if _map_bytes(parameters) > _MAX_PARAMETER_BYTES:
        errors.append(too_long(path, _MAX_PARAMETER_BYTES))
    if needed and not parameters:
        errors.append(required(path, "must contain at least one key/value pair"))
    return errors


class StorageClassStrategy(Strategy):
    """The rules of StorageClass."""

    returns_deleted_object = True

    def default(self, obj: Object) -> None:
        """Volumes go with their claims and are made at once."""
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate_create(self, context: WriteContext, obj: Object) -> list[FieldError]:
        """A provisioner, parameters that fit, known policies."""
        errors = _provisioner_errors("provisioner", obj.get("provisioner", ""))
        errors += _parameter_errors("parameters", obj.get("parameters") or {})
        if obj.get("reclaimPolicy"):
            errors += fieldrules.one_of("reclaimPolicy", obj["reclaimPolicy"], RECLAIM_POLICIES)
        errors += fieldrules.one_of("volumeBindingMode", obj.get("volumeBindingMode"), BINDING_MODES)
        return errors + _topology_errors(obj.get("allowedTopologies") or [])

    def validate_update(self, context: WriteContext, obj: Object, old: Object) -> list[FieldError]:
        """What volumes were made with stays."""
        errors = self.validate_create(context, obj)
        if not same(obj.get("parameters"), old.get("parameters")):
            errors += fieldrules.unchanged("parameters", obj.get("parameters"), old.get("parameters"))
        for field in ("provisioner", "reclaimPolicy", "volumeBindingMode"):
            errors += fieldrules.unchanged(field, obj.get(field), old.get(field))
        return errors


def _topology_errors(terms: list[dict[str, Any]]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: list[dict[str, frozenset[str]]] = []
    for index, term in enumerate(terms):
        path = f"allowedTopologies[{index}].matchLabelExpressions"
        expressions: dict[str, frozenset[str]] = {}
        for position, requirement in enumerate(term.get("matchLabelExpressions") or ()):
            errors += _topology_requirement_errors(f"{path}[{position}]", requirement)
            key = requirement.get("key", "")
            if key in expressions:
                errors.append(duplicate(f"{path}[{position}].key", key))
            expressions[key] = frozenset(requirement.get("values") or ())
        if expressions in seen:
            errors.append(duplicate(path, ""))
        seen.append(expressions)
    return errors


def _topology_requirement_errors(path: str, requirement: dict[str, Any]) -> list[FieldError]:
    values = requirement.get("values") or []
    errors = [] if values else [required(f"{path}.values")]
    errors += [
        duplicate(f"{path}.values[{index}]", value) for index, value in enumerate(values) if value in values[:index]
    ]
    return errors + fieldrules.qualified_name(f"{path}.key", requirement.get("key", ""))


class VolumeAttributesClassStrategy(Strategy):
    """The rules of VolumeAttributesClass: parameters a driver can change on a live volume."""

    returns_deleted_object = True

    def validate_create(self, context: WriteContext, obj: Object) -> list[FieldError]:
        """A driver and at least one parameter."""
        errors = _provisioner_errors("driverName", obj.get("driverName", ""))
        return errors + _parameter_errors("parameters", obj.get("parameters") or {}, needed=True)

    def validate_update(self, context: WriteContext, obj: Object, old: Object) -> list[FieldError]:
        """Nothing in it changes."""
        errors = [
            forbidden(field, f"updates to {field} are forbidden.")
            for field in ("driverName", "parameters")
            if not same(obj.get(field), old.get(field))
        ]
        return errors + self.validate_create(context, obj)


class VolumeAttachmentStrategy(Strategy):
    """The rules of VolumeAttachment: one volume, one node, one driver, for good."""

    has_status = True
    allow_unconditional_update = False
    returns_deleted_object = True
    resets_metadata_on_status = True

    def prepare_create(self, context: WriteContext, obj: Object) -> None:
        """Nothing is attached yet."""
        spec_of(obj)
        obj["status"] = {"attached": False}

    def prepare_update(self, context: WriteContext, obj: Object, old: Object) -> None:
        """A missing spec is an empty one, which is a change."""
        spec_of(obj)

    def validate_create(self, context: WriteContext, obj: Object) -> list[FieldError]:
        """A driver, a node, and exactly one source."""
        spec = obj["spec"]
        errors = driver_name_errors("spec.attacher", spec.get("attacher", ""))
        errors += _attachment_source_errors(spec.get("source") or {})
        errors += fieldrules.dns_subdomain("spec.nodeName", spec.get("nodeName", ""))
        errors += _attachment_status_errors(obj.get("status") or {})
        name = (spec.get("source") or {}).get("persistentVolumeName")
        if name is not None:
            errors += fieldrules.dns_subdomain("spec.source.persistentVolumeName", name)
        return errors

    def validate_update(self, context: WriteContext, obj: Object, old: Object) -> list[FieldError]:
        """The spec stays."""
        errors = self.validate_create(context, obj)
        if not same(obj["spec"], old["spec"]):
            errors += fieldrules.unchanged("spec", obj["spec"], old["spec"])
        return errors

    def validate_status(self, context: WriteContext, obj: Object, old: Object) -> list[FieldError]:
        """What a driver reports has bounds."""
        return self.validate_create(context, obj)


def _attachment_source_errors(source: dict[str, Any]) -> list[FieldError]:
    path = "spec.source"
    exactly_one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and name is None:
        return [required(path, exactly_one)]
    if inline is not None and name is not None:
        return [forbidden(path, exactly_one)]
    if name is not None:
        where = f"{path}.persistentVolumeName"
        return [] if name else [required(where, "must specify non empty persistentVolumeName")]
    return _inline_volume_errors(f"{path}.inlineVolumeSpec", inline or {})


def _inline_volume_errors(path: str, spec: dict[str, Any]) -> list[FieldError]:
    """A volume without an object of its own: CSI only, and nothing that is about claims."""
    inline = "in the context of inline volumes"
    errors = [
        forbidden(f"{path}.{field}", f"may not be specified {inline}")
        for field in ("claimRef", "capacity", "nodeAffinity", "storageClassName")
        if spec.get(field)
    ]
    if "csi" not in spec:
        errors.append(required(f"{path}.csi", f"has to be specified {inline}"))
    stand_in = {**without(spec, "nodeAffinity", "storageClassName"), "capacity": {"storage": "1"}}
    return errors + volume_spec_errors(stand_in, path)


def _attachment_status_errors(status: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    if _map_bytes(status.get("attachmentMetadata") or {}) > _MAX_PARAMETER_BYTES:
        errors.append(too_long("status.attachmentMetadata", _MAX_PARAMETER_BYTES))
    for field in ("attachError", "detachError"):
        report = status.get(field) or {}
        if len(report.get("message", "").encode()) > _MAX_MESSAGE_BYTES:
            errors.append(too_long(f"status.{field}.message", _MAX_PARAMETER_BYTES))
        code = report.get("errorCode", 0)
        if code < 0:
            errors.append(invalid(f"status.{field}.errorCode", code, "must be between 0 and 2147483647, inclusive"))
    return errors


class CSIDriverStrategy(Strategy):
    """The rules of CSIDriver."""

    allow_unconditional_update = False
    returns_deleted_object = True

    def default(self, obj: Object) -> None:
        """What a driver is assumed to be."""
        spec = spec_of(obj)
        spec.setdefault("attachRequired", True)
        spec.setdefault("podInfoOnMount", False)
        spec.setdefault("storageCapacity", False)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]
        spec.setdefault("requiresRepublish", False)
        spec.setdefault("seLinuxMount", False)

    def prepare_create(self, context: WriteContext, obj: Object) -> None:
        """Drop the field of a feature that is off."""
        obj["spec"].pop("preventPodSchedulingIfMissing", None)

    def prepare_update(self, context: WriteContext, obj: Object, old: Object) -> None:
        """Drop the field of a feature that is off."""
        self.prepare_create(context, obj)

    def validate_create(self, context: WriteContext, obj: Object) -> list[FieldError]:
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

    def validate_update(self, context: WriteContext, obj: Object, old: Object) -> list[FieldError]:
        """How volumes are attached and live stays."""
        errors = self.validate_create(context, obj)
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
    """How long a service account token may live."""
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

    def validate_create(self, context: WriteContext, obj: Object) -> list[FieldError]:
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

    def validate_update(self, context: WriteContext, obj: Object, old: Object) -> list[FieldError]:
        """A registered driver keeps all but its limits."""
        errors = self.validate_create(context, obj)
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
    for index, key in enumerate(keys):
        if key in keys[:index]:
            errors.append(duplicate(path, key))
        errors += fieldrules.required_string(path, key, fieldrules.qualified_name)
    return errors


class CSIStorageCapacityStrategy(Strategy):
    """The rules of CSIStorageCapacity: how much room one part of the cluster has for one class."""

    allow_unconditional_update = False

    def validate_create(self, context: WriteContext, obj: Object) -> list[FieldError]:
        """A class, and amounts that are not negative."""
        errors: list[FieldError] = []
        if "nodeTopology" in obj:
            errors += validate_label_selector(obj["nodeTopology"], "nodeTopology")
        errors += fieldrules.dns_subdomain("storageClassName", obj.get("storageClassName", ""))
        if "capacity" in obj:
            errors += fieldrules.non_negative_quantity("capacity", obj["capacity"])
        return errors

    def validate_update(self, context: WriteContext, obj: Object, old: Object) -> list[FieldError]:
        """Where and for which class stays."""
        return [
            error
            for field in ("nodeTopology", "storageClassName")
            if not same(obj.get(field), old.get(field))
            for error in fieldrules.unchanged(field, obj.get(field), old.get(field))
        ]


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("storage.k8s.io", "StorageClass"): StorageClassStrategy(),
    ("storage.k8s.io", "VolumeAttributesClass"): VolumeAttributesClassStrategy(),
    ("storage.k8s.io", "VolumeAttachment"): VolumeAttachmentStrategy(),
    ("storage.k8s.io", "CSIDriver"): CSIDriverStrategy(),
    ("storage.k8s.io", "CSINode"): CSINodeStrategy(),
    ("storage.k8s.io", "CSIStorageCapacity"): CSIStorageCapacityStrategy(),
}
