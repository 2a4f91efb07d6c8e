"""APIService: which server answers for a group and version."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.fielderror import FieldError, invalid, required
from kapi.api.go.text import quote
from kapi.api.meta import format_time
from kapi.registry.kinds import fieldrules
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write


class APIServiceStrategy(Strategy):
    """The rules of APIService."""

    has_status = True
    allow_unconditional_update = False
    resets_metadata_on_status = True

    def default(self, obj: Object) -> None:
        """HTTPS on its usual port."""
        service = obj.get("spec", {}).get("service")
        if service is not None:
            service.setdefault("port", 443)

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Set the Available condition: true for what this server serves, unknown for others."""
        fieldrules.spec_of(obj)
        obj["status"] = {}
        if "service" not in obj["spec"]:
            condition = {
                "type": "Available",
                "status": "True",
                "lastTransitionTime": format_time(write.now),
                "reason": "Local",
                "message": "Local APIServices are always available",
            }
            obj["status"] = {"conditions": [condition]}

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """The name says group and version; priorities are in range; a service can be reached."""
        spec = obj.get("spec", {})
        group, version = spec.get("group", ""), spec.get("version", "")
        errors = _name_errors(obj["metadata"].get("name", ""), f"{version}.{group}")
        if group:
            errors += fieldrules.dns_subdomain("spec.group", group)
        elif version != "v1":
            text = "only v1 may have an empty group and it better be legacy kube"
            errors.append(required("spec.group", text))
        errors += fieldrules.each("spec.version", version, names.dns1035_label(version))
        for field, limit in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
            value = spec.get(field, 0)
            if not 0 < value <= limit:
                errors.append(invalid(f"spec.{field}", value, f"must be positive and less than {limit}"))
        return errors + _target_errors(spec)

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Conditions are true, false or unknown."""
        return [
            error
            for index, condition in enumerate(obj.get("status", {}).get("conditions") or ())
            for error in fieldrules.one_of(
                f"status.conditions[{index}].status",
                condition.get("status", ""),
                ("True", "False", "Unknown"),
            )
        ]

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """A path segment; that it says group and version is checked with the spec."""
        return names.path_segment(name)


def _name_errors(name: str, wanted: str) -> list[FieldError]:
    if name == wanted or names.path_segment(name):
        return []
    return [invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: {quote(wanted)}')]


def _target_errors(spec: dict[str, Any]) -> list[FieldError]:
    service, bundle, insecure = spec.get("service"), spec.get("caBundle"), spec.get("insecureSkipTLSVerify")
    errors: list[FieldError] = []
    if service is None:
        if bundle:
            size = f"{len(base64.b64decode(bundle))} bytes"
            errors.append(invalid("spec.caBundle", size, "local APIServices may not have a caBundle"))
        if insecure:
            text = "local APIServices may not have insecureSkipTLSVerify"
            errors.append(invalid("spec.insecureSkipTLSVerify", insecure, text))
        return errors
    errors += [required(f"spec.service.{field}") for field in ("namespace", "name") if not service.get(field)]
    port = service.get("port", 0)
    if names.port_number(port):
        text = f"port is not valid: {', '.join(names.port_number(port))}"
        errors.append(invalid("spec.service.port", port, text))
    if insecure and bundle:
        errors.append(invalid("spec.insecureSkipTLSVerify", insecure, "may not be true if caBundle is present"))
    return errors


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("apiregistration.k8s.io", "APIService"): APIServiceStrategy(),
}
