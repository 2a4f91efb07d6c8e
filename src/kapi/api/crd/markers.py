"""What a schema can say that Python's types cannot: put one or several into `Annotated[...]`.

Limits (`ge`, `le`, `min_length`, `pattern` …), titles and descriptions are `msgspec.Meta`, which msgspec itself checks
when it decodes; these here are for the definition only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias


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
    """A format of a string or a number, such as `date-time`, `ipv4` or `int32`."""

    name: str

    def apply(self, schema: dict[str, Any]) -> None:
        """Set the format."""
        schema["format"] = self.name


class ListMap:
    """A list whose items are told apart by keys, so that several can own items of it: `ListMap("name")`."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def apply(self, schema: dict[str, Any]) -> None:
        """Set the list type and its keys."""
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = list(self.keys)


@dataclass(frozen=True, slots=True)
class MapType:
    """Whether a map is owned as a whole (`atomic`) or key by key (`granular`, as it is without this)."""

    name: str

    def apply(self, schema: dict[str, Any]) -> None:
        """Set the map type."""
        schema["x-kubernetes-map-type"] = self.name


class PreserveUnknown:
    """Keep fields the schema does not know, from here down."""

    def apply(self, schema: dict[str, Any]) -> None:
        """Mark the schema."""
        schema["x-kubernetes-preserve-unknown-fields"] = True


class Embedded:
    """A whole object of another kind is kept here: its apiVersion, kind and metadata are known to the server."""

    def apply(self, schema: dict[str, Any]) -> None:
        """Mark the schema."""
        schema["x-kubernetes-embedded-resource"] = True


class Nullable:
    """The field may be null, which is not the same as being absent."""

    def apply(self, schema: dict[str, Any]) -> None:
        """Mark the schema."""
        schema["nullable"] = True


Marker = Rule | Format | ListMap | MapType | PreserveUnknown | Embedded | Nullable

Int32: TypeAlias = Annotated[int, Format("int32")]
IntOrString: TypeAlias = int | str


@dataclass(frozen=True, slots=True)
class Column:
    """A column `kubectl get` prints. With a priority above 0 it is shown in the wide form only."""

    name: str
    json_path: str
    type: str = "string"
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
    """Where the scale sub-resource finds its numbers."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ""

    def definition(self) -> dict[str, Any]:
        """As it stands in `subresources.scale`."""
        scale = {"specReplicasPath": self.spec_replicas, "statusReplicasPath": self.status_replicas}
        return scale | ({"labelSelectorPath": self.selector} if self.selector else {})
