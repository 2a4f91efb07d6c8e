"""A function library of one's own: its types, signatures, costs and implementations reach every stage.

The library is the kind that admission policies bring: a receiver with a type of its own, calls that are built up step
by step, and one that is expensive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from kapi.schema.cel import BudgetExceeded, Environment, EvaluationError, Library
from kapi.schema.cel.check.checker import CheckErrors
from kapi.schema.cel.cost.calls import CallCost, CallSite, one
from kapi.schema.cel.cost.estimates import LARGEST, Estimate, exactly
from kapi.schema.cel.types import BOOL, INT, STRING, Overload, Type, list_of
from kapi.schema.cel.values import Opaque

if TYPE_CHECKING:
    from collections.abc import Sequence

GATE = Type("example.com.Gate")
QUESTION = Type("example.com.Question")
ASKING = 1000


class Gate(Opaque):
    cel_type: ClassVar[Type] = GATE

    def __init__(self, *allowed: str) -> None:
        self.allowed = frozenset(allowed)


class Question(Opaque):
    cel_type: ClassVar[Type] = QUESTION

    def __init__(self, gate: Gate, name: str) -> None:
        self.gate = gate
        self.name = name

    @property
    def size(self) -> int:
        return len(self.name)

    def same(self, other: Question) -> bool:
        return self.name == other.name


def ask(question: Question) -> bool:
    if not question.name:
        raise EvaluationError("the gate was asked for nothing")
    return question.name in question.gate.allowed


def longest(names: Sequence[str]) -> int:
    return max(map(len, names), default=0)


def price_longest(args: Sequence[Any], result: Any) -> int:
    return len(args[0])


def estimate_longest(site: CallSite) -> CallCost | None:
    return CallCost(site.size(site.args[0]), Estimate(0, 63))


LIBRARY = Library(
    name="example.com.gates",
    functions={
        "name": (Overload("gate_name", (GATE, STRING), QUESTION, member=True),),
        "ask": (Overload("question_ask", (QUESTION,), BOOL, member=True),),
        "gates.longest": (Overload("gates_longest", (list_of(STRING),), INT),),
    },
    implementations={"gate_name": Question, "question_ask": ask, "gates_longest": longest},
    prices={"ask": ASKING, "gates_longest": price_longest},
    estimates={"ask": lambda site: CallCost(exactly(ASKING)), "gates_longest": estimate_longest},
    equality={QUESTION: one},
    types={"example.com.Gate": GATE},
)
ENVIRONMENT = Environment({"gate": GATE, "names": list_of(STRING)}).extend(libraries=[LIBRARY])


def evaluate(source: str, *names: str, budget: int = 10_000) -> tuple[Any, int]:
    return ENVIRONMENT.compile(source).evaluate({"gate": Gate("a", "b"), "names": [*names]}, budget)


def sizes(path: Sequence[str]) -> Estimate | None:
    return Estimate(0, 5) if list(path) == ["names"] else None


def test_functions_of_a_library_are_called_on_their_receiver() -> None:
    assert evaluate("gate.name('a').ask()")[0] is True
    assert evaluate("names.exists(n, !gate.name(n).ask())", "a", "c")[0] is True
    assert evaluate("gates.longest(names)", "a", "abc")[0] == 3


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("gate.name(1)", "found no matching overload for 'name' applied to 'example.com.Gate.(int)'"),
        ("gate.ask()", "found no matching overload for 'ask' applied to 'example.com.Gate.()'"),
        ("name('a')", "found no matching overload for 'name' applied to '(string)'"),
        ("gate.size", "unexpected failed resolution of 'example.com.Gate'"),
        ("gate == names", "found no matching overload for '_==_' applied to '(example.com.Gate, list(string))'"),
    ],
)
def test_calls_are_checked_by_the_types_of_a_library(source: str, message: str) -> None:
    with pytest.raises(CheckErrors) as caught:
        ENVIRONMENT.compile(source)
    assert message in str(caught.value)


def test_a_library_is_unknown_to_environments_without_it() -> None:
    with pytest.raises(CheckErrors, match="undeclared reference to 'ask'"):
        Environment({"gate": GATE}).compile("gate.ask()")


def test_calls_cost_what_the_library_says() -> None:
    assert evaluate("gate.name('a').ask()")[1] == 1 + 1 + ASKING
    assert evaluate("gates.longest(names)", "a", "b", "c")[1] == 1 + 3
    with pytest.raises(BudgetExceeded):
        evaluate("names.all(n, gate.name(n).ask())", *["a"] * 20)


def test_estimates_are_those_of_the_library() -> None:
    asked = ENVIRONMENT.compile("gate.name('a').ask()").estimate(sizes)
    assert asked == exactly(1 + 1 + ASKING)
    # The size of the result is known too: 63 characters at a tenth each.
    assert ENVIRONMENT.compile("gates.longest(names)").estimate(sizes) == Estimate(1, 1 + 5)
    each = ENVIRONMENT.compile("names.all(n, gate.name(n).ask())").estimate(sizes)
    assert 5 * ASKING < each.max < 6 * ASKING
    assert ENVIRONMENT.compile("names.all(n, gate.name(n).ask())").estimate(lambda _: None).max == LARGEST


def test_values_of_a_library_are_compared_by_their_class() -> None:
    program = ENVIRONMENT.compile("gate.name('a') == gate.name(names[0])", BOOL)
    assert program.evaluate({"gate": Gate(), "names": ["a"]})[0] is True
    assert program.evaluate({"gate": Gate(), "names": ["b"]})[0] is False
    assert program.estimate(sizes) == exactly((1 + 1) + (1 + 2 + 1) + 1)


def test_types_of_a_library_can_be_named() -> None:
    assert evaluate("type(gate) == example.com.Gate")[0] is True


def test_a_failing_function_ends_the_expression_or_is_outvoted() -> None:
    with pytest.raises(EvaluationError, match="the gate was asked for nothing"):
        evaluate("gate.name('').ask()")
    assert evaluate("gate.name('').ask() || true")[0] is True


def test_overloads_are_chosen_at_run_time_where_types_are_open() -> None:
    assert evaluate("dyn(gate).name(dyn('a')).ask()")[0] is True
    with pytest.raises(EvaluationError, match="no such overload"):
        evaluate("dyn(names).name('a').ask()")
