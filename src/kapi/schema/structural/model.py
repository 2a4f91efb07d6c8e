"""The schema of a custom resource as a tree of typed records, read once from the definition.

The other modules of this package walk this tree when a kind is first used and make functions of it; nothing walks it
per request. Reading never fails: `violations` finds what must not be in a schema, before one is accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kapi.schema.formats import supported_format

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Missing:
    """The absence of a default, which is not a default of null."""

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of `x-kubernetes-validations`."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool | None = None


@dataclass(slots=True, eq=False)
class Schema:
    """One place of a schema. Numbers and lengths are None when they are not limited."""

    type: str = ""
    format: str = ""
    title: str = ""
    description: str = ""
    nullable: bool = False
    default: Any = MISSING
    enum: tuple[Any, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    min_items: int | None = None
    max_items: int | None = None
    unique_items: bool = False
    min_properties: int | None = None
    max_properties: int | None = None
    required: tuple[str, ...] = ()
    properties: dict[str, Schema] = field(default_factory=dict)
    items: Schema | None = None
    additional: Schema | bool | None = None
    """`additionalProperties`: a schema for all other keys, or True if there may be others; None when not given."""
    all_of: tuple[Schema, ...] = ()
    any_of: tuple[Schema, ...] = ()
    one_of: tuple[Schema, ...] = ()
    not_: Schema | None = None
    preserve_unknown: bool = False
    embedded: bool = False
    int_or_string: bool = False
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    rules: tuple[Rule, ...] = ()

    @property
    def supported_format(self) -> str:
        """The format that values are validated by, as it is written; empty when there is none."""
        return supported_format(self.format, "" if self.int_or_string else self.type)


_SCALARS: Final = {
    "type": "type",
    "format": "format",
    "title": "title",
    "description": "description",
    "nullable": "nullable",
    "default": "default",
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "exclusive_minimum",
    "exclusiveMaximum": "exclusive_maximum",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "pattern": "pattern",
    "minItems": "min_items",
    "maxItems": "max_items",
    "uniqueItems": "unique_items",
    "minProperties": "min_properties",
    "maxProperties": "max_properties",
    "x-kubernetes-preserve-unknown-fields": "preserve_unknown",
    "x-kubernetes-embedded-resource": "embedded",
    "x-kubernetes-int-or-string": "int_or_string",
    "x-kubernetes-list-type": "list_type",
    "x-kubernetes-map-type": "map_type",
}
_TUPLES: Final = {"enum": "enum", "required": "required", "x-kubernetes-list-map-keys": "list_map_keys"}
_LISTS: Final = {"allOf": "all_of", "anyOf": "any_of", "oneOf": "one_of"}


def read(props: Mapping[str, Any]) -> Schema:
    """The schema of a `JSONSchemaProps` that was decoded with the types of its definition."""
    schema = Schema()
    for key, attribute in _SCALARS.items():
        if key in props:
            setattr(schema, attribute, props[key])
    for key, attribute in _TUPLES.items():
        if props.get(key):
            setattr(schema, attribute, tuple(props[key]))
    for key, attribute in _LISTS.items():
        if props.get(key):
            setattr(schema, attribute, tuple(read(one) for one in props[key]))
    schema.properties = {name: read(below) for name, below in props.get("properties", {}).items()}
    if isinstance(props.get("items"), dict):
        schema.items = read(props["items"])
    additional = props.get("additionalProperties")
    schema.additional = read(additional) if isinstance(additional, dict) else additional
    if isinstance(props.get("not"), dict):
        schema.not_ = read(props["not"])
    schema.rules = tuple(_rule(one) for one in props.get("x-kubernetes-validations", ()))
    return schema


def _rule(props: Mapping[str, Any]) -> Rule:
    return Rule(
        rule=props.get("rule", ""),
        message=props.get("message", ""),
        message_expression=props.get("messageExpression", ""),
        reason=props.get("reason", ""),
        field_path=props.get("fieldPath", ""),
        optional_old_self=props.get("optionalOldSelf"),
    )


def has_rules(schema: Schema) -> bool:
    """Return True if there are validation rules at a place, or below it where objects have values."""
    parts = [*schema.properties.values(), schema.items, schema.additional]
    return bool(schema.rules) or any(isinstance(part, Schema) and has_rules(part) for part in parts)
