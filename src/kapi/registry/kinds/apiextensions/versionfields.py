"""The parts of a version besides its schema: deprecation, sub-resources, columns, selectable fields.

Each may stand in a version or above all of them, and is validated alike in both places. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api import names
from kapi.api.fielderror import FieldError, duplicate, forbidden, invalid, required, too_many
from kapi.registry.kinds.apiextensions import gostructs
from kapi.registry.kinds.apiextensions.options import MOST_SELECTABLE, ValidationOptions, schema_of
from kapi.schema.rules.fieldpaths import FieldPathError, resolve
from kapi.schema.structural.model import read
from kapi.schema.structural.violations import unconvertible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Props = Mapping[str, Any]

COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
NAME_FIELDS: Final = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
ABOVE: Final = (
    ("validation", "schemas"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
)
"""Fields that v1beta1 has above its versions, and what their conflict with the versions' own is called."""

_SELECTABLE_TYPES: Final = ("string", "boolean", "integer")
_MOST_WARNING_BYTES: Final = 256


def part_errors(part: Props, path: str, options: ValidationOptions, version: str) -> list[FieldError]:
    """Validate what stands in a version, or above all of them (`version` is empty)."""
    errors = _scale_errors((part.get("subresources") or {}).get("scale"), f"{path}.subresources.scale")
    for index, column in enumerate(part.get("additionalPrinterColumns") or ()):
        errors += _column_errors(column, f"{path}.additionalPrinterColumns[{index}]")
    selectable = part.get("selectableFields")
    return errors + _selectable_errors(selectable, part, path, options, version) if selectable else errors


def conflicts(spec: Props) -> list[FieldError]:
    """Return the errors of a v1beta1 definition whose fields cannot be stored as v1.

    `v1beta1.to_v1` leaves such fields where they were; a definition in today's form cannot have them.
    """
    errors = [forbidden(f"spec.{field}", f"belongs in spec.names.{field}") for field in NAME_FIELDS if field in spec]
    errors += [
        forbidden(f"spec.{field}", f"top-level and per-version {what} are mutually exclusive")
        for field, what in ABOVE
        if field in spec
    ]
    versions = spec.get("versions") or []
    version = spec.get("version") or (versions[0].get("name", "") if versions else "")
    sentences = names.dns1035_label(version) if version else []
    if sentences:
        errors.append(invalid("spec.version", version, ",".join(sentences)))
    if version and versions and versions[0].get("name", "") != version:
        errors.append(invalid("spec.version", version, "must match the first version in spec.versions"))
    return errors


def deprecation_errors(version: Props, path: str) -> list[FieldError]:
    """The warning that users of a deprecated version get."""
    text = version.get("deprecationWarning")
    if text is None:
        return []
    return [gostructs.invalid(path, text, problem) for problem in _warning_problems(text, version.get("deprecated"))]


def _warning_problems(text: str, deprecated: Any) -> list[str]:
    if not deprecated:
        return ["can only be set for deprecated versions"]
    problems = []
    if names.byte_length(text) > _MOST_WARNING_BYTES:
        problems.append(f"must be <= {_MOST_WARNING_BYTES} characters long")
    if not text:
        problems.append("must not be an empty string")
    for index, character in enumerate(text):
        if not character.isprintable():
            at = names.byte_length(text[:index])
            what = f"must only contain printable UTF-8 characters; non-printable character found at index {at}"
            problems.append(what)
            break
    return problems


# -- sub-resources and columns ---------------------------------------------------------------------------------------


def _scale_errors(scale: Props | None, path: str) -> list[FieldError]:
    if scale is None:
        return []
    errors: list[FieldError] = []
    for field, below in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        target, where = scale.get(field, ""), f"{path}.{field}"
        if not target:
            errors.append(required(where))
        else:
            errors += _path_errors(target, where, (f"{below}.",), f"should be a json path under {below}")
    selector = scale.get("labelSelectorPath")
    if selector:
        detail = "should be a json path under either .spec or .status"
        errors += _path_errors(selector, f"{path}.labelSelectorPath", (".spec.", ".status."), detail)
    return errors


def _path_errors(target: str, where: str, prefixes: tuple[str, ...], detail: str) -> list[FieldError]:
    if not target.startswith("."):
        return [invalid(where, target, "must be a simple json path starting with .")]
    return [] if target.startswith(prefixes) else [invalid(where, target, detail)]


def _column_errors(column: Props, path: str) -> list[FieldError]:
    errors = [] if column.get("name") else [required(f"{path}.name")]
    kind, layout, target = column.get("type", ""), column.get("format", ""), column.get("jsonPath", "")
    if kind not in COLUMN_TYPES:
        detail, where = f"must be one of {','.join(COLUMN_TYPES)}", f"{path}.type"
        errors.append(invalid(where, kind, detail) if kind else required(where, detail))
    if layout and layout not in COLUMN_FORMATS:
        errors.append(invalid(f"{path}.format", layout, f"must be one of {','.join(COLUMN_FORMATS)}"))
    if not target:
        errors.append(required(f"{path}.JSONPath"))
    elif not target.startswith("."):
        errors.append(invalid(f"{path}.JSONPath", target, "must be a simple json path starting with ."))
    return errors


# -- selectable fields -----------------------------------------------------------------------------------------------


def _selectable_errors(
    selectable: Sequence[Props], part: Props, path: str, options: ValidationOptions, version: str
) -> list[FieldError]:
    where, props = f"{path}.selectableFields", schema_of(part)
    if props is None:
        detail = (
            "may only be set when `version.schema.openAPIV3Schema` is not included"
            if version
            else "may only be set when validations.schema is included"
        )
        return [invalid(where, "", detail)]
    problem = unconvertible(props)
    if problem is not None:
        return [invalid(f"{path}.schema.openAPIV3Schema", "", problem)]
    errors, count = _selected_errors(selectable, props, where)
    if count > MOST_SELECTABLE and not options.may_crowd(version, list(selectable)):
        errors.append(too_many(where, count, MOST_SELECTABLE))
    return errors


def _selected_errors(selectable: Sequence[Props], props: Props, path: str) -> tuple[list[FieldError], int]:
    """Validate selectable fields one by one; returns the errors and the number of different fields."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    schema = read(props)
    for index, one in enumerate(selectable):
        target, where = one.get("jsonPath", ""), f"{path}[{index}].jsonPath"
        if not target:
            errors.append(required(where))
            continue
        try:
            name, found = resolve(target, schema, brackets=False)
        except FieldPathError as error:
            errors.append(invalid(where, target, f"is an invalid path: {error}"))
            continue
        if name.partition(".")[0] == "metadata":
            errors.append(invalid(where, target, "must not point to fields in metadata"))
        if found.type not in _SELECTABLE_TYPES:
            detail = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats "
                "are allowed."
            )
            errors.append(invalid(where, target, detail))
        if name in seen:
            errors.append(duplicate(where, target))
        seen.add(name)
    return errors, len(seen)
