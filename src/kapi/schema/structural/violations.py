"""The reasons why an `openAPIV3Schema` is not structural.

A structural schema tells the type of every field apart from any rules about values, so that pruning, defaulting and
merging need to look at no value. This module walks the decoded schema itself and not `Schema`, since it is about what
people wrote; nothing here is used once a schema has been accepted. Texts and order are kube-apiserver's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.fielderror import forbidden, invalid, required
from kapi.schema.patterns import pattern_problem
from kapi.schema.structural.report import Report, join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kapi.api.fielderror import FieldError
    from kapi.schema.structural.report import Path

    Props = Mapping[str, Any]

_ROOT, _ITEM, _FIELD = range(3)
"""The place of a schema, which decides the error for a missing type."""
_NO_TYPE: Final = (
    "must not be empty at the root",
    "must not be empty for specified array items",
    "must not be empty for specified object fields",
)
_UNSUPPORTED: Final = {
    "id": "id",
    "$schema": "schema",
    "$ref": "$ref",
    "patternProperties": "patternProperties",
    "dependencies": "dependencies",
    "additionalItems": "additionalItems",
    "definitions": "definitions",
}
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_INT_OR_STRING_CHOICE: Final = [{"type": "integer"}, {"type": "string"}]
_NOT_IN_RULES: Final = (
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (_PRESERVE, "must be false to be structural"),
    (_EMBEDDED, "must be false to be structural"),
    (_INT_OR_STRING, "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
"""Fields that are not value validations, and so are forbidden inside allOf, anyOf, oneOf and not."""


_POINTERS: Final = frozenset({"default", "example", "x-kubernetes-list-type", "x-kubernetes-map-type"})
"""Those that say something even when they are empty."""


def violations(props: Props, path: str) -> list[FieldError]:
    """Every way in which a decoded `JSONSchemaProps` at `path` is not structural, sorted by text.

    A schema that cannot even be read as one (`unconvertible`) has that as its only violation.
    """
    text = unconvertible(props)
    if text is not None:
        return [invalid(path, "", text)]
    report = Report()
    top: Path = (None, path)
    _check_structure(props, top, report, _ROOT)
    _check_rules_complete(props, props, top, top, report)
    return sorted(report.errors, key=str)


# -- what no structural schema can say --------------------------------------------------------------------------------


def unconvertible(props: Props) -> str | None:
    """The reason why the schema cannot be converted to a structural one at all; None when it can.

    The general validation of schemas refuses most of these, too, and in better words; kube-apiserver shows this
    sentence only when there is no other error.
    """
    for name, called in _UNSUPPORTED.items():
        if props.get(name) or (name == "additionalItems" and props.get(name) is False):
            return f"OpenAPIV3Schema '{called}' is not supported"
    for _, below in _rule_parts(props):
        if (text := unconvertible(below)) is not None:
            return text
    if props.get(_PRESERVE) is False:
        return f"internal error: '{_PRESERVE}' must be true or undefined"
    if isinstance(props.get("items"), list):
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    for below in _parts(props):
        if (text := unconvertible(below)) is not None:
            return text
    return None


def _parts(props: Props) -> Iterator[Props]:
    """The schemas one level further down in an object."""
    for below in (props.get("items"), *_properties(props).values(), props.get("additionalProperties")):
        if isinstance(below, dict):
            yield below


def _rule_parts(props: Props) -> Iterator[tuple[str, Props]]:
    """The schemas that are rules about the values of this one, with the step to each."""
    if isinstance(props.get("not"), dict):
        yield ".not", props["not"]
    for name in ("allOf", "anyOf", "oneOf"):
        for index, below in enumerate(props.get(name) or ()):
            yield f".{name}[{index}]", below


def _properties(props: Props) -> Mapping[str, Props]:
    return props.get("properties") or {}


# -- structure --------------------------------------------------------------------------------------------------------


def _check_structure(props: Props, path: Path, report: Report, level: int) -> None:
    if report.full:
        return
    items, additional = props.get("items"), props.get("additionalProperties")
    if props.get("type") == "array" and not isinstance(items, dict):
        report.add(required(join((path, ".items")), "must be specified"))
    if isinstance(items, dict):
        _check_structure(items, (path, ".items"), report, _ITEM)
    for name, below in _properties(props).items():
        _check_structure(below, (path, f".properties[{name}]"), report, _FIELD)
    if isinstance(additional, dict):
        _check_structure(additional, (path, ".additionalProperties"), report, _FIELD)
    if additional is not None and level == _ROOT:
        report.add(forbidden(join((path, ".additionalProperties")), "must not be used at the root"))
    _check_type(props, path, report, level)
    _check_int_or_string(props, path, report)
    _check_embedded(props, path, report)
    _check_head(props, path, report, level)
    all_of = props.get("allOf") or []
    _check_rules(
        props,
        path,
        report,
        known_any_of=_is_int_or_string_choice(props),
        known_below=bool(all_of) and _is_int_or_string_choice(all_of[0]),
    )


def _check_type(props: Props, path: Path, report: Report, level: int) -> None:
    kind = props.get("type") or ""
    where = (path, ".type")
    if props.get(_EMBEDDED) and kind != "object":
        what = f"must be object if {_EMBEDDED} is true"
        report.add(invalid(join(where), kind, what) if kind else required(join(where), what))
    elif not kind and not props.get(_INT_OR_STRING) and not props.get(_PRESERVE):
        report.add(required(join(where), _NO_TYPE[level]))
    if level == _ROOT and kind not in ("", "object"):
        report.add(invalid(join(where), kind, "must be object at the root"))


def _check_int_or_string(props: Props, path: Path, report: Report) -> None:
    if not props.get(_INT_OR_STRING):
        return
    for name in (_PRESERVE, _EMBEDDED):
        if props.get(name):
            report.add(
                invalid(join((path, f".{name}")), value=True, detail=f"must be false if {_INT_OR_STRING} is true")
            )


def _check_embedded(props: Props, path: Path, report: Report) -> None:
    if not props.get(_EMBEDDED):
        return
    if props.get("additionalProperties") is not None:
        report.add(forbidden(join((path, ".additionalProperties")), f"must not be used if {_EMBEDDED} is set"))
    if not props.get(_PRESERVE) and not _properties(props):
        what = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
        report.add(required(join((path, ".properties")), what))


def _check_head(props: Props, path: Path, report: Report, level: int) -> None:
    """Check the schemas of `apiVersion`, `kind` and `metadata` of an object."""
    if level != _ROOT and not props.get(_EMBEDDED):
        return
    properties = _properties(props)
    for name, kind in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if name in properties and properties[name].get("type") != kind:
            where = (path, f".properties[{name}].type")
            report.add(invalid(join(where), properties[name].get("type") or "", f"must be {kind}"))
    if level == _ROOT and "metadata" in properties and not _restricts_names_only(properties["metadata"]):
        what = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        report.add(forbidden(join((path, ".properties[metadata]")), what))


def _restricts_names_only(metadata: Props) -> bool:
    said = _said(metadata)
    if said.keys() - {"type", "default", "properties"} or metadata.get("additionalProperties") is not None:
        return False
    return _properties(metadata).keys() <= {"name", "generateName"}


def _said(props: Props) -> dict[str, Any]:
    """The schema without fields that have their zero value."""
    return {
        name: value
        for name, value in props.items()
        if value or (value is not None and (name in _POINTERS or (value == 0 and value is not False)))
    }


# -- rules about values -----------------------------------------------------------------------------------------------


def _check_rules(
    props: Props, path: Path, report: Report, *, known_any_of: bool = False, known_below: bool = False
) -> None:
    """Check allOf, anyOf, oneOf, not and the pattern of a schema or of a rule.

    Rules may name types in one case only: an anyOf of integer and string, here (`known_any_of`) or in the first allOf
    (`known_below`).
    """
    for step, below in _rule_parts(props):
        if not (known_any_of and step.startswith(".anyOf")):
            _check_rule(below, (path, step), report, known_any_of=known_below and step == ".allOf[0]")
    if (pattern := props.get("pattern")) and (problem := pattern_problem(pattern)) is not None:
        what = f"must be a valid regular expression, but isn't: {problem}"
        report.add(invalid(join((path, ".pattern")), pattern, what))


def _check_rule(props: Props, path: Path, report: Report, *, known_any_of: bool = False) -> None:
    """Check a schema inside allOf, anyOf, oneOf or not: it may only have value validations."""
    if report.full:
        return
    _check_rules(props, path, report, known_any_of=known_any_of)
    if isinstance(props.get("items"), dict):
        _check_rule(props["items"], (path, ".items"), report)
    for name, below in _properties(props).items():
        _check_rule(below, (path, f".properties[{name}]"), report)
    if props.get("type"):
        report.add(forbidden(join((path, ".type")), "must be empty to be structural"))
    if props.get("additionalProperties") not in (None, False):
        report.add(forbidden(join((path, ".additionalProperties")), "must be undefined to be structural"))
    for name, what in _NOT_IN_RULES:
        value = props.get(name)
        if value or (value is not None and name in _POINTERS):
            report.add(forbidden(join((path, f".{name}")), what))
    if "metadata" in _properties(props):
        report.add(forbidden(join((path, ".properties[metadata]")), "must not be specified in a nested context"))


def _is_int_or_string_choice(props: Props) -> bool:
    choice = props.get("anyOf") or ()
    return [_said(one) for one in choice] == _INT_OR_STRING_CHOICE


# -- completeness -----------------------------------------------------------------------------------------------------


def _check_rules_complete(rules: Props, props: Props, path: Path, rules_path: Path, report: Report) -> None:
    """Check that every field and item the rules speak of is also specified outside of them.

    kube-apiserver asks this of the rules at the root only, and so do we.
    """
    for step, below in _rule_parts(rules):
        _check_rule_complete(below, props, path, (rules_path, step), report)


def _check_rule_complete(rule: Props, props: Props | None, path: Path, rule_path: Path, report: Report) -> None:
    if report.full:
        return
    if props is None:
        report.add(required(join(path), f"because it is defined in {join(rule_path)}"))
        return
    _check_rules_complete(rule, props, path, rule_path, report)
    if isinstance(rule.get("items"), dict):
        items = props["items"] if isinstance(props.get("items"), dict) else None
        _check_rule_complete(rule["items"], items, (path, ".items"), (rule_path, ".items"), report)
    known = _properties(props)
    for name, below in _properties(rule).items():
        step = f".properties[{name}]"
        _check_rule_complete(below, known.get(name), (path, step), (rule_path, step), report)
