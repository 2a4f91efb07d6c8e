"""Checks of constants in an expression whose types are right, for what would fail in every run.

These are durations, timestamps and patterns that cannot be parsed, lists and maps whose elements differ in type, and
format strings that do not fit their arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.check.formatstrings import format_issues
from kapi.schema.cel.check.substitutions import is_exact
from kapi.schema.cel.syntax.ast import Call, Checked, Expr, ListExpr, Literal, MapExpr, children
from kapi.schema.cel.syntax.issues import Issue
from kapi.schema.cel.times import checked_timestamp, parse_duration, parse_timestamp
from kapi.schema.cel.types import OPTIONAL, Type
from kapi.schema.cel.values import SECOND, EvaluationError
from kapi.schema.patterns import pattern_problem

if TYPE_CHECKING:
    from collections.abc import Callable


def literal_issues(checked: Checked) -> list[Issue]:
    """The issues of the constants in a checked expression."""
    issues: list[Issue] = []
    pending: list[tuple[Expr, bool]] = [(checked.root, False)]
    while pending:
        expr, is_formatted = pending.pop()
        if isinstance(expr, Call):
            _check_call(checked, expr, issues)
            # What is formatted may be of any types, however deep it is in the arguments.
            is_formatted = is_formatted or expr.function == "format"
        elif not is_formatted and isinstance(expr, ListExpr):
            _check_list(checked, expr, issues)
        elif not is_formatted and isinstance(expr, MapExpr):
            _check_map(checked, expr, issues)
        pending += [(child, is_formatted) for child in children(expr)]
    return issues


def _check_call(checked: Checked, call: Call, issues: list[Issue]) -> None:
    first = call.args[0] if call.args else None
    if call.function == "format" and isinstance(call.target, Literal) and isinstance(first, ListExpr):
        issues += format_issues(checked, call, call.target.value, first.elements)
    if not isinstance(first, Literal):
        return
    is_readable = _READERS.get(call.function)
    if is_readable is not None and not is_readable(first.value):
        issues.append(Issue(first.offset, f"invalid {call.function} argument"))


def _is_duration(value: Any) -> bool:
    return isinstance(value, str) and parse_duration(value) is not None


def _is_timestamp(value: Any) -> bool:
    """Return True if a text is a timestamp, or a number is one in seconds since the epoch. Null is not."""
    if value is None:
        return False
    try:
        time = parse_timestamp(value) if isinstance(value, str) else checked_timestamp(value * SECOND)
    except EvaluationError:
        return False
    return time is not None


def _is_pattern(value: Any) -> bool:
    return pattern_problem(value) is None


_READERS: Final[dict[str, Callable[[Any], bool]]] = {
    "duration": _is_duration,
    "timestamp": _is_timestamp,
    "matches": _is_pattern,
}
"""Functions whose first argument, if it is a constant, must be readable."""


def _check_list(checked: Checked, expr: ListExpr, issues: list[Issue]) -> None:
    first: Type | None = None
    for at, element in enumerate(expr.elements):
        type_ = _present(checked.types[element.id]) if at in expr.optional else checked.types[element.id]
        first = first or type_
        if not is_exact(first, type_):
            issues.append(_mismatch(element, first, type_))
            return


def _check_map(checked: Checked, expr: MapExpr, issues: list[Issue]) -> None:
    first_key: Type | None = None
    first_value: Type | None = None
    for entry in expr.entries:
        key, value = checked.types[entry.key.id], checked.types[entry.value.id]
        value = _present(value) if entry.optional else value
        first_key, first_value = first_key or key, first_value or value
        if not is_exact(first_key, key):
            issues.append(_mismatch(entry.key, first_key, key))
        if not is_exact(first_value, value):
            issues.append(_mismatch(entry.value, first_value, value))


def _present(type_: Type) -> Type:
    return type_.params[0] if type_.name == OPTIONAL and type_.params else type_


def _mismatch(expr: Expr, expected: Type, found: Type) -> Issue:
    return Issue(expr.offset, f"expected type '{expected}' but found '{found}'")
