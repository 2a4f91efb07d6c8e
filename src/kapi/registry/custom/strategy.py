"""The strategy of a custom kind at one version: the rules of all custom objects, with the schema of the definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.errors import RequestEntityTooLarge
from kapi.api.go.text import quote
from kapi.api.jsonpath.path import JSONPathError, Path, compile_path
from kapi.api.limits import OBJECT_BYTES
from kapi.api.objectmeta import FOREGROUND_FINALIZER, ORPHAN_FINALIZER, validate_object_meta_update
from kapi.registry.strategy import Strategy
from kapi.schema.structural.defaulting import DefaultsTooLarge

if TYPE_CHECKING:
    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.custom.scale import ScalePaths
    from kapi.registry.custom.version import Version
    from kapi.registry.request import Write
    from kapi.schema.customschema import CustomSchema

_STANDARD_FINALIZERS = frozenset({ORPHAN_FINALIZER, FOREGROUND_FINALIZER, "kubernetes"})
_PREFER = "prefer a domain-qualified finalizer name{} to avoid accidental conflicts with other finalizer writers"


class CustomStrategy(Strategy):
    """The strategy of one version. Custom objects are never updated without a resourceVersion."""

    allow_unconditional_update = False
    tracks_generation = True
    resets_metadata_on_status = True
    is_custom = True
    allows_any_finalizer = True

    scale: ScalePaths | None

    def __init__(self, version: Version, schema: CustomSchema, scale: ScalePaths | None) -> None:
        self.has_status = version.subresources is not None and version.subresources.status is not None
        self.scale = scale
        self._schema = schema
        self._selectable = {
            field.json_path.removeprefix("."): _path(field.json_path) for field in version.selectable_fields
        }
        self.selectable_fields = tuple(self._selectable)

    def default(self, obj: Object) -> None:
        """Fill in the defaults of the schema; RequestEntityTooLarge if they alone take more than an object may."""
        try:
            self._schema.default(obj)
        except DefaultsTooLarge:
            raise RequestEntityTooLarge(f"limit is {OBJECT_BYTES}") from None

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Schema, lists, rules and the numbers of the scale sub-resource."""
        return self._schema.validate(obj, extra=self._scale_errors(obj))

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The same, but unchanged parts are not validated again. Metadata is: Kubernetes reports its errors twice."""
        errors = validate_object_meta_update(obj["metadata"], old["metadata"], builtin=False)
        return errors + self._schema.validate(obj, old, extra=self._scale_errors(obj), warnings=write.warnings)

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The status and what rules say of the whole."""
        return self._schema.validate_status(obj, old, extra=self._scale_status_errors(obj), warnings=write.warnings)

    def _scale_errors(self, obj: Object) -> list[FieldError]:
        return [] if self.scale is None else self.scale.errors(obj)

    def _scale_status_errors(self, obj: Object) -> list[FieldError]:
        return [] if self.scale is None else self.scale.status_errors(obj)

    def generation_changed(self, obj: Object, old: Object) -> bool:
        """Anything but metadata counts; status does not reach this far where it has its own endpoint."""
        return _without_metadata(obj) != _without_metadata(old)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Advice on new finalizers, which built-in kinds would refuse."""
        present = set(obj["metadata"].get("finalizers", ()))
        if old is not None:
            present -= set(old["metadata"].get("finalizers", ()))
        return [warning for finalizer in sorted(present) for warning in _finalizer_warnings(finalizer)]

    def selectable(self, obj: Object) -> dict[str, str]:
        """The values of the fields selectors may name; empty where there is none."""
        return {name: _text(path, obj) for name, path in self._selectable.items()}


def _without_metadata(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key != "metadata"}


def _path(text: str) -> Path | None:
    """The path of a selectable field; None for one that can be written down but not read."""
    try:
        return compile_path(text)
    except JSONPathError:
        return None


def _text(path: Path | None, obj: Object) -> str:
    try:
        found: list[Any] = [] if path is None else path.find(obj)
    except JSONPathError:
        return ""
    if not found or found[0] is None:
        return ""
    value = found[0]
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _finalizer_warnings(finalizer: str) -> list[str]:
    warnings = names.qualified_name(finalizer)
    if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
        warnings.append(_PREFER.format(" including a path (/)" if "." in finalizer else ""))
    return [f"metadata.finalizers: {quote(finalizer)}: {warning}" for warning in warnings]
