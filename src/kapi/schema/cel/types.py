"""The types of the expression language.

Types are values: two of them are equal when they mean the same. `str()` of one is how messages write it. An object
type has named fields; its name is a path such as `selfType.spec` or `Object.metadata`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


_SHOWN: Final = {
    "null_type": "null",
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
}
"""Types that messages call by a shorter name than they have."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type by name, with parameters: `list(string)`, `map(string, int)`, `optional_type(int)`, `type(int)`."""

    name: str
    params: tuple[Type, ...] = ()

    def __str__(self) -> str:
        if not self.params:
            return _SHOWN.get(self.name, self.name)
        # Called as a method because types may nest deeply, and `str()` costs more of the stack.
        shown = [self.params[0].__str__()]
        for param in self.params[1:]:
            shown.append(param.__str__())  # noqa: PERF401 - so does a comprehension
        return f"{self.name}({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class Param(Type):
    """A type parameter of an overload, such as the `A` of `list(A)`."""


@dataclass(frozen=True, slots=True, eq=False)
class Object(Type):
    """A type with named fields. Two are exchangeable when they have one name.

    Fields are looked up with `get`, so a mapping may make them when they are first asked for, or know any name. Values
    are dictionaries; those of a constructible type may also be `values.Constructed`.
    """

    fields: Mapping[str, Type] = field(default_factory=dict)
    constructible: bool = False
    keeps_null: bool = False
    """A field whose value is null is present. In objects with a schema it is absent."""


BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null_type")
DYN: Final = Type("dyn")
ERROR: Final = Type("!error!")
TIMESTAMP: Final = Type("google.protobuf.Timestamp")
DURATION: Final = Type("google.protobuf.Duration")

LIST: Final = "list"
MAP: Final = "map"
OPTIONAL: Final = "optional_type"
TYPE: Final = "type"


def list_of(element: Type) -> Type:
    """`list(element)`."""
    return Type(LIST, (element,))


def map_of(key: Type, value: Type) -> Type:
    """`map(key, value)`."""
    return Type(MAP, (key, value))


def optional_of(value: Type) -> Type:
    """`optional_type(value)`."""
    return Type(OPTIONAL, (value,))


def type_of(value: Type) -> Type:
    """The type of a type."""
    return Type(TYPE, (value,))


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function. A member's first argument is its receiver."""

    id: str
    args: tuple[Type, ...]
    result: Type
    member: bool = False
    parameters: tuple[str, ...] = field(init=False, compare=False)
    """The names of the type parameters in the arguments and the result."""

    def __post_init__(self) -> None:
        names: dict[str, None] = {}
        for type_ in (*self.args, self.result):
            _collect_parameters(type_, names)
        object.__setattr__(self, "parameters", tuple(names))


def _collect_parameters(type_: Type, names: dict[str, None]) -> None:
    if isinstance(type_, Param):
        names[type_.name] = None
    for param in type_.params:
        _collect_parameters(param, names)
