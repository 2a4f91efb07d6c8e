"""The compiled form of a part of an expression: a function of the frame, and what running it costs.

A frame is a list: what was spent, what may be spent, then one place per variable. Costs that are known beforehand are
not counted by the function itself: **the caller of a piece of code adds its `cost` first**, once for everything below,
and the function subtracts what an error kept from being evaluated. So a whole rule is paid for with one addition.

Errors are exceptions here and values in cel-go, where both sides of an operator are evaluated, and paid for,
even if the first has failed. `discard` and `attempt` are for that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from kapi.schema.cel.values import EvaluationError

Frame = list[Any]
Run = Callable[[Frame], Any]

SPENT: Final = 0
LIMIT: Final = 1
FIRST_VARIABLE: Final = 2


class BudgetExceeded(Exception):
    """An expression costs more than it may. Not an EvaluationError: `||` does not absorb it."""

    def __init__(self, cost: int = 0) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")
        self.cost = cost


class ProgramError(EvaluationError):
    """An expression that can never run, such as `int('x')` or a broken pattern; found when it is compiled."""


class Code(NamedTuple):
    """A compiled part. `run` must be called after `cost` is paid."""

    run: Run
    cost: int = 0
    own: int = 0
    """The part of the cost that falls away when this is a branch of a condition or an index: a quirk of the model."""
    is_path: bool = False
    """A variable with selections; selecting from anything else costs one more."""
    is_constant: bool = False
    value: Any = None
    """Of a constant."""
    slot: int | None = None
    """Of a plain variable: its place in the frame."""


def constant(value: Any) -> Code:
    """The code of a constant."""
    return Code(lambda frame: value, is_constant=True, value=value)


def discard(run: Run, frame: Frame) -> None:
    """Run for the cost only, and ignore the value or error."""
    with suppress(EvaluationError):
        run(frame)


def attempt(run: Run, frame: Frame) -> Any:
    """The value, or the error as a value."""
    try:
        return run(frame)
    except EvaluationError as error:
        return error
