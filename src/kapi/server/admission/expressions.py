"""Evaluation of CEL expressions in admission: within budgets, and never for long on the event loop.

An `Evaluation` is one run of some expressions with the same variables, with a budget for all of them together. It runs
on the event loop first, where it may spend `LOOP_ALLOWANCE`. What needs more, or asks an authorizer outside this
process, is run again from the start in a thread (`evaluate`): expressions have no effects, so nothing is done twice.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kapi.api.go.text import quote
from kapi.schema.admission.environments import VARIABLES
from kapi.schema.cel.libraries.authorizer import Answer
from kapi.schema.cel.run.code import BudgetExceeded
from kapi.schema.cel.run.program import CALL_LIMIT
from kapi.schema.cel.values import EvaluationError
from kapi.server.admission.celvariables import authorizer_variables, check_attributes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kapi.registry.request import Write
    from kapi.schema.admission.expressions import Compiled
    from kapi.schema.cel.libraries.authorizer import Check
    from kapi.server.authz.authorizer import Authorizer, Decision

T = TypeVar("T")

LOOP_ALLOWANCE: Final = 20_000
"""What the loops and calls of one request's expressions may cost on the event loop: a few milliseconds."""
_COST_OF_RUN: Final = 20
_CHARACTERS: Final = 8
"""A run of an expression costs `_COST_OF_RUN`, and one for so many characters: operators cost nothing in CEL."""

_WORKERS: Final = 2
"""Threads for expensive expressions: more would take turns from the event loop, and not be faster."""
_WAITERS: Final = 8
"""Threads for expressions that wait for an authorizer outside this process."""
_LONGEST_CHECK: Final = 30.0
"""Seconds that an expression waits for the decision of an authorizer outside this process."""
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class OutOfBudget(Exception):
    """All expressions of one evaluation together cost more than they may; no further one is run."""

    def __init__(self) -> None:
        super().__init__(_OUT_OF_BUDGET)


class _NeedsThread(Exception):
    """The evaluation has to be done in a thread, because it is expensive or, with `waits`, asks another process."""

    def __init__(self, *, waits: bool = False) -> None:
        super().__init__()
        self.waits = waits


class Outcome(NamedTuple):
    """The value of an expression, or why there is none."""

    value: Any = None
    error: str = ""


class _LazyVariables:
    """The value of `variables`: each is evaluated when it is first used, and once."""

    __slots__ = ("_evaluation", "_known", "_variables")

    def __init__(self, variables: Mapping[str, Compiled], evaluation: Evaluation) -> None:
        self._variables = variables
        self._evaluation = evaluation
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        value = self._known.get(name, self)
        if value is self:
            value = self._known[name] = self._evaluation.variable(name, self._variables[name])
        if isinstance(value, EvaluationError):
            raise value
        return value


# -- evaluation -------------------------------------------------------------------------------------------------------


class Authorization:
    """The answers to the checks of expressions, for one request."""

    __slots__ = ("_authorizer", "_loop", "obj", "write")

    def __init__(self, authorizer: Authorizer, write: Write, obj: Mapping[str, Any] | None) -> None:
        self._authorizer = authorizer
        self._loop = asyncio.get_running_loop()
        self.write = write
        self.obj = obj

    def variables(self, *, in_thread: bool) -> dict[str, Any]:
        """The values of `authorizer` and `authorizer.requestResource`."""
        return authorizer_variables(self.write, self.obj, self._ask_from_thread if in_thread else self._ask_on_loop)

    def _ask_on_loop(self, check: Check, verb: str) -> Answer:
        decision = self._authorizer.decide_now(check_attributes(check, verb))
        if decision is None:
            raise _NeedsThread(waits=True)
        return _answer(decision)

    def _ask_from_thread(self, check: Check, verb: str) -> Answer:
        # The authorizers' state belongs to the event loop, so also those that answer from memory are asked there.
        asked = self._authorizer.authorize(check_attributes(check, verb))
        waiting = asyncio.run_coroutine_threadsafe(asked, self._loop)
        try:
            return _answer(waiting.result(_LONGEST_CHECK))
        except TimeoutError:
            waiting.cancel()
            return Answer(allowed=False, error="the authorizer did not answer in time")


