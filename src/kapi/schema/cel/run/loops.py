"""Folds over lists and maps, to which `all`, `exists`, `map`, `filter` and others are expanded.

The common ones run as plain loops and cost what their expansion costs. An error does not end a fold: cel-go continues,
with the error as the accumulated value, and so the cost of the remaining rounds counts. The budget is looked at in each
round.
"""

from __future__ import annotations

from operator import length_hint
from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.run.code import LIMIT, SPENT, BudgetExceeded, Code, Frame, Run
from kapi.schema.cel.run.gotypes import value_type
from kapi.schema.cel.run.paths import accumulator, variable
from kapi.schema.cel.syntax.ast import Call, Comprehension, Literal, MapExpr
from kapi.schema.cel.types import BOOL, LIST, MAP
from kapi.schema.cel.values import (
    EvaluationError,
    is_list,
    no_such_overload,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kapi.schema.cel.run.planner import Planner

    Bind = Callable[[Frame, Any], None]
    Iterate = Callable[[Any], Iterator[Any]]

_COLLECTING: Final = frozenset({"map", "filter", "transformList"})
_UNSET: Final = object()


def plan_loop(planner: Planner, node: Comprehension) -> Code:
    """The code of a fold."""
    if isinstance(node.condition, Literal) and node.condition.value is False:
        return _plan_binding(planner, node)
    over = planner.plan(node.range)
    iterate = _iteration(planner.type_of(node.range).name, two=bool(node.second))
    first, second = planner.new_slot(), planner.new_slot() if node.second else -1
    names = {node.variable: variable(first)}
    if node.second:
        names[node.second] = variable(second)
    bind = _binder(first, second)
    slot = planner.new_slot()
    with planner.scope({**names, node.accumulator: accumulator(slot)}):
        if node.macro in {"all", "exists"}:
            return _plan_quantifier(planner, node, over, iterate, bind)
        if node.macro in _COLLECTING:
            return _plan_collection(planner, node, over, iterate, bind)
    return _plan_fold(planner, node, over, iterate, bind, names, slot)


def _binder(first: int, second: int) -> Bind | int:
    """The slot of the only loop variable, or a function that sets both."""
    if second < 0:
        return first

    def bind(frame: Frame, pair: Any) -> None:
        frame[first], frame[second] = pair

    return bind


# -- what is gone through ---------------------------------------------------------------------------------------------


def _iteration(type_name: str, *, two: bool) -> Iterate:
    if two:
        return _pairs
    return iter if type_name in {LIST, MAP} else _elements


def _elements(value: Any) -> Iterator[Any]:
    if isinstance(value, dict) or is_list(value):
        return iter(value)
    raise EvaluationError(f"got '{value_type(value)}', expected iterable type")


def _pairs(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        return iter(value.items())
    if is_list(value):
        return iter(list(enumerate(value)))
    raise EvaluationError(f"unsupported comprehension range type: {value_type(value)}")


# -- all, exists ------------------------------------------------------------------------------------------------------


def _plan_quantifier(planner: Planner, node: Comprehension, over: Code, iterate: Iterate, bind: Bind | int) -> Code:
    assert isinstance(node.step, Call)
    test = planner.plan(node.step.args[1])
    condition = planner.plan(node.condition).cost
    certain = planner.type_of(node.step.args[1]) == BOOL
    decisive = node.macro == "exists"
    run = _quantifier(
        over.run,
        iterate,
        bind,
        test.run if certain else _boolean(test.run),
        decisive,
        condition,
        condition + 1 + test.cost,
    )
    return Code(run, over.cost)


def _boolean(test: Run) -> Run:
    def run(frame: Frame) -> bool:
        value = test(frame)
        return value if isinstance(value, bool) else no_such_overload()

    return run


def _quantifier(
    over: Run, iterate: Iterate, bind: Bind | int, test: Run, decisive: bool, condition: int, cost: int
) -> Run:
    """A loop that ends at the first decisive result. A condition is paid for before each round, also the last one."""
    slot = bind if isinstance(bind, int) else -1

    def run(frame: Frame) -> Any:
        error: EvaluationError | None = None
        rest = iterate(over(frame))
        for item in rest:
            spent = frame[SPENT] = frame[SPENT] + cost
            if spent > frame[LIMIT]:
                raise BudgetExceeded(spent)
            if slot >= 0:
                frame[slot] = item
            else:
                bind(frame, item)  # type: ignore[operator]
            try:
                if test(frame) is decisive:
                    frame[SPENT] += 1 + (condition if length_hint(rest) else 0)
                    return decisive
            except EvaluationError as found:
                error = error or found
        frame[SPENT] += 1
        if error is not None:
            raise error
        return not decisive

    return run


# -- map, filter ------------------------------------------------------------------------------------------------------


def _plan_collection(planner: Planner, node: Comprehension, over: Code, iterate: Iterate, bind: Bind | int) -> Code:
    step, tests = node.step, []
    while isinstance(step, Call) and step.function == "_?_:_":
        tests.append(planner.plan(step.args[0]))
        step = step.args[1]
    assert isinstance(step, Call)
    # One for the list so far, one for adding to it, and what making a list of one costs.
    item = planner.plan(step.args[1])
    test = tests[0] if tests else None
    return Code(_collection(over.run, iterate, bind, test, item, item.cost + 2), over.cost)


def _collection(over: Run, iterate: Iterate, bind: Bind | int, test: Code | None, item: Code, cost: int) -> Run:
    make = item.run
    keep = test.run if test else None
    before = test.cost if test else cost
    slot = bind if isinstance(bind, int) else -1

    def run(frame: Frame) -> list[Any]:
        kept: list[Any] = []
        error: EvaluationError | None = None
        for element in iterate(over(frame)):
            spent = frame[SPENT] = frame[SPENT] + before
            if spent > frame[LIMIT]:
                raise BudgetExceeded(spent)
            if slot >= 0:
                frame[slot] = element
            else:
                bind(frame, element)  # type: ignore[operator]
            if keep is not None:
                try:
                    answer = keep(frame)
                    if answer is False:
                        continue
                    if answer is not True:
                        no_such_overload()
                except EvaluationError as found:
                    error = found
                    continue
                frame[SPENT] += cost
            try:
                kept += make(frame)
            except EvaluationError as found:
                error = error or found
        frame[SPENT] += 1
        if error is not None:
            raise error
        return kept

    return run


# -- the rest ---------------------------------------------------------------------------------------------------------


def _plan_fold(
    planner: Planner,
    node: Comprehension,
    over: Code,
    iterate: Iterate,
    bind: Bind | int,
    names: dict[str, Code],
    slot: int,
) -> Code:
    total = accumulator(slot)
    init = planner.plan(node.init)
    with planner.scope({**names, node.accumulator: total}):
        step = planner.plan(node.step)
        goes_on = isinstance(node.condition, Literal) and node.condition.value is True
        condition = None if goes_on else planner.plan(node.condition)
    with planner.scope({node.accumulator: total}):
        result = planner.plan(node.result)
    start: Run = (lambda frame: {}) if isinstance(node.init, MapExpr) and not node.init.entries else init.run
    rounds = _rounds(bind, condition, step, slot)

    def run(frame: Frame) -> Any:
        items = iterate(over.run(frame))
        frame[SPENT] += init.cost
        try:
            frame[slot] = start(frame)
        except EvaluationError as error:
            frame[slot] = error
        rounds(frame, items)
        frame[SPENT] += result.cost
        return result.run(frame)

    return Code(run, over.cost)


def _rounds(bind: Bind | int, condition: Code | None, step: Code, slot: int) -> Callable[[Frame, Iterable[Any]], None]:
    take = step.run
    place = bind if isinstance(bind, int) else -1

    def rounds(frame: Frame, items: Iterable[Any]) -> None:
        for item in items:
            if place >= 0:
                frame[place] = item
            else:
                bind(frame, item)  # type: ignore[operator]
            if condition is not None and not _holds(frame, condition):
                return
            spent = frame[SPENT] = frame[SPENT] + step.cost
            if spent > frame[LIMIT]:
                raise BudgetExceeded(spent)
            try:
                frame[slot] = take(frame)
            except EvaluationError as error:
                frame[slot] = error

    return rounds


def _holds(frame: Frame, condition: Code) -> bool:
    frame[SPENT] += condition.cost
    try:
        return condition.run(frame) is not False
    except EvaluationError:
        return True


def _plan_binding(planner: Planner, node: Comprehension) -> Code:
    """A fold without iterations only names its initial value, which is computed when the name is first used."""
    slot = planner.new_slot()
    init = planner.plan(node.init)

    def bound(frame: Frame) -> Any:
        value = frame[slot]
        if value is _UNSET:
            frame[SPENT] += init.cost
            try:
                value = init.run(frame)
            except EvaluationError as error:
                value = error
            frame[slot] = value
        if isinstance(value, EvaluationError):
            raise value
        return value

    with planner.scope({node.accumulator: Code(bound, 1, 1, is_path=True)}):
        result = planner.plan(node.result)

    def run(frame: Frame) -> Any:
        frame[slot] = _UNSET
        return result.run(frame)

    return Code(run, result.cost)
