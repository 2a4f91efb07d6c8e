"""Environments: what expressions may use, and programs that are compiled in them."""

from __future__ import annotations

import pytest

from kapi.schema.cel import CALL_LIMIT, BudgetExceeded, Environment, EvaluationError, ProgramError, ResultTypeError
from kapi.schema.cel.check.checker import CheckErrors
from kapi.schema.cel.cost.estimates import Estimate
from kapi.schema.cel.libraries import standard
from kapi.schema.cel.syntax.parser import SyntaxErrors
from kapi.schema.cel.types import BOOL, DYN, INT, STRING, Object, list_of

ENVIRONMENT = Environment({"self": list_of(STRING), "n": INT})


def test_a_program_gives_a_value_and_its_cost() -> None:
    program = ENVIRONMENT.compile("self.all(x, x.startsWith('a'))", BOOL)
    value, cost = program.evaluate({"self": ["a", "ab"]})
    assert value is True
    assert cost > 0
    assert program.evaluate({"self": ["b"]})[0] is False


def test_a_program_of_another_type_is_refused() -> None:
    for source, of in (("n", "int"), ("'a'", "string"), ("dyn(true)", "dyn")):
        with pytest.raises(ResultTypeError, match=f"^{of}$"):
            ENVIRONMENT.compile(source, BOOL)
    assert ENVIRONMENT.compile("dyn(1)", DYN).evaluate({})[0] == 1


def test_errors_are_raised_when_the_program_is_compiled() -> None:
    with pytest.raises(SyntaxErrors, match="<input>:1:4"):
        ENVIRONMENT.compile("1 +", INT)
    with pytest.raises(CheckErrors, match="undeclared reference to 'other'"):
        ENVIRONMENT.compile("other", INT)


def test_a_program_tells_which_variables_it_uses() -> None:
    program = ENVIRONMENT.compile("self.size() > 1", BOOL)
    assert program.uses("self")
    assert not program.uses("n")
    assert ENVIRONMENT.compile("[n].exists(x, x > 1)", BOOL).uses("n")


def test_cost_depends_on_the_sizes_that_the_caller_knows() -> None:
    program = ENVIRONMENT.compile("self.all(x, n > 1)", BOOL)
    small = program.estimate(lambda path: Estimate(0, 3) if list(path) == ["self"] else None)
    large = program.estimate(lambda path: Estimate(0, 30) if list(path) == ["self"] else None)
    assert small.max < large.max


def test_a_run_stops_at_its_limit() -> None:
    program = ENVIRONMENT.compile("self.all(x, self.all(y, x != '' && y != ''))", BOOL)
    with pytest.raises(BudgetExceeded, match="actual cost limit exceeded"):
        program.evaluate({"self": ["a"] * 10}, 50)
    with pytest.raises(BudgetExceeded):
        program.evaluate({"self": ["a"] * 1000})
    assert program.evaluate({"self": ["a"] * 10}, CALL_LIMIT)[0] is True


def test_a_program_without_a_value_says_why() -> None:
    with pytest.raises(EvaluationError, match="index out of bounds: 3"):
        ENVIRONMENT.compile("self[3]", STRING).evaluate({"self": []})


def test_a_program_that_can_never_run_is_refused_when_it_is_compiled() -> None:
    with pytest.raises(ProgramError, match="type conversion error"):
        ENVIRONMENT.compile("int('x')", INT)
    assert ENVIRONMENT.compile("int('1')", INT).evaluate({}) == (1, 0)


def test_an_extended_environment_has_more_and_leaves_the_first_as_it_was() -> None:
    extended = ENVIRONMENT.extend({"m": INT})
    assert extended.compile("n + m", INT).evaluate({"n": 1, "m": 2})[0] == 3
    with pytest.raises(CheckErrors, match="undeclared reference to 'm'"):
        ENVIRONMENT.compile("m", INT)


def test_a_variable_of_an_extension_hides_the_one_before() -> None:
    assert ENVIRONMENT.extend({"n": STRING}).compile("n", STRING).evaluate({"n": "x"})[0] == "x"


def test_libraries_of_later_versions_are_not_enabled() -> None:
    assert Environment(version=(1, 33)).compile("semver('1.2.3').major()").evaluate({})[0] == 1
    with pytest.raises(CheckErrors, match="undeclared reference to 'semver'"):
        Environment(version=(1, 32)).compile("semver('1.2.3').major()")
    with pytest.raises(CheckErrors, match="undeclared reference to 'distinct'"):
        Environment(version=(1, 33)).compile("[1].distinct()")


def test_an_environment_has_only_the_libraries_it_is_given() -> None:
    bare = Environment({"n": INT}, libraries=[standard.LIBRARY])
    assert bare.compile("n + 1 > 2", BOOL).evaluate({"n": 2})[0] is True
    with pytest.raises(CheckErrors, match="undeclared reference to 'url'"):
        bare.compile("url('http://x')")


USER = Object("example.com.User", fields={"name": STRING, "groups": list_of(STRING), "extra": DYN})


def test_variables_of_object_types_are_checked_by_field() -> None:
    environment = Environment({"user": USER, "claims": DYN})
    user = {"name": "ann", "groups": ["a"], "extra": {"k": 1}}
    values = {"user": user, "claims": {"sub": "x", "n": 1}}
    assert environment.compile("user.name + claims.sub", STRING).evaluate(values)[0] == "annx"
    assert environment.compile("user.extra.k == claims.n", BOOL).evaluate(values)[0] is True
    assert environment.compile("has(user.name) && !has(claims.other)", BOOL).evaluate(values)[0] is True
    with pytest.raises(CheckErrors, match="undefined field 'nam'"):
        environment.compile("user.nam")
    with pytest.raises(CheckErrors, match="found no matching overload for '_\\+_' applied to '\\(string, list"):
        environment.compile("user.name + user.groups")
