"""ControllerRevision: a stored state of a DaemonSet or StatefulSet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api import fielderror
from kapi.registry.kinds import fieldrules
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.kinds.fieldrules import Errors
    from kapi.registry.request import Write


class ControllerRevisionStrategy(Strategy):
    """A snapshot of a controller's state: written once."""

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """A revision number and an object to remember."""
        errors: Errors = []
        errors += fieldrules.not_negative("revision", obj.get("revision"))
        data = obj.get("data")
        if data is None:
            errors.append(fielderror.required("data", "data is mandatory"))
        elif not isinstance(data, dict):
            errors.append(fielderror.required("data", "data must be a valid JSON object"))
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The data never changes; the revision number may."""
        errors: Errors = []
        errors += fieldrules.not_negative("revision", obj.get("revision"))
        if obj.get("data") != old.get("data"):
            errors.append(fielderror.invalid("data", obj.get("data"), fieldrules.IMMUTABLE))
        return errors


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("apps", "ControllerRevision"): ControllerRevisionStrategy(),
}
