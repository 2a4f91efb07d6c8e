"""Programs: expressions that run. Compiled once into nested functions on plain dicts, then run on many objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.cost.estimator import estimate
from kapi.schema.cel.run.code import FIRST_VARIABLE, SPENT, BudgetExceeded, ProgramError
from kapi.schema.cel.run.planner import Planner
from kapi.schema.cel.values import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.schema.cel.cost.calls import Sizes
    from kapi.schema.cel.cost.estimates import Estimate
    from kapi.schema.cel.library import Functions
    from kapi.schema.cel.run.code import Run
    from kapi.schema.cel.syntax.ast import Checked
    from kapi.schema.cel.types import Type

CALL_LIMIT: Final = 1_000_000
"""The most that one run of one expression may cost, unless the caller says otherwise."""


class Program:
    """An expression that runs. Immutable, keeps nothing between runs, and is safe to share between threads.

    Costs are counted as cel-go counts them, so that an expression runs out of budget at the same size of object.
    """

    __slots__ = ("_cost", "_functions", "_locals", "_names", "_run", "checked")

    def __init__(self, checked: Checked, functions: Functions) -> None:
        """Compile a checked expression; raises ProgramError when it could never run, as `int('x')` could not."""
        planner = Planner(checked, functions)
        try:
            code = planner.plan(checked.root)
        except RecursionError:
            raise ProgramError("expression is nested too deeply") from None
        self.checked = checked
        self._functions = functions
        self._run: Run = code.run
        self._cost = code.cost
        self._names = tuple(reversed(planner.variables))
        self._locals = (None,) * (planner.slots - FIRST_VARIABLE)

    @property
    def type(self) -> Type:
        """The type of the result."""
        return self.checked.type

    @property
    def fixed_cost(self) -> int:
        """The part of the cost that is known beforehand, without what loops, branches and long texts add."""
        return self._cost

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables that a run needs."""
        return self._names

    def uses(self, variable: str) -> bool:
        """Return True if the expression mentions a variable."""
        return variable in self.checked.names.values()

    def estimate(self, sizes: Sizes) -> Estimate:
        """The least and the most that a run may cost, given how large its inputs may be."""
        return estimate(self.checked, sizes, self._functions.estimates, self._functions.equality)

    def evaluate(self, variables: Mapping[str, Any], budget: int = CALL_LIMIT) -> tuple[Any, int]:
        """The value and what it cost.

        Raises EvaluationError, with the cost, when there is no value, and BudgetExceeded when it would cost more than
        the budget. Values must be of the types that the expression was checked with.
        """
        try:
            frame = [self._cost, budget, *self._locals, *[variables[name] for name in self._names]]
        except KeyError as missing:
            raise EvaluationError(f"no such attribute(s): {missing.args[0]}") from None
        try:
            value = self._run(frame)
        except EvaluationError as error:
            if frame[SPENT] > budget:
                raise BudgetExceeded(frame[SPENT]) from None
            error.cost = frame[SPENT]
            raise
        except (TypeError, AttributeError, ValueError, LookupError, ArithmeticError, RecursionError):
            # Data that is not of the declared types, is no proper text, or nests too deep to be compared: the
            # expression fails, and not the request.
            mismatch = EvaluationError("no such overload")
            mismatch.cost = frame[SPENT]
            raise mismatch from None
        if frame[SPENT] > budget:
            raise BudgetExceeded(frame[SPENT])
        return value, frame[SPENT]
