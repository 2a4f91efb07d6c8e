"""The types of a schema's values in expressions, and how large they may be.

A `Declaration` mirrors a schema as far as expressions can reach into it. It gives the type that expressions are checked
against and the sizes that their cost is estimated from: what the schema limits, else what fits into one request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kapi.api.limits import BODY_BYTES
from kapi.schema.cel.cost.estimates import Estimate
from kapi.schema.cel.syntax.identifiers import escape
from kapi.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Object,
    Type,
    list_of,
    map_of,
)
from kapi.schema.structural.model import MISSING, Schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kapi.schema.cel.cost.calls import Sizes

REQUEST_BYTES: Final = BODY_BYTES
"""The largest request that estimates assume. Part of the contract: accepted rules depend on it."""

SELF: Final = "selfType"
"""The name of the type of `self`; the types below it are named by their path."""

_LONGEST_STRING: Final = REQUEST_BYTES - 2
_LONGEST_TIME: Final = 32
_DATE_BYTES: Final = 12
_BYTES_PER_CHARACTER: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class Declaration:
    """The values of one place of a schema, as expressions see them.

    Exactly one of these holds: `fields` is set (an object), `element` is set (a list, or a map when `is_map`), or
    neither, and then `simple` is the type.
    """

    min_size: int
    """The fewest bytes of JSON that a value can take."""
    max_elements: int = 0
    """The most characters, bytes, items or entries; 0 where a value has no size."""
    simple: Type = DYN
    fields: Mapping[str, Declaration] | None = None
    """By the names that expressions use."""
    element: Declaration | None = None
    is_map: bool = False

    def type(self, name: str = SELF) -> Type:
        """The type, in which objects are named by their path below `name`."""
        if self.fields is not None:
            return Object(name, fields=_Fields(name, self.fields))
        if self.element is None:
            return self.simple
        if self.is_map:
            return map_of(STRING, self.element.type(f"{name}.@elem"))
        return list_of(self.element.type(f"{name}.@idx"))


class _Fields(Mapping[str, Type]):
    """The types of an object's fields, each made when it is first asked for: most expressions ask for few."""

    __slots__ = ("_declared", "_made", "_name")

    def __init__(self, name: str, declared: Mapping[str, Declaration]) -> None:
        self._name = name
        self._declared = declared
        self._made: dict[str, Type] = {}

    def __getitem__(self, field: str) -> Type:
        made = self._made.get(field)
        if made is None:
            made = self._made[field] = self._declared[field].type(f"{self._name}.{field}")
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


_KEY: Final = Declaration(2, simple=STRING)
"""The key of any map. Its size is not counted."""

_BOOL: Final = Declaration(4, simple=BOOL)
_INT: Final = Declaration(1, simple=INT)
_DOUBLE: Final = Declaration(1, simple=DOUBLE)
_DURATION: Final = Declaration(3, _LONGEST_TIME, DURATION)
_DATE: Final = Declaration(_DATE_BYTES, _DATE_BYTES, TIMESTAMP)
_TIME: Final = Declaration(21, _LONGEST_TIME, TIMESTAMP)
_SCALARS: Final = {"boolean": _BOOL, "integer": _INT, "number": _DOUBLE}
_FORMATS: Final = {"duration": _DURATION, "date": _DATE, "date-time": _TIME}


def declare(schema: Schema, *, root: bool) -> Declaration | None:
    """The declaration of a schema; None when expressions cannot use its values, because they have no type.

    `root` says that the schema is of a whole resource, also of an embedded one: these have type and name in any case.
    """
    if schema.int_or_string:
        return Declaration(1, _string_length(schema))
    if schema.type == "array":
        return _list(schema)
    if schema.type == "object":
        return _map(schema) if isinstance(schema.additional, Schema) else _object(with_metadata(schema, root=root))
    if schema.type == "string":
        return _string(schema)
    return _SCALARS.get(schema.type)


def with_metadata(schema: Schema, *, root: bool) -> Schema:
    """The schema of a resource with `apiVersion`, `kind`, `metadata.name` and `metadata.generateName` known."""
    if not root or _has_metadata(schema):
        return schema
    string = Schema(type="string")
    metadata = Schema(type="object", properties={"name": string, "generateName": string})
    added = {"kind": string, "apiVersion": string, "metadata": metadata}
    return replace(schema, properties=schema.properties | added)


def _has_metadata(schema: Schema) -> bool:
    metadata = schema.properties.get("metadata")
    if metadata is None or metadata.type != "object":
        return False
    strings = (
        *map(schema.properties.get, ("kind", "apiVersion")),
        *map(metadata.properties.get, ("name", "generateName")),
    )
    return all(one is not None and one.type == "string" for one in strings)


def _list(schema: Schema) -> Declaration | None:
    items = declare(schema.items, root=schema.items.embedded) if schema.items else None
    if items is None:
        return None
    # Brackets, and a comma after each item.
    most = (REQUEST_BYTES - 2) // (items.min_size + 1) if schema.max_items is None else max(schema.max_items, 0)
    return Declaration(2, most, element=items)


def _map(schema: Schema) -> Declaration | None:
    assert isinstance(schema.additional, Schema)
    values = declare(schema.additional, root=schema.additional.embedded)
    if values is None:
        return None
    # Braces; a key of two bytes in quotes, a colon and a comma for each entry.
    most = (
        (REQUEST_BYTES - 2) // (values.min_size + 6) if schema.max_properties is None else max(schema.max_properties, 0)
    )
    return Declaration(2, most, element=values, is_map=True)


def _object(schema: Schema) -> Declaration:
    fields = {}
    size = 2
    for name, below in schema.properties.items():
        declared = declare(below, root=below.embedded)
        if declared is None:
            continue
        written = escape(name)
        if written is not None:
            fields[written] = declared
        if name in schema.required and (below.default is MISSING or below.default is None):
            size += len(name.encode()) + declared.min_size + 4
    return Declaration(size, fields=fields)


def _string(schema: Schema) -> Declaration:
    if schema.format in _FORMATS:
        return _FORMATS[schema.format]
    if schema.format == "byte":
        most = _LONGEST_STRING if schema.max_length is None else max(schema.max_length, 0)
        return Declaration(2, most, BYTES)
    if schema.max_length is None and schema.enum:
        return Declaration(
            2, max((len(one.encode()) for one in schema.enum if isinstance(one, str)), default=0), STRING
        )
    return Declaration(2, _string_length(schema), STRING)


def _string_length(schema: Schema) -> int:
    # A limit counts characters and an estimate counts bytes.
    return _LONGEST_STRING if schema.max_length is None else max(schema.max_length, 0) * _BYTES_PER_CHARACTER


def sizes_of(declaration: Declaration) -> Sizes:
    """Sizes for an expression whose variables are all of one declared type, as `self` and `oldSelf` are."""

    def size(path: Sequence[str]) -> Estimate | None:
        if not path:
            return None
        # The variable is not looked at, and a path may well begin elsewhere: `['a'].all(x, …)` has `@items` only.
        at = declaration
        for step in path[1:]:
            below = _step(at, step)
            if below is None:
                return None
            at = below
        return Estimate(0, at.max_elements)

    return size


def _step(declaration: Declaration, step: str) -> Declaration | None:
    if step in ("@items", "@values"):
        return declaration.element
    if step == "@keys":
        return _KEY if declaration.is_map else None
    return declaration.fields.get(step) if declaration.fields else None
