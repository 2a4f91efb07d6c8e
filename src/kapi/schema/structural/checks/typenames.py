"""The types a schema allows, and the names messages give to the types of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kapi.schema.structural.checks.numbers import is_whole

if TYPE_CHECKING:
    from kapi.schema.structural.model import Schema

KINDS: Final = (str, int, float, bool, list, dict, type(None))
"""The classes of decoded JSON."""

_NAMES: Final = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}
_NUMERIC: Final = {"integer", "number"}
_NUMBER_FORMATS: Final = {int: "int64", float: "float64"}


@dataclass(frozen=True, slots=True)
class TypeRules:
    """The types that one place of a schema allows. `format` is a supported one, as it is written in the schema."""

    names: tuple[str, ...]
    format: str
    nullable: bool

    @classmethod
    def of(cls, schema: Schema) -> TypeRules:
        """The rules of a schema; for an integer or string it names both."""
        names = ("integer", "string") if schema.int_or_string else (schema.type,) if schema.type else ()
        return cls(names, schema.supported_format, schema.nullable)

    def problem(self, value: Any) -> tuple[str, str] | None:
        """The expected and the actual type for the error message; None when the value is of an allowed type.

        With a format, a value that is not a string is compared with the format; and a list passes for a formatted
        string, which kube-apiserver does not validate further. Clients see both.
        """
        if value is None:
            return None if self.nullable or not self.names else (",".join(self.names), "null")
        if not self.names and not self.format:
            return None
        kind = type(value)
        name = _NAMES[kind]
        fits = name in self.names or (
            "number" in self.names if kind is int else kind is float and "integer" in self.names and is_whole(value)
        )
        numeric = not _NUMERIC.isdisjoint(self.names)
        if self.format and kind is not str and kind is not list:
            return None if fits else (self.format, _NUMBER_FORMATS.get(kind, ""))
        if fits or (self.format and not numeric):
            return None
        return ",".join(self.names), name
