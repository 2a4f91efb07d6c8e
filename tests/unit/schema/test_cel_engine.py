"""The door to the expression language."""

from __future__ import annotations

import pytest

from kapi.schema.cel.check.checker import CheckErrors
from kapi.schema.cel.cost.estimates import Estimate
from kapi.schema.cel.engine import CALL_LIMIT, ResultTypeError, compile_expression
from kapi.schema.cel.run.program import BudgetExceeded, EvaluationError, ProgramError
from kapi.schema.cel.syntax.parser import SyntaxErrors
from kapi.schema.cel.types import BOOL, DYN, INT, STRING, list_of

VARIABLES = {"self": list_of(STRING), "n": INT}


def test_an_expression_gives_a_value_and_its_cost() -> None:
    expression = compile_expression("self.all(x, x.startsWith('a'))", VARIABLES, BOOL)
    value, cost = expression.run({"self": ["a", "ab"]})
    assert value is True
    assert cost > 0
    assert expression.run({"self": ["b"]})[0] is False


def test_an_expression_of_another_type_is_refused() -> None:
    for source, of in (("n", "int"), ("'a'", "string"), ("dyn(true)", "dyn")):
        with pytest.raises(ResultTypeError, match=f"^{of}$"):
            compile_expression(source, VARIABLES, BOOL)
    assert compile_expression("dyn(1)", VARIABLES, DYN).run({})[0] == 1


def test_mistakes_are_told_when_the_expression_is_made() -> None:
    with pytest.raises(SyntaxErrors, match="<input>:1:4"):
        compile_expression("1 +", VARIABLES, INT)
    with pytest.raises(CheckErrors, match="undeclared reference to 'other'"):
        compile_expression("other", VARIABLES, INT)


def test_an_expression_tells_which_variables_it_uses() -> None:
    expression = compile_expression("self.size() > 1", VARIABLES, BOOL)
    assert expression.uses("self")
    assert not expression.uses("n")
    assert compile_expression("[n].exists(x, x > 1)", VARIABLES, BOOL).uses("n")


def test_cost_depends_on_the_sizes_that_the_caller_knows() -> None:
    expression = compile_expression("self.all(x, n > 1)", VARIABLES, BOOL)
    small = expression.cost(lambda path: Estimate(0, 3) if list(path) == ["self"] else None)
    large = expression.cost(lambda path: Estimate(0, 30) if list(path) == ["self"] else None)
    assert small.max < large.max


def test_a_run_stops_at_its_limit() -> None:
    expression = compile_expression("self.all(x, self.all(y, x != '' && y != ''))", VARIABLES, BOOL)
    with pytest.raises(BudgetExceeded, match="actual cost limit exceeded"):
        expression.run({"self": ["a"] * 10}, 50)
    with pytest.raises(BudgetExceeded):
        expression.run({"self": ["a"] * 1000})
    assert expression.run({"self": ["a"] * 10}, CALL_LIMIT)[0] is True


def test_an_expression_without_a_value_says_why() -> None:
    with pytest.raises(EvaluationError, match="index out of bounds: 3"):
        compile_expression("self[3]", VARIABLES, STRING).run({"self": []})


def test_what_can_never_run_is_found_by_preparing() -> None:
    expression = compile_expression("int('x')", VARIABLES, INT)
    with pytest.raises(ProgramError, match="type conversion error"):
        expression.prepare()
    assert compile_expression("int('1')", VARIABLES, INT).prepare() is not None
