"""Programs against a table of outcomes: for each expression its value or error, and what it cost, to the unit.

The table was recorded from cel-go with the libraries of Kubernetes, on one object of every type.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.cel.environment import Environment
from kapi.schema.cel.libraries import LIBRARIES
from kapi.schema.cel.libraries.cidr import Network
from kapi.schema.cel.libraries.ip import Address
from kapi.schema.cel.libraries.namedformats import Format
from kapi.schema.cel.libraries.quantity import Amount
from kapi.schema.cel.libraries.semver import Version
from kapi.schema.cel.libraries.urls import Location
from kapi.schema.cel.library import Functions, Library
from kapi.schema.cel.run.code import BudgetExceeded, ProgramError
from kapi.schema.cel.times import format_timestamp
from kapi.schema.cel.types import BOOL, DOUBLE, DYN, INT, STRING, UINT, Object, Overload, Type, list_of, map_of
from kapi.schema.cel.values import MAX_INT, MIN_INT, Duration, EvaluationError, Optional, Timestamp, Uint, is_list
from kapi.schema.rules.adapters import adapter
from kapi.schema.rules.declarations import declare
from kapi.schema.structural.model import read

if TYPE_CHECKING:
    from kapi.schema.cel.run.program import Program

TABLE = json.loads(Path(__file__).with_name("cel_outcomes.json").read_text())
SCHEMA = read(TABLE["schema"])
ADAPT = adapter(SCHEMA)
BASE = Environment()
NO_LIMIT = 2**64
OPAQUE = {Address: "ip", Network: "cidr", Amount: "quantity", Version: "semver", Location: "url", Format: "format"}


def program(source: str, **variables: Type) -> Program:
    return BASE.extend(variables).compile(source)


def run(source: str, budget: int = NO_LIMIT, **variables: tuple[Type, Any]) -> tuple[Any, int]:
    types = {name: type_ for name, (type_, _) in variables.items()}
    return program(source, **types).evaluate({name: value for name, (_, value) in variables.items()}, budget)


def described(value: Any) -> Any:
    """A value in the form of the table."""
    if isinstance(value, (bool, str)):
        return value
    if value is None:
        return ["null"]
    if isinstance(value, int):
        return ["uint" if isinstance(value, Uint) else "int", str(value)]
    if isinstance(value, float):
        return ["double", "NaN" if math.isnan(value) else value]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, Timestamp):
        return ["timestamp", format_timestamp(value)]
    if isinstance(value, Duration):
        return ["duration", str(value.nanos)]
    if isinstance(value, Optional):
        return ["optional", described(value.value)] if value.present else ["optional"]
    if isinstance(value, Type):
        return ["type", value.name]
    if is_list(value):
        return ["list", [described(item) for item in value]]
    if isinstance(value, dict):
        pairs = [[described(key), described(item)] for key, item in value.items()]
        return ["map", sorted(pairs, key=lambda pair: json.dumps(pair[0]))]
    return [OPAQUE[type(value)], str(value)]


def with_floats(recorded: Any) -> Any:
    """The table writes floats as text, because JSON has no infinity."""
    if not isinstance(recorded, list):
        return recorded
    if recorded[:1] == ["double"]:
        number = float(recorded[1].replace("Inf", "inf"))
        return ["double", "NaN" if math.isnan(number) else number]
    return [with_floats(part) for part in recorded]


def outcome(source: str, self_type: Type, value: Any) -> dict[str, Any]:
    try:
        compiled = program(source, self=self_type)
    except ProgramError as error:
        return {"program": error.text}
    try:
        result, cost = compiled.evaluate({"self": value})
    except EvaluationError as error:
        return {"error": error.text, "cost": error.cost}
    return {"value": described(result), "cost": cost}


@pytest.mark.parametrize("group", TABLE["outcomes"])
def test_values_errors_and_costs_are_those_of_cel_go(group: str) -> None:
    declaration = declare(SCHEMA, root=False)
    assert declaration is not None
    assert ADAPT is not None
    self_type, value = declaration.type(), ADAPT(TABLE["self"])
    wrong = []
    for source, recorded in TABLE["outcomes"][group]:
        expected = {key: with_floats(part) if key == "value" else part for key, part in recorded.items()}
        got = outcome(source, self_type, value)
        if got != expected:
            wrong.append((source, expected, got))
    assert wrong == []


# -- budgets ----------------------------------------------------------------------------------------------------------

NUMBERS = list_of(INT)


def test_a_run_may_cost_exactly_its_budget_and_no_more() -> None:
    value, cost = run("n + 1 > 2", n=(INT, 2))
    assert (value, cost) == (True, 3)
    assert run("n + 1 > 2", budget=3, n=(INT, 2)) == (True, 3)
    with pytest.raises(BudgetExceeded, match="operation cancelled: actual cost limit exceeded"):
        run("n + 1 > 2", budget=2, n=(INT, 2))


@pytest.mark.parametrize(
    "source",
    [
        "items.all(x, items.all(y, items.all(z, seen(x))))",
        "items.map(x, items.map(y, seen(y))).size() > 0",
        "items.filter(x, items.exists(y, seen(y) && false)).size() > 0",
        "items.exists_one(x, items.all(y, seen(y)))",
        "items.transformMap(i, v, items.all(y, seen(y))).size() > 0",
        "true || items.all(x, 1 / 0 == x) || items.all(x, seen(x)) || items.exists(x, !items.all(y, seen(y)))",
    ],
)
def test_a_hostile_loop_stops_soon_after_its_budget_is_gone(source: str) -> None:
    rounds = 0

    def seen(value: int) -> bool:
        nonlocal rounds
        rounds += 1
        return True

    library = Library(
        name="test", functions={"seen": (Overload("seen", (INT,), BOOL),)}, implementations={"seen": seen}
    )
    compiled = BASE.extend({"items": NUMBERS}, libraries=[library]).compile(source.removeprefix("true || "))
    with pytest.raises(BudgetExceeded):
        compiled.evaluate({"items": [*range(1000)]}, 500)
    assert rounds < 500


def test_an_error_does_not_make_up_for_a_spent_budget() -> None:
    with pytest.raises(BudgetExceeded):
        run("items.all(x, 1 / 0 == x) || true", budget=10, items=(NUMBERS, [1, 2, 3]))
    with pytest.raises(BudgetExceeded):
        run("1 / zero + 1 + 1 + 1 == 5", budget=3, zero=(INT, 0))


def test_an_error_tells_what_was_spent_until_then() -> None:
    with pytest.raises(EvaluationError, match="division by zero") as failure:
        run("1 / zero == 5", budget=3, zero=(INT, 0))
    assert failure.value.cost == 3


@pytest.mark.parametrize(
    "source",
    ["s.replace('', s).size()", "s.split('').join(s).size()", "lists.range(1000000000).size()"],
)
def test_results_that_would_fill_the_memory_are_refused(source: str) -> None:
    with pytest.raises(BudgetExceeded):
        run(source, s=(STRING, "x" * 10_000))


def test_adding_long_lists_in_a_loop_copies_nothing() -> None:
    items = [*range(2000)]
    value, cost = run("items.map(x, items + items + items)", items=(NUMBERS, items))
    assert len(value) == 2000
    assert {len(one) for one in value} == {6000}
    assert [*value[7]] == items * 3
    assert value[7][2001] == 1
    assert cost == 1 + 2000 * (1 + 3 + 2 + 10 + 1) + 1


# -- the contract of programs -----------------------------------------------------------------------------------------


def test_a_program_keeps_nothing_between_runs() -> None:
    compiled = program("items.map(x, x * 2) + [0]", items=NUMBERS)
    assert compiled.evaluate({"items": [1, 2]})[0] == [2, 4, 0]
    assert compiled.evaluate({"items": []})[0] == [0]
    assert compiled.evaluate({"items": [1, 2]})[0] == [2, 4, 0]


def test_a_run_changes_nothing_of_what_it_is_given() -> None:
    value = {"a": [1, 2], "b": {"c": 3}}
    self_type = Object("selfType", fields={"a": NUMBERS, "b": map_of(STRING, INT)})
    source = "self.a.map(x, x + 1).size() + self.b.transformMap(k, v, v + 1).size() + (self.a + [3]).size()"
    assert run(source, self=(self_type, value))[0] == 6
    assert value == {"a": [1, 2], "b": {"c": 3}}


def test_results_of_two_runs_do_not_share_their_lists() -> None:
    compiled = program("items.filter(x, x > 0)", items=NUMBERS)
    first, second = (compiled.evaluate({"items": [1]})[0] for _ in range(2))
    assert first == second
    assert first is not second


def test_a_missing_variable_is_an_error() -> None:
    with pytest.raises(EvaluationError, match=r"no such attribute\(s\): n"):
        program("n == 1", n=INT).evaluate({})


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("self.a + 1 > 1", {"a": "text"}),
        ("self.b.startsWith('a')", {"b": 5}),
        ("self.c.all(x, x > 0)", {"c": 7}),
        ("self.c.all(x, x > 0)", {"c": [None]}),
        ("self.a > 1", []),
        ("self.b.matches('a')", {"b": "\ud800"}),
    ],
)
def test_values_of_other_types_than_declared_fail_the_rule_and_nothing_else(source: str, value: Any) -> None:
    self_type = Object("selfType", fields={"a": INT, "b": STRING, "c": NUMBERS})
    with pytest.raises(EvaluationError):
        run(source, self=(self_type, value))


def test_values_that_nest_without_end_are_not_compared() -> None:
    def nested() -> list[Any]:
        value: list[Any] = []
        for _ in range(100_000):
            value = [value]
        return value

    with pytest.raises(EvaluationError):
        run("a == b", a=(DYN, nested()), b=(DYN, nested()))


@pytest.mark.parametrize("source", ["int('x')", "timestamp('x' + '')", "'a'.find('(')", "duration(string(1))"])
def test_an_expression_that_can_never_run_is_refused_when_it_is_compiled(source: str) -> None:
    if "+" in source:
        program(source)  # not a constant to the compiler: fails when it runs
        return
    with pytest.raises(ProgramError):
        program(source)


def test_a_function_without_an_implementation_is_refused_when_it_is_compiled() -> None:
    library = Library(name="test", functions={"twice": (Overload("twice_int", (INT,), INT),)}, implementations={})
    with pytest.raises(ProgramError, match="no such overload: twice"):
        BASE.extend({"n": INT}, libraries=[library]).compile("twice(n)")


def test_every_declared_overload_can_be_called() -> None:
    """But for those that the compiler knows by their function."""
    by_function = {
        "_?_:_",
        "_&&_",
        "_||_",
        "@not_strictly_false",
        "_==_",
        "_!=_",
        "_[_]",
        "_[?_]",
        "_?._",
        "or",
        "orValue",
    }
    functions = Functions(LIBRARIES)
    overloads = functions.overloads.items()
    declared = {one.id for name, overloads in overloads if name not in by_function for one in overloads}
    assert declared == set(functions.implementations)


# -- laws -------------------------------------------------------------------------------------------------------------

INT64 = st.integers(MIN_INT, MAX_INT) | st.integers(-10, 10) | st.sampled_from([MIN_INT, MAX_INT])
OPERATORS = {op: program(f"a {op} b", a=INT, b=INT) for op in "+-*/%"}
UNSIGNED = {op: program(f"a {op} b", a=UINT, b=UINT) for op in "+-*/%"}


def exact(op: str, left: int, right: int) -> int | None:
    """What the result is without limits; None when there is none."""
    if op in "/%":
        if right == 0:
            return None
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if op == "/" else left - quotient * right
    return {"+": left + right, "-": left - right, "*": left * right}[op]


@given(op=st.sampled_from("+-*/%"), left=INT64, right=INT64)
def test_integers_are_exact_or_an_error(op: str, left: int, right: int) -> None:
    expected = exact(op, left, right)
    overflows = left == MIN_INT and right == -1 if op == "%" else expected is None or not MIN_INT <= expected <= MAX_INT
    if expected is not None and not overflows:
        assert OPERATORS[op].evaluate({"a": left, "b": right})[0] == expected
        return
    by_zero = "division by zero" if op == "/" else "modulus by zero"
    with pytest.raises(EvaluationError, match=by_zero if expected is None else "integer overflow"):
        OPERATORS[op].evaluate({"a": left, "b": right})


@given(op=st.sampled_from("+-*/%"), left=st.integers(0, 2**64 - 1), right=st.integers(0, 2**64 - 1) | st.integers(0, 3))
def test_unsigned_integers_are_exact_or_an_error(op: str, left: int, right: int) -> None:
    expected = exact(op, left, right)
    try:
        value, _ = UNSIGNED[op].evaluate({"a": Uint(left), "b": Uint(right)})
    except EvaluationError:
        assert expected is None or not 0 <= expected < 2**64
    else:
        assert value == expected
        assert type(value) is Uint


DOUBLES = {op: program(f"a {op} b", a=DOUBLE, b=DOUBLE) for op in "+-*/"}


@given(op=st.sampled_from("+-*/"), left=st.floats(), right=st.floats())
def test_floats_never_fail(op: str, left: float, right: float) -> None:
    value, _ = DOUBLES[op].evaluate({"a": left, "b": right})
    assert isinstance(value, float)
    if right and op == "/" and math.isfinite(left / right):
        assert value == left / right


ANSWERS = ("true", "false", "n / 0 > 1")


@given(st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=6))
def test_logic_forgives_errors_only_when_another_answer_decides(answers: list[str]) -> None:
    for op, decisive in (("&&", "false"), ("||", "true")):
        compiled = program(f" {op} ".join(answers), n=INT)
        if decisive in answers:
            assert compiled.evaluate({"n": 1})[0] is (decisive == "true")
        elif ANSWERS[2] in answers:
            with pytest.raises(EvaluationError, match="division by zero"):
                compiled.evaluate({"n": 1})
        else:
            assert compiled.evaluate({"n": 1})[0] is (decisive == "false")


LOOPS = {
    name: program(f"items.{name}(x, 12 / x > 3)", items=NUMBERS) for name in ("all", "exists", "exists_one", "filter")
}


@given(st.lists(st.integers(-6, 6), max_size=6))
def test_loops_answer_as_logic_does(items: list[int]) -> None:
    answers = [None if item == 0 else int(12 / item) > 3 for item in items]
    expected = {
        "all": False if False in answers else None if None in answers else True,
        "exists": True if True in answers else None if None in answers else False,
        "exists_one": None if None in answers else answers.count(True) == 1,
        "filter": None if None in answers else [item for item, answer in zip(items, answers, strict=True) if answer],
    }
    for name, compiled in LOOPS.items():
        if expected[name] is None:
            with pytest.raises(EvaluationError, match="division by zero"):
                compiled.evaluate({"items": items})
        else:
            assert compiled.evaluate({"items": items})[0] == expected[name]
