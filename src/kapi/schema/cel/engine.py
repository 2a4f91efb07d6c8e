"""The door to the expression language: text in, an `Expression` out that can be priced and run.

An expression is checked when it is made and compiled when it first runs, so a definition can be judged without paying
for programs that nobody runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.check.checker import check
from kapi.schema.cel.cost.estimator import estimate
from kapi.schema.cel.libraries import FUNCTIONS
from kapi.schema.cel.libraries.standard import STANDARD
from kapi.schema.cel.run.program import Program, compile_program
from kapi.schema.cel.syntax.parser import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.schema.cel.cost.estimates import Estimate
    from kapi.schema.cel.cost.estimator import Sizes
    from kapi.schema.cel.syntax.ast import Checked
    from kapi.schema.cel.types import Type

CALL_LIMIT: Final = 1_000_000
"""The most that one run of one expression may cost."""


class ResultTypeError(Exception):
    """The expression is well formed and gives something else than what is wanted."""


class Expression:
    """A checked expression. Immutable as far as callers can see, and safe to share."""

    __slots__ = ("_program", "checked")

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self._program: Program | None = None

    def uses(self, variable: str) -> bool:
        """Whether the expression mentions a variable."""
        return variable in self.checked.names.values()

    def cost(self, sizes: Sizes) -> Estimate:
        """The least and the most that a run may cost, given how large its inputs may be."""
        return estimate(self.checked, sizes)

    def prepare(self) -> Program:
        """Compile now; raises ProgramError when the expression could never run, as `int('x')` could not."""
        program = self._program
        if program is None:
            program = self._program = compile_program(self.checked)
        return program

    def run(self, variables: Mapping[str, Any], limit: int = CALL_LIMIT) -> tuple[Any, int]:
        """The value and what it cost; raises EvaluationError, or BudgetExceeded when it costs more than the limit."""
        return (self._program or self.prepare()).run(variables, limit)


def compile_expression(source: str, variables: Mapping[str, Type], result: Type) -> Expression:
    """Parse and check an expression; raises ExpressionErrors, or ResultTypeError when it does not give a `result`."""
    checked = check(parse(source), source, variables, _ALL_FUNCTIONS)
    if checked.type != result:
        raise ResultTypeError(str(checked.type))
    return Expression(checked)


_ALL_FUNCTIONS: Final = {**STANDARD, **FUNCTIONS}
