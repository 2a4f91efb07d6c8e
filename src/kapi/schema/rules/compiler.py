"""Compilation of rules: the environment of their expressions, and errors in the words of kube-apiserver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.schema.cel.environment import Environment, ResultTypeError
from kapi.schema.cel.run.code import ProgramError
from kapi.schema.cel.syntax.issues import ExpressionErrors
from kapi.schema.cel.types import BOOL, STRING, Type, optional_of

if TYPE_CHECKING:
    from kapi.schema.cel.run.program import Program
    from kapi.schema.structural.model import Rule

SELF: Final = "self"
OLD_SELF: Final = "oldSelf"

_BASE: Final = Environment()


class RuleError(Exception):
    """A rule or its message cannot be used; `str()` is the reason for the author of the definition."""


def rule_environment(rule: Rule, of: Type) -> Environment:
    """The environment of a rule's expressions, on values of a type."""
    return _BASE.extend({SELF: of, OLD_SELF: optional_of(of) if rule.optional_old_self else of})


def compile_rule(rule: Rule, environment: Environment) -> Program:
    """The program of a rule. Raises RuleError."""
    try:
        return environment.compile(rule.rule, BOOL)
    except ExpressionErrors as error:
        raise RuleError(f"compilation failed: {error}") from error
    except ResultTypeError as error:
        raise RuleError("cel expression must evaluate to a bool") from error
    except ProgramError as error:
        raise RuleError(f"program instantiation failed: {error}") from error


def compile_message(rule: Rule, environment: Environment) -> Program:
    """The program that makes the message for a failure of a rule. Raises RuleError."""
    try:
        return environment.compile(rule.message_expression, STRING)
    except ExpressionErrors as error:
        raise RuleError(f"messageExpression compilation failed: {error}") from error
    except ResultTypeError as error:
        raise RuleError("messageExpression must evaluate to a string") from error
    except ProgramError as error:
        raise RuleError(f"messageExpression instantiation failed: {error}") from error
