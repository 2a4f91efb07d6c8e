"""From schemas to type annotations: the type, its limits as `msgspec.Meta`, the rest as markers.

Every keyword that has a form in Python is removed from a copy of the schema; what is left at the end is written as
`extra_json_schema`, so that the class defines exactly the schema it was made from.
"""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kapi.scaffold.models import Attribute, ClassModel, NoTypes, Presence, rule
from kapi.scaffold.names import attribute_names, class_name, wire_name
from kapi.scaffold.source import Prefixed, call, choice, literal, subscript, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.scaffold.names import Names
    from kapi.scaffold.source import Expression

    Props = dict[str, Any]

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_RULES: Final = "x-kubernetes-validations"
_CHOICE: Final = [{"type": "integer"}, {"type": "string"}]
_SCALARS: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
_INTEGERS: Final = {"int64": "int", "int32": "crd.Int32"}
_LENGTHS: Final = {"str": "Length", "list": "Items", "dict": "Properties"}
_NOTED: Final = (_PRESERVE, "x-kubernetes-embedded-resource", "x-kubernetes-map-type", "nullable", "default")
"""The keywords that are written where a class is used; all others belong to the class."""
_UNSAYABLE: Final = re.compile(r'["\\\x00-\x1f]')
"""The characters that msgspec allows in no name of a field."""
_INT64: Final = 2**63


@dataclass(frozen=True, slots=True)
class Typed:
    """A schema as Python has it: a type, notes on it, and the keywords that are left."""

    base: Expression
    notes: tuple[Expression, ...] = ()
    is_nullable: bool = False
    model: ClassModel | None = None
    """The class it is, if it is one of its own."""
    holds_classes: bool = False
    """Return True if values of it are objects of classes, or have some inside."""

    def noted(self, *notes: Expression) -> Typed:
        """With more notes."""
        return replace(self, notes=(*self.notes, *notes))

    @property
    def annotation(self) -> Expression:
        """Without None."""
        return subscript("Annotated", self.base, *self.notes) if self.notes else self.base

    @property
    def annotation_or_none(self) -> Expression:
        """With None, where it may be null."""
        return choice(self.annotation, "None") if self.is_nullable else self.annotation


class Reader:
    """Reads schemas into `classes`, those that are used before those that use them."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.classes: list[ClassModel] = []

    def typed(self, props: Mapping[str, Any], path: tuple[str, ...]) -> Typed:
        """A place of a schema; `path` are the names that lead to it, the kind's first."""
        rest = dict(props)
        if rest.pop(_INT_OR_STRING, False):
            return _int_or_string(rest)
        match rest.pop("type", ""):
            case "object" if _is_map(props):
                return self._map(rest, path)
            case "object":
                return self._object(rest, path)
            case "array":
                return self._array(rest, path)
            case str(kind) if kind in _SCALARS:
                return _scalar(kind, rest)
            case kind:
                extra: Props = {"type": kind} if kind else {}
                keeps = rest.pop(_PRESERVE, False)
                return _finished(Typed("Any"), rest, extra if keeps else {_PRESERVE: None, **extra})

    # -- objects, maps and lists --------------------------------------------------------------------------------------

    def _object(self, rest: Props, path: tuple[str, ...]) -> Typed:
        model = self.model(rest, path, ClassModel(self._names.claim(class_name(*path))))
        noted: Props = {key: rest.pop(key) for key in _NOTED if key in rest}
        model.extra |= rest
        self.classes.append(model)
        return _finished(Typed(model.name, model=model, holds_classes=True), noted)

    def model(
        self, rest: Props, path: tuple[str, ...], model: ClassModel, taken: frozenset[str] = frozenset()
    ) -> ClassModel:
        """Take what a class can say out of `rest`; the rest is left for the caller."""
        properties = rest.pop("properties", {})
        required = rest.pop("required", [])
        attributes = attribute_names(list(properties), taken)
        model.attributes = [
            self._attribute(name, attributes[name], below, (*path, name), is_required=name in required)
            for name, below in properties.items()
        ]
        model.doc = rest.pop("description", "")
        model.rules = rest.pop(_RULES, [])
        if any(name not in properties for name in required):
            model.extra["required"] = required
        return model

    def _map(self, rest: Props, path: tuple[str, ...]) -> Typed:
        additional = rest.get("additionalProperties")
        if not isinstance(additional, dict):
            extra: Props = {} if rest.pop(_PRESERVE, False) else {_PRESERVE: None}
            return _limited(Typed(subscript("dict", "str", "Any")), rest, "dict", extra)
        del rest["additionalProperties"]
        value = self.typed(additional, path)
        if value.annotation_or_none == "Any":
            value = value.noted(call("crd.PreserveUnknown"))  # else it would be said of the map, not of what is in it
        base = subscript("dict", "str", value.annotation_or_none)
        return _limited(Typed(base, holds_classes=value.holds_classes), rest, "dict")

    def _array(self, rest: Props, path: tuple[str, ...]) -> Typed:
        if not isinstance(rest.get("items"), dict):
            return _limited(Typed(subscript("list", "Any")), rest, "list", {"items": rest.pop("items", None)})
        items = self.typed(rest.pop("items"), path)
        base = subscript("list", items.annotation_or_none)
        return _limited(Typed(base, holds_classes=items.holds_classes), rest, "list")

    # -- fields -------------------------------------------------------------------------------------------------------

    def _attribute(
        self, name: str, attribute: str, props: Mapping[str, Any], path: tuple[str, ...], *, is_required: bool
    ) -> Attribute:
        if _UNSAYABLE.search(name):
            raise NoTypes(f"{'.'.join(path[:-1])}: no class can have a field that is named {text(name)}")
        rest = dict(props)
        default = rest.pop("default", None)  # null is the same as none at all
        doc = "" if _is_class(rest) else rest.pop("description", "")
        typed = self.typed(rest, path)
        renamed: dict[str, Expression] = {} if wire_name(attribute) == name else {"name": text(name)}
        if default is None and is_required:
            renaming = call("msgspec.field", **renamed) if renamed else None
            return Attribute(attribute, typed.annotation_or_none, renaming, doc, Presence.REQUIRED)
        if default is None:
            typed = typed.noted(call("crd.Nullable")) if typed.is_nullable else typed
            return Attribute(attribute, choice(typed.annotation, "None"), _value("None", renamed), doc)
        if is_required:
            typed = typed.noted(call("crd.Required"))
        defaulted, value = _defaulted(typed, _fitting(default, props), renamed)
        presence = Presence.DEFAULTED if defaulted == typed else Presence.NOTED
        return Attribute(attribute, defaulted.annotation_or_none, value, doc, presence)


