"""The metadata of custom objects and of the objects embedded in them: read as a typed decoder would, and validated.

Only `metadata` of a custom object is typed in kube-apiserver: unknown fields in it are dropped and reported, values of
a wrong type refuse the object. The same holds for every place with `x-kubernetes-embedded-resource`, where `apiVersion`
and `kind` must also be strings, and where the result is validated like the head of an object of its own.

Pure functions over decoded JSON. The definition of ObjectMeta is the built-in one, see `kapi.schema.builtin.decoder`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api import names
from kapi.api.fielderror import FieldError, invalid, required
from kapi.api.objectmeta import validate_object_meta
from kapi.schema.builtin.decoder import MOST_UNKNOWN, structs
from kapi.schema.builtin.scalars import TypeMismatch
from kapi.schema.structural.defaulting import copy_json
from kapi.schema.structural.model import Schema
from kapi.schema.structural.report import Report, join, ordered

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.schema.structural.report import Path

    Visit = Callable[[dict[str, Any], Path, Any], None]
    """Handles an embedded object at a path; the last argument collects errors or unknown fields."""
    Step = Callable[[Any, Path, Any], None]
    """The same for any map or list on the way to one."""
    Place = tuple[Step | None, Step | None]

OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_IDLE: Final[Place] = (None, None)


class MalformedMetadata(TypeMismatch):
    """The metadata of an embedded object cannot be decoded; `error` says where and why."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


def coerce_object_meta(obj: dict[str, Any], *, drop_malformed: bool = False) -> list[str] | None:
    """Make `metadata`, in place, what a typed decoder would keep; returns the paths of unknown fields, sorted.

    Null becomes empty, absent stays absent. Raises `TypeMismatch` for values of a wrong type; with `drop_malformed`,
    as for objects from the store, such fields are dropped instead, and only metadata that is no map at all is refused.
    """
    if "metadata" not in obj:
        return None
    meta = obj["metadata"]
    if meta is None:
        obj["metadata"] = {}
        return None
    try:
        unknown = structs[OBJECT_META](meta)
    except TypeMismatch:
        if not drop_malformed or type(meta) is not dict:
            raise
        unknown = _drop_malformed(meta)
    return sorted(f"metadata{path}" for path in unknown[:MOST_UNKNOWN]) if unknown else None


def _drop_malformed(meta: dict[str, Any]) -> list[str]:
    """Read field by field, and keep those that can be read."""
    unknown: list[str] = []
    for name in list(meta):
        field = {name: meta.pop(name)}
        try:
            unknown += structs[OBJECT_META](field) or ()
        except TypeMismatch:
            continue
        meta |= field
    return unknown


# -- reading embedded objects -----------------------------------------------------------------------------------------


def compile_coerce(
    schema: Schema, *, root: bool = True, drop_malformed: bool = False
) -> Callable[[Any], list[str] | None] | None:
    """A function that decodes metadata of embedded objects in place, and returns the paths of unknown fields, sorted.

    With `root` the object itself counts as one. The function raises `MalformedMetadata` at the first head it cannot
    take; with `drop_malformed` it drops what is wrong. None when the schema embeds nothing. Doing it twice changes
    nothing.
    """

    def read(obj: dict[str, Any], path: Path, unknown: list[str]) -> None:
        _coerce_head(obj, path, unknown, drop_malformed=drop_malformed)

    on_map, on_list = _visiting(schema, read, root=root)
    if on_map is on_list is None:
        return None

    def coerce(value: Any) -> list[str] | None:
        unknown: list[str] = []
        _apply((on_map, on_list), value, None, unknown)
        return sorted(unknown) or None

    return coerce


def _coerce_head(obj: dict[str, Any], path: Path, unknown: list[str], *, drop_malformed: bool) -> None:
    for name in ("apiVersion", "kind"):
        if name not in obj or type(obj[name]) is str:
            continue
        if not drop_malformed:
            raise MalformedMetadata(invalid(join((path, f".{name}")), ordered(obj[name]), "must be a string"))
        del obj[name]
    try:
        found = coerce_object_meta(obj, drop_malformed=drop_malformed)
    except TypeMismatch as error:
        if drop_malformed:
            return
        where = join((path, ".metadata"))
        raise MalformedMetadata(invalid(where, ordered(obj["metadata"]), error.message)) from None
    if found and len(unknown) < MOST_UNKNOWN:
        prefix = join(path)
        unknown += (f"{prefix}.{below}" if prefix else below for below in found[: MOST_UNKNOWN - len(unknown)])


