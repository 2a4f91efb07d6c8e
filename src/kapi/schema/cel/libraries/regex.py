"""Patterns: `find` and `findAll`, on RE2 as `matches` is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.run.operations import compile_pattern
from kapi.schema.cel.types import INT, STRING, Overload, list_of
from kapi.schema.cel.values import EvaluationError, no_such_overload

if TYPE_CHECKING:
    from collections.abc import Callable


def _matches(pattern: Any, text: Any) -> bool:
    return pattern.search(text) is not None if isinstance(text, str) else no_such_overload()


def _first(pattern: Any, text: Any) -> str:
    if not isinstance(text, str):
        no_such_overload()
    found = pattern.search(text)
    return found[0] if found else ""


def _all(pattern: Any, text: Any, count: Any) -> list[str]:
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


def _compiled(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error.text}") from None


def _find(text: str, pattern: str) -> str:
    return _first(_compiled(pattern), text)


def _find_all(text: str, pattern: str, count: int = -1) -> list[str]:
    return _all(_compiled(pattern), text, count)


PATTERN_FUNCTIONS: Final[dict[str, Callable[[Any], Callable[..., Any]]]] = {
    "matches": lambda pattern: lambda text, _: _matches(pattern, text),
    "find": lambda pattern: lambda text, _: _first(pattern, text),
    "findAll": lambda pattern: lambda text, _, count=-1: _all(pattern, text, count),
}
"""The functions that take a pattern, made for one that is known beforehand."""

FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "find": (Overload("string_find_string", (STRING, STRING), STRING, member=True),),
    "findAll": (
        Overload("string_find_all_string", (STRING, STRING), list_of(STRING), member=True),
        Overload("string_find_all_string_int", (STRING, STRING, INT), list_of(STRING), member=True),
    ),
}

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    "string_find_string": _find,
    "string_find_all_string": _find_all,
    "string_find_all_string_int": _find_all,
}