def _answer(decision: Decision) -> Answer:
    return Answer(decision.allowed, decision.reason, decision.error)


class Allowance:
    """What is left of `LOOP_ALLOWANCE` for one request; nothing is limited in a thread."""

    __slots__ = ("in_thread", "left")

    def __init__(self, *, in_thread: bool = False) -> None:
        self.in_thread = in_thread
        self.left = LOOP_ALLOWANCE


class Evaluation:
    """One run of some expressions with the same variables and one budget."""

    __slots__ = ("_allowance", "_composed", "_variables", "budget")

    def __init__(
        self,
        variables: dict[str, Any],
        budget: int,
        allowance: Allowance,
        *,
        authorization: Authorization | None = None,
        composed: Mapping[str, Compiled] | None = None,
    ) -> None:
        """`composed` are the variables of a policy."""
        self.budget = budget
        self._allowance = allowance
        self._composed = 0
        self._variables = variables
        if authorization is not None:
            self._variables = {**variables, **authorization.variables(in_thread=allowance.in_thread)}
        if composed:
            self._variables = {**self._variables, VARIABLES: _LazyVariables(composed, self)}

    def run(self, expression: Compiled) -> Outcome:
        """Evaluate one expression; raises OutOfBudget when too much is spent."""
        if expression.program is None:
            return Outcome(error=f"compilation error: {expression.error}")
        outcome, cost = self._evaluate(expression)
        composed, self._composed = self._composed, 0
        self.budget -= composed
        if self.budget < 0 or cost > self.budget:
            raise OutOfBudget
        self.budget -= cost
        if outcome.error:
            return Outcome(error=f"expression '{expression.source}' resulted in error: {outcome.error}")
        return outcome

    def variable(self, name: str, variable: Compiled) -> Any:
        """The value of a variable of the policy, or the error that its users get."""
        if variable.program is None:
            return EvaluationError(f"composited variable {quote(name)} fails to compile: {variable.error}")
        outcome, cost = self._evaluate(variable)
        self._composed += cost
        if outcome.error:
            return EvaluationError(f"composited variable {quote(name)} fails to evaluate: {outcome.error}")
        return outcome.value

    def _evaluate(self, expression: Compiled) -> tuple[Outcome, int]:
        program, allowance = expression.program, self._allowance
        assert program is not None
        allowance.left -= _COST_OF_RUN + len(expression.source) // _CHARACTERS
        if allowance.left < 0 and not allowance.in_thread:
            raise _NeedsThread
        limit = CALL_LIMIT if allowance.in_thread else min(CALL_LIMIT, program.fixed_cost + allowance.left)
        try:
            value, cost = program.evaluate(self._variables, limit)
        except BudgetExceeded as error:
            if limit < CALL_LIMIT:
                raise _NeedsThread from None
            return Outcome(error=str(error)), error.cost
        except EvaluationError as error:
            allowance.left -= max(0, error.cost - program.fixed_cost)
            return Outcome(error=error.text), error.cost
        allowance.left -= max(0, cost - program.fixed_cost)
        return Outcome(value), cost


async def evaluate(work: Callable[[Allowance], T], allowance: Allowance) -> T:
    """Return what `work` returns: on the event loop if the allowance is enough for it, else in a thread."""
    try:
        return work(allowance)
    except _NeedsThread as need:
        threads = _waiters() if need.waits else _workers()
    allowance.left = 0
    return await asyncio.get_running_loop().run_in_executor(threads, work, Allowance(in_thread=True))


# Not the threads of asyncio: nothing else of the server should wait for these.
@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_WORKERS, "admission-cel")


@cache
def _waiters() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_WAITERS, "admission-authorizer")
