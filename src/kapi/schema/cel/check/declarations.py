"""The names that an expression may refer to: variables, functions and types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.schema.cel.types import type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.schema.cel.library import Functions
    from kapi.schema.cel.types import Object, Overload, Type


class Declarations:
    """Variables with their types, the functions of the enabled libraries, and object types that can be constructed."""

    __slots__ = ("_dotted", "_types", "functions", "objects", "variables")

    def __init__(self, variables: Mapping[str, Type], functions: Functions, objects: Mapping[str, Object]) -> None:
        self.variables = variables
        self.functions: Mapping[str, tuple[Overload, ...]] = functions.overloads
        self.objects = objects
        self._types = functions.types
        # Most selections start at a name that no dotted name starts with; they need no further look.
        self._dotted = functions.dotted.union(
            [name.partition(".")[0] for name in variables if "." in name], [name.partition(".")[0] for name in objects]
        )

    def find(self, name: str) -> Type | None:
        """The type of a variable, or the type of a type that is named."""
        found = self.variables.get(name) or self._types.get(name)
        if found is None and name in self.objects:
            return type_of(self.objects[name])
        return found

    def may_qualify(self, name: str) -> bool:
        """Return True if a dotted name may be declared that starts like this one."""
        return name.partition(".")[0] in self._dotted
