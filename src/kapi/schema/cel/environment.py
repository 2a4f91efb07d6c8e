"""Environments: what expressions may refer to, and the way from the text of one to a program.

An environment is made once and extended for each use, as Kubernetes does: a base environment has the libraries, a
policy adds its variables. Extending is cheap unless it adds libraries, whose functions are merged then.
"""

from __future__ import annotations

from collections import ChainMap
from typing import TYPE_CHECKING, Final

from kapi.schema.cel.check.checker import check
from kapi.schema.cel.check.declarations import Declarations
from kapi.schema.cel.check.substitutions import is_exact
from kapi.schema.cel.libraries import LIBRARIES
from kapi.schema.cel.library import Functions, Library
from kapi.schema.cel.run.program import Program
from kapi.schema.cel.syntax.parser import parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kapi.schema.cel.types import Object, Type

VERSION: Final = (1, 36)
"""The Kubernetes version whose libraries are enabled."""


class ResultTypeError(Exception):
    """The expression is well formed and its result is of another type than the one wanted."""


class Environment:
    """Variables, functions and types that expressions may use. Immutable, and safe to share between threads.

    `variables` are types by name. `types` are object types by the names that expressions construct them by; the mapping
    may answer for names that it does not list, as long as it lists the first part of each. Libraries that came with a
    later `version` of Kubernetes are left out.
    """

    __slots__ = ("_declarations", "_functions", "libraries", "version")

    def __init__(
        self,
        variables: Mapping[str, Type] | None = None,
        *,
        libraries: Sequence[Library] = LIBRARIES,
        types: Mapping[str, Object] | None = None,
        version: tuple[int, int] = VERSION,
        functions: Functions | None = None,
    ) -> None:
        """Make an environment; `functions` are those of the libraries, when they are merged already."""
        self.version = version
        if functions is None:
            libraries = tuple(one for one in libraries if one.since <= version)
            functions = Functions(libraries)
        self.libraries = libraries
        self._functions = functions
        self._declarations = Declarations(variables or {}, self._functions, types or {})

    def extend(
        self,
        variables: Mapping[str, Type] | None = None,
        *,
        libraries: Sequence[Library] = (),
        types: Mapping[str, Object] | None = None,
    ) -> Environment:
        """An environment that has more, and shares what it can with this one."""
        mine = self._declarations
        return Environment(
            {**mine.variables, **variables} if variables else mine.variables,
            libraries=(*self.libraries, *libraries) if libraries else self.libraries,
            types=ChainMap({}, types, mine.objects) if types else mine.objects,  # type: ignore[arg-type]
            version=self.version,
            functions=None if libraries else self._functions,
        )

    def compile(self, source: str, result: Type | None = None) -> Program:
        """Parse, check and plan an expression.

        Raises SyntaxErrors and CheckErrors with everything that is wrong; ResultTypeError when the expression does not
        give a `result`; ProgramError when it could never run.
        """
        checked = check(parse(source), source, self._declarations)
        if result is not None and not is_exact(checked.type, result):
            raise ResultTypeError(str(checked.type))
        return Program(checked, self._functions)
