"""Programs: expressions that run. Compiled once into nested functions on plain dicts, then run on many objects.

`compile_program` takes a checked tree. `Program.run` gives the value and what it cost, counted as the reference counts,
so that a rule runs out of budget at the same size of object. Programs keep nothing between runs and may be shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel import libraries
from kapi.schema.cel.libraries.standard import STANDARD
from kapi.schema.cel.run.code import FIRST_VARIABLE, SPENT, BudgetExceeded, ProgramError
from kapi.schema.cel.run.operations import BY_FUNCTION, IMPLEMENTATIONS
from kapi.schema.cel.run.planner import Planner
from kapi.schema.cel.values import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kapi.schema.cel.run.code import Run
    from kapi.schema.cel.syntax.ast import Checked
    from kapi.schema.cel.types import Type

__all__ = ["BudgetExceeded", "EvaluationError", "Program", "ProgramError", "compile_program"]

_ALL: Final[dict[str, Callable[..., Any]]] = {**IMPLEMENTATIONS, **libraries.IMPLEMENTATIONS}
_SIGNATURES: Final[dict[str, tuple[Type, ...]]] = {
    overload.id: overload.args
    for functions in (STANDARD, libraries.FUNCTIONS)
    for overloads in functions.values()
    for overload in overloads
}
_GENERAL: Final = {**BY_FUNCTION, **libraries.GENERAL}
_NO_LIMIT: Final = 2**64


class Program:
    """An expression that runs. Immutable, and safe to share between threads."""

    __slots__ = ("_cost", "_locals", "_names", "_run")

    def __init__(self, run: Run, cost: int, names: tuple[str, ...], places: int) -> None:
        self._run = run
        self._cost = cost
        self._names = names
        self._locals = (None,) * places

    def run(self, variables: Mapping[str, Any], budget: int | None = None) -> tuple[Any, int]:
        """The value and what it cost.

        Raises EvaluationError, with the cost, when there is no value, and BudgetExceeded when it would cost more than
        the budget. Values must be of the types that the expression was checked with.
        """
        limit = _NO_LIMIT if budget is None else budget
        try:
            frame = [self._cost, limit, *self._locals, *[variables[name] for name in self._names]]
        except KeyError as missing:
            raise EvaluationError(f"no such attribute(s): {missing.args[0]}") from None
        try:
            value = self._run(frame)
        except EvaluationError as error:
            if frame[SPENT] > limit:
                raise BudgetExceeded(frame[SPENT]) from None
            error.cost = frame[SPENT]
            raise
        except (TypeError, AttributeError, ValueError, LookupError, ArithmeticError, RecursionError):
            # Data that is not of the declared types, is no proper text, or nests too deep to be compared: such a rule
            # fails, and not the request.
            mismatch = EvaluationError("no such overload")
            mismatch.cost = frame[SPENT]
            raise mismatch from None
        if frame[SPENT] > limit:
            raise BudgetExceeded(frame[SPENT])
        return value, frame[SPENT]


def compile_program(checked: Checked, implementations: Mapping[str, Callable[..., Any]] | None = None) -> Program:
    """The program of a checked tree; raises ProgramError when it could never run.

    `implementations` are by overload and add to those of the standard functions and the libraries.
    """
    planner = Planner(checked, {**_ALL, **implementations} if implementations else _ALL, _SIGNATURES, _GENERAL)
    try:
        code = planner.plan(checked.root)
    except RecursionError:
        raise ProgramError("expression is nested too deeply") from None
    return Program(code.run, code.cost, tuple(reversed(planner.variables)), planner.slots - FIRST_VARIABLE)