def _is_map(props: Mapping[str, Any]) -> bool:
    return not props.get("properties") and bool(props.get("additionalProperties") or props.get(_PRESERVE))


def _is_class(props: Mapping[str, Any]) -> bool:
    return props.get("type") == "object" and not props.get(_INT_OR_STRING) and not _is_map(props)


# -- defaults ---------------------------------------------------------------------------------------------------------


def _fitting(default: Any, props: Mapping[str, Any]) -> Any:
    """The default with the type of the field: JSON does not tell 1.0 from 1."""
    is_whole = props.get("type") == "integer" and isinstance(default, float) and default.is_integer()
    return int(default) if is_whole else default


def _defaulted(typed: Typed, default: Any, renamed: dict[str, Expression]) -> tuple[Typed, Expression]:
    """A field with a default: what is said of its type, and the value. What the value cannot say, a marker says."""
    marked = typed.noted(call("crd.Default", literal(default)))
    if not isinstance(default, dict | list):
        return marked if default == "" else typed, _value(literal(default), renamed)
    if default:
        made = literal(default)
        if typed.holds_classes:
            typed, made = marked, call("msgspec.convert", made, typed.base)
        return typed, _factory(Prefixed("lambda: ", made), renamed)
    if typed.model is None:
        return marked, _factory("list" if isinstance(default, list) else "dict", renamed)
    found = {one.presence for one in typed.model.attributes}
    is_said = Presence.DEFAULTED in found and Presence.NOTED not in found
    return typed if is_said else marked, _factory(typed.model.name, renamed)


def _factory(made: Expression, renamed: dict[str, Expression]) -> Expression:
    return call("msgspec.field", **renamed, default_factory=made)


def _value(default: Expression, renamed: dict[str, Expression]) -> Expression:
    return call("msgspec.field", **renamed, default=default) if renamed else default


# -- scalars ----------------------------------------------------------------------------------------------------------


def _scalar(kind: str, rest: Props) -> Typed:
    values = rest.get("enum")
    if values and _is_literal(values, kind):
        return _finished(Typed(subscript("Literal", *map(literal, rest.pop("enum")))), rest)
    base = name = _SCALARS[kind]
    if kind == "integer":
        rest["format"] = rest.get("format", "")
        if rest["format"] in _INTEGERS:
            base = _INTEGERS[rest.pop("format")]
    return _limited(Typed(base), rest, name)


def _is_literal(values: list[Any], kind: str) -> bool:
    wanted = {"string": str, "integer": int}.get(kind)
    return all(type(value) is wanted for value in values) and len(set(values)) == len(values)


