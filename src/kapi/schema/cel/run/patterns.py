"""Patterns of expressions, on RE2: `matches`, `find` and `findAll`, and their compiled form for constant patterns."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import re2

from kapi.schema.cel.values import EvaluationError, no_such_overload
from kapi.schema.patterns import OPTIONS, pattern_problem

if TYPE_CHECKING:
    from collections.abc import Callable


@lru_cache(maxsize=32)
def compile_pattern(pattern: str) -> Any:
    """A pattern, compiled; raises EvaluationError. Few are kept, because each may take megabytes."""
    try:
        return re2.compile(pattern, OPTIONS)
    except re2.error:
        raise EvaluationError(pattern_problem(pattern) or "error parsing regexp") from None


def matches(text: str, pattern: str) -> bool:
    """`text.matches(pattern)`: anywhere in the text."""
    return _is_match(compile_pattern(pattern), text)


def _is_match(pattern: Any, text: Any) -> bool:
    # Of text that is encoded, no place is converted to characters: a third of the time.
    return pattern.search(text.encode()) is not None if isinstance(text, str) else no_such_overload()


def first_match(pattern: Any, text: Any) -> str:
    """The first match in a text, empty when there is none."""
    if not isinstance(text, str):
        no_such_overload()
    found = pattern.search(text)
    return found[0] if found else ""


def all_matches(pattern: Any, text: Any, count: Any) -> list[str]:
    """At most `count` matches in a text; all of them when it is negative."""
    if not isinstance(text, str) or not isinstance(count, int):
        no_such_overload()
    found: list[str] = []
    if count == 0:
        return found
    # An empty match right after a match is not another one.
    end = -1
    for match in pattern.finditer(text):
        if match.start() == match.end() == end:
            continue
        end = match.end()
        found.append(match[0])
        if len(found) == count:
            break
    return found


PATTERN_FUNCTIONS: Final[dict[str, Callable[[Any], Callable[..., Any]]]] = {
    "matches": lambda pattern: lambda text, _: _is_match(pattern, text),
    "find": lambda pattern: lambda text, _: first_match(pattern, text),
    "findAll": lambda pattern: lambda text, _, count=-1: all_matches(pattern, text, count),
}
"""The functions that take a pattern, compiled for one that is a constant."""