# -- validating embedded objects --------------------------------------------------------------------------------------


def compile_embedded_check(schema: Schema, *, root: bool = False) -> Callable[[Any, str], list[FieldError]] | None:
    """A function that validates the metadata of embedded objects, given a value and its path; None when there are none.

    It changes nothing, and takes objects that were not coerced before. With `root` the object itself counts as one.
    """
    on_map, on_list = _visiting(schema, _check_head, root=root)
    if on_map is on_list is None:
        return None

    def check(value: Any, path: str = "") -> list[FieldError]:
        report = Report()
        _apply((on_map, on_list), value, (None, path) if path else None, report)
        return report.errors

    return check


def _check_head(obj: dict[str, Any], path: Path, report: Report) -> None:
    if report.full:
        return
    errors = _head_errors(obj)
    if errors:
        prefix = join(path)
        for error in errors:
            report.add(error._replace(field=f"{prefix}.{error.field}") if prefix else error)


def _head_errors(obj: dict[str, Any]) -> list[FieldError]:
    errors = [required(name) for name in ("apiVersion", "kind") if name not in obj]
    if "apiVersion" in obj:
        errors += _api_version_errors(obj["apiVersion"])
    if "kind" in obj:
        errors += _kind_errors(obj["kind"])
    if "metadata" in obj:
        errors += _metadata_errors(obj["metadata"])
    return errors


def _api_version_errors(value: Any) -> list[FieldError]:
    if type(value) is not str:
        return [invalid("apiVersion", ordered(value), "must be a string")]
    if not value:
        return [invalid("apiVersion", value, "must not be empty")]
    if value.count("/") > 1:
        return [invalid("apiVersion", value, f"unexpected GroupVersion string: {value}")]
    return []


def _kind_errors(value: Any) -> list[FieldError]:
    if type(value) is not str:
        return [invalid("kind", ordered(value), "must be a string")]
    if not value:
        return [invalid("kind", value, "must not be empty")]
    if sentences := names.dns1035_label(value.lower()):
        return [invalid("kind", value, f"may have mixed case, but should otherwise match: {','.join(sentences)}")]
    return []


def _metadata_errors(value: Any) -> list[FieldError]:
    head = {"metadata": copy_json(value)}
    try:
        coerce_object_meta(head)
    except TypeMismatch as error:
        return [invalid("metadata", ordered(value), error.message)]
    # An embedded object need not have a name, so the rules run with one that is valid.
    meta = {"name": "fakename"} | head["metadata"]
    return validate_object_meta(
        meta, namespaced=bool(meta.get("namespace")), name_rule=names.path_segment, builtin=False
    )


# -- the way to embedded objects --------------------------------------------------------------------------------------


def _visiting(schema: Schema | bool | None, visit: Visit, *, root: bool = False) -> Place:
    """Functions that call `visit` with every embedded object below a place; None where there is none."""
    if not isinstance(schema, Schema):
        return _IDLE
    below = {name: _visiting(inner, visit) for name, inner in schema.properties.items()}
    others = _visiting(schema.additional, visit)
    found = visit if root or schema.embedded else None
    return _map(below, others, found), _list(_visiting(schema.items, visit))


def _map(below: dict[str, Place], others: Place, visit: Visit | None) -> Step | None:
    """The function for maps; `visit` is for the map itself, when it is an embedded object."""
    visited = [(name, f".{name}", place) for name, place in below.items() if any(place)]
    if visit is None and not visited and not any(others):
        return None

    def walk(obj: dict[str, Any], path: Path, found: Any) -> None:
        if visit is not None:
            visit(obj, path, found)
        for name, step, place in visited:
            if name in obj:
                _apply(place, obj[name], (path, step), found)
        if any(others):
            for key, value in obj.items():
                if key not in below:
                    _apply(others, value, (path, f"[{key}]"), found)

    return walk


def _list(place: Place) -> Step | None:
    if not any(place):
        return None

    def walk(items: list[Any], path: Path, found: Any) -> None:
        for index, item in enumerate(items):
            _apply(place, item, (path, f"[{index}]"), found)

    return walk


def _apply(place: Place, value: Any, path: Path, found: Any) -> None:
    step = place[0] if type(value) is dict else place[1] if type(value) is list else None
    if step is not None:
        step(value, path, found)