def _int_or_string(rest: Props) -> Typed:
    """Limits of numbers are said of the number, limits of strings of the string."""
    members = [
        Typed(name).noted(call("msgspec.Meta", **limits)) if (limits := _limits(rest, name)) else Typed(name)
        for name in ("int", "str")
    ]
    extra: Props = {}
    if rest.get("anyOf") == _CHOICE:
        del rest["anyOf"]
    elif "anyOf" not in rest:
        extra["anyOf"] = None
    return _finished(Typed(choice(*(member.annotation for member in members))), rest, extra)


# -- limits and markers -----------------------------------------------------------------------------------------------


def _limited(typed: Typed, rest: Props, name: str, extra: Props | None = None) -> Typed:
    """With the limits msgspec can check, and all else."""
    return _finished(typed, rest, extra, _limits(rest, name))


def _limits(rest: Props, name: str) -> dict[str, Expression]:
    """Take the limits of a type out of `rest`, those that msgspec knows and can check."""
    found: dict[str, Any] = {}
    if name in ("int", "float"):
        _take_range(rest, found, name)
    elif name in _LENGTHS:
        for key, argument in ((f"min{_LENGTHS[name]}", "min_length"), (f"max{_LENGTHS[name]}", "max_length")):
            if rest.get(key, -1) >= 0:
                found[argument] = rest.pop(key)
    if name == "str" and _is_portable(rest.get("pattern")):
        found["pattern"] = rest.pop("pattern")
    return {argument: literal(value) for argument, value in found.items()}


def _take_range(rest: Props, found: dict[str, Any], name: str) -> None:
    for key, flag, plain, strict in (
        ("minimum", "exclusiveMinimum", "ge", "gt"),
        ("maximum", "exclusiveMaximum", "le", "lt"),
    ):
        number = _number(rest.get(key), name)
        if number is not None:
            del rest[key]
            found[strict if rest.get(flag) else plain] = number
            if rest.get(flag):
                del rest[flag]
    step = _number(rest.get("multipleOf"), name)
    if step is not None and step > 0:
        del rest["multipleOf"]
        found["multiple_of"] = step


def _number(value: Any, name: str) -> float | None:
    """A limit as msgspec takes it for a type; None when it does not."""
    if value is None or not math.isfinite(value):
        return None
    if name == "float":
        return float(value) if abs(value) >= _INT64 else value
    return int(value) if value == int(value) and -_INT64 <= value < _INT64 else None


def _is_portable(pattern: str | None) -> bool:
    """Return True if Python reads a pattern, too, and without a warning that it means something else there."""
    if not pattern:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            re.compile(pattern)  # never run here
        except (re.error, FutureWarning, DeprecationWarning, OverflowError, RecursionError):
            return False
    return True


def _finished(
    typed: Typed, rest: Props, extra: Props | None = None, limits: dict[str, Expression] | None = None
) -> Typed:
    """With everything else that a schema says of a place."""
    meta: dict[str, Expression] = dict(limits or {})
    for key in ("title", "description"):
        if rest.get(key):
            meta[key] = text(rest.pop(key))
    notes = _markers(rest)
    if rest.pop("nullable", False):
        # No enumeration can be null, whatever its schema says.
        typed = replace(typed, is_nullable="enum" not in rest and not _is_enumeration(typed.base))
        notes += [] if typed.is_nullable else [call("crd.Nullable")]
    left = {**rest, **(extra or {})}
    if left:
        meta["extra_json_schema"] = literal(left)
    return typed.noted(*([call("msgspec.Meta", **meta)] if meta else []), *notes)


def _is_enumeration(base: Expression) -> bool:
    return not isinstance(base, str) and getattr(base, "head", "") == "Literal["


def _markers(rest: Props) -> list[Expression]:
    """Take out of `rest` what there are markers for."""
    notes: list[Expression] = []
    if "format" in rest:
        notes.append(call("crd.Format", text(rest.pop("format"))))
    keys = rest.get("x-kubernetes-list-map-keys")
    if keys and rest.get("x-kubernetes-list-type") == "map":
        notes.append(call("crd.ListMap", *map(text, keys)))
        del rest["x-kubernetes-list-map-keys"], rest["x-kubernetes-list-type"]
    for key, name in (("x-kubernetes-list-type", "crd.ListType"), ("x-kubernetes-map-type", "crd.MapType")):
        if key in rest:
            notes.append(call(name, text(rest.pop(key))))
    for key, name in ((_PRESERVE, "crd.PreserveUnknown"), ("x-kubernetes-embedded-resource", "crd.Embedded")):
        if rest.pop(key, False):
            notes.append(call(name))
    notes += map(rule, rest.pop(_RULES, ()))
    if "default" in rest:
        notes.append(call("crd.Default", literal(rest.pop("default"))))
    return notes
