"""CEL, the Common Expression Language: parsed, checked against types, priced, and compiled into closures.

An `Environment` has variables, functions and types; it compiles the text of an expression to a `Program`, which is
evaluated within a budget. On the way an expression passes through `syntax` (text to tree) → `check` (types and
overloads) → `cost` (how much it may cost at most) → `run` (closures). `libraries` are the functions that Kubernetes
enables, and a `Library` of one's own adds others.

Nothing here knows schemas, requests or storage; `kapi.schema.rules` puts expressions into schemas. Everything is pure
and does no I/O. Patterns run on RE2.
"""

from kapi.schema.cel.environment import Environment, ResultTypeError
from kapi.schema.cel.library import Library
from kapi.schema.cel.run.code import BudgetExceeded, ProgramError
from kapi.schema.cel.run.program import CALL_LIMIT, Program
from kapi.schema.cel.syntax.issues import ExpressionErrors
from kapi.schema.cel.values import EvaluationError

__all__ = [
    "CALL_LIMIT",
    "BudgetExceeded",
    "Environment",
    "EvaluationError",
    "ExpressionErrors",
    "Library",
    "Program",
    "ProgramError",
    "ResultTypeError",
]
