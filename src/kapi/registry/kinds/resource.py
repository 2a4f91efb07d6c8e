"""The kinds of resource.k8s.io: what devices there are, and who claims them.

Defaults and what may not change; the rest is left to the schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError, immutable
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.fieldrules import spec_of
from kapi.registry.kinds.sameness import same
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

GROUP = "resource.k8s.io"


def _default_requests(spec: dict[str, Any]) -> None:
    """A request asks for one device, unless it says how many."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        asked = [request["exactly"]] if "exactly" in request else []
        for choice in (*asked, *(request.get("firstAvailable") or ())):
            choice.setdefault("allocationMode", "ExactCount")
            if choice["allocationMode"] == "ExactCount" and not choice.get("count"):
                choice["count"] = 1


def _frozen_spec_errors(obj: Object, old: Object) -> list[FieldError]:
    return [] if same(obj.get("spec"), old.get("spec")) else [immutable("spec", obj.get("spec"))]


class DeviceClassStrategy(Strategy):
    """The rules of DeviceClass."""

    validates_by_schema = True
    tracks_generation = True
    returns_deleted_object = True


class ResourceClaimStrategy(Strategy):
    """The rules of ResourceClaim."""

    validates_by_schema = True
    has_status = True
    returns_deleted_object = True
    resets_metadata_on_status = True

    def default(self, obj: Object) -> None:
        """One device per request."""
        _default_requests(spec_of(obj))

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate that the spec is unchanged."""
        return _frozen_spec_errors(obj, old)


class ResourceClaimTemplateStrategy(Strategy):
    """The rules of ResourceClaimTemplate."""

    validates_by_schema = True
    returns_deleted_object = True

    def default(self, obj: Object) -> None:
        """One device per request."""
        _default_requests(spec_of(obj).get("spec") or {})

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The template stays."""
        return _frozen_spec_errors(obj, old)


class ResourceSliceStrategy(Strategy):
    """The rules of ResourceSlice."""

    validates_by_schema = True
    tracks_generation = True
    returns_deleted_object = True
    selectable_fields = ("spec.nodeName", "spec.driver")
    unknown_field_message = "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {key}"

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Driver, node and pool stay."""
        now, was = obj.get("spec", {}), old.get("spec", {})
        pool, stored = (now.get("pool") or {}).get("name"), (was.get("pool") or {}).get("name")
        errors = fieldrules.unchanged("spec.pool.name", pool, stored)
        for field in ("driver", "nodeName"):
            errors += fieldrules.unchanged(f"spec.{field}", now.get(field), was.get(field))
        return errors

    def selectable(self, obj: Object) -> dict[str, str]:
        """By node and driver."""
        spec = obj.get("spec", {})
        return {"spec.nodeName": spec.get("nodeName", ""), "spec.driver": spec.get("driver", "")}


STRATEGIES: dict[tuple[str, str], Strategy] = {
    (GROUP, "DeviceClass"): DeviceClassStrategy(),
    (GROUP, "ResourceClaim"): ResourceClaimStrategy(),
    (GROUP, "ResourceClaimTemplate"): ResourceClaimTemplateStrategy(),
    (GROUP, "ResourceSlice"): ResourceSliceStrategy(),
}
