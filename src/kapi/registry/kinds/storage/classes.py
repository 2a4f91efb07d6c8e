"""StorageClass and VolumeAttributesClass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError, duplicate, forbidden, invalid, required, too_long
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.sameness import same
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
RECLAIM_POLICIES = ("Delete", "Retain")
_MAX_PARAMETERS = 512
MAX_PARAMETER_BYTES = 256 * 1024


def _provisioner_errors(path: str, name: str) -> list[FieldError]:
    return fieldrules.qualified_name(path, name.lower()) if name else [required(path)]


def map_bytes(pairs: dict[str, str]) -> int:
    """Return the size of all keys and values together."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in pairs.items())


def _parameter_errors(path: str, parameters: dict[str, str], *, needed: bool = False) -> list[FieldError]:
    if len(parameters) > _MAX_PARAMETERS:
        return [too_long(path, _MAX_PARAMETERS)]
    errors = [invalid(path, "", "field can not be empty.")] if "" in parameters else []
    if map_bytes(parameters) > MAX_PARAMETER_BYTES:
        errors.append(too_long(path, MAX_PARAMETER_BYTES))
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

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """A provisioner, parameters that fit, known policies."""
        errors = _provisioner_errors("provisioner", obj.get("provisioner", ""))
        errors += _parameter_errors("parameters", obj.get("parameters") or {})
        if obj.get("reclaimPolicy"):
            errors += fieldrules.one_of("reclaimPolicy", obj["reclaimPolicy"], RECLAIM_POLICIES)
        errors += fieldrules.one_of("volumeBindingMode", obj.get("volumeBindingMode"), BINDING_MODES)
        return errors + _topology_errors(obj.get("allowedTopologies") or [])

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate that the fields volumes were made with are unchanged."""
        errors = self.validate_create(write, obj)
        if not same(obj.get("parameters"), old.get("parameters")):
            errors += fieldrules.unchanged("parameters", obj.get("parameters"), old.get("parameters"))
        for field in ("provisioner", "reclaimPolicy", "volumeBindingMode"):
            errors += fieldrules.unchanged(field, obj.get(field), old.get(field))
        return errors


def _topology_errors(terms: list[dict[str, Any]]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[frozenset[tuple[str, frozenset[str]]]] = set()
    for index, term in enumerate(terms):
        path = f"allowedTopologies[{index}].matchLabelExpressions"
        expressions: dict[str, frozenset[str]] = {}
        for position, requirement in enumerate(term.get("matchLabelExpressions") or ()):
            errors += _topology_requirement_errors(f"{path}[{position}]", requirement)
            key = requirement.get("key", "")
            if key in expressions:
                errors.append(duplicate(f"{path}[{position}].key", key))
            expressions[key] = frozenset(requirement.get("values") or ())
        term_key = frozenset(expressions.items())
        if term_key in seen:
            errors.append(duplicate(path, ""))
        seen.add(term_key)
    return errors


def _topology_requirement_errors(path: str, requirement: dict[str, Any]) -> list[FieldError]:
    values = requirement.get("values") or []
    errors = [] if values else [required(f"{path}.values")]
    errors += [duplicate(f"{path}.values[{index}]", values[index]) for index in fieldrules.repeated(values)]
    return errors + fieldrules.qualified_name(f"{path}.key", requirement.get("key", ""))


class VolumeAttributesClassStrategy(Strategy):
    """The rules of VolumeAttributesClass: parameters a driver can change on a live volume."""

    returns_deleted_object = True

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """A driver and at least one parameter."""
        errors = _provisioner_errors("driverName", obj.get("driverName", ""))
        return errors + _parameter_errors("parameters", obj.get("parameters") or {}, needed=True)

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Nothing in it changes."""
        errors = [
            forbidden(field, f"updates to {field} are forbidden.")
            for field in ("driverName", "parameters")
            if not same(obj.get(field), old.get(field))
        ]
        return errors + self.validate_create(write, obj)


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("storage.k8s.io", "StorageClass"): StorageClassStrategy(),
    ("storage.k8s.io", "VolumeAttributesClass"): VolumeAttributesClassStrategy(),
}
