"""Markers for `Annotated[...]`: what a schema can say and Python's types cannot.

Limits (`ge`, `le`, `min_length`, `pattern` …), titles and descriptions are `msgspec.Meta`, which msgspec itself checks
when it decodes; these here are for the definition only. What even they cannot say goes into the `extra_json_schema` of
a `Meta`, as it stands in the definition; a null there takes away what the type would say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Rule:
    """A validation rule in CEL, on a field, or on a whole class through `@resource(rules=...)` or `RULES`."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool | None = None

    def apply(self, schema: dict[str, Any]) -> None:
        """Add the rule to a schema."""
        pairs = {
            "rule": self.rule,
            "message": self.message,
            "messageExpression": self.message_expression,
            "reason": self.reason,
            "fieldPath": self.field_path,
        }
        rule: dict[str, Any] = {key: value for key, value in pairs.items() if value}
        if self.optional_old_self is not None:
            rule["optionalOldSelf"] = self.optional_old_self
        schema.setdefault("x-kubernetes-validations", []).append(rule)


@dataclass(frozen=True, slots=True)
class Format:
    """A format of a string or a number, such as `date-time`, `ipv4` or `int32`; an empty one takes it away."""

    name: str

    def apply(self, schema: dict[str, Any]) -> None:
        """Set the format."""
        schema.pop("format", None)
        if self.name:
            schema["format"] = self.name


@dataclass(frozen=True, slots=True, eq=False)  # what unions are made of must have a hash, which not every value has
class Default:
    """The default that the server fills in, where it is not the default of the field in Python.

    An empty string, list or map means in Python that a field is absent, and is no default of the schema;
    `Annotated[str, Default("")] = ""` makes it one.
    """

    value: Any

    def apply(self, schema: dict[str, Any]) -> None:
        """Set the default."""
        schema["default"] = self.value


@dataclass(frozen=True, slots=True)
class Required:
    """The field is required although it has a default: definitions in the wild say so, and servers default first."""


class ListMap:
    """A list whose items are told apart by keys, so that several can own items of it: `ListMap("name")`.

    The keys are required of the items then, unless they have defaults.
    """

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def apply(self, schema: dict[str, Any]) -> None:
        """Set the list type and its keys."""
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = list(self.keys)
        items = schema.get("items", {})
        properties, required = items.get("properties", {}), items.get("required", [])
        missing = [
            key for key in self.keys if key in properties and key not in required and "default" not in properties[key]
        ]
        if missing:
            items["required"] = [*required, *missing]


@dataclass(frozen=True, slots=True)
class ListType:
    """The ownership of a list: as a whole (`atomic`, the default) or item by item, none twice (`set`).

    Python's own sets are of type `set`, too; a list keeps its order.
    """

    name: str

    def apply(self, schema: dict[str, Any]) -> None:
        """Set the list type."""
        schema["x-kubernetes-list-type"] = self.name


@dataclass(frozen=True, slots=True)
class MapType:
    """The ownership of a map: as a whole (`atomic`) or key by key (`granular`, the default)."""

    name: str

    def apply(self, schema: dict[str, Any]) -> None:
        """Set the map type."""
        schema["x-kubernetes-map-type"] = self.name


@dataclass(frozen=True, slots=True)
class PreserveUnknown:
    """Keep fields the schema does not know, from here down."""

    def apply(self, schema: dict[str, Any]) -> None:
        """Mark the schema."""
        schema["x-kubernetes-preserve-unknown-fields"] = True


@dataclass(frozen=True, slots=True)
class Embedded:
    """A whole object of another kind is kept here: its apiVersion, kind and metadata are known to the server."""

    def apply(self, schema: dict[str, Any]) -> None:
        """Mark the schema."""
        schema["x-kubernetes-embedded-resource"] = True


@dataclass(frozen=True, slots=True)
class Nullable:
    """The field may be null, which is not the same as being absent.

    Only needed where None in Python means absence, that is, where it is the default.
    """

    def apply(self, schema: dict[str, Any]) -> None:
        """Mark the schema."""
        schema["nullable"] = True


Marker = Rule | Format | Default | ListMap | ListType | MapType | PreserveUnknown | Embedded | Nullable
"""Markers that change the schema they stand on. `Required` is not one: it changes the schema around it."""

Int32: TypeAlias = Annotated[int, Format("int32")]
IntOrString: TypeAlias = int | str


ColumnType: TypeAlias = Literal["boolean", "date", "integer", "number", "string"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column `kubectl get` prints. With a priority above 0 it is shown in the wide form only."""

    name: str
    json_path: str
    type: ColumnType = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> dict[str, Any]:
        """As it stands in `additionalPrinterColumns`."""
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.json_path}
        pairs = {"format": self.format, "description": self.description, "priority": self.priority}
        return column | {key: value for key, value in pairs.items() if value}


@dataclass(frozen=True, slots=True)
class Scale:
    """The paths of the numbers that the scale sub-resource shows."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ""

    def definition(self) -> dict[str, Any]:
        """As it stands in `subresources.scale`."""
        scale = {"specReplicasPath": self.spec_replicas, "statusReplicasPath": self.status_replicas}
        return scale | ({"labelSelectorPath": self.selector} if self.selector else {})
